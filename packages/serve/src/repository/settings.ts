/** The settings of a model: `settings.json` in its folder, checked against the published schema. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv, type ErrorObject } from 'ajv';
import { FileError } from 'heddle';
import type { EnginePrecision } from 'heddle/inference';
import { nearest, shown } from 'heddle/internal/core/arguments.js';
import type { Scores } from '../images/classification.js';
import type { ImageInput } from '../protocol/model-spec.js';

/** How a model is served. What each means is in settings.schema.json, and so are the defaults. */
export interface ModelSettings {
  readonly maxBatchSize: number;
  readonly maxDelayMs: number;
  readonly precision: EnginePrecision;
  readonly instances: number;
  readonly device?: readonly string[];
  readonly threads?: number;
  readonly queueSize: number;
  readonly timeoutMs: number;
  readonly maxRunMs: number;
  readonly versions: number | readonly string[];
  readonly scores: Scores;
  readonly classes?: readonly string[];
  readonly image?: ImageInput;
}

/** The JSON schema, as it is published with the package. */
const SCHEMA = JSON.parse(
  readFileSync(new URL('../../../assets/settings.schema.json', import.meta.url), 'utf8'),
) as { readonly properties: Readonly<Record<string, unknown>> };

const validate = new Ajv({
  useDefaults: true,
  allErrors: false,
  allowUnionTypes: true,
}).compile<ModelSettings>(SCHEMA);

/** @param text of the file; undefined if there is none @throws FileError saying what is wrong */
export function parseSettings(text: string | undefined, file: string): ModelSettings {
  let settings: unknown = {};
  if (text !== undefined)
    try {
      settings = JSON.parse(text);
    } catch (error) {
      throw new FileError(file, `is not JSON (${(error as Error).message}).`, { cause: error });
    }
  if (validate(settings)) return settings;
  throw new FileError(file, explained(validate.errors![0]!, settings));
}

/** The settings of a model's folder. @throws FileError */
export async function readSettings(folder: string): Promise<ModelSettings> {
  const file = join(folder, 'settings.json');
  let text: string | undefined;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      throw new FileError(file, `cannot be read (${(error as Error).message}).`, { cause: error });
  }
  return parseSettings(text, file);
}

function explained({ keyword, instancePath, message, params }: ErrorObject, settings: unknown): string {
  const name = instancePath.slice(1).replaceAll('/', '.');
  if (keyword === 'additionalProperties') {
    const unknown = String(params.additionalProperty);
    const near = nearest(unknown, Object.keys(SCHEMA.properties));
    return `unknown setting '${name === '' ? '' : `${name}.`}${unknown}'.${near === undefined ? '' : ` Did you mean '${near}'?`}`;
  }
  const value = instancePath
    .split('/')
    .slice(1)
    .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], settings);
  const allowed =
    keyword === 'enum' ? `: ${(params.allowedValues as unknown[]).map((v) => shown(v)).join(', ')}` : '';
  return `${name === '' ? 'the file' : `the setting '${name}'`} is ${shown(value)}, ${message}${allowed}.`;
}
