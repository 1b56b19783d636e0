/** An engine that was saved to a file, as a model that is served. */
import { join } from 'node:path';
import { loadEngine } from 'heddle/inference';
import { MODEL_FILES } from '../repository/model-files.js';
import { engineRun, engineTensors } from './engine-model.js';
import type { OpenOptions } from './open-model.js';
import type { ServedModel } from './served-model.js';

/** Open the engine of a folder. Its precision and its batch sizes are those that it was compiled with. @throws FileError */
export async function openEngine({ path, device }: OpenOptions): Promise<ServedModel> {
  const engine = await loadEngine(join(path, MODEL_FILES.engine), device === undefined ? {} : { device });
  return { spec: { platform: 'heddle_engine', ...engineTensors(engine) }, run: await engineRun(engine) };
}
