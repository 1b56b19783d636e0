/** Input gradients of strided convolutions by warpgroups: what an epilogue takes beside the sums of each phase of the pixels. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16 } from '../../src/core/dtype.js';
import { fromBf16, toBf16 } from '../../src/core/float16.js';
import * as k from '../../src/kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../src/kernel/ir/ir-function.js';
import { convolveWarpgroups } from '../../src/ops/conv2d/warpgroup.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { gridStage } from '../../src/ops/stage.js';
import type { Device } from '../../src/runtime/device.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { cudaReason } from '../cases/case-runner.js';
import { runOnDevice } from '../kernel/harness.js';
import { type ConvolutionCase, conv } from './convolution-cases.js';
import { exactly, problemOf, stored, values } from './convolution-check.js';

after(closeDevices);

const small: WarpgroupTile = { groups: 1, each: 1, columns: 64, stages: 2, splits: 1 };
const reason = cudaReason();

/** Adds the matrices beside it to a sum. */
const added = (beside: number): IrFunction =>
  irFunction(([v, , , , ...brought]) =>
    brought.slice(0, beside).reduce((sum, other) => k.alu('add', [sum, other]), v!),
  );

/** The gradient with `beside` matrices added, beside the one without, to which they are added here. */
async function check(shape: ConvolutionCase, tile: WarpgroupTile, beside: number, on: Device): Promise<void> {
  const { a, b, sums } = exactly(shape, 'input');
  const matrices = [3, 4].slice(0, beside).map((seed) => values(sums.length, seed));
  const given = [a, b, ...matrices].map((v) => stored(v, bf16));
  const run = async (beside: number): Promise<Uint16Array> => {
    const p = { ...problemOf(shape, 'input', bf16), finish: added(beside), beside };
    const made = convolveWarpgroups(p, { ...tile, beside }, 2);
    assert.equal(made.beside, beside);
    const out = new Uint16Array(sums.length);
    const brought = matrices.slice(0, beside).map((_, i) => ({ input: 2 + i }));
    await runOnDevice(
      on,
      [gridStage(made, { input: 0 }, { input: 1 }, { output: true }, ...brought)],
      given,
      out,
    );
    return out;
  };
  const [plain, finished] = [await run(0), await run(beside)];
  for (let i = 0; i < sums.length; i++) {
    const sum = matrices.reduce((sum, v) => fromBf16(toBf16(sum + v[i]!)), fromBf16(plain[i]!));
    assert.equal(fromBf16(finished[i]!), sum, `${i}`);
  }
}

for (const device of ['sim', 'cuda'])
  for (const [shape, tile, beside] of [
    [conv('3×3', [3, 64, 16], [8, 6], 3, { stride: 2, padding: 1 }), {}, 1],
    [conv('1×1, whose other phases have no tap', [5, 64, 16], [6, 6], 1, { stride: 2 }), { groups: 2 }, 2],
    [
      conv('3×3 by turns', [5, 128, 16], [8, 10], 3, { stride: 2, padding: 1 }),
      { groups: 2, alternate: true },
      2,
    ],
    [conv('stride 3 by 1', [2, 64, 24], [9, 5], 3, { stride: [3, 1], padding: 1 }), { each: 2, held: 3 }, 1],
    [conv('2 groups', [2, 128, 32], [8, 6], 3, { stride: 2, padding: 1, groups: 2 }), {}, 1],
  ] as const)
    test(
      `${device}: ${shape.name}, beside ${beside}`,
      {
        skip: device === 'cuda' && reason ? `not run: ${reason}` : false,
      },
      () => check(shape, { ...small, ...tile }, beside, openDevice(device)),
    );
