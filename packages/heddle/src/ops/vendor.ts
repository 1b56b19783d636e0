/**
 * Vendor libraries as further variants of our own kernels: `variants: (io) => [...own(io), ...cublasLtVariants(io)]`.
 * There are none where the library is not installed, or with HEDDLE_VENDOR=off.
 */
import { f32, isHalf } from '../core/dtype.js';
import type { Precision } from '../core/precision.js';
import { type Shape, stridesOf } from '../core/shape.js';
import type { Epilogue, KernelIo, Stage, StageArgument, Variant, View } from '../graph/fused-op.js';
import type { WindowArg } from '../graph/node.js';
import type { LibraryCall } from '../kernel/ir/library-call.js';
import { finishStage } from './finish-cuda.js';

/** How many of a library's proposals to time: its first is not always its fastest. */
const PROPOSALS = 3;

/**
 * The least µs seen of each on an H200. Where ours take less a library is not even opened: that costs a first run more
 * than small kernels win back.
 */
const LEAST = { cublaslt: 3, forward: 7, input: 20, weight: 18, pooling: 3 } as const;

/**
 * One variant for each of the library's proposals, with a kernel for the epilogue if there is one.
 * @param epilogue the epilogue that the call itself applies, if any
 */
function proposals(
  io: KernelIo,
  name: string,
  split: readonly [number, number, number],
  leastUs: number,
  callOf: (rank: number) => LibraryCall,
  { count = PROPOSALS, epilogue }: { readonly count?: number; readonly epilogue?: Epilogue | undefined } = {},
): Variant[] {
  const { node, plain } = io;
  const sources: readonly StageArgument[] = io.inputs.map((_, input) => ({ input }));
  const plan = (rank: number): readonly Stage[] => {
    const library = callOf(rank);
    if (plain || epilogue) return [{ library, args: [...sources, { output: true }] }];
    const results = { scratch: 'plain', bytes: node.size * node.dtype.bytes };
    return [{ library, args: [...sources, results] }, finishStage(io, split, results)];
  };
  return Array.from({ length: count }, (_, rank) => ({
    name: rank === 0 ? name : `${name} ${rank + 1}`,
    plan: () => plan(rank),
    leastUs,
  }));
}

/**
 * An operand (…, rows, columns) as cuBLASLt takes it: [transposed, leading dimension, batch stride, offset];
 * undefined if its strides cannot be said so.
 */
function operand({ shape, strides, offset }: View): readonly number[] | undefined {
  const lead = shape.length - 2;
  const [rows, columns] = shape.slice(lead) as [number, number];
  const [rowStride, columnStride] = strides.slice(lead) as [number, number];
  const batch = batchStride(shape.slice(0, lead), strides.slice(0, lead));
  if (batch === undefined) return undefined;
  if (columnStride === 1 || columns === 1) {
    const leading = rows === 1 ? columns : rowStride;
    if (leading >= columns) return [0, leading, batch, offset];
  }
  if (rowStride === 1 || rows === 1) {
    const leading = columns === 1 ? rows : columnStride;
    if (leading >= rows) return [1, leading, batch, offset];
  }
  return undefined;
}

/** The one stride that walks all leading dimensions, if there is one. */
function batchStride(shape: readonly number[], strides: readonly number[]): number | undefined {
  let step: number | undefined;
  let count = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    if (shape[i] === 1) continue;
    if (step !== undefined && strides[i] !== step * count) return undefined;
    step ??= strides[i]!;
    count *= shape[i]!;
  }
  return step ?? 0;
}

/** Matrix products by cuBLASLt: inputs (…, M, K) and (…, K, N). */
export function cublasLtVariants(io: KernelIo, precision: Precision): Variant[] {
  const { node, inputs, target } = io;
  const [a, b] = inputs.map(operand);
  if (!target.libraries.has('cublaslt.matmul') || !a || !b) return [];
  if (node.dtype !== f32 && !isHalf(node.dtype)) return [];
  const [M, N] = node.shape.slice(-2) as [number, number];
  const K = inputs[0]!.shape.at(-1)!;
  const batches = node.size / (M * N);
  const sizes = { M, N, K, batches, dtype: node.dtype.name, precision, a, b };
  // In 16 bits the library would round once where the bias is added, not twice.
  const epilogue = batches === 1 && node.dtype === f32 ? io.epilogue : undefined;
  const callOf = (rank: number): LibraryCall => ({
    name: 'cublaslt.matmul',
    options: { ...sizes, ...epilogueOptions(epilogue), rank },
  });
  return proposals(io, 'cublaslt', [batches, M, N], LEAST.cublaslt, callOf, { epilogue });
}

const epilogueOptions = (of: Epilogue | undefined): Partial<Epilogue> => ({
  ...(of?.bias && { bias: true }),
  ...(of?.relu && { relu: true }),
});

/** What cuDNN has to know of a convolution besides the shapes. */
export interface CudnnConvolution extends WindowArg {
  readonly padding: readonly [number, number];
  readonly groups: number;
}

/** Which shapes the sources have, in their order, and the output. */
const CONVOLUTIONS = {
  forward: ['x', 'w', 'y'],
  input: ['y', 'w', 'x'],
  weight: ['x', 'y', 'w'],
} as const;

/** Convolution (x, w → y) and its adjoints in x (y, w → x) and w (x, y → w) by cuDNN, on NCHW. */
export function cudnnVariants(
  io: KernelIo,
  { stride, padding, dilation, groups }: CudnnConvolution,
  direction: keyof typeof CONVOLUTIONS,
  precision: Precision,
): Variant[] {
  const { node, inputs, target } = io;
  if (!target.libraries.has('cudnn.convolution') || precision === 'bf16') return [];
  if (node.dtype !== f32 || inputs.some((view) => !isContiguous(view))) return [];
  const [first, second, result] = CONVOLUTIONS[direction];
  const shapes = { [first]: inputs[0]!.shape, [second]: inputs[1]!.shape, [result]: node.shape };
  const options = {
    ...shapes,
    stride,
    padding,
    dilation,
    groups,
    dtype: 'f32',
    precision,
    direction,
    layout: 'NCHW',
  };
  const [n, c, h, w] = node.shape as [number, number, number, number];
  return proposals(io, 'cudnn', [n, c, h * w], LEAST[direction], (rank) => ({
    name: 'cudnn.convolution',
    options: { ...options, rank },
  }));
}

/** The same of 16-bit floats, all operands with their channels last: x (N, H, W, C), w (O, kH, kW, C/groups), y alike x. */
export function cudnnChannelsLastVariants(
  io: KernelIo,
  { stride, padding, dilation, groups }: CudnnConvolution,
  direction: keyof typeof CONVOLUTIONS,
): Variant[] {
  const { node, inputs } = io;
  const [first, second, result] = CONVOLUTIONS[direction];
  const extents = ([n, h, w, c]: Shape): Shape => [n!, c!, h!, w!];
  const [a, b] = inputs.map(({ shape }) => extents(shape)) as [Shape, Shape];
  const options = {
    ...{ [first]: a, [second]: b, [result]: extents(node.shape) },
    ...{ stride, padding, dilation, groups, direction },
    ...{ dtype: node.dtype.name, precision: node.dtype.name, layout: 'NHWC' },
  };
  return proposals(io, 'cudnn', [node.shape[0]!, node.size / node.shape[0]!, 1], 0, (rank) => ({
    name: 'cudnn.convolution',
    options: { ...options, rank },
  }));
}

/** Max pooling of x (N, C, H, W) by cuDNN. */
export function cudnnPoolingVariants(
  io: KernelIo,
  { kernel, stride, padding, dilation }: Omit<CudnnConvolution, 'groups'>,
): Variant[] {
  const { node, inputs, target } = io;
  const [x] = inputs;
  if (!target.libraries.has('cudnn.pooling') || node.dtype !== f32 || !isContiguous(x!)) return [];
  if (dilation.some((d) => d !== 1)) return [];
  const options = { x: x!.shape, y: node.shape, kernel, stride, padding, mode: 'max', dtype: 'f32' };
  const [n, c, h, w] = node.shape as [number, number, number, number];
  return proposals(io, 'cudnn', [n, c, h * w], LEAST.pooling, () => ({ name: 'cudnn.pooling', options }), {
    count: 1,
  });
}

const isContiguous = ({ shape, strides, offset }: View): boolean =>
  offset === 0 && stridesOf(shape).every((s, i) => s === strides[i] || shape[i] === 1);
