/** Matrix product (B1). */
import {
  alignedProduct,
  matmulChoice,
  matmulOfHalvesChoice,
  productInParts,
  unalignedSources,
} from '#ops/gpu-kernels.js';
import { f32, requireFloats } from '../../core/dtype.js';
import { DTypeError, ShapeError } from '../../core/errors.js';
import type { Precision } from '../../core/precision.js';
import { broadcastShapes, formatShape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice, KernelIo, Stage } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { isTransposed } from '../../graph/rows.js';
import { matmulOfBytes } from '../integers/dequantized.js';
import { SPREAD, stage } from '../stage.js';
import { matmulDirect, matmulDot } from './cpu.js';
import { matmulPacked, packedSizes, packPanels } from './cpu-packed.js';
import { type MatmulArg, problemOf } from './problem.js';

function cpuStages(io: KernelIo): readonly Stage[] {
  const problem = problemOf(io);
  const { a, b, M, N, K } = problem;
  const sources = [{ input: 0 }, { input: 1 }, { output: true }] as const;
  const work = M * N * K;
  // Packing pays where every element is read many times; least where both are read along K as they are.
  if (a.columnStride === 1 && b.rowStride === 1 && (work < 2 ** 26 || M < 16 || N < 16))
    return [stage(matmulDot(problem), ...sources)];
  if (b.columnStride === 1 && (work < 2 ** 22 || M < 16 || N < 16))
    return [stage(matmulDirect(problem, SPREAD * io.target.units), ...sources)];
  const [left, right] = packedSizes(problem);
  const packedA = { scratch: 'a', bytes: 4 * left };
  const packedB = { scratch: 'b', bytes: 4 * right };
  return [
    stage(packPanels(problem, 'a'), { input: 0 }, packedA),
    stage(packPanels(problem, 'b'), { input: 1 }, packedB),
    stage(matmulPacked(problem), packedA, packedB, { output: true }),
  ];
}

const cpuKernel: KernelChoice<MatmulArg> = {
  name: 'matmul-cpu',
  when: ({ model }, node) =>
    model === 'blocks' && node.dtype === f32 && node.size > 0 && node.src[0]!.shape.at(-1)! > 0,
  strided: [true, true],
  finishes: true,
  plan: cpuStages,
};

/** (…, M, K, 1) · (…, 1, K, N), summed over K. */
function product(x: GraphNode, y: GraphNode): GraphNode {
  const left = b.reshape(x, [...x.shape, 1]);
  const right = b.reshape(y, [...y.shape.slice(0, -2), 1, ...y.shape.slice(-2)]);
  const sums = b.sum(b.map('mul', left, right), [x.shape.length - 1]);
  return b.reshape(sums, [...x.shape.slice(0, -1), y.shape.at(-1)!]);
}

/** (…, M, K) × (…, K, N) → (…, M, N). Both sources have the same leading dimensions (`matmul` broadcasts them). */
export const matmulOp: FusedOp<MatmulArg> = {
  name: 'matmul',
  infer: ([x, y]) => ({ shape: [...x!.shape.slice(0, -1), y!.shape.at(-1)!], dtype: x!.dtype }),
  compose: ([x, y]) => b.widened(product, x!, y!),
  // The gradient of a transposed source is made transposed: as wᵀ is in x·wᵀ, so that w's comes out as it is stored.
  grad: ({ src: [x, y] }, g, { precision }) => [
    x!.requiresGrad ? gradientOf(x!, y!, g, precision) : undefined,
    y!.requiresGrad
      ? b.transpose(gradientOf(b.transpose(y!), b.transpose(x!), b.transpose(g), precision))
      : undefined,
  ],
  scaledBy: ({ src: [_, y] }) => (y!.shape.length === 2 ? { source: 1, along: 1, axis: 1 } : undefined),
  ofRows: true,
  faster: (src, { precision }, target) => {
    const product = (x: GraphNode, y: GraphNode): GraphNode => matmul(x, y, precision);
    return productInParts(src, target, product) ?? alignedProduct(src, precision, target, product);
  },
  unaligned: (src, { precision }, target) => unalignedSources(src, precision, target),
  flops: (node) => 2 * node.size * node.src[0]!.shape.at(-1)!,
  ofIntegers: matmulOfBytes,
  kernels: [matmulChoice, matmulOfHalvesChoice, cpuKernel],
};

/** The gradient of x in x·y = …, from that of the product. */
const gradientOf = (x: GraphNode, y: GraphNode, g: GraphNode, precision: Precision): GraphNode =>
  isTransposed(x) ? b.transpose(matmul(y, b.transpose(g), precision)) : matmul(g, b.transpose(y), precision);

/**
 * (…, M, K) × (…, K, N) → (…, M, N); leading dimensions broadcast. A vector (K) is a row on the left and a column on the
 * right, whose dimension the result does not have.
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function matmul(x: GraphNode, y: GraphNode, precision: Precision = 'f32'): GraphNode {
  if (x.shape.length === 0 || y.shape.length === 0) {
    throw new ShapeError(
      `[matmul] takes vectors and matrices, got ${formatShape(x.shape)} × ${formatShape(y.shape)}. Use mul for numbers.`,
    );
  }
  if (x.shape.length === 1 || y.shape.length === 1) {
    const [isRow, isColumn] = [x.shape.length === 1, y.shape.length === 1];
    const rows = isRow ? b.reshape(x, [1, x.size]) : x;
    const columns = isColumn ? b.reshape(y, [y.size, 1]) : y;
    const product = matmul(rows, columns, precision);
    const lead = product.shape.slice(0, -2);
    const [m, n] = product.shape.slice(-2) as [number, number];
    return b.reshape(product, [...lead, ...(isRow ? [] : [m]), ...(isColumn ? [] : [n])]);
  }
  if (x.dtype !== y.dtype)
    throw new DTypeError(
      `[matmul] dtypes differ: ${x.dtype.name} and ${y.dtype.name}. Convert one with .cast(${x.dtype.name}).`,
    );
  requireFloats('matmul', 'x', x);
  const [inner, other] = [x.shape.at(-1)!, y.shape.at(-2)!];
  if (inner !== other) {
    throw new ShapeError(
      `[matmul] inner sizes differ: ${formatShape(x.shape)} × ${formatShape(y.shape)}, ${inner} ≠ ${other}. Transpose the right side?`,
    );
  }
  const lead = broadcastShapes('matmul', x.shape.slice(0, -2), y.shape.slice(0, -2));
  // One left matrix per batch and a single right one is one tall product.
  if (y.shape.length === 2 && x.shape.length > 2) {
    const rows = x.shape.slice(0, -1).reduce((n, d) => n * d, 1);
    return b.reshape(b.call(matmulOp, [b.reshape(x, [rows, inner]), y], { precision }), [
      ...x.shape.slice(0, -1),
      y.shape[1]!,
    ]);
  }
  return b.call(
    matmulOp,
    [b.expand(x, [...lead, ...x.shape.slice(-2)]), b.expand(y, [...lead, ...y.shape.slice(-2)])],
    { precision },
  );
}
