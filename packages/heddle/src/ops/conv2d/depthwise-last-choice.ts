/** The kernels for GPUs of depthwise convolutions with channels last, as choices of those ops. */
import { f32, isHalf } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, StageArgument, Variant } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { gridStage } from '../stage.js';
import { cudnnChannelsLastVariants } from '../vendor.js';
import { type Conv2dArg, type Direction, outputSize } from './arg.js';
import { addParts, partsOf } from './cuda-weight-gradient.js';
import { convolveDepthwiseLast, convolveWeightDepthwiseLast, type LastDepthwise } from './depthwise-last.js';
import { lastPatches, lastWeightPatches } from './depthwise-last-tiles.js';

/** Whether each group has one channel of x, by weights in either order: (O, 1, kH, kW) or (O, kH, kW, 1). */
export const isDepthwise = ({ groups, kernel }: Conv2dArg, { size, shape }: GraphNode): boolean =>
  groups > 1 && size === shape[0]! * kernel[0] * kernel[1];

/** Whether these kernels are for it, on channels last or first. */
export const suitsDepthwise = (
  { model }: Target,
  node: GraphNode,
  arg: Conv2dArg,
  direction: Direction,
): boolean => {
  const { dtype } = node.src[0]!;
  const isFloat = dtype === f32 || isHalf(dtype);
  return (
    model === 'threads' &&
    isFloat &&
    node.size > 0 &&
    isDepthwise(arg, direction === 'weight' ? node : node.src[1]!)
  );
};

/** What the kernels are given. */
export function depthwiseLastProblem(io: KernelIo, arg: Conv2dArg, direction: Direction): LastDepthwise {
  const [first, second] = io.inputs;
  const { kernel, stride, dilation, padding, groups } = arg;
  const adjoint = direction === 'input';
  const [outputs] = (direction === 'weight' ? io.output : second!).shape as [number];
  const filters = outputs / groups;
  return {
    ...{ groups, kernel, stride, dilation, padding, adjoint, dtype: first!.dtype },
    images: first!.shape[0]!,
    inputs: adjoint ? filters : 1,
    outputs: adjoint ? 1 : filters,
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: adjoint ? arg.size : outputSize(arg),
    imageOffset: first!.offset,
    secondOffset: second!.offset,
    finish: io.finish(direction === 'weight' ? [outputs, 1, ...kernel] : io.output.shape),
  };
}

function ways(io: KernelIo, arg: Conv2dArg, direction: Direction): Variant[] {
  const problem = depthwiseLastProblem(io, arg, direction);
  const sources: StageArgument[] = [{ input: 0 }, { input: 1 }];
  if (direction !== 'weight')
    return lastPatches(problem, io.target).map((patch) => ({
      name: `depthwise-last-${patch.rows}x${patch.columns}x${patch.lanes}-${patch.threads}`,
      plan: () => [gridStage(convolveDepthwiseLast(problem, patch), ...sources, { output: true })],
    }));
  return lastWeightPatches(problem, io.target).map((patch) => ({
    name: `depthwise-last-${patch.rows}x${patch.columns}x${patch.lanes}-${patch.threads}-${patch.parts}`,
    plan: (): Stage[] => {
      const parts = { scratch: 'parts', bytes: 4 * partsOf(problem, patch.parts) };
      return [
        gridStage(convolveWeightDepthwiseLast(problem, patch), ...sources, parts),
        gridStage(addParts(problem, patch.parts), parts, {
          output: true,
        }),
      ];
    },
  }));
}

/** The kernels of an op on channels last. */
export const depthwiseLastChoice = (name: string, direction: Direction): KernelChoice<Conv2dArg> => ({
  name,
  when: (target, node, arg) => suitsDepthwise(target, node, arg, direction),
  finishes: true,
  plan: (io, arg) => ways(io, arg, direction)[0]!.plan(),
  variants: (io, arg) => [
    ...ways(io, arg, direction),
    ...(io.target.libraries.has('cudnn.convolution') && isHalf(io.node.dtype)
      ? cudnnChannelsLastVariants(io, arg, direction)
      : []),
  ],
});
