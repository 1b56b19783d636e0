/**
 * The kernel IR: structured statements over typed expressions, both `Node`s. One union member per op; renderers
 * and passes switch over `op` exhaustively.
 *
 * Loads and stores name their memory and one index per dimension; with more than one lane they touch that many
 * neighbouring elements from the last index on, which must be a multiple of the lanes for `global` memory on a GPU.
 */
import { bool, type DType, i32, isHalf, u32 } from '../../core/dtype.js';
import { InternalError, type Location } from '../../core/errors.js';
import type { IrNode } from '../../core/node.js';
import type { IntrinsicRecord } from './intrinsic-record.js';
import { INTRINSICS, type Intrinsic, resultOf } from './intrinsics.js';
import { OPS, type Scalar, type ScalarOp } from './ops.js';
import {
  type BufferSchema,
  isBuffer,
  type KernelType,
  type Lanes,
  type MemoryType,
  NONE,
  type Space,
  type ValueType,
  value,
} from './types.js';

/** A `let` or `const` of a kernel, or a loop variable. Compared by identity; names need not be unique. */
export interface Variable {
  readonly name: string;
  readonly type: ValueType;
  /** Never set again after its declaration. */
  readonly constant: boolean;
}

export interface Param {
  readonly name: string;
  readonly schema: DType | BufferSchema;
}

/** A shared array (one per block) or a local one (one per thread, in registers where its indices are constant). */
export interface ArrayDecl {
  readonly name: string;
  readonly dtype: DType;
  readonly space: 'shared' | 'local';
  /** Sizes; a dynamic shared array has one, given at launch by `sharedBytes`, and -1 here. Several of them are the same memory. */
  readonly dims: readonly number[];
  /** Elements are vectors of this many lanes (local arrays of accumulators). */
  readonly lanes: Lanes;
  /**
   * tile: of a shared array that the copy engine and the tensor cores reach: its rows lie swizzled. barriers: of one whose
   * elements are mbarriers.
   */
  readonly form?: 'tile' | 'barriers';
}

export type Axis = 'x' | 'y' | 'z';
/** A number of its own that a thread or its block has. */
export type Own = 'laneId' | 'warpId' | 'clusterRank' | 'clusterSize';
export type Special = `${'threadIdx' | 'blockIdx' | 'blockDim' | 'gridDim'}.${Axis}` | Own;

interface Shaped<Op extends string, Arg, Type extends KernelType> extends IrNode {
  readonly op: Op;
  readonly type: Type;
  readonly src: readonly Node[];
  readonly arg: Arg;
  readonly at?: Location | undefined;
}

/** An expression with a value. */
export type Expr =
  | Shaped<'const', Scalar, ValueType>
  | Shaped<'param', Param, ValueType>
  | Shaped<'special', Special, ValueType>
  | Shaped<'variable', Variable, ValueType>
  /**
   * src: the operands, all of the same type. When decomposed, a sine or cosine has two: its value if the argument is
   * small, and the argument.
   */
  | Shaped<'alu', ScalarOp, ValueType>
  /** Converts the value (`convert` in ops.ts), lane by lane. src: [value] */
  | Shaped<'cast', null, ValueType>
  /** Reinterprets the bits; same size. src: [value] */
  | Shaped<'bitcast', null, ValueType>
  /** src: [condition, then, otherwise]; only the chosen side is evaluated when the condition is a scalar. */
  | Shaped<'select', null, ValueType>
  /** src: one value per lane. */
  | Shaped<'vector', null, ValueType>
  /** The same value in every lane. src: [value] */
  | Shaped<'splat', null, ValueType>
  /** One lane of a vector. src: [vector] */
  | Shaped<'lane', number, ValueType>
  /** src: [memory, ...indices] */
  | Shaped<'load', null, ValueType>
  /** src: the arguments; of an atomic [memory, index…, arguments…]. */
  | Shaped<'intrinsic', Intrinsic, ValueType>;

/** How a store happens that is not made on the spot. */
export type StoreWay = 'async' | 'async-once';

/** Memory to load from and store to. */
export type MemoryNode = Shaped<'buffer', Param, MemoryType> | Shaped<'array', ArrayDecl, MemoryType>;

export type Statement =
  | Shaped<'block', null, typeof NONE>
  /** Declares a variable. src: [initial value] */
  | Shaped<'let', Variable, typeof NONE>
  /** src: [value] */
  | Shaped<'set', Variable, typeof NONE>
  /**
   * src: [memory, value, ...indices]. async: the value is loaded (or, by a select, zero) and may arrive as late as
   * when `waitCopies` waits for its group. async-once: nobody else on the multiprocessor will load it.
   */
  | Shaped<'store', StoreWay | null, typeof NONE>
  /**
   * Only in the lowered form, of an atomic that the machine has no instruction for: the variable becomes what stands in
   * memory, and `value`, an expression of it, takes its place, with no other access in between.
   * src: [memory, value, base, offset]
   */
  | Shaped<'update', Variable, typeof NONE>
  /** src: [condition, then block, else block?] */
  | Shaped<'if', null, typeof NONE>
  /**
   * A counted loop: the variable goes from start while < end in steps > 0, and the body never sets it; start, end
   * and step are evaluated once, before. `unroll`: true asks for it, 'never' keeps the loop here, 'rolled' in what a
   * renderer's compiler makes of it, too. src: [start, end, step, body block]
   */
  | Shaped<'for', { readonly variable: Variable; readonly unroll: boolean | 'never' | 'rolled' }, typeof NONE>
  /** src: [condition, body block, update block]; `continue` goes to the update. */
  | Shaped<'while', null, typeof NONE>
  | Shaped<'break', null, typeof NONE>
  | Shaped<'continue', null, typeof NONE>
  | Shaped<'return', null, typeof NONE>
  /**
   * An intrinsic for its effect. src: [intrinsic expression], or of one without a result (`arg`) its places, each a memory
   * and its indices, and its arguments.
   */
  | Shaped<'effect', Intrinsic | null, typeof NONE>
  /** src: [condition]; arg: the message. */
  | Shaped<'assert', string, typeof NONE>
  /** src: the values; arg: the text, with {} for each. */
  | Shaped<'print', string, typeof NONE>;

export type For = Extract<Statement, { op: 'for' }>;

export type Node = Expr | MemoryNode | Statement;

/** A kernel, ready for the passes and renderers. */
export interface KernelIr {
  /** The kernel's name, in messages and in generated code. */
  readonly name: string;
  /** The parameters, in the order of the schema. */
  readonly params: readonly Param[];
  /** Shared and local arrays, in the order of their declaration. */
  readonly arrays: readonly ArrayDecl[];
  /** What a thread does. */
  readonly body: Statement;
  /**
   * Several launches in one: the arguments are that many first blocks, then as many lists of the parameters. A block finds
   * the arguments of the last list that begins at or before it, and counts blockIdx.x from there.
   */
  readonly lists?: number | undefined;
  /** Blocks that a multiprocessor is to hold at once: the compiler gives their threads no more registers than that leaves. */
  readonly resident?: number | undefined;
  /** Only of a kernel that the passes have lowered for the CPU. */
  readonly lowered?: Lowered;
}

/**
 * What the lowering for the CPU adds. Variables are then locals of the function: set before they are read, wherever
 * they are declared. `body` is what each block does.
 */
export interface Lowered {
  /** Runs once, before the first block. */
  readonly once: Statement;
  /**
   * Bytes of memory that a thread needs for its arrays, without the dynamic shared array, which follows them. From
   * here on loads, stores and atomics name [memory, base, offset]: bytes, an i32 expression and a constant. Undefined
   * as long as they name elements.
   */
  readonly scratchBytes: number | undefined;
  /** The kernel before it was lowered. Its work is estimated on this. */
  readonly from: KernelIr;
}

/** The block that a list of arguments begins at. */
const FIRST_BLOCK: Param = { name: 'firstBlock', schema: i32 };

/** What a launch's arguments are for, in their order. */
export const argumentsOf = ({ params, lists }: Pick<KernelIr, 'params' | 'lists'>): readonly Param[] =>
  lists === undefined
    ? params
    : [...Array<Param>(lists).fill(FIRST_BLOCK), ...Array.from({ length: lists }, () => params).flat()];

/** The address of a thread's memory for arrays, as a parameter that every lowered kernel has. */
export const SCRATCH: Param = { name: 'scratch', schema: i32 };

// ── Builders: each checks what its op asks for, so that an IR that exists is typed ──────────────────────────────

const fail = (message: string): never => {
  throw new InternalError(`kernel IR: ${message}`);
};

// Every node has the same five properties in one order, so that V8 gives them one hidden class.

/** Of leaves. */
const NO_SOURCES: readonly Node[] = [];

export const constant = (dtype: DType, v: Scalar, at?: Location): Expr => ({
  op: 'const',
  type: value(dtype),
  src: NO_SOURCES,
  arg: v,
  at,
});
export const int = (v: number): Expr => (v === (v | 0) ? constant(i32, v | 0) : fail(`${v} is not an i32`));

export const scalarParam = (param: Param, at?: Location): Expr =>
  isBuffer(param.schema)
    ? fail(`${param.name} is a buffer`)
    : { op: 'param', type: value(param.schema), src: NO_SOURCES, arg: param, at };

export const bufferParam = (param: Param, at?: Location): MemoryNode =>
  isBuffer(param.schema)
    ? {
        op: 'buffer',
        type: {
          kind: 'memory',
          dtype: param.schema.dtype,
          space: 'global',
          dims: param.schema.map?.sizes ?? [],
        },
        src: NO_SOURCES,
        arg: param,
        at,
      }
    : fail(`${param.name} is a scalar`);

export const arrayNode = (decl: ArrayDecl, at?: Location): MemoryNode => ({
  op: 'array',
  type: { kind: 'memory', dtype: decl.dtype, space: decl.space as Space, dims: decl.dims },
  src: NO_SOURCES,
  arg: decl,
  at,
});

export const special = (name: Special, at?: Location): Expr => ({
  op: 'special',
  type: value(i32),
  src: NO_SOURCES,
  arg: name,
  at,
});
export const read = (variable: Variable, at?: Location): Expr => ({
  op: 'variable',
  type: variable.type,
  src: NO_SOURCES,
  arg: variable,
  at,
});

export function alu(op: ScalarOp, src: readonly Expr[], at?: Location): Expr {
  const first = src[0] ?? fail(`${op} without operands`);
  if (src.length !== OPS[op].arity) fail(`${op} takes ${OPS[op].arity} operands, got ${src.length}`);
  if (src.some((s) => s.type.dtype !== first.type.dtype || s.type.lanes !== first.type.lanes))
    fail(`${op} of different types`);
  return {
    op: 'alu',
    type: OPS[op].result === 'bool' ? value(bool, first.type.lanes) : first.type,
    src,
    arg: op,
    at,
  };
}

export const cast = (to: DType, v: Expr, at?: Location): Expr =>
  v.type.dtype === to ? v : { op: 'cast', type: value(to, v.type.lanes), src: [v], arg: null, at };

/** Whether a bitcast to `to` joins two neighbours of 16 bits, the lower half first. */
export const isPair = (to: DType, { dtype, lanes }: ValueType): boolean =>
  to === u32 && isHalf(dtype) && lanes === 2;

export const bitcast = (to: DType, v: Expr, at?: Location): Expr => {
  const lanes = isPair(to, v.type) ? 1 : v.type.lanes;
  return to.bytes * lanes === v.type.dtype.bytes * v.type.lanes
    ? { op: 'bitcast', type: value(to, lanes), src: [v], arg: null, at }
    : fail('bitcast between sizes');
};

export const select = (condition: Expr, then: Expr, otherwise: Expr, at?: Location): Expr =>
  then.type.dtype !== otherwise.type.dtype ||
  then.type.lanes !== otherwise.type.lanes ||
  condition.type.dtype !== bool
    ? fail('select of different types')
    : { op: 'select', type: then.type, src: [condition, then, otherwise], arg: null, at };

export const vector = (src: readonly Expr[], at?: Location): Expr => ({
  op: 'vector',
  type: value(src[0]!.type.dtype, src.length as Lanes),
  src,
  arg: null,
  at,
});
export const splat = (v: Expr, lanes: Lanes, at?: Location): Expr =>
  lanes === 1 ? v : { op: 'splat', type: value(v.type.dtype, lanes), src: [v], arg: null, at };
/** Zero, or false, in every lane. */
export const zeroOf = ({ dtype, lanes }: ValueType, at?: Location): Expr =>
  splat(constant(dtype, dtype === bool ? false : dtype.name === 'i64' ? 0n : 0, at), lanes, at);
export const lane = (v: Expr, index: number, at?: Location): Expr => ({
  op: 'lane',
  type: value(v.type.dtype),
  src: [v],
  arg: index,
  at,
});

export const load = (
  memory: MemoryNode,
  indices: readonly Expr[],
  lanes: Lanes = 1,
  at?: Location,
): Expr => ({
  op: 'load',
  type: value(memory.type.dtype, memory.op === 'array' && memory.arg.lanes > 1 ? memory.arg.lanes : lanes),
  src: ([memory] as Node[]).concat(indices),
  arg: null,
  at,
});

export function intrinsic(name: Intrinsic, src: readonly Node[], t: DType, at?: Location): Expr {
  const type = resultOf(name, t) ?? fail(`${name} has no value`);
  return { op: 'intrinsic', type, src, arg: name, at };
}

const statement = <S extends Statement['op']>(
  op: S,
  src: readonly Node[],
  arg: Extract<Statement, { op: S }>['arg'],
  at?: Location,
): Statement => ({ op, type: NONE, src, arg, at }) as Statement;

export const block = (statements: readonly Statement[], at?: Location): Statement =>
  statement('block', statements, null, at);
export const declare = (variable: Variable, initial: Expr, at?: Location): Statement =>
  statement('let', [initial], variable, at);
export const set = (variable: Variable, v: Expr, at?: Location): Statement =>
  statement('set', [v], variable, at);
export const store = (
  memory: MemoryNode,
  v: Expr,
  indices: readonly Expr[],
  at?: Location,
  way: StoreWay | null = null,
): Statement => statement('store', ([memory, v] as Node[]).concat(indices), way, at);
export const update = (
  memory: MemoryNode,
  old: Variable,
  v: Expr,
  place: readonly Node[],
  at?: Location,
): Statement => statement('update', [memory, v, ...place], old, at);
export const when = (condition: Expr, then: Statement, otherwise?: Statement, at?: Location): Statement =>
  statement('if', otherwise ? [condition, then, otherwise] : [condition, then], null, at);
export const forLoop = (
  variable: Variable,
  start: Expr,
  end: Expr,
  step: Expr,
  body: Statement,
  unroll: boolean | 'never' | 'rolled' = false,
  at?: Location,
): Statement => statement('for', [start, end, step, body], { variable, unroll }, at);
export const whileLoop = (condition: Expr, body: Statement, update: Statement, at?: Location): Statement =>
  statement('while', [condition, body, update], null, at);
export const breakLoop = (at?: Location): Statement => statement('break', [], null, at);
export const continueLoop = (at?: Location): Statement => statement('continue', [], null, at);
export const leave = (at?: Location): Statement => statement('return', [], null, at);
/** With `threads`, a multiple of 32: of the first threads of the block, where the others never come. */
export const barrier = (at?: Location, threads?: number): Statement =>
  statement('effect', threads === undefined ? [] : [int(threads)], 'barrier', at);
/** An intrinsic without a result. */
export const act = (name: Intrinsic, args: readonly Node[], at?: Location): Statement =>
  statement('effect', args, name, at);
export const effect = (expr: Expr, at?: Location): Statement => statement('effect', [expr], null, at);
export const assertion = (condition: Expr, message: string, at?: Location): Statement =>
  statement('assert', [condition], message, at);
export const print = (text: string, values: readonly Expr[], at?: Location): Statement =>
  statement('print', values, text, at);

/** Whether it involves the other blocks of a cluster. */
export function isOfCluster({ op, arg }: Node): boolean {
  if (op === 'special') return arg === 'clusterRank' || arg === 'clusterSize';
  if ((op !== 'effect' && op !== 'intrinsic') || arg === null) return false;
  const { cluster }: IntrinsicRecord = INTRINSICS[arg];
  return cluster === true;
}

/** Whether a thread may have to wait in it for others. */
export function needsOthers(name: Intrinsic): boolean {
  const { scope, waits }: IntrinsicRecord = INTRINSICS[name];
  return scope !== 'thread' || waits === true;
}
