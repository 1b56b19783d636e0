/** Opens what lies in the folder of a model's version. */
import { FileError } from 'heddle';
import { MODEL_FILES, type ModelKind, modelKind } from '../repository/model-files.js';
import type { ServedModel } from './served-model.js';

/** Opens a model of one kind on a device; undefined: the fastest there is. */
type OpenModel = (path: string, device: string | undefined) => Promise<ServedModel>;

const OPEN: Readonly<Record<ModelKind, () => Promise<OpenModel>>> = {
  run: async () => (await import('./open-run.js')).openRun,
};

/** @throws FileError if the folder holds no model, or what its kind throws if it cannot be opened */
export async function openServedModel(path: string, device: string | undefined): Promise<ServedModel> {
  const kind = modelKind(path);
  if (kind) return (await OPEN[kind]())(path, device);
  const files = Object.values(MODEL_FILES).join(', ');
  throw new FileError(path, `is not the folder of a model. Expected one of: ${files}.`);
}
