/** The matrix products for GPUs, as a choice of the fused op. */
import { f32 } from '../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, Variant } from '../graph/fused-op.js';
import type { MatmulProblem } from '../kernels/matmul-cpu.js';
import { type MatmulTile, matmulSum, matmulTile, partsOf } from '../kernels/matmul-cuda.js';
import { matmulTiles } from '../kernels/matmul-cuda-tiles.js';
import { type MatmulArg, problemOf } from './matmul-problem.js';
import { gridStage } from './stage.js';
import { cublasLtVariants } from './vendor.js';

/** `128x128x16`: rows, columns and depth of a tile; its warps along K, and the parts of K, if there are several. */
function nameOf({ warps, lanes, each, depth, splits }: MatmulTile): string {
  const size = [warps[0] * lanes[0] * each[0], warps[1] * lanes[1] * each[1], depth].join('x');
  const cut = `${lanes.join('x')}-${each.join('x')}`;
  return `f32-${size}-${cut}${warps[2] > 1 ? `-warps-${warps[2]}` : ''}${splits > 1 ? `-split-k-${splits}` : ''}`;
}

function stages(p: MatmulProblem, tile: MatmulTile): readonly Stage[] {
  const product = matmulTile(p, tile);
  const sources = [{ input: 0 }, { input: 1 }] as const;
  if (tile.splits === 1) return [gridStage(product, ...sources, { output: true })];
  const parts = { scratch: 'parts', bytes: 4 * partsOf(p, tile) };
  return [
    gridStage(product, ...sources, parts),
    gridStage(matmulSum(p, tile.splits), parts, { output: true }),
  ];
}

function variants(io: KernelIo): Variant[] {
  const p = problemOf(io);
  return matmulTiles(p, io.target).map((tile) => ({ name: nameOf(tile), plan: () => stages(p, tile) }));
}

export const matmulChoice: KernelChoice<MatmulArg> = {
  name: 'matmul-cuda',
  when: ({ model }, node) =>
    model === 'threads' && node.dtype === f32 && node.size > 0 && node.src[0]!.shape.at(-1)! > 0,
  strided: [true, true],
  finishes: true,
  variants: (io, { precision }) => [...variants(io), ...cublasLtVariants(io, precision)],
  plan: (io) => variants(io)[0]!.plan(),
};
