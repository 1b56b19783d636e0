/** The kinds of models, by the files that their folders hold. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The file by which the folder of a kind of model is known. */
export const MODEL_FILES = { run: 'config.json', onnx: 'model.onnx', engine: 'model.engine' } as const;

/** What kind of model there is. */
export type ModelKind = keyof typeof MODEL_FILES;

/** The kind of model that a folder holds; undefined if it holds none. */
export function modelKind(path: string): ModelKind | undefined {
  const kinds = Object.keys(MODEL_FILES) as ModelKind[];
  return kinds.find((kind) => existsSync(join(path, MODEL_FILES[kind])));
}
