/** The matrix products for GPUs, as a choice of the fused op. */
import { type DType, f32, i32, isHalf } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, StageArgument, Variant } from '../../graph/fused-op.js';
import { costOfCall } from '../../kernel/ir/cost.js';
import { irFunction } from '../../kernel/ir/ir-function.js';
import type { Target } from '../../kernel/ir/target.js';
import { finishedAfter } from '../finish-cuda.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import { cublasLtVariants } from '../vendor.js';
import type { MatmulProblem } from './cpu.js';
import { matmulTile } from './cuda.js';
import { isInParts, LEVEL } from './cuda-block.js';
import type { MatmulTile } from './cuda-layout.js';
import { matmulSum } from './cuda-store.js';
import { matmulTiles } from './cuda-tiles.js';
import { type MatmulArg, problemOf } from './problem.js';
import { matmulTensor } from './tensor-core.js';
import type { TensorOperand } from './tensor-core-fragments.js';
import type { TensorTile } from './tensor-core-panel.js';
import { tensorCycles, tensorTiles } from './tensor-core-tiles.js';
import { warpgroupStage } from './warpgroup.js';
import { ROWS, type WarpgroupTile } from './warpgroup-layout.js';
import { matmulWarpgroups, suitsWarpgroups, turnedOf } from './warpgroup-product.js';
import {
  mayPayApart,
  operandOf,
  splitName,
  WARPGROUPS,
  type WarpgroupSizes,
  warpgroupCycles,
  warpgroupName,
  warpgroupTiles,
  warpgroupWays,
  wholeTiles,
} from './warpgroup-tiles.js';

/** `f32-64x32x16`: rows, columns and depth of a tile; lanes and elements of each; its warps along K. */
function nameOf(tile: MatmulTile): string {
  const { warps, lanes, each, depth } = tile;
  const size = [warps[0] * lanes[0] * each[0], warps[1] * lanes[1] * each[1], depth].join('x');
  const along = warps[2] > 1 ? `-warps-${warps[2]}` : '';
  return `f32-${size}-${lanes.join('x')}-${each.join('x')}${along}${splitName(tile)}`;
}

/** `tf32-128x256x32`: rows, columns and depth of a tile; pieces that a warp sums. */
function tensorNameOf(operand: TensorOperand, tile: TensorTile): string {
  const { warps, each, depth } = tile;
  const size = [warps[0] * each[0] * 16, warps[1] * each[1] * 8, depth].join('x');
  const along = warps[2] > 1 ? `-warps-${warps[2]}` : '';
  return `${operand}-${size}-${each.join('x')}${along}${splitName(tile)}`;
}

/** By warpgroups: the product, and where blocks share K the sum of its parts. @param dtype of the matrices */
function warpgroupStages(
  io: KernelIo,
  p: MatmulProblem,
  tile: WarpgroupTile,
  dtype: DType,
  split: boolean,
): readonly Stage[] {
  const { node, output, target } = io;
  const { batches, M, N } = p;
  const bias = io.bias && { at: io.bias, finish: io.finish([batches, M, N], true) };
  const settings = { output: output.dtype, split };
  const product = matmulWarpgroups({ ...p, bias }, tile, dtype, target.units, settings);
  if (tile.splits === 1) return [warpgroupStage(product)];
  return sumOf(p, (parts) => warpgroupStage(product, parts), tile.splits, node.dtype, output.dtype);
}

/** The launches: the product, and where it comes in parts their sum. */
function stages(
  { node, output }: KernelIo,
  p: MatmulProblem,
  product: GridKernel,
  tile: Pick<MatmulTile, 'splits' | 'warps'>,
  level: number,
): readonly Stage[] {
  const into = (to: StageArgument): Stage => gridStage(product, { input: 0 }, { input: 1 }, to);
  if (!isInParts(p.K, tile, level)) return [into({ output: true })];
  return sumOf(p, into, tile.splits, node.dtype, output.dtype);
}

/** A product of that many parts, and their sum. */
function sumOf(
  p: MatmulProblem,
  product: (parts: StageArgument) => Stage,
  splits: number,
  dtype: DType,
  output: DType,
): readonly Stage[] {
  const parts = { scratch: 'parts', bytes: 4 * splits * p.batches * p.M * p.N };
  return [product(parts), gridStage(matmulSum(p, splits, dtype, output), parts, { output: true })];
}

/**
 * Below these operations tensor cores save nothing: there are not enough tiles to keep them busy. And the first of the
 * ways is the best or nearly: to compile more than a few is not worth the time of a start.
 */
export const FEW = 2 ** 27;

/** Cycles of a product on tensor cores by the launch rules, where its matrices are aligned. @param dtype of the matrices */
export function productCycles(M: number, N: number, K: number, dtype: DType, target: Target): number {
  const sizes = { batches: 1, M, N, K, dtype };
  if (target.capability === WARPGROUPS && 2 * M * N * K >= FEW)
    return warpgroupCycles({ ...sizes, turned: { a: false, b: false } }, target);
  const rows = (rowStride: number) => ({
    offset: 0,
    batch: [],
    batchStrides: [],
    rowStride,
    columnStride: 1,
  });
  const finish = irFunction(([v]) => v!);
  return tensorCycles({ ...sizes, a: rows(K), b: rows(N), finish, operand: operandOf(dtype) }, target);
}

/** Fewer rows or columns wait for memory. */
export const SLIM = 64;

/**
 * Whether warpgroups, where they multiply, outdo kernels of warps, so that none of these is timed: of 153 choices of such sizes on
 * an H200 (2026-11-26) none was faster.
 */
export const outdoWarps = ({ batches, M, N, K }: Pick<MatmulProblem, 'batches' | 'M' | 'N' | 'K'>): boolean =>
  Math.min(M, N) >= SLIM && 2 * batches * M * N * K >= FEW;

/** A product as the launch rule of warpgroups takes it. @param dtype of the matrices */
const sizesOf = (io: KernelIo, p: MatmulProblem, dtype: DType, split: boolean): WarpgroupSizes => ({
  ...{ ...p, dtype, split, turned: turnedOf(p, dtype) },
  following: p.followed ? costOfCall(p.finish, [io.node.dtype, i32, i32, i32]) : 0,
});

/**
 * By warpgroups.
 * @param dtype of the matrices
 * @param split f32 at the accuracy of f32
 * @param whole only the best of those where no blocks share a sum (`wholeTiles`)
 */
export function warpgroupVariants(
  io: KernelIo,
  p: MatmulProblem,
  dtype: DType,
  { split = false, whole = false }: { readonly split?: boolean; readonly whole?: boolean } = {},
): Variant[] {
  const sizes = sizesOf(io, p, dtype, split);
  const tiles = whole ? wholeTiles(sizes, io.target) : warpgroupTiles(sizes, io.target);
  return warpgroupWays(sizes, tiles, (tile, sums) => ({
    name: warpgroupName(tile, dtype, split),
    plan: () => warpgroupStages(io, { ...p, sums }, tile, dtype, split),
  }));
}

/**
 * An epilogue of many instructions keeps tensor cores waiting: a launch behind the product may take less. Where blocks share sums
 * there is such a launch anyway.
 */
const finishedApart = (io: KernelIo, p: MatmulProblem, split: boolean): Variant[] =>
  io.plain || !mayPayApart(sizesOf(io, p, io.node.dtype, split), io.target)
    ? []
    : finishedAfter(io, (plain) =>
        warpgroupVariants(plain, problemOf(plain), plain.node.dtype, { split, whole: true }),
      );

/**
 * Whether three products of tf32 may take less than one of f32. Slim matrices wait for memory. In data centres tensor cores
 * multiply tf32 eight times as fast as CUDA cores f32, in other GPUs not even three times.
 */
const splitsPay = ({ M, N }: MatmulProblem, { capability }: Target): boolean =>
  Math.min(M, N) >= SLIM && capability >= 80 && capability % 10 === 0;

/** The most promising first. Small products are f32 whatever was asked for. */
function variants(io: KernelIo, { precision }: MatmulArg): Variant[] {
  const p = problemOf(io);
  const { dtype } = io.node;
  const output = io.output.dtype;
  const warpVariants = (operand: TensorOperand): Variant[] =>
    tensorTiles({ ...p, operand, dtype }, io.target).map((tile) => ({
      name: tensorNameOf(operand, tile),
      plan: () => stages(io, p, matmulTensor(p, tile, operand, dtype, output), tile, LEVEL[operand]),
    }));
  const few = 2 * p.batches * p.M * p.N * p.K < FEW;
  // Small products are done before the copy engine has begun.
  const hasWarpgroups = (operand: TensorOperand): boolean =>
    io.target.capability === WARPGROUPS &&
    !few &&
    operand === operandOf(dtype, operand === 'tf32x3') &&
    suitsWarpgroups(p, dtype, output);
  const tensorVariants = (operand: TensorOperand, warps = 4): Variant[] => {
    if (!hasWarpgroups(operand)) return warpVariants(operand).slice(0, warps);
    const split = operand === 'tf32x3';
    const ways = [...warpgroupVariants(io, p, dtype, { split }), ...finishedApart(io, p, split)];
    return outdoWarps(p) ? ways : [...ways, ...warpVariants(operand).slice(0, 2)];
  };
  if (isHalf(dtype)) return tensorVariants(dtype.name as 'f16' | 'bf16');
  const plainVariants = (most: number): Variant[] =>
    matmulTiles(p, io.target, most).map((tile) => ({
      name: nameOf(tile),
      plan: () => stages(io, p, matmulTile(p, tile), tile, LEVEL.f32),
    }));
  if (precision === 'f32' && !few && splitsPay(p, io.target)) {
    const split = tensorVariants('tf32x3', 3);
    return hasWarpgroups('tf32x3') ? split : [...split, ...plainVariants(2)];
  }
  if (precision === 'f32' || io.target.capability < 80) return plainVariants(4);
  const tensor = tensorVariants(precision);
  return few ? [...plainVariants(3), ...tensor.slice(0, 3)] : tensor;
}

const choice = (
  name: string,
  multiplies: (dtype: DType, target: Target) => boolean,
): KernelChoice<MatmulArg> => ({
  name,
  when: (target, node) =>
    target.model === 'threads' &&
    multiplies(node.dtype, target) &&
    node.size > 0 &&
    node.src[0]!.shape.at(-1)! > 0,
  strided: [true, true],
  finishes: true,
  sums: ({ capability }, { shape, size, src }) =>
    capability === WARPGROUPS && shape.length === 2 && 2 * size * src[0]!.shape.at(-1)! >= FEW
      ? ROWS
      : undefined,
  variants: (io, arg) => [...variants(io, arg), ...cublasLtVariants(io, arg.precision)],
  plan: (io, arg) => variants(io, arg)[0]!.plan(),
});

export const matmulChoice = choice('matmul-cuda', (dtype) => dtype === f32);

/** Of 16-bit floats. What follows in f32, as a residual in mixed precision, takes the place of the product. */
export const matmulOfHalvesChoice: KernelChoice<MatmulArg> = {
  ...choice('matmulOfHalves-cuda', (dtype, { capability }) => isHalf(dtype) && capability >= 80),
  storesAny: true,
};
