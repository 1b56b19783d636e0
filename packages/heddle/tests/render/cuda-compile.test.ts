/** The text of all kernels is legal CUDA C++, for every generation. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ARCHITECTURES, type Architecture, compileCheck } from '../../scripts/compile-cuda.js';
import { bf16, f32, f64, i8, i32, u8 } from '../../src/core/dtype.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import * as k from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import type { LastProblem } from '../../src/ops/conv2d/last-product.js';
import { convolveWarpgroups, convolveWeightWarpgroups } from '../../src/ops/conv2d/warpgroup.js';
import { matmulWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { drawKernel } from '../../src/tensor/initial-values.js';
import { clusterProduct, clusterSum, copiedProduct, sentSum } from '../kernel/cluster-kernels.js';
import { pixelsOf, throughTiles, tileProduct, walked, walkedBack } from '../kernel/hopper-kernels.js';
import { convolutionKernels } from './cuda-convolutions.js';
import { coverageKernels } from './cuda-coverage.js';
import { attentionKernels, generatedKernels, keyGradientInTurn, longLineKernels } from './cuda-generated.js';
import { KERNELS } from './cuda-kernels.js';
import { matmulKernels } from './cuda-matmul.js';
import { productKernels } from './cuda-products.js';

const target: Target = {
  ...{ ...H200, units: 108, capability: 80 },
  limits: { ...H200.limits, sharedBytesPerBlock: 48 * 1024 },
};
const languageKernels = [
  ...KERNELS,
  ...coverageKernels(),
  drawKernel(f32, 'uniform'),
  drawKernel(f64, 'normal'),
];
const kernels = [
  ...languageKernels,
  ...generatedKernels(target),
  ...convolutionKernels(target),
  ...productKernels(target),
  ...matmulKernels(),
];

const textOf = (overlapped: boolean) =>
  kernels.map((ir) => renderCuda(compile(ir, { ...target, overlapped })));
const ampere = textOf(false);

/** Products as large networks have them, one of which has an epilogue that adds two matrices. */
function warpgroupProducts() {
  const layout = { offset: 0, batch: [], batchStrides: [], rowStride: 4096, columnStride: 1 };
  const transposed = { ...layout, rowStride: 1, columnStride: 4096 };
  const p = { batches: 1, M: 4096, N: 4096, K: 4096, a: layout, b: layout, finish: irFunction(([v]) => v!) };
  const add = irFunction(([v, , , , w, x]) => {
    const sum = k.alu('add', [k.cast(f32, v!), k.cast(f32, w!)]);
    return k.cast(bf16, k.alu('add', [sum, k.cast(f32, x!)]));
  });
  const tile = { groups: 2, each: 1, columns: 256, stages: 2, splits: 1 } as const;
  const across = { ...p, a: transposed, b: layout };
  const large = { ...tile, each: 2, columns: 128, level: 16, stages: 3 } as const;
  const split = { split: true };
  return [
    matmulWarpgroups(p, { ...tile, stages: 4 }, bf16, 132),
    matmulWarpgroups({ ...p, finish: add }, { ...tile, beside: 2 }, bf16, 132),
    // f32 in two parts, along K and across it, with the most sums that registers hold.
    ...[{ ...p, b: transposed }, across].flatMap((p) => [
      matmulWarpgroups(p, large, f32, 132, split),
      matmulWarpgroups(p, { ...tile, columns: 192, level: 16 }, f32, 132, split),
      matmulWarpgroups(p, { ...tile, columns: 128, splits: 2 }, f32, 132, split),
    ]),
  ];
}

const toBytes = irFunction(([v]) => {
  const scale = k.splat(k.constant(f32, 0.3), v!.type.lanes);
  return k.cast(i8, k.alu('rint', [k.alu('div', [k.cast(f32, v!), scale])]));
});

/** Convolutions as large networks have them, of the tiles that each direction takes first. */
function warpgroupConvolutions() {
  const p: LastProblem = {
    ...{ images: 256, groups: 1, dtype: bf16, inputs: 64, outputs: 64, kernel: [3, 3], dilation: [1, 1] },
    ...{ stride: [2, 2], padding: [1, 1], size: [32, 32], outSize: [16, 16], adjoint: false },
    ...{ imageOffset: 0, secondOffset: 0, finish: irFunction(([v]) => v!) },
  };
  const adjoint: LastProblem = { ...p, adjoint: true, size: p.outSize, outSize: p.size };
  const grouped = { groups: 3, inputs: 80, outputs: 112 };
  const unstrided: LastProblem = { ...p, stride: [1, 1], outSize: p.size };
  const tile = { groups: 2, each: 2, columns: 64, stages: 4, splits: 1 } as const;
  const patch = { height: 8, width: 8, taps: 3, dilation: 1, down: 4, across: 4, inOrder: false, stages: 3 };
  return [
    convolveWarpgroups(p, tile, 132),
    convolveWarpgroups(adjoint, tile, 132),
    // In groups, which columns of tiles are wider than.
    convolveWarpgroups({ ...unstrided, ...grouped }, tile, 132),
    convolveWarpgroups({ ...adjoint, ...grouped, outputs: 64 }, tile, 132),
    convolveWarpgroups({ ...unstrided, ...grouped }, { ...tile, stages: 8, patch }, 132),
    convolveWeightWarpgroups(
      { ...p, ...grouped },
      { ...tile, groups: 1, each: 1, columns: 192, splits: 44 },
      132,
    ),
    // Of bytes, to bytes.
    convolveWarpgroups({ ...p, dtype: i8, output: i8, finish: toBytes }, { ...tile, columns: 128 }, 132),
    convolveWarpgroups({ ...p, dtype: i8, output: i32 }, { ...tile, splits: 2 }, 132),
    // By patches: some that lie in memory one after the other, and some over edges.
    convolveWarpgroups(unstrided, { ...tile, stages: 8, patch: { ...patch, width: 32, inOrder: true } }, 132),
    convolveWarpgroups({ ...unstrided, adjoint: true, dtype: f32 }, { ...tile, stages: 8, patch }, 132),
    convolveWarpgroups(
      { ...unstrided, dtype: i8, output: i8, finish: toBytes },
      { ...tile, stages: 8, patch },
      132,
    ),
    convolveWeightWarpgroups(p, { ...tile, groups: 1, each: 1, columns: 256, splits: 44 }, 132),
    // Turns both operands.
    convolveWeightWarpgroups({ ...p, dtype: f32 }, { ...tile, columns: 128, stages: 2, splits: 44 }, 132),
  ];
}

interface HopperKernel {
  readonly ir: KernelIr;
  readonly threads?: number;
}

/** What only Hopper has. */
const hopperKernels = [
  tileProduct({ M: 64, N: 64, K: 128 }),
  tileProduct({ M: 64, N: 256, K: 64, transposedA: true, transposedB: true }),
  tileProduct({ M: 64, N: 8, K: 32, dtype: f32 }),
  tileProduct({ M: 64, N: 16, K: 64, held: true }),
  tileProduct({ M: 64, N: 16, K: 64, dtype: f32, held: true }),
  tileProduct({ M: 64, N: 256, K: 128, dtype: u8 }),
  tileProduct({ M: 64, N: 128, K: 64, cleared: true }),
  tileProduct({ M: 64, N: 16, K: 128, dtype: i8, held: true, cleared: true }),
  tileProduct({ M: 64, N: 24, K: 128, dtype: i8, held: true }),
  clusterProduct({ M: 64, N: 128, K: 128, size: 2 }),
  clusterSum(),
  sentSum(),
  copiedProduct(),
  throughTiles(64, 32),
  ...[1, 2, 3].map((dimensions) => walked(pixelsOf(dimensions))),
  walkedBack({ sizes: [2, 8, 8, 16], walk: { from: [0, 0], counts: [8, 8] }, first: [0, 0, 0] }),
  ...[...warpgroupProducts(), ...warpgroupConvolutions()].map(({ kernel: ir, threads }) => ({ ir, threads })),
].map(({ ir, threads = 256 }: HopperKernel, i) => ({ ir: { ...ir, name: `${ir.name}${i}` }, threads }));

/**
 * What is legal for one generation is for the next: of the texts that begin before the kernel ahead has ended, those
 * that use the language (the first), and one for each difference from Ampere's.
 */
function hopper(): string[] {
  const seen = new Set<string>();
  return textOf(true).filter((text, i) => {
    const lines = new Set(ampere[i]!.split('\n'));
    const added = text
      .split('\n')
      .filter((line) => !lines.has(line))
      .join('\n');
    const isNew = !seen.has(added);
    seen.add(added);
    return isNew || i < languageKernels.length;
  });
}

describe('CUDA text', { concurrency: true }, () => {
  const checked = (arch: Architecture, sources: readonly string[], optimized = false): void => {
    test(`of ${sources.length} kernels compiles for ${arch}${optimized ? ', products in flight' : ''}`, async (t) => {
      const result = await compileCheck(sources, arch, optimized);
      if (result.status === 'skipped') {
        t.diagnostic(`${sources.length} CUDA kernels not compiled for ${arch}: ${result.reason}`);
        t.skip(result.reason);
        return;
      }
      t.diagnostic(`${sources.length} CUDA kernels compiled for ${arch}, not run: this test needs no GPU`);
      // The compiler may add fences of its own, which cost nothing.
      assert.equal(result.log.replace(/^.*\(C7519\) warpgroup\.arrive is injected.*\n/gm, ''), '');
      assert.equal(result.status, 'compiled');
    });
  };
  for (const arch of ARCHITECTURES) checked(arch, arch === 'sm_80' ? ampere : hopper());
  const own = hopperKernels.map(({ ir, threads }) => renderCuda(compile(ir, H200), { maxThreads: threads }));
  const attention = [64, 128].flatMap((width) => [
    ...attentionKernels(H200, width),
    ...attentionKernels(H200, width, { dropout: 0.1 }),
  ]);
  const { kernel: inTurn, threads } = keyGradientInTurn();
  const lines = longLineKernels(H200);
  assert.equal(lines.length, 4);
  const groups = [...attention, { ir: inTurn, threads }, ...lines].map(({ ir, threads }) =>
    renderCuda(compile(ir, H200), { maxThreads: threads }),
  );
  checked('sm_90a', [...own, ...groups], true);
});
