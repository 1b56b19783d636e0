/**
 * Products of bytes on tensor cores: large ones by warpgroups where a GPU has them, others by the kernel of f32
 * (matmul/tensor-core.ts). There a word of four bytes along K stands where a number of f32 does, in memory, in its copies and in
 * ldmatrix's rows alike. Only what multiplies is another instruction, with four times the products, and sums are i32. Neither warps
 * nor blocks share K: their parts would be summed in f32.
 */
import { f32, i8 } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Variant } from '../../graph/fused-op.js';
import { FEW, warpgroupVariants } from '../matmul/choose-cuda.js';
import { matmulTensor } from '../matmul/tensor-core.js';
import { tensorTiles } from '../matmul/tensor-core-tiles.js';
import { suitsWarpgroups } from '../matmul/warpgroup-product.js';
import { WARPGROUPS } from '../matmul/warpgroup-tiles.js';
import { gridStage } from '../stage.js';
import type { BytesArg } from './arg.js';
import { wordsOf } from './words.js';

/** Below these operations the copy engine has not begun when others are done. */
const LEAST = FEW / 8;

function byWarpgroups(io: KernelIo): Variant[] {
  const p = wordsOf(io, 1);
  const isFor = io.target.capability === WARPGROUPS && suitsWarpgroups(p, i8, io.output.dtype);
  const operations = 2 * p.M * p.N * p.K;
  if (!isFor || operations < LEAST) return [];
  const ways = warpgroupVariants(io, p, i8);
  return operations < FEW ? ways.slice(0, 2) : ways;
}

function byWarps(io: KernelIo): Variant[] {
  const p = wordsOf(io);
  const tiles = tensorTiles({ ...p, operand: 'i8', dtype: f32, whole: true }, io.target);
  return tiles.map((tile) => {
    const { warps, each, depth } = tile;
    const size = [warps[0] * each[0] * 16, warps[1] * each[1] * 8, 4 * depth].join('x');
    return {
      name: `i8-${size}-${each.join('x')}`,
      plan: () => [
        gridStage(
          matmulTensor(p, tile, 'i8', f32, io.output.dtype),
          { input: 0 },
          { input: 1 },
          { output: true },
        ),
      ],
    };
  });
}

/** The most promising first. Of few operations those whose blocks share K have to be timed: another launch adds their sums. */
function variants(io: KernelIo): Variant[] {
  const { M, N, K } = wordsOf(io, 1);
  const [warps, warpgroups] = [byWarps(io), byWarpgroups(io)];
  return 2 * M * N * K < FEW ? [...warps, ...warpgroups] : [...warpgroups, ...warps];
}

/** Rows of both matrices begin at whole words. */
export const matmulBytesChoice: KernelChoice<BytesArg> = {
  name: 'matmulInteger-cuda',
  when: ({ model, capability }, { src }) =>
    model === 'threads' && capability >= 80 && src[0]!.shape[1]! % 4 === 0 && src[0]!.size > 0,
  finishes: true,
  storesAny: true,
  variants,
  plan: (io) => variants(io)[0]!.plan(),
};
