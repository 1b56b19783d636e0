/**
 * A convolution and the 2 × 2 max pooling of what it makes, on GPUs: the scheduler puts these in their place where
 * nothing else reads the convolution's values. They then never reach memory; the gradient of the pooling reads the
 * saved positions, a byte a window.
 *
 * H200, training steps of `cnn`, µs: of 64 images 40.1 instead of 42.1, of 256 images 110.1 instead of 117.5.
 */
import { f32, u8 } from '../../core/dtype.js';
import { stridesOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import {
  callOf,
  type FusedOp,
  type KernelChoice,
  type KernelIo,
  type Stage,
  type StageArgument,
  type Variant,
} from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { irFunction } from '../../kernel/ir/ir-function.js';
import type { Target } from '../../kernel/ir/target.js';
import type { PoolProblem } from '../max-pool2d/cpu.js';
import { maxPool, maxPoolPositions } from '../max-pool2d/cuda.js';
import { firstLargest, largest, type PoolArg, pooledSize } from '../max-pool2d/windows.js';
import { gridStage } from '../stage.js';
import { type Conv2dArg, outputSize } from './arg.js';
import { otherWays, tileWays } from './choose-cuda.js';
import { conv2dOp } from './op.js';
import { convolveProblem } from './problem.js';

interface ConvPoolArg {
  readonly conv: Conv2dArg;
  readonly pool: PoolArg;
}

/** Whether `maker` is a convolution that one kernel on `target` computes together with its pooling. */
export const suitsConvolution = (target: Target, maker: GraphNode, pool: PoolArg): boolean =>
  target.model === 'threads' &&
  callOf(maker).op === conv2dOp &&
  maker.dtype === f32 &&
  maker.size > 0 &&
  maker.src.every((s) => s.size > 0) &&
  [...pool.kernel, ...pool.stride].every((n) => n === 2) &&
  pool.padding.every((n) => n === 0) &&
  pool.dilation.every((n) => n === 1);

/** The op on what the convolution y is made of. */
export const afterConvolution = (op: FusedOp<ConvPoolArg>, y: GraphNode, pool: PoolArg): GraphNode =>
  b.call(op, y.src, { conv: callOf(y).arg as Conv2dArg, pool });

const isThreads: KernelChoice<ConvPoolArg>['when'] = ({ model }, { src }) =>
  model === 'threads' && src.every((s) => s.dtype === f32 && s.size > 0);

const imageShape = ({ src: [x, w] }: GraphNode, { conv }: ConvPoolArg): number[] => [
  ...[x!.shape[0]!, w!.shape[0]!],
  ...outputSize(conv),
];

/** A convolution into scratch memory in one of the ways that `ways` knows, and the pooling of that. */
function apart(
  io: KernelIo,
  arg: ConvPoolArg,
  ways: (io: KernelIo, arg: Conv2dArg) => readonly Variant[],
  pooling: (image: StageArgument) => Stage,
): Variant[] {
  const { target, node, inputs } = io;
  const shape = imageShape(node, arg);
  const image = { scratch: 'image', bytes: 4 * shape.reduce((n, d) => n * d, 1) };
  const inner: KernelIo = {
    ...{ target, inputs, plain: true, node: b.call(conv2dOp, node.src, arg.conv) },
    output: { shape, dtype: f32, strides: stridesOf(shape), offset: 0 },
    finish: () => irFunction(([value]) => value!),
  };
  const into = (stage: Stage): Stage => ({
    ...stage,
    args: stage.args.map((a) => ('output' in a ? image : a)),
  });
  return ways(inner, arg.conv).map((way) => ({
    ...way,
    name: `${way.name}, pooling`,
    plan: () => [...way.plan().map(into), pooling(image)],
  }));
}

const plainWays = (io: KernelIo, arg: Conv2dArg): Variant[] => tileWays(io, arg, convolveProblem(io, arg));

const poolProblem = (io: KernelIo, { pool }: ConvPoolArg): PoolProblem => {
  const [images, channels] = io.output.shape as [number, number];
  return {
    ...pool,
    ...{ planes: images * channels, channels, outSize: pooledSize(pool), imageOffset: 0, gradientOffset: 0 },
    ...{ finish: io.finish(io.output.shape), save: io.second?.(io.output.shape) },
  };
};

function ways(io: KernelIo, arg: ConvPoolArg): Variant[] {
  const { conv, pool } = arg;
  const [height, width] = pooledSize(pool);
  const { save } = poolProblem(io, arg);
  const outSize = [2 * height, 2 * width] as const;
  const together = tileWays(io, conv, { ...convolveProblem(io, conv), outSize, pooled: true, save });
  const pooling = (image: StageArgument): Stage =>
    gridStage(maxPool(poolProblem(io, arg)), image, { output: true });
  return [...together, ...apart(io, arg, together.length > 0 ? otherWays : plainWays, pooling)];
}

const typeOf = (src: Parameters<typeof conv2dOp.infer>[0], { conv, pool }: ConvPoolArg) => {
  const { shape, dtype } = conv2dOp.infer(src, conv);
  return { shape: [...shape.slice(0, 2), ...pooledSize(pool)], dtype };
};

/** x (N, C, H, W), w (O, C/G, kH, kW) → u8 (N, O, outH, outW): where in its window each largest value is. */
export const conv2dMaxPositionsOp: FusedOp<ConvPoolArg> = {
  name: 'conv2dMaxPositions',
  infer: (src, arg) => ({ ...typeOf(src, arg), dtype: u8 }),
  compose: (src, { conv, pool }) => b.cast(firstLargest(b.call(conv2dOp, src, conv), pool), u8),
  kernels: [
    {
      name: 'conv2dMaxPositions-cuda',
      when: isThreads,
      finishes: false,
      plan: (io, arg) => {
        const pooling = (image: StageArgument): Stage =>
          gridStage(maxPoolPositions(poolProblem(io, arg)), image, { output: true });
        return apart(io, arg, plainWays, pooling)[0]!.plan();
      },
    },
  ],
};

/** x (N, C, H, W), w (O, C/G, kH, kW) → (N, O, outH, outW): the largest values of 2 × 2 windows of their convolution. */
export const conv2dMaxPoolOp: FusedOp<ConvPoolArg> = {
  name: 'conv2dMaxPool',
  infer: typeOf,
  compose: (src, { conv, pool }) => largest(b.call(conv2dOp, src, conv), pool),
  flops: ({ src }, { conv }) => conv2dOp.flops!(b.call(conv2dOp, src, conv), conv),
  kernels: [
    {
      name: 'conv2dMaxPool-cuda',
      when: isThreads,
      finishes: true,
      second: conv2dMaxPositionsOp,
      plan: (io, arg) => ways(io, arg)[0]!.plan(),
      variants: ways,
    },
  ],
};
