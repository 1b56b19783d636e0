/**
 * Fused ops: a named composition of primitives that carries, with itself, the kernels that may replace it. The
 * composition is the fallback on every device, the oracle of the tests and the default gradient in one.
 */
import type { Expr, KernelIr, Statement } from '../kernel/ir/ir.js';
import type { IrFunction } from '../kernel/ir/ir-function.js';
import type { LibraryCall } from '../kernel/ir/library-call.js';
import type { Scalar } from '../kernel/ir/ops.js';
import type { Target } from '../kernel/ir/target.js';
import { argOf, type GraphNode, type TensorType } from './node.js';

export interface FusedOp<Arg = unknown> {
  readonly name: string;
  /** Checks the sources and says what comes out. @throws ShapeError, DTypeError */
  infer(src: readonly TensorType[], arg: Arg): TensorType;
  /** The plain meaning, in primitives and other fused ops. */
  compose(src: readonly GraphNode[], arg: Arg): GraphNode;
  /** Gradients of the sources (undefined where there is none) from that of the node. Default: the composition's. */
  grad?(node: GraphNode, g: GraphNode, arg: Arg): readonly (GraphNode | undefined)[];
  /**
   * Whether each element of the result is the largest of some of its one source's, of the same image (the last two
   * dimensions): it may then be chosen before a function that never decreases instead of after it, see rewrites.ts.
   * Default: no.
   */
  selects?(arg: Arg): boolean;
  /**
   * Weights that the node is linear in, if there are any: a factor for each index along one of their axes is the same factor
   * along an axis of the node, and can be made theirs where they are constant. Default: none.
   */
  scaledBy?(node: GraphNode, arg: Arg): ScaledBy | undefined;
  /**
   * Whether its composition is a sum for each element, of the element's row of the first source with weights, the last one:
   * it may be computed so where that is quicker than a launch of a kernel. Default: no.
   */
  readonly ofRows?: boolean;
  /** Its first source only counts divided by the second, which broadcasts to it: f(x, s) = f(x / s, 1). Default: it is not so. */
  readonly ofQuotient?: boolean;
  /** How it is put together of parts, if it is a reduction of its one source. Default: it is not, or needs all at once. */
  readonly reduction?: PartialReduction<Arg>;
  /** Another way to compute the same values that takes less time on the target, such as a sum of parts. Default: there is none. */
  faster?(src: readonly GraphNode[], arg: Arg, target: Target): GraphNode | undefined;
  /** The sources, as they are stored, that it then reads from wider matrices; see graph/rows.ts. Default: none. */
  unaligned?(src: readonly GraphNode[], arg: Arg, target: Target): readonly GraphNode[];
  /**
   * Whether the sum of several results is the result of their sources, each laid one after the other along the first dimension:
   * processes that want the sum may then exchange the sources instead. Default: it is not.
   */
  sumsRows?(arg: Arg): boolean;
  /** As a function of windows, if it is one for this argument and its one source. Default: it is not. */
  windows?(arg: Arg, source: TensorType): WindowFunction | undefined;
  /** As what gives windows, if it does so for this argument. Default: it does not. */
  spreads?(arg: Arg): WindowsFrom | undefined;
  /**
   * How it is computed on sources, and with a result, whose dimensions are in another order, where that is faster on the
   * target or the sources are so anyway; see schedule/orders.ts. Default: it is not.
   */
  reordered?(target: Target, node: GraphNode, arg: Arg): Reordered | undefined;
  /**
   * The same values by an op on integers, where the sources are bytes that were dequantized; see ops/integers. It is taken where
   * the target has a kernel for its sums.
   */
  ofIntegers?(src: readonly GraphNode[], arg: Arg): OfIntegers | undefined;
  /** The values are those of the one source: its kernels read memory for functions of windows. */
  readonly identity?: boolean;
  /** What it exchanges with other processes; it then begins as early as it can. Default: nothing. */
  exchanges?(arg: Arg): Exchange;
  /**
   * Multiprocessors of a GPU that its routine takes from the launches of the program that run beside it: all of them are planned
   * for the others. Default: 0.
   */
  occupies?(arg: Arg): number;
  /** Floating-point operations of the node, a multiply-add being two; for profiles. Default: not known. */
  flops?(node: GraphNode, arg: Arg): number;
  /** Tried in order; the first whose `when` holds replaces the composition. */
  readonly kernels: readonly KernelChoice<Arg>[];
}

/** Weights of an op, and how their scale is its result's. */
export interface ScaledBy {
  /** Which of its sources they are. */
  readonly source: number;
  /** Their axis. */
  readonly along: number;
  /** The node's axis. */
  readonly axis: number;
}

/** The fused op of a `call` node, and its argument. */
export const callOf = (node: GraphNode): { readonly op: FusedOp; readonly arg: unknown } =>
  argOf(node, 'call') as { readonly op: FusedOp; readonly arg: unknown };

/** A call on bytes, and the values that stand for what it gives. */
export interface OfIntegers {
  /** Absent where none is computed: bytes as others. */
  readonly sums?: GraphNode;
  readonly values: GraphNode;
}

/** An op on tensors of another order of dimensions. */
export interface Reordered {
  /** Dimension i of such a tensor is this one of the tensor as it was: as `permute` takes it. */
  readonly order: readonly number[];
  /** The orders that it takes its sources in. Default: all in that of the result. */
  readonly sources?: readonly (readonly number[])[];
  /** It gains nothing by that: it is computed so where most of its sources' elements are in that order anyway. Default: false. */
  readonly follows?: boolean;
  /** Although it gains nothing, it may be computed so on sources in any order, where that spares others conversions. Default: false. */
  readonly leads?: boolean;
  /** Microseconds that it takes less in that order, where a model says so. Default: 0. */
  readonly saves?: number;
  /** The result in that order, of the sources in theirs. */
  make(src: readonly GraphNode[]): GraphNode;
}

/** Values that are made together with other processes. */
export interface Exchange {
  /** How many of its sources it sends, the first ones: it only comes after the others. */
  readonly sent: number;
  /** How they may be sent in other orders of dimensions. Default: they may not. */
  readonly flat?: FlatExchange;
}

/** An exchange whose result is flat, with the elements of each source one after the other, in whatever order they are. */
export interface FlatExchange {
  /** Where those of each source begin, each time that they are there. */
  readonly places: readonly (readonly number[])[];
  /** Whether a result that is assigned to a tensor is read by others than the program itself. */
  readonly isReadOutside: boolean;
  /**
   * The argument of the op on sources in other orders, which all processes have to send alike.
   * @param orders of each source: its dimensions as they were, without those of size 1, the outermost in memory first
   */
  inOrders(orders: readonly (readonly number[])[]): unknown;
}

/** A reduction that can be made of parts of its source, each of which is read once. */
export interface PartialReduction<Arg = unknown> {
  /** What is reduced; these dimensions become 1. */
  axes(arg: Arg): readonly number[];
  /** The argument that reduces other ones instead, as of a source whose dimensions are in another order. */
  along(arg: Arg, axes: readonly number[]): Arg;
  /**
   * The result, from the source cut along one of the axes.
   * @param axes what is reduced of a part
   * @param at the dimension that counts the parts, which is reduced as well
   */
  ofParts(cut: GraphNode, axes: readonly number[], at: number, arg: Arg): GraphNode;
}

/**
 * A function of windows: each element of the result comes from one window of the source, and the windows lie side by
 * side. Where the threads of the kernel that makes the source hold whole windows of it, they compute this element instead
 * of storing the window, and the source is never in memory. Several functions of the same windows are several results of
 * one kernel, as the largest values and the positions where they were.
 */
export interface WindowFunction {
  /** A window's sizes along the source's last two dimensions; what is left over at their ends is in no window. */
  readonly sizes: WindowSizes;
  /** The element from a window's values, in row order. 16-bit floats come as f32. */
  readonly compute: (values: readonly Expr[], emit: (statement: Statement) => void) => Expr;
  /** Reads windows of these sizes from memory, where no other kernel holds them; an `identity`. */
  readonly stored: FusedOp<WindowSizes>;
}

export type WindowSizes = readonly [number, number];

/**
 * The windows of a result, which lie side by side and fill its last two dimensions: each comes from one element of each source,
 * all of which have one shape. A kernel that makes such an element stores the window as well.
 */
export interface WindowsFrom {
  readonly sizes: WindowSizes;
  /** A window's values, in row order, from an element of each source, or from as many neighbours as these are. */
  readonly compute: (elements: readonly Expr[]) => readonly Expr[];
}

export interface KernelChoice<Arg = unknown> {
  readonly name: string;
  /** Target and shapes this kernel is for. */
  when(target: Target, node: GraphNode, arg: Arg): boolean;
  /** Sources that may arrive as strided views instead of contiguous (default: none). */
  readonly strided?: readonly boolean[];
  /** Those are read where they lie even if several kernels read the same: a copy would gain nothing. Default: false. */
  readonly copiesNothing?: boolean;
  /**
   * Elementwise ops that follow may run inside this kernel: it passes every final value through `io.finish` exactly
   * once. Such a kernel must not write its output otherwise.
   */
  readonly finishes: boolean;
  /** What is stored in place of its result may have another dtype, that of `io.output`. Default: it has the op's. */
  readonly storesAny?: boolean;
  /**
   * Whether it can store its results, each of which it writes once and never reads, where these views say: in part of another's
   * memory. Default: no.
   */
  places?(view: View): boolean;
  /** Whether its threads hold whole windows of these sizes, and pass them to `io.finish`; see `KernelIo.window`. Default: no. */
  windows?(target: Target, node: GraphNode, arg: Arg, sizes: WindowSizes): boolean;
  /**
   * Names of ops that its launches can compute as well, where they are wanted of the same sources with the same argument. It
   * then finishes nothing. Default: none.
   */
  readonly also?: readonly string[];
  /**
   * The rows of its result, as a matrix whose columns are the last dimension, that one of its tiles has at hand: sums of the
   * columns over so many rows may be computed where it stores them; see `KernelIo.sums`. Default: none.
   */
  sums?(target: Target, node: GraphNode, arg: Arg): number | undefined;
  /** The launches that compute the node: the best guess for its shapes. */
  plan(io: KernelIo, arg: Arg): readonly Stage[];
  /**
   * All ways this kernel can do it (tile sizes, splits, a vendor's library), `plan`'s among them, for the autotuner to
   * time. They differ in speed, and in rounding only as far as the order of sums. Default: `plan` alone.
   */
  variants?(io: KernelIo, arg: Arg): readonly Variant[];
}

export interface Variant {
  /** Tells the ways of one kernel apart, in tables and in the tuner's memory: `128x64x8`, `cublaslt`. */
  readonly name: string;
  readonly plan: () => readonly Stage[];
  /** It has not been seen to take less, in µs: the tuner passes it over where another way takes no longer. */
  readonly leastUs?: number;
}

/** A source or the output, as the kernel finds it: element (i, j, …) is at offset + i·strides[0] + j·strides[1] … */
export interface View extends TensorType {
  readonly strides: readonly number[];
  /** In elements. */
  readonly offset: number;
}

export interface KernelIo {
  readonly target: Target;
  readonly node: GraphNode;
  readonly inputs: readonly View[];
  /**
   * In the dtype the stores must have; of the node's shape, or of its windows'. Contiguous unless the choice `places` results.
   */
  readonly output: View;
  /**
   * The epilogue, elementwise ops after this one: `finish(value, c0, c1, …)` gives the value to store from the op's own
   * value (a scalar, or 2 or 4 neighbours along the last coordinate) and its coordinates (i32; `split` says what
   * they count). Pass it to the kernel as a constant and call it there.
   * @param split sizes whose product is the output's size, outermost first: the radix of the coordinates
   * @param withBias it takes what `bias` gives for the last coordinate, after the coordinates
   */
  readonly finish: (split: readonly number[], withBias?: boolean) => IrFunction;
  /**
   * `bias(value, c)` is an element of a vector that the epilogue takes one of for each last coordinate, in f32, or as many
   * neighbours as `value` is. A kernel may read them before it stores anything: behind a store, a read waits for it.
   */
  readonly bias?: IrFunction | undefined;
  /**
   * How many tensors like the output the epilogue reads, or the sums, each value with those at its own position. A kernel that brings these
   * values itself passes them to `finish` after the coordinates, and finds the tensors at the arguments `{ beside: 0 }` and so on.
   */
  readonly beside?: number;
  /**
   * Functions of windows of the node's values are wanted instead of the values. `output` has an element for each window,
   * and `finish` takes all values of a window, in row order, and the window's coordinates. An array of the thread's stands
   * for all its values.
   */
  readonly window?: Window | undefined;
  /** Which of the ops that the choice names in `also` are wanted, and how their results lie, as `output` does; default: none. */
  readonly also?: ReadonlyMap<string, View>;
  /**
   * Sums of the columns of what is stored. A way that does not call `sums.store` leaves them to a launch of their own, which
   * reads memory.
   */
  readonly sums?: ColumnSums | undefined;
  /** Nothing follows: `finish` gives back the value as it is. A library's routine may then write the output itself. */
  readonly plain: boolean;
  /**
   * Nothing follows but this, in the op's dtype. A library's routine with the options `bias` and `relu` of the same
   * values may write the output itself: it gets the bias, if there is one, after its other arguments.
   */
  readonly epilogue?: Epilogue | undefined;
}

/**
 * Sums of the columns of what is stored as a matrix, whose columns are its last dimension, over parts of as many rows each as
 * the choice says in `sums`: of elementwise functions of what is stored, and of tensors read beside it.
 */
export interface ColumnSums {
  /** The numbers of the sums: those that need no others, those that need only these, and so on. */
  readonly levels: readonly (readonly number[])[];
  /**
   * `term(number, value, part, row, column, …sums, …brought)` is what an element, or 2 or 4 neighbours in a row, adds to a sum
   * in f32: `value` as it is stored, its row counted in its part, all sums of its columns so far, and of the tensors `beside`
   * those that the kernel brings.
   */
  readonly term: IrFunction;
  /** `store(part, column, …sums)` stores what is made of all sums of a part's column, or of 2 or 4 neighbours. */
  readonly store: IrFunction;
}

export interface Window {
  readonly sizes: WindowSizes;
  /** What becomes of it, for the kernel's name: `maxPool2d`. */
  readonly name: string;
}

/** A bias along the last dimension is added, then negative values become 0. */
export interface Epilogue {
  readonly bias: boolean;
  readonly relu: boolean;
}

export type StageArgument =
  | { readonly input: number }
  | { readonly output: true }
  /** The result of an op of `also`. */
  | { readonly also: string }
  /** See `KernelIo.beside`. */
  | { readonly beside: number }
  /** Memory that lives during this plan: equal names are the same memory. */
  | { readonly scratch: string; readonly bytes: number }
  | { readonly value: Scalar };

/** One launch. */
export type Stage = KernelStage | LibraryStage;

/** Arguments in the order of the kernel's parameters (those that `finish` adds are appended). */
export interface KernelStage {
  readonly kernel: KernelIr;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a cluster, if they work together. */
  readonly cluster?: readonly [number, number, number];
  readonly args: readonly StageArgument[];
}

/** Arguments in the order that the routine takes them. */
export interface LibraryStage {
  readonly library: LibraryCall;
  readonly args: readonly StageArgument[];
}
