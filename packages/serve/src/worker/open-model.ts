/** Opens what lies in the folder of a model's version. */
import { FileError } from 'heddle';
import type { EnginePrecision } from 'heddle/inference';
import { MODEL_FILES, type ModelKind, modelKind } from '../repository/model-files.js';
import type { ServedModel } from './served-model.js';

/** What a model is opened with. */
export interface OpenOptions {
  /** The folder of its version. */
  readonly path: string;
  /** Undefined: the fastest there is. */
  readonly device: string | undefined;
  readonly maxBatchSize: number;
  readonly precision: EnginePrecision;
}

type OpenModel = (options: OpenOptions) => Promise<ServedModel>;

const OPEN: Readonly<Record<ModelKind, () => Promise<OpenModel>>> = {
  run: async () => (await import('./open-run.js')).openRun,
  onnx: async () => (await import('./open-onnx.js')).openOnnx,
  engine: async () => (await import('./open-engine.js')).openEngine,
};

/** @throws FileError if the folder holds no model, or what its kind throws if it cannot be opened */
export async function openServedModel(options: OpenOptions): Promise<ServedModel> {
  const { path } = options;
  const kind = modelKind(path);
  if (kind) return (await OPEN[kind]())(options);
  const files = Object.values(MODEL_FILES).join(', ');
  throw new FileError(path, `is not the folder of a model. Expected one of: ${files}.`);
}
