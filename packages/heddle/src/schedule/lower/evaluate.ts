/**
 * Tensor graph → kernel IR: the value of a node at given coordinates, as an expression, with the statements it
 * needs emitted before it. Elementwise ops nest, movement ops change the coordinates, reductions become loops.
 */
import { bool, f32, i32, u32 } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import { rewrite } from '../../core/rewrite.js';
import { sizeOf } from '../../core/shape.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';
import type { Region } from '../group.js';
import { Accumulation, opOf, zeroOf } from './accumulate.js';
import {
  type Affine,
  type Atom,
  atom,
  isMultiple,
  ofAtom,
  offset,
  plus,
  shifted,
  slope,
  times,
  toExpr,
} from './affine.js';
import { align, type Coordinates, type Digit, flatten, type LoopAxis, loopSizes } from './coordinates.js';
import { gathered, kept, padded, runsOf, sliced, windowed } from './movement.js';
import { philoxBlock, philoxWord } from './philox.js';

/** Where a kernel reads. */
export interface MemoryRead {
  readonly memory: MemoryNode;
  readonly index: Affine;
}

/** An element that a gather takes: where, under which conditions there is one, and of which memory what has been loaded. */
export interface GatheredElement extends ReturnType<typeof gathered> {
  readonly values: ReadonlyMap<GraphNode, Expr>;
}

/** What the loops around an expression are, and what it may read. */
export interface LoopScope {
  /** The memory that holds a node, if it has its own. */
  memory(node: GraphNode): MemoryNode | undefined;
  /** Loops of a reduction's run of axes, remembered between two lowerings of a kernel. */
  axis(node: GraphNode, run: number, size: number): LoopAxis;
  /** Reductions may run over vectors of 4 where their innermost loop is contiguous. */
  readonly vectorReduce: boolean;
  /** Several lanes are one access only from a multiple of that many elements on, as on a GPU. */
  readonly aligned?: boolean;
  /** Results that are stored as parts of others. */
  readonly regions?: ReadonlyMap<GraphNode, Region> | undefined;
  /** Told of every load, to judge which loop is contiguous. */
  onLoad?(load: MemoryRead): void;
  /** The element of a memory that the kernel is given the address of. Default: the first. */
  startOf?(memory: MemoryNode): number;
  /** A value that is the same wherever the kernel asks for it: a reduction of the row it works on. */
  held?(node: GraphNode): Expr | undefined;
  /** Where an element of a node is in its memory, if that is only a part of it; by its place among all elements. */
  placed?(node: GraphNode, index: Affine): Affine;
  /** What to take for a load, if the kernel has it. */
  loaded?(memory: MemoryNode, index: Affine): Expr | undefined;
  /** Elements of gathers that the kernel has. */
  readonly elements?: ReadonlyMap<GraphNode, GatheredElement>;
  /** What to take for a load of several lanes that lie apart. */
  gathered?(memory: MemoryNode, index: Affine): Expr | undefined;
}

/** The loop variable that counts lanes: lane k stands for its value + k. */
export interface Vector {
  readonly atom: Atom;
  readonly lanes: Lanes;
}

const SCALAR: Vector | undefined = undefined;
/** How many values each scope has named: a kernel's names are the same wherever and whenever it is made. */
const named = new WeakMap<LoopScope, number>();
/** How many nodes each scope has computed, and how many it may: a bound for what would otherwise hardly end. */
const computed = new WeakMap<LoopScope, number>();
const MOST_COMPUTED = 1_000_000;
/** Functions whose making uses an operand many times: it is computed once, before. */
const USED_OFTEN: ReadonlySet<unknown> = new Set(['pow', 'atan2', 'tanh', 'exp']);

export class Evaluator {
  readonly scope: LoopScope;
  readonly vector: Vector | undefined;
  /** Statements go here; undefined where only an expression will do. */
  readonly #out: Statement[] | undefined;
  readonly #known = new Map<Coordinates, Map<GraphNode, Expr>>();

  constructor(scope: LoopScope, vector: Vector | undefined, out: Statement[] | undefined) {
    this.scope = scope;
    this.vector = vector;
    this.#out = out;
  }

  /** Take `value` for `node` at these coordinates. */
  define(node: GraphNode, at: Coordinates, value: Expr): void {
    let map = this.#known.get(at);
    if (!map) {
      map = new Map();
      this.#known.set(at, map);
    }
    map.set(node, value);
  }

  /** The value of `node`: a vector where a vector loop is around, else a scalar. */
  value(node: GraphNode, at: Coordinates): Expr {
    const known = this.#known.get(at)?.get(node);
    if (known) return known;
    const held = this.scope.held?.(node);
    if (held) return held.type.lanes === this.#lanes ? held : k.splat(held, this.#lanes);
    const memory = this.scope.memory(node);
    const made = memory ? this.#load(memory, this.#placeOf(node, at)) : this.#compute(node, at);
    const value = node.users > 1 && this.#out ? this.#bind(made) : made;
    this.define(node, at, value);
    return value;
  }

  /** The same evaluator, with what it knows, for statements of an inner block. */
  within(out: Statement[]): Evaluator {
    const inner = new Evaluator(this.scope, this.vector, out);
    for (const [at, values] of this.#known) inner.#known.set(at, new Map(values));
    return inner;
  }

  #placeOf(node: GraphNode, at: Coordinates): Affine {
    const index = flatten(at);
    return this.scope.placed?.(node, index) ?? index;
  }

  get #lanes(): Lanes {
    return this.vector?.lanes ?? 1;
  }

  #bind(value: Expr): Expr {
    if (value.op === 'splat' && this.scope.aligned)
      return k.splat(this.#bind(value.src[0] as Expr), value.type.lanes);
    if (value.op === 'const' || value.op === 'variable' || !this.#out) return value;
    const serial = named.get(this.scope) ?? 0;
    named.set(this.scope, serial + 1);
    const variable: Variable = { name: `t${serial}`, type: value.type, constant: true };
    this.#out.push(k.declare(variable, value));
    return k.read(variable);
  }

  #load(memory: MemoryNode, at: Affine): Expr {
    this.scope.onLoad?.({ memory, index: at });
    const loaded = this.scope.loaded?.(memory, at);
    if (loaded) return k.splat(loaded, this.#lanes);
    const index = offset(at, -(this.scope.startOf?.(memory) ?? 0));
    if (!this.vector) return k.load(memory, [toExpr(index)]);
    const { atom: v, lanes } = this.vector;
    const step = slope(index, v);
    if (step === 0) return k.splat(k.load(memory, [toExpr(index)]), lanes);
    if (step === 1 && (!this.scope.aligned || isMultiple(index, v, lanes)))
      return k.load(memory, [toExpr(index)], lanes);
    const gathered = this.scope.gathered?.(memory, index);
    if (gathered) return gathered;
    return k.vector(Array.from({ length: lanes }, (_, i) => k.load(memory, [toExpr(shifted(index, v, i))])));
  }

  /** An index as a value, lane by lane where it varies. */
  #index(index: Affine): Expr {
    if (!this.vector) return toExpr(index);
    const { atom: v, lanes } = this.vector;
    if (slope(index, v) === 0) return k.splat(toExpr(index), lanes);
    return k.vector(Array.from({ length: lanes }, (_, i) => toExpr(shifted(index, v, i))));
  }

  #compute(node: GraphNode, at: Coordinates): Expr {
    const steps = (computed.get(this.scope) ?? 0) + 1;
    computed.set(this.scope, steps);
    if (steps > MOST_COMPUTED)
      throw new InternalError(
        `lowering ${node.op} of (${node.shape}): more than ${MOST_COMPUTED} steps for one kernel`,
      );
    switch (node.op) {
      case 'full':
        return k.splat(k.constant(node.dtype, argOf(node, 'full').value), this.#lanes);
      case 'iota':
        return this.#index(flatten(align(at, node.shape)[argOf(node, 'iota').axis]!));
      case 'map':
        return this.#map(node, at);
      case 'reshape':
      case 'detach':
        return this.value(node.src[0]!, at);
      case 'permute': {
        const groups = align(at, node.shape);
        const { axes } = argOf(node, 'permute');
        return this.value(
          node.src[0]!,
          axes.flatMap((_, i) => groups[axes.indexOf(i)]!),
        );
      }
      case 'expand':
        return this.value(node.src[0]!, kept(node, at));
      case 'slice':
        return this.value(node.src[0]!, sliced(node, at));
      case 'window':
        return this.value(node.src[0]!, windowed(node, at));
      case 'pad':
      case 'gather':
      case 'fold':
      case 'scatterAdd':
      case 'random':
        return this.#perLane(node, at);
      case 'reduce':
        return this.#reduce(node, at);
      case 'leaf':
      case 'call':
        throw new InternalError(`${node.op} of (${node.shape}) has no memory in this kernel`);
    }
  }

  #map(node: GraphNode, at: Coordinates): Expr {
    const { op } = argOf(node, 'map');
    const src = node.src.map((s) => this.value(s, at));
    if (op === 'cast') return k.cast(node.dtype, src[0]!);
    if (op === 'bitcast') return k.bitcast(node.dtype, src[0]!);
    if (op === 'select') return k.select(this.#bind(src[0]!), this.#bind(src[1]!), this.#bind(src[2]!));
    return k.alu(op, USED_OFTEN.has(op) ? src.map((s) => this.#bind(s)) : src);
  }

  /** Ops with conditions on coordinates are done one lane at a time where a vector loop is around. */
  #perLane(node: GraphNode, at: Coordinates): Expr {
    if (!this.vector) return this.#scalar(node, at);
    const { atom: v, lanes } = this.vector;
    if (node.op === 'random' && this.#isRun(flatten(at))) return this.#randomBlock(node, at);
    if (node.op === 'gather' && this.scope.aligned) {
      const position = this.value(node.src[1]!, at);
      if (position.op === 'splat') return this.#gather(node, at, position.src[0] as Expr);
    }
    // All lanes are padding, or none is.
    if (node.op === 'pad' && padded(node, at).positions.every((p) => slope(p, v) === 0))
      return this.#pad(node, at, this.vector);
    const varies = at.some((d) => slope(d.value, v) !== 0);
    const one = (by: number): Expr => {
      const inner = new Evaluator(this.scope, SCALAR, this.#out);
      return inner.value(
        node,
        at.map((d) => ({ ...d, value: shifted(d.value, v, by) })),
      );
    };
    return varies ? k.vector(Array.from({ length: lanes }, (_, i) => one(i))) : k.splat(one(0), lanes);
  }

  #scalar(node: GraphNode, at: Coordinates): Expr {
    switch (node.op) {
      case 'pad':
        return this.#pad(node, at, SCALAR);
      case 'gather':
        return this.#gather(node, at, this.value(node.src[1]!, at));
      case 'random': {
        const { seed } = argOf(node, 'random');
        const counter = this.#bind(this.value(node.src[0]!, []));
        return philoxWord(this.#bind(toExpr(flatten(at))), counter, seed, (e) => this.#bind(e));
      }
      case 'fold':
        return this.#fold(node, at);
      default:
        return this.#scatterAdd(node, at);
    }
  }

  #pad(node: GraphNode, at: Coordinates, vector: Vector | undefined): Expr {
    const { coordinates, valid } = padded(node, at);
    const other = k.constant(node.dtype, paddingOf(node));
    return this.#guarded(node, valid, other, (inner) => inner.value(node.src[0]!, coordinates), vector);
  }

  /** Element `index` along the gathered axis: in a vector loop, of all lanes. */
  #gather(node: GraphNode, at: Coordinates, index: Expr): Expr {
    const loaded = this.scope.elements?.get(node);
    const { coordinates, valid } = loaded ?? gathered(node, at, this.#bind(index));
    const value = (inner: Evaluator): Expr => {
      for (const [x, element] of loaded?.values ?? [])
        inner.define(x, coordinates, k.splat(element, this.#lanes));
      return inner.value(node.src[0]!, coordinates);
    };
    return this.#guarded(node, valid, k.constant(node.dtype, zeroOf(node)), value, this.vector);
  }

  /** Whether the lanes are four neighbours from a multiple of four on. */
  #isRun(index: Affine): boolean {
    const { atom: v, lanes } = this.vector!;
    return lanes === 4 && slope(index, v) === 1 && isMultiple(index, v, 4);
  }

  /** Four neighbouring words are one block of Philox. */
  #randomBlock(node: GraphNode, at: Coordinates): Expr {
    const scalar = new Evaluator(this.scope, SCALAR, this.#out);
    const counter = this.#bind(scalar.value(node.src[0]!, []));
    const { seed } = argOf(node, 'random');
    const words = philoxBlock(this.#bind(toExpr(flatten(at))), counter, seed, (e) => this.#bind(e));
    return k.vector(words);
  }

  /** `value` where all conditions hold, else `otherwise`; nothing is read where they do not. */
  #guarded(
    node: GraphNode,
    valid: readonly Expr[],
    otherwise: Expr,
    value: (inner: Evaluator) => Expr,
    vector: Vector | undefined = SCALAR,
  ): Expr {
    if (valid.length === 0) return value(this);
    const lanes = vector?.lanes ?? 1;
    const result: Variable = { name: 'v', type: valueType(node.dtype, lanes), constant: false };
    const inside: Statement[] = [];
    const found = value(new Evaluator(this.scope, vector, inside));
    this.#emit(k.declare(result, k.splat(otherwise, lanes)));
    this.#emit(k.when(every(valid), k.block([...inside, k.set(result, found)])));
    return k.read(result);
  }

  #emit(statement: Statement): void {
    if (!this.#out) throw new InternalError('a statement where only an expression will do');
    this.#out.push(statement);
  }

  #reduce(node: GraphNode, at: Coordinates): Expr {
    const x = node.src[0]!;
    const { axes } = argOf(node, 'reduce');
    const runs = runsOf(x.shape, (i) => axes.includes(i));
    const outer = align(
      at,
      runs.filter((r) => !r.marked).map((r) => r.size),
    );
    const loops: Loop[] = [];
    const inner: Digit[] = [];
    let o = 0;
    runs.forEach((run, n) => {
      if (!run.marked) {
        inner.push(...outer[o++]!);
        return;
      }
      const axis = this.scope.axis(node, n, run.size);
      let below = run.size;
      for (const size of loopSizes(axis)) {
        below /= size || 1;
        const variable: Variable = { name: `r${loops.length}`, type: valueType(i32), constant: true };
        const digit = {
          size,
          value: ofAtom(atom(k.read(variable), size)),
          origin: { axis, below: below || 1 },
        };
        loops.push({ digit, variable });
        inner.push(digit);
      }
    });
    return this.#accumulate(node, loops, (inside, vector) =>
      new Evaluator(this.scope, vector, inside).value(x, inner),
    );
  }

  /** The loops of a reduction around `term`; the innermost over vectors where that is allowed. */
  #accumulate(node: GraphNode, loops: readonly Loop[], term: Term): Expr {
    const last = loops.at(-1);
    const isWide = last && !this.vector && this.scope.vectorReduce && last.digit.size >= 8;
    if (isWide) return this.#accumulateLanes(node, loops.slice(0, -1), last, term);
    const sums = new Accumulation();
    sums.add([addTo(sums.open(node, this.#lanes), node, this.vector, term)]);
    for (const { variable, digit } of loops.toReversed()) sums.loop(variable, digit.size);
    return this.#close(sums)[0]!;
  }

  /** Four lanes, and 4 accumulators side by side where the loop is long, so that additions need not wait. */
  #accumulateLanes(node: GraphNode, outer: readonly Loop[], { variable, digit }: Loop, term: Term): Expr {
    const op = opOf(node);
    const sums = new Accumulation();
    const { size, value } = digit;
    const v = value.terms[0]!.atom;
    const side = size >= 64 ? 4 : 1;
    const whole = size - (size % (4 * side));
    const counter = (): Variable => ({ name: 'r', type: valueType(i32), constant: true });
    for (let i = 0; i < side; i++) {
      const inside = addTo(sums.open(node, 4), node, { atom: v, lanes: 4 }, term);
      // The same body a few vectors further on: its own loop variable
      const moved = counter();
      const shift = k.declare(moved, k.alu('add', [k.read(variable), k.int(4 * i)]));
      sums.add(i === 0 ? [inside] : [shift, renamed(inside, variable, moved)]);
    }
    sums.loop(variable, whole, 4 * side);
    const tail = sums.open(node, 1);
    if (whole < size) {
      const rest = counter();
      const inside = renamed(addTo(tail, node, SCALAR, term), variable, rest);
      sums.add([k.forLoop(rest, k.int(whole), k.int(size), k.int(1), inside)], size - whole);
    }
    for (const loop of outer.toReversed()) sums.loop(loop.variable, loop.digit.size);
    const totals = this.#close(sums);
    const joined = this.#bind(totals.slice(0, side).reduce((a, b) => k.alu(op, [a, b])));
    const [a, b, c, d] = [0, 1, 2, 3].map((i) => k.lane(joined, i)) as [Expr, Expr, Expr, Expr];
    return k.alu(op, [k.alu(op, [k.alu(op, [a, b]), k.alu(op, [c, d])]), totals[side]!]);
  }

  /** Emit the loops; their totals. */
  #close(sums: Accumulation): Expr[] {
    const loops: Statement[] = [];
    const totals = sums.close(loops);
    for (const statement of loops) this.#emit(statement);
    return totals.map((total) => k.read(total));
  }

  /** out[h, w] = Σ over the windows' elements that lie there. */
  #fold(node: GraphNode, at: Coordinates): Expr {
    const x = node.src[0]!;
    const { kernel, stride, dilation } = argOf(node, 'fold');
    const lead = sizeOf(node.shape.slice(0, -2));
    const [outer, h, w] = align(at, [lead, ...node.shape.slice(-2)]) as [Digit[], Digit[], Digit[]];
    // Without holes a position has every stride-th tap of its windows, from the one in the last window on.
    const steps = kernel.map((_, i) => (dilation[i] === 1 ? stride[i]! : 1));
    const loops = kernel.map((size, i) => {
      const variable: Variable = { name: `k${i}`, type: valueType(i32), constant: true };
      const rounds = Math.ceil(size / steps[i]!);
      return { variable, digit: { size: rounds, value: ofAtom(atom(k.read(variable), rounds)) } };
    });
    return this.#accumulate(node, loops, (inside) => {
      const valid: Expr[] = [];
      const declare = (name: string, value: Expr): Expr => {
        const variable: Variable = { name, type: valueType(i32), constant: true };
        inside.push(k.declare(variable, value));
        return k.read(variable);
      };
      const found = [h, w].map((digits, i): { window: Digit; tap: Digit } => {
        const count = x.shape[x.shape.length - 4 + i]!;
        const [size, s, step] = [kernel[i]!, stride[i]!, steps[i]!];
        const at = flatten(digits);
        let tap = loops[i]!.digit.value;
        if (step > 1) {
          const first = atom(k.alu('mod', [toExpr(at), k.int(step)]), step);
          const expr = declare(i === 0 ? 'ky' : 'kx', toExpr(plus(times(tap, step), ofAtom(first))));
          if (size % step !== 0) valid.push(k.alu('lt', [expr, k.int(size)]));
          tap = ofAtom(atom(expr, size));
        }
        const from = declare(i === 0 ? 'y' : 'x', toExpr(plus(at, times(tap, -dilation[i]!))));
        const quotient = s === 1 ? from : k.alu('idiv', [from, k.int(s)]);
        valid.push(k.alu('ge', [from, k.int(0)]), k.alu('lt', [quotient, k.int(count)]));
        if (s > step) valid.push(k.alu('eq', [k.alu('mod', [from, k.int(s)]), k.int(0)]));
        return {
          window: { size: count, value: ofAtom(atom(quotient, Math.max(2, count))) },
          tap: { size, value: tap },
        };
      });
      const coordinates = [...outer, ...found.map((f) => f.window), ...found.map((f) => f.tap)];
      const inner = new Evaluator(this.scope, SCALAR, inside);
      return inner.#guarded(node, valid, k.constant(node.dtype, zeroOf(node)), (e) =>
        e.value(x, coordinates),
      );
    });
  }

  /** out[r] = Σ of the values whose index is r, in their order. */
  #scatterAdd(node: GraphNode, at: Coordinates): Expr {
    const [values, index] = node.src as [GraphNode, GraphNode];
    const { axis } = argOf(node, 'scatterAdd');
    const groups = align(at, node.shape);
    const target = this.#bind(toExpr(flatten(groups[axis]!)));
    const size = values.shape[axis]!;
    const variable: Variable = { name: 's', type: valueType(i32), constant: true };
    const digit = { size, value: ofAtom(atom(k.read(variable), Math.max(2, size))) };
    const coordinates = groups.flatMap((g, i) => (i === axis ? [digit] : g));
    return this.#accumulate(node, [{ variable, digit }], (inside) => {
      const inner = new Evaluator(this.scope, SCALAR, inside);
      const hit = k.alu('eq', [inner.value(index, coordinates), target]);
      return inner.#guarded(node, [hit], k.constant(node.dtype, zeroOf(node)), (e) =>
        e.value(values, coordinates),
      );
    });
  }
}

/** One loop of a reduction, and the coordinate that it counts. */
interface Loop {
  readonly digit: Digit;
  readonly variable: Variable;
}

/** What a reduction adds in one turn: statements go `inside` the loops. */
type Term = (inside: Statement[], vector: Vector | undefined) => Expr;

/** One turn: the term joins an accumulator. */
function addTo(into: Variable, node: GraphNode, vector: Vector | undefined, term: Term): Statement {
  const inside: Statement[] = [];
  const value = term(inside, vector);
  return k.block([...inside, k.set(into, k.alu(opOf(node), [k.read(into), value]))]);
}

const every = (conditions: readonly Expr[]): Expr => conditions.reduce((a, b) => k.alu('and', [a, b]));

const paddingOf = (node: GraphNode): Scalar => {
  const { value } = argOf(node, 'pad');
  return node.dtype === bool ? value !== 0 : node.dtype.name === 'i64' ? BigInt(value) : value;
};

/** A statement with another loop variable. */
const renamed = (statement: Statement, from: Variable, to: Variable): Statement =>
  rewrite<k.Node>(statement, (n) =>
    n.op === 'variable' && n.arg === from ? k.read(to) : undefined,
  ) as Statement;

/** Which ops and dtypes a vector loop can hold. */
export const VECTOR_DTYPES: ReadonlySet<unknown> = new Set([f32, i32, u32]);
