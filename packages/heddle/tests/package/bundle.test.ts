/** Apps that bundle the library with their own code: minified, names kept or not, as ESM and as CommonJS. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type BuildOptions, build } from 'esbuild';

const library = fileURLToPath(new URL('../../bundle/index.js', import.meta.url));

/** Hand-written kernels of the CPU device, a user's kernel, and a training step. */
const APP = `
import { arange, buffer, conv2d, f32, jit, kernel, maxPool2d, optim, ones, useDevice } from ${JSON.stringify(library)};
const scale = kernel('scale', { x: buffer(f32), n: f32 }, ({ x, n }, { globalId, TABLE }) => {
  const i = globalId.x;
  for (let c = 0; c < 3; c++) x[i] = x[i] + n;
  for (let u = 0; u < TABLE.length; u++) { const row = TABLE[u]; x[i] = x[i] * row.by; }
}, { TABLE: [{ by: 2 }, { by: 3 }] });
async function main() {
  useDevice('cpu');
  const x = arange(384).cast(f32).reshape([2, 3, 8, 8]).mul(0.01).sin();
  const w = arange(108).cast(f32).reshape([4, 3, 3, 3]).mul(0.1).cos();
  const convolved = conv2d(x, w, undefined, { padding: 1 });
  const sums = [convolved, maxPool2d(convolved.relu(), 2), x.reshape([6, 64]).softmax(1).square(), x.reshape([6, 64]).matmul(x.reshape([64, 6]))];
  const out = [];
  for (const t of sums) out.push(await t.sum().item());
  const y = ones([4]);
  await scale.launch({ grid: 1, block: 4 }, { x: y, n: 2 });
  out.push(await y.sum().item());
  const p = ones([3], { requiresGrad: true });
  const sgd = new optim.SGD([p], { lr: 0.1 });
  const step = jit((t) => { const loss = p.mul(t).square().sum(); loss.backward(); sgd.step(); return loss; });
  for (let i = 0; i < 3; i++) out.push(await step(arange(3).cast(f32)).item());
  console.log(JSON.stringify(out));
}
main();
`;

test('a bundle computes what the library does', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-bundle-'));
  const run = async (name: string, options: BuildOptions): Promise<string> => {
    const outfile = join(folder, name);
    await build({
      stdin: { contents: APP, resolveDir: folder },
      ...{ bundle: true, platform: 'node', external: ['koffi'], outfile, logLevel: 'silent', ...options },
    });
    const env = { ...process.env, HEDDLE_CACHE: join(folder, 'cache'), HEDDLE_THREADS: '1' };
    const { stdout } = await promisify(execFile)(process.execPath, [outfile], { env });
    return stdout;
  };
  try {
    const [plain, ...minified] = await Promise.all([
      run('plain.mjs', { format: 'esm' }),
      run('names.mjs', { format: 'esm', minify: true, keepNames: true }),
      run('all.cjs', { format: 'cjs', minify: true }),
    ]);
    const numbers = JSON.parse(plain!) as number[];
    assert.equal(numbers.length, 8);
    assert.equal(numbers[4], 4 * 7 * 6);
    for (const each of minified) assert.equal(each, plain);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
