/**
 * The lazy tensor graph. A node is an operation on whole tensors; making one computes nothing. A node that has been
 * computed has `storage`, and from then on counts as a leaf.
 */
import type { DType } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import type { IrNode } from '../core/node.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import type { ScalarOp } from '../kernel/ir/ops.js';
import { originOfCall } from './origin.js';

export interface TensorType {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** Computed values. What is inside is the engine's business. */
export interface Storage {
  readonly bytes: number;
  /** How many nodes have their values here: equal ones that are computed together share them. */
  nodes: number;
}

export type ReduceOp = 'sum' | 'max' | 'min' | 'prod';

/** Per dimension: how many elements of `value` (0 unless said) stand before and after. */
export interface PadArg {
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly value: number;
}

/** Per dimension: the first index, the step (negative walks backwards) and how many. */
export interface SliceArg {
  readonly start: readonly number[];
  readonly step: readonly number[];
  readonly size: readonly number[];
}

/** Sliding windows over the last two dimensions. */
export interface WindowArg {
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
}

/** What the graph knows of a fused op; the rest is its contract, `callOf` of fused-op.ts. */
export interface Named {
  readonly name: string;
}

/** The closed set of tensor primitives, and what each carries as its argument. */
export interface GraphArgs {
  /** A value given from outside: a computed tensor, or an input of a traced function. */
  leaf: null;
  /** The same number everywhere. */
  full: { readonly value: number | bigint | boolean };
  /** The coordinate along one dimension, as i32. */
  iota: { readonly axis: number };
  /** Element by element; sources have the node's shape. */
  map: { readonly op: ScalarOp | 'select' | 'cast' | 'bitcast' };
  /** Over `axes`, which stay as dimensions of size 1. */
  reduce: { readonly op: ReduceOp; readonly axes: readonly number[] };
  reshape: null;
  permute: { readonly axes: readonly number[] };
  /** Sizes of 1 repeated to the node's shape. */
  expand: null;
  pad: PadArg;
  slice: SliceArg;
  /** (…, H, W) → (…, outH, outW, kernelH, kernelW). */
  window: WindowArg;
  /** The adjoint of window: (…, outH, outW, kernelH, kernelW) → (…, H, W), overlapping windows summed. */
  fold: WindowArg;
  /** src: [x, index i32]; out[i][j] = x[index[i][j]][j] for axis 0. Indices out of range read 0. */
  gather: { readonly axis: number };
  /** The adjoint of gather. src: [values, index i32]; sums in the order of the indices. */
  scatterAdd: { readonly axis: number };
  /** Philox4x32-10 bits, u32. src: [counter i64 of shape (1)]; element i is word i%4 of block counter + i/4. */
  random: { readonly seed: readonly [number, number] };
  /** Stops gradients; the value passes. One that requires a gradient is a parameter's new value. */
  detach: null;
  /** A fused op: a composition of the others that a hand-written kernel may replace. */
  call: { readonly op: Named; readonly arg: unknown };
}

export type GraphOp = keyof GraphArgs;

/** Kernels count elements in i32, and up to a grid's last block of them beyond the end. */
const MOST_ELEMENTS = 2 ** 31 - 2 ** 20;

/** @throws ShapeError for more elements than memory is indexed by; what is computed on the way may have more */
export function requireIndexable(shape: Shape): void {
  if (sizeOf(shape) > MOST_ELEMENTS)
    throw new ShapeError(
      `${formatShape(shape)} has ${sizeOf(shape)} elements, a tensor in memory at most ${MOST_ELEMENTS}: cut it.`,
    );
}

/** @throws ShapeError for a reduction of more elements than a loop counts */
export function requireCountable(op: string, shape: Shape, axes: readonly number[]): void {
  const count = axes.reduce((n, a) => n * shape[a]!, 1);
  if (count > MOST_ELEMENTS)
    throw new ShapeError(
      `[${op}] ${formatShape(shape)} over axes ${axes.join(',')} takes ${count} elements for each result, at most ` +
        `${MOST_ELEMENTS}: cut it, or reduce one axis after the other.`,
    );
}

let made = 0;

/** The serial number of the newest node. */
export const newestSerial = (): number => made;

export class GraphNode implements IrNode {
  /** A leaf's from when the node has been computed, unless a gradient may still ask how: so are `arg` and `src`. */
  op: GraphOp;
  readonly type: TensorType;
  arg: GraphArgs[GraphOp];
  src: readonly GraphNode[];
  readonly requiresGrad: boolean;
  storage: Storage | undefined;
  /** How many nodes were ever made from this one. */
  users = 0;
  /** How many tensors ever stood for it: x.mul(1) is another tensor of the same node. */
  tensors = 0;
  /** The longest chain of uncomputed nodes that ends here. */
  readonly depth: number;
  /** Grows with every node made. */
  readonly serial = ++made;
  /** Who asked for it, if origins are recorded. */
  readonly origin: string | undefined = originOfCall();

  constructor(
    op: GraphOp,
    type: TensorType,
    src: readonly GraphNode[],
    arg: GraphArgs[GraphOp],
    requiresGrad: boolean,
  ) {
    this.op = op;
    this.type = type;
    this.src = src;
    this.arg = arg;
    this.requiresGrad = requiresGrad;
    let depth = 0;
    for (const s of src) {
      s.users++;
      if (!s.storage && s.depth >= depth) depth = s.depth + 1;
    }
    this.depth = depth;
  }

  get shape(): Shape {
    return this.type.shape;
  }

  get dtype(): DType {
    return this.type.dtype;
  }

  get size(): number {
    return sizeOf(this.type.shape);
  }

  /**
   * Whether nobody but one tensor can see its storage change: no node is made from this one, no gradient is to flow
   * through it, and neither another tensor nor another node has these values.
   */
  get isPrivate(): boolean {
    const { users, tensors, storage, op } = this;
    return (
      users === 0 &&
      tensors <= 1 &&
      storage !== undefined &&
      storage.nodes <= 1 &&
      (op === 'leaf' || op === 'detach')
    );
  }

  /** Whether scheduling stops here: the values are there, or are given from outside. */
  get isLeaf(): boolean {
    return this.storage !== undefined || this.op === 'leaf';
  }

  /** Keep the values. What is in `storage` may be overwritten: unless a gradient may need it, how it was made goes. */
  realized(storage: Storage): void {
    this.storage = storage;
    storage.nodes++;
    if (this.requiresGrad && this.op !== 'detach') return;
    this.op = 'leaf';
    this.arg = null;
    this.src = [];
  }
}

/** The argument of a node whose op is known. */
export const argOf = <Op extends GraphOp>(node: GraphNode, _op: Op): GraphArgs[Op] =>
  node.arg as GraphArgs[Op];
