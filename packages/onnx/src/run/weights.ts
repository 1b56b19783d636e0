/** The weights of a model's file as tensors. */
import { type AnyTensor, FileError, tensor } from 'heddle';
import { ExternalData } from '../file/external-data.js';
import type { ModelFile } from '../file/model-file.js';
import { readTensor } from '../file/tensor-values.js';

/** The initializers by their names, of types that the library has. @throws FileError for others */
export async function weightsOf({ model, path, folder }: ModelFile): Promise<Record<string, AnyTensor>> {
  const external = new ExternalData(path, folder);
  try {
    const tensors: Record<string, AnyTensor> = {};
    for (const [i, proto] of model.graph!.initializer.entries()) {
      const { type, shape, values } = await readTensor(proto, { path, external }, `initializer ${i}`);
      if (!type.dtype || Array.isArray(values) || values instanceof BigUint64Array)
        throw new FileError(
          path,
          `'${proto.name}' has elements of type ${type.name}, which tensors cannot have.`,
        );
      tensors[proto.name] = tensor(values as Float32Array, { shape, dtype: type.dtype }) as AnyTensor;
    }
    return tensors;
  } finally {
    await external.close();
  }
}
