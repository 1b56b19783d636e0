/** The convolution kernels for GPUs, as choices of the fused ops. */
import { f32, isHalf } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, StageArgument, Variant } from '../../graph/fused-op.js';
import { finishedAfter } from '../finish-cuda.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import { cudnnVariants } from '../vendor.js';
import type { Conv2dArg } from './arg.js';
import { type ConvolveTile, convolve } from './cuda.js';
import { convolveDepthwise, convolveWeightDepthwise, isDepthwise } from './cuda-depthwise.js';
import type { ImageTile } from './cuda-image.js';
import { convolveTiles, weightTiles } from './cuda-tiles.js';
import { addParts, convolveWeight, type PartLayout, partsOf } from './cuda-weight-gradient.js';
import { depthwisePatches, depthwiseWeightPatches } from './depthwise-tiles.js';
import { type ConvolveProblem, convolveProblem, folded, weightGradientProblem } from './problem.js';
import { type ConvolveTensorTile, convolveTensor } from './tensor-core.js';
import { convolveTensorTiles, weightTensorTiles } from './tensor-core-tiles.js';
import { convolveWeightTensor, tensorParts } from './tensor-core-weight-gradient.js';
import { suitsWinograd, winograd, winogradFloats, winogradWeights } from './winograd.js';

const isThreads: KernelChoice<Conv2dArg>['when'] = ({ model }, { dtype, src }) =>
  model === 'threads' && (dtype === f32 || isHalf(dtype)) && src.every((s) => s.size > 0);

/**
 * Tensor cores are used where the GPU has tf32 and the precision allows rounded operands. 16-bit floats need not be
 * rounded: they are numbers of tf32.
 */
const useTensorCores = ({ target, node }: KernelIo, { precision }: Conv2dArg): boolean =>
  target.capability >= 80 && (precision !== 'f32' || isHalf(node.dtype));

const inner = (tile: ImageTile): string => `${tile.images}x${tile.rows}x${tile.columns}-${tile.channels}`;

/** A choice from its ways, the best guess first; those of cuDNN come last. */
function choiceOf(
  name: string,
  direction: Parameters<typeof cudnnVariants>[2],
  ways: (io: KernelIo, arg: Conv2dArg) => Variant[],
): KernelChoice<Conv2dArg> {
  return {
    name,
    when: isThreads,
    finishes: true,
    variants: (io, arg) => [
      ...ways(io, arg),
      ...cudnnVariants(io, arg, direction, useTensorCores(io, arg) ? 'tf32' : 'f32'),
    ],
    plan: (io, arg) => ways(io, arg)[0]!.plan(),
  };
}

/** What the tiles are cut of. */
function tiledProblem(io: KernelIo, arg: Conv2dArg, adjoint: boolean): ConvolveProblem {
  const problem = folded(convolveProblem(io, arg, adjoint));
  const [images, channels] = io.output.shape as [number, number];
  return problem.folded ? { ...problem, finish: io.finish([images, channels, ...problem.outSize]) } : problem;
}

/** Ways by tiles, on tensor cores where they may be used. */
function tileWays(io: KernelIo, arg: Conv2dArg, problem: ConvolveProblem): Variant[] {
  const args: StageArgument[] = [{ input: 0 }, { input: 1 }, { output: true }];
  const ways = <Tile extends ConvolveTile | ConvolveTensorTile>(
    precision: string,
    tiles: readonly Tile[],
    kernel: (tile: Tile) => GridKernel,
  ): Variant[] =>
    tiles.map((tile) => ({
      name: `${precision}-${tile.each.join('x')}-${tile.warps.join('x')}-${inner(tile)}`,
      plan: () => [gridStage(kernel(tile), ...args)],
    }));
  if (useTensorCores(io, arg)) {
    const tiles = convolveTensorTiles(problem, io.target);
    if (tiles.length > 0) return ways('tf32', tiles, (tile) => convolveTensor(problem, tile));
  }
  return ways('f32', convolveTiles(problem, io.target), (tile) => convolve(problem, tile));
}

/** Each channel by itself. */
function depthwiseWays(io: KernelIo, problem: ConvolveProblem): Variant[] {
  if (!isDepthwise(problem)) return [];
  const args: StageArgument[] = [{ input: 0 }, { input: 1 }, { output: true }];
  return depthwisePatches(problem, io.target).map((patch) => ({
    name: `depthwise-${patch.rows}x${patch.columns}`,
    plan: () => [gridStage(convolveDepthwise(problem, patch), ...args)],
  }));
}

/** Winograd's algorithm, where it suits; in f32. */
function winogradWays(io: KernelIo, arg: Conv2dArg, problem: ConvolveProblem): Variant[] {
  if (useTensorCores(io, arg) || !suitsWinograd(problem)) return [];
  const weights = { scratch: 'weights', bytes: 4 * winogradFloats(problem) };
  const plan = (): Stage[] => [
    gridStage(winogradWeights(problem), { input: 1 }, weights),
    gridStage(winograd(problem), { input: 0 }, weights, { output: true }),
  ];
  return [{ name: 'winograd-2x2', plan }];
}

/**
 * Convolution of x with w, or with `adjoint` of the outputs' gradient with it. A thread has 2 × 2 results side by side;
 * where no way by tiles fits, and of Winograd's algorithm, another launch reads them.
 */
export const convolveChoice = (name: string, adjoint: boolean): KernelChoice<Conv2dArg> => ({
  ...choiceOf(name, adjoint ? 'input' : 'forward', (io, arg) => {
    const byTiles = (io: KernelIo): Variant[] => tileWays(io, arg, tiledProblem(io, arg, adjoint));
    const others = (io: KernelIo): Variant[] => winogradWays(io, arg, convolveProblem(io, arg, adjoint));
    const own = byTiles(io);
    if (!io.window) return [...depthwiseWays(io, convolveProblem(io, arg, adjoint)), ...own, ...others(io)];
    const plainly = (io: KernelIo): Variant[] => [...(own.length > 0 ? [] : byTiles(io)), ...others(io)];
    return [...own, ...finishedAfter(io, plainly)];
  }),
  windows: (_target, _node, _arg, sizes) => !adjoint && sizes.every((n) => n === 2),
});

/** The weight gradient, of x and the outputs' gradient. */
export const weightChoice = (name: string): KernelChoice<Conv2dArg> =>
  choiceOf(name, 'weight', (io, arg) => {
    const plain = weightGradientProblem(io, arg);
    const problem = folded(plain);
    const way = (name: string, parts: number, kernel: () => GridKernel, layout?: PartLayout): Variant => ({
      name,
      plan: (): Stage[] => {
        const scratch = { scratch: 'parts', bytes: 4 * partsOf(problem, parts, layout) };
        return [
          gridStage(kernel(), { input: 0 }, { input: 1 }, scratch),
          gridStage(addParts(problem, parts, layout), scratch, { output: true }),
        ];
      },
    });
    const patches = isDepthwise(plain) ? depthwiseWeightPatches(plain, io.target) : [];
    const ways = patches.map((patch) =>
      way(`depthwise-${patch.rows}x${patch.columns}-${patch.parts}`, patch.parts, () =>
        convolveWeightDepthwise(plain, patch),
      ),
    );
    const tensorTiles = useTensorCores(io, arg) ? weightTensorTiles(problem, io.target) : [];
    if (tensorTiles.length > 0) {
      const byTiles = tensorTiles.map((t) =>
        way(
          `tf32-${t.each.join('x')}-${t.warps.join('x')}-${inner(t)}-${t.splits}`,
          t.splits,
          () => convolveWeightTensor(problem, t),
          tensorParts(problem, t),
        ),
      );
      return [...ways, ...byTiles];
    }
    const byTiles = weightTiles(problem, io.target).map((t) =>
      way(`f32-${t.each.join('x')}-${t.threads.join('x')}-${inner(t)}-${t.splits}`, t.splits, () =>
        convolveWeight(problem, t),
      ),
    );
    return [...ways, ...byTiles];
  });
