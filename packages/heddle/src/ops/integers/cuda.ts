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

function byWarpgroups(io: KernelIo): Variant[] {
  const p = wordsOf(io, 1);
  const isFor = io.target.capability === WARPGROUPS && 2 * p.M * p.N * p.K >= FEW;
  return isFor && suitsWarpgroups(p, i8, io.output.dtype) ? warpgroupVariants(io, p, i8) : [];
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

const variants = (io: KernelIo): Variant[] => [...byWarpgroups(io), ...byWarps(io)];

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
