/**
 * All that a training needs to go on as if it had never stopped, in one file: tensors as safetensors, everything else as
 * JSON in its metadata. One file is replaced in one step, so that its parts always belong together.
 */
import { aString, isPlainObject, type Rule, requireArgument, shaped } from '../core/arguments.js';
import { ArgumentError, FileError } from '../core/errors.js';
import { readSafetensors, writeSafetensors } from '../io/index.js';
import { restored, storedAll } from '../io/stored.js';
import { defaultGenerator } from '../tensor/random.js';
import type { AnyTensor } from '../tensor/tensor.js';
import type { World } from '../tensor/world.js';

/** A value that JSON can hold; numbers that are not finite are kept as well. */
export type JsonValue =
  | number
  | string
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue | undefined };

/** An object with state in tensors: a module, an optimizer, a generator. */
export interface Stateful {
  /** The tensors by name. */
  stateDict(): Readonly<Record<string, AnyTensor>>;
  /** Take over what `stateDict` gave. */
  loadStateDict(state: Readonly<Record<string, AnyTensor>>): void | Promise<void>;
}

const isJson = (v: unknown, above: readonly unknown[] = []): boolean => {
  if (typeof v !== 'object') return ['number', 'string', 'boolean'].includes(typeof v);
  if (v === null) return true;
  if (above.includes(v) || !(Array.isArray(v) || isPlainObject(v))) return false;
  return Object.values(v).every((inner) => inner === undefined || isJson(inner, [...above, v]));
};
const aJsonValue: Rule = { must: 'a value that JSON can hold', holds: (v) => isJson(v) };

const FORMAT = 'heddle checkpoint';
/** Raised when older programs could not read what newer ones write. */
const VERSION = 1;
/** The part that is always there: without it dropout would go another way. */
const GENERATOR = 'generator';

const withGenerator = (parts: Readonly<Record<string, Stateful>>): Readonly<Record<string, Stateful>> => ({
  ...parts,
  [GENERATOR]: defaultGenerator(),
});

const aStateful: Rule = shaped('an object with stateDict() and loadStateDict()', {
  stateDict: { must: '', holds: (v) => typeof v === 'function' },
  loadStateDict: { must: '', holds: (v) => typeof v === 'function' },
});

const someParts: Rule = {
  must: "an object of modules, optimizers and the like by name, such as { model, optimizer }; a name has no dot, and is not 'generator'",
  holds: (v) =>
    isPlainObject(v) &&
    Object.entries(v).every(
      ([name, part]) => /^[^.]+$/.test(name) && name !== GENERATOR && aStateful.holds(part),
    ),
};

/**
 * Write the state of `parts`, of the default generator, and `state` to a file, atomically: a reader, or a process that
 * is killed, sees the old file or the new one.
 * @param parts such as `{ model, optimizer }` · @param state what else is to be known, such as the epoch
 * @throws ArgumentError, FileError
 */
export async function saveCheckpoint(
  path: string,
  parts: Readonly<Record<string, Stateful>>,
  state: JsonValue = null,
): Promise<void> {
  await (await checkpointOf(path, parts, state)).write();
}

/** A checkpoint of this moment: what changes before it is written does not change it. */
export async function checkpointOf(
  path: string,
  parts: Readonly<Record<string, Stateful>>,
  state: JsonValue,
): Promise<{ write(): Promise<void> }> {
  requireArgument('saveCheckpoint', 'path', path, aString);
  requireArgument('saveCheckpoint', 'parts', parts, someParts);
  requireArgument('saveCheckpoint', 'state', state, aJsonValue);
  const metadata = { format: FORMAT, version: String(VERSION), state: toJson(state) };
  const named = Object.entries(withGenerator(parts)).flatMap(([name, part]) =>
    Object.entries(part.stateDict()).map(([own, t]) => [`${name}.${own}`, t] as const),
  );
  const tensors = await storedAll(Object.fromEntries(named));
  return { write: () => writeSafetensors(path, tensors, metadata) };
}

/**
 * Read what `saveCheckpoint` wrote into parts of the same names and structure, and into the default generator.
 * @returns the state that was saved with them
 * @throws FileError if it is not such a file; ArgumentError for other parts, and what their `loadStateDict` throws
 */
export const loadCheckpoint = async (
  path: string,
  parts: Readonly<Record<string, Stateful>>,
): Promise<JsonValue> => (await readCheckpoint(path, parts)).state;

/** The tensors of each part, by name. */
export type FoundParts = Readonly<Record<string, Readonly<Record<string, AnyTensor>>>>;

/** As `loadCheckpoint`. @returns also the tensors that were read */
export async function readCheckpoint(
  path: string,
  parts: Readonly<Record<string, Stateful>>,
): Promise<{ readonly state: JsonValue; readonly found: FoundParts }> {
  requireArgument('loadCheckpoint', 'path', path, aString);
  requireArgument('loadCheckpoint', 'parts', parts, someParts);
  const { tensors, metadata } = await readSafetensors(path);
  if (metadata.format !== FORMAT)
    throw new FileError(path, 'holds tensors, but is not a checkpoint. Read weights with loadWeights.');
  if (Number(metadata.version) > VERSION)
    throw new FileError(
      path,
      `is a checkpoint of version ${metadata.version}, this program reads up to ${VERSION}. Use a newer Heddle.`,
    );
  const state = parsed(path, metadata.state);
  const found: Record<string, Record<string, AnyTensor>> = Object.fromEntries(
    [...Object.keys(parts), GENERATOR].map((part) => [part, {}]),
  );
  for (const [name, t] of Object.entries(tensors)) {
    const dot = name.indexOf('.');
    const part = found[name.slice(0, dot)];
    if (!part)
      throw new ArgumentError(
        `[loadCheckpoint] ${path} has a part '${name.slice(0, dot)}'. Expected: ${Object.keys(parts).join(', ')}. Load it with the parts it was saved with.`,
      );
    part[name.slice(dot + 1)] = restored(t);
  }
  const all = withGenerator(parts);
  for (const [name, part] of Object.entries(all)) await part.loadStateDict(found[name]!);
  return { state, found };
}

/**
 * Give parts, and the default generator, the state that they have on the first of several ranks.
 * @param parts of the same names and structure on all ranks
 * @param found the state to give, if it is not what the parts have by now
 */
export async function shareParts(
  world: World,
  parts: Readonly<Record<string, Stateful>>,
  found: FoundParts = {},
): Promise<void> {
  for (const [name, part] of Object.entries(withGenerator(parts))) {
    const own = part.stateDict();
    const names = Object.keys(own);
    const values = world.tensorsOf(
      0,
      names.map((of) => found[name]?.[of]?.cast(own[of]!.dtype) ?? own[of]!),
    );
    await part.loadStateDict(Object.fromEntries(names.map((of, i) => [of, values[i]!])));
  }
}

/** JSON has no NaN and no infinity, which a metric may be. */
const SPECIAL: Readonly<Record<string, number>> = {
  '#NaN': Number.NaN,
  '#Infinity': Number.POSITIVE_INFINITY,
  '#-Infinity': Number.NEGATIVE_INFINITY,
};

export const toJson = (state: JsonValue): string =>
  JSON.stringify(state, (_, v) => (typeof v === 'number' && !Number.isFinite(v) ? `#${v}` : v));

export const fromJson = (text: string): JsonValue =>
  JSON.parse(text, (_, v: unknown) =>
    typeof v === 'string' && Object.hasOwn(SPECIAL, v) ? SPECIAL[v] : v,
  ) as JsonValue;

function parsed(path: string, text = ''): JsonValue {
  try {
    return fromJson(text);
  } catch (error) {
    throw new FileError(path, `its state is not valid JSON (${(error as Error).message}).`, { cause: error });
  }
}
