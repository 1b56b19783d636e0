/** The convolution kernels for GPUs, as choices of the fused ops. */
import { f32 } from '../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, Variant } from '../graph/fused-op.js';
import { type CudaConvolve, convolve } from '../kernels/conv2d-cuda.js';
import { convolveTiles, weightTiles } from '../kernels/conv2d-cuda-tiles.js';
import { addParts, type CudaConvolveWeight, convolveWeight, partsOf } from '../kernels/conv2d-weight-cuda.js';
import { type Conv2dArg, outputSize } from './conv2d.js';
import { gridStage } from './stage.js';
import { cudnnVariants } from './vendor.js';

const isThreads: KernelChoice<Conv2dArg>['when'] = ({ model }, node) =>
  model === 'threads' && node.dtype === f32 && node.src.every((s) => s.size > 0);

function convolution({ inputs: [x], output }: KernelIo, arg: Conv2dArg, adjoint: boolean) {
  const { groups, kernel, stride, dilation, padding } = arg;
  const [images, channels] = x!.shape as [number, number];
  return {
    ...{ images, groups, kernel, stride, dilation, padding, adjoint, tensorCores: false },
    inputs: channels / groups,
    outputs: output.shape[1]! / groups,
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: adjoint ? arg.size : outputSize(arg),
    imageOffset: x!.offset,
  };
}

/** Convolution of x with w, or with `adjoint` of the outputs' gradient with it. */
export function convolveChoice(name: string, adjoint: boolean): KernelChoice<Conv2dArg> {
  const variants = (io: KernelIo, arg: Conv2dArg): Variant[] => {
    const problem: CudaConvolve = {
      ...convolution(io, arg, adjoint),
      ...{ weightOffset: io.inputs[1]!.offset, finish: io.finish(io.output.shape) },
    };
    return convolveTiles(problem, io.target).map((tile) => ({
      name: `f32-${tile.each.join('x')}-${tile.warps.join('x')}-${tile.images}x${tile.rows}x${tile.columns}-${tile.channels}`,
      plan: (): Stage[] => [gridStage(convolve(problem, tile), { input: 0 }, { input: 1 }, { output: true })],
    }));
  };
  const direction = adjoint ? 'input' : 'forward';
  return {
    ...{ name, when: isThreads, finishes: true },
    variants: (io, arg) => [...variants(io, arg), ...cudnnVariants(io, arg, direction, 'f32')],
    plan: (io, arg) => variants(io, arg)[0]!.plan(),
  };
}

/** The weight gradient, of x and the outputs' gradient. */
export function weightChoice(name: string): KernelChoice<Conv2dArg> {
  const variants = (io: KernelIo, arg: Conv2dArg): Variant[] => {
    const [x, y] = io.inputs;
    const problem: CudaConvolveWeight = {
      ...convolution(io, arg, false),
      ...{ outputs: y!.shape[1]! / arg.groups, outSize: outputSize(arg), imageOffset: x!.offset },
      ...{ gradientOffset: y!.offset, finish: io.finish(io.output.shape) },
    };
    return weightTiles(problem, io.target).map((tile) => ({
      name: `f32-${tile.each.join('x')}-${tile.threads.join('x')}-${tile.images}x${tile.rows}x${tile.columns}-${tile.channels}-${tile.splits}`,
      plan: (): Stage[] => {
        const parts = { scratch: 'parts', bytes: 4 * partsOf(problem, tile.splits) };
        return [
          gridStage(convolveWeight(problem, tile), { input: 0 }, { input: 1 }, parts),
          gridStage(addParts(problem, tile.splits), parts, { output: true }),
        ];
      },
    }));
  };
  return {
    ...{ name, when: isThreads, finishes: true },
    variants: (io, arg) => [...variants(io, arg), ...cudnnVariants(io, arg, 'weight', 'f32')],
    plan: (io, arg) => variants(io, arg)[0]!.plan(),
  };
}
