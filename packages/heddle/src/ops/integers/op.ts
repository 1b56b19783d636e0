/**
 * Products of bytes, summed in i32: ONNX's MatMulInteger and ConvInteger without zero points. Users do not call them. A product
 * or convolution of dequantized bytes becomes one of the bytes: dequantized.ts.
 */
import { matmulBytesChoice, reorderedBy } from '#ops/gpu-kernels.js';
import { i32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import { outputSize } from '../conv2d/arg.js';
import type { BytesArg, ConvolveBytesArg } from './arg.js';
import { convolveBytesCpu, matmulBytesCpu } from './cpu.js';

/** x (M, K) · wᵀ, w (N, K): i8 → (M, N), i32. */
export const matmulIntegerOp: FusedOp<BytesArg> = {
  name: 'matmulInteger',
  infer: ([x, w]) => ({ shape: [x!.shape[0]!, w!.shape[0]!], dtype: i32 }),
  compose: ([x, w]) => {
    const [M, K] = x!.shape as [number, number];
    const [N] = w!.shape as [number, number];
    const left = b.reshape(b.cast(x!, i32), [M, 1, K]);
    return b.reshape(b.sum(b.mul(left, b.reshape(b.cast(w!, i32), [1, N, K])), [2]), [M, N]);
  },
  flops: (node) => 2 * node.size * node.src[0]!.shape[1]!,
  kernels: [matmulBytesChoice, matmulBytesCpu],
};

/** x (N, C, H, W), w (O, C/G, kH, kW): i8 → (N, O, outH, outW), i32. */
export const convolveIntegerOp: FusedOp<ConvolveBytesArg> = {
  name: 'convInteger',
  infer: ([x, w], arg) => ({ shape: [x!.shape[0]!, w!.shape[0]!, ...outputSize(arg)], dtype: i32 }),
  compose: ([x, w], arg) => {
    const { padding, groups, kernel } = arg;
    const by = [0, 0, ...padding];
    const seen = b.window(b.pad(b.cast(x!, i32), by, by), arg);
    const [n, c, ...rest] = seen.shape as [number, number, ...number[]];
    const windows = b.reshape(seen, [n, groups, 1, c / groups, ...rest]);
    const [outputs, inputs] = w!.shape as [number, number];
    const weights = b.reshape(b.cast(w!, i32), [1, groups, outputs / groups, inputs, 1, 1, ...kernel]);
    return b.reshape(b.sum(b.mul(windows, weights), [3, 6, 7]), [n, outputs, ...outputSize(arg)]);
  },
  flops: (node) => 2 * node.size * (node.src[1]!.size / node.src[1]!.shape[0]!),
  kernels: [convolveBytesCpu],
  reordered: (target, node, arg) => channelsLast(target, node, arg),
};

const channelsLast = reorderedBy(convolveIntegerOp, 'forward', [[3], [0, 3]], { storesAny: true });
