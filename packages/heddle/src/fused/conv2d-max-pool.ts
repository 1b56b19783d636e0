/**
 * A convolution and the 2 × 2 max pooling of what it makes, on GPUs: the scheduler puts these in their place where
 * nothing else reads the convolution's values. They then never reach memory; the gradient of the pooling reads the
 * saved positions, a byte a window.
 */
import { f32, u8 } from '../core/dtype.js';
import { stridesOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { FusedOp, KernelChoice, KernelIo, Stage, StageArgument, Variant } from '../graph/fused-op.js';
import { argOf, type GraphNode } from '../graph/node.js';
import { irFunction } from '../kernel/ir-function.js';
import type { Target } from '../kernel/target.js';
import { convolveTensorTiles } from '../kernels/conv2d-cuda-tiles.js';
import { convolveTensor } from '../kernels/conv2d-tensor-cuda.js';
import type { PoolProblem } from '../kernels/max-pool2d-cpu.js';
import { maxPool, maxPoolPositions } from '../kernels/max-pool2d-cuda.js';
import { conv2dOp } from './conv2d.js';
import { type Conv2dArg, outputSize } from './conv2d-arg.js';
import { convolution, useTensorCores, wayName } from './conv2d-cuda.js';
import { firstLargest, largest, type PoolArg, pooledSize } from './pool-windows.js';
import { gridStage } from './stage.js';

interface ConvPoolArg {
  readonly conv: Conv2dArg;
  readonly pool: PoolArg;
}

/** Whether `maker` is a convolution that one kernel on `target` computes together with its pooling. */
export const suitsConvolution = (target: Target, maker: GraphNode, pool: PoolArg): boolean =>
  target.model === 'threads' &&
  argOf(maker, 'call').op === conv2dOp &&
  maker.dtype === f32 &&
  maker.size > 0 &&
  maker.src.every((s) => s.size > 0) &&
  [...pool.kernel, ...pool.stride].every((n) => n === 2) &&
  pool.padding.every((n) => n === 0) &&
  pool.dilation.every((n) => n === 1);

/** The op on what the convolution y is made of. */
export const afterConvolution = (op: FusedOp<ConvPoolArg>, y: GraphNode, pool: PoolArg): GraphNode =>
  b.call(op, y.src, { conv: argOf(y, 'call').arg as Conv2dArg, pool });

const isThreads: KernelChoice<ConvPoolArg>['when'] = ({ model }, { src }) =>
  model === 'threads' && src.every((s) => s.dtype === f32 && s.size > 0);

const imageShape = ({ src: [x, w] }: GraphNode, { conv }: ConvPoolArg): number[] => [
  ...[x!.shape[0]!, w!.shape[0]!],
  ...outputSize(conv),
];

/** Ways to convolve into scratch memory, and the pooling of that. */
function apart(io: KernelIo, arg: ConvPoolArg, pooling: (image: StageArgument) => Stage): Variant[] {
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
  const choice = conv2dOp.kernels.find((c) => c.when(target, inner.node, arg.conv))!;
  const ways = choice.variants?.(inner, arg.conv) ?? [];
  return ways.map((way) => ({
    ...way,
    name: `${way.name}, pooling`,
    plan: () => [...way.plan().map(into), pooling(image)],
  }));
}

const poolProblem = (io: KernelIo, { pool }: ConvPoolArg): PoolProblem => {
  const [images, channels] = io.output.shape as [number, number];
  return {
    ...pool,
    ...{ planes: images * channels, channels, outSize: pooledSize(pool), imageOffset: 0, gradientOffset: 0 },
    ...{ finish: io.finish(io.output.shape), save: io.second?.(io.output.shape) },
  };
};

function ways(io: KernelIo, arg: ConvPoolArg): Variant[] {
  const { finish, save } = poolProblem(io, arg);
  const separate = apart(io, arg, (image) =>
    gridStage(maxPool(poolProblem(io, arg)), image, { output: true }),
  );
  if (!useTensorCores(io, arg.conv)) return separate;
  const [height, width] = pooledSize(arg.pool);
  const problem = {
    ...convolution(io, arg.conv, false),
    ...{ outputs: io.output.shape[1]! / arg.conv.groups, outSize: [2 * height, 2 * width] as const },
    ...{ weightOffset: io.inputs[1]!.offset, finish, tensorCores: true, pooled: true as const, save },
  };
  const together = convolveTensorTiles(problem, io.target).map((tile) => ({
    name: wayName('tf32', tile),
    plan: () => [gridStage(convolveTensor(problem, tile), { input: 0 }, { input: 1 }, { output: true })],
  }));
  return [...together, ...separate];
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
        return apart(io, arg, pooling)[0]!.plan();
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
