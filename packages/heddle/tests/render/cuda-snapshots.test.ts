/** The CUDA text of a dozen kernels, as it is and as it was. `UPDATE_SNAPSHOTS=1` takes the new text. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { f32 } from '../../src/core/dtype.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { drawKernel } from '../../src/tensor/initial-values.js';
import { pixelsOf, throughTiles, tileProduct, walked } from '../kernel/hopper-kernels.js';
import { convolutionKernels } from './cuda-convolutions.js';
import { everyConversion, everyIntrinsic, everyOp } from './cuda-coverage.js';
import { KERNELS } from './cuda-kernels.js';
import { matmulKernels, splitByWarpgroups } from './cuda-matmul.js';

/** tests/snapshots of the source tree: these tests run from a build folder somewhere in the package. */
function snapshotFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return join(folder, 'tests', 'snapshots');
}

const folder = snapshotFolder();

/** Without file and line in the comments, which change with every edit above a kernel. */
const unplaced = (text: string): string => text.replace(/(\/\/ )[^\n]*?:\d+ {2}/g, '$1');

for (const ir of [
  ...KERNELS,
  everyOp(f32, 1),
  everyOp(f32, 4),
  everyConversion(f32, 1),
  everyIntrinsic(f32),
  drawKernel(f32, 'normal'),
  tileProduct({ M: 64, N: 16, K: 128, cleared: true }).ir,
  throughTiles(64, 32).ir,
  walked(pixelsOf(2)).ir,
  ...matmulKernels().filter(({ name }) => ['matmul_small', 'matmul_tf32', 'matmul_of_bf16'].includes(name)),
  splitByWarpgroups(),
  ...convolutionKernels(H200).filter(({ name }) =>
    ['conv2dDepthwise_conv2d_3_tf32_bf16_0', 'conv2dDepthwiseLast_conv2dChannelsLast_last_2_0'].includes(
      name,
    ),
  ),
]) {
  test(`the CUDA text of ${ir.name} is that of its snapshot`, () => {
    const text = unplaced(renderCuda(ir));
    const path = join(folder, `${ir.name}.cu`);
    if (process.env.UPDATE_SNAPSHOTS === '1') {
      mkdirSync(folder, { recursive: true });
      writeFileSync(path, text);
    }
    assert.ok(existsSync(path), `${path} is missing: run the test with UPDATE_SNAPSHOTS=1 and read the diff`);
    assert.equal(text, readFileSync(path, 'utf8'), 'run with UPDATE_SNAPSHOTS=1 and read the diff');
  });
}
