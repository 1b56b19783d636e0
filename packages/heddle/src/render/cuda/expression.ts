/** Expressions of the kernel IR in C++. */
import { bool, type DType, f16, f32, isByte, isHalf, u8 } from '../../core/dtype.js';
import type { IntrinsicRecord, PlaceKind } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS, type Intrinsic } from '../../kernel/ir/intrinsics.js';
import { type Axis, type Expr, isPair, type MemoryNode, type Own, type Special } from '../../kernel/ir/ir.js';
import { isHeld } from '../../kernel/ir/operands.js';
import { needsRounding, type ScalarOp } from '../../kernel/ir/ops.js';
import { GPU } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { Asynchronous, PlaceText } from './asynchronous.js';
import { loadedBytes, nearestByte, nearestOf, widenedBytes } from './bytes.js';
import { type Analysis, accessOf } from './index-arithmetic.js';
import { intrinsicCall } from './intrinsics.js';
import type { Names } from './names.js';
import { conversion, fromMemory, reinterpretation, rounded, scalarOp, selection, toMemory } from './ops.js';
import type { Prelude } from './prelude.js';
import {
  call,
  infix,
  LANES,
  literal,
  MEMORY_TYPE,
  memoryVectorName,
  PRECEDENCE,
  postfix,
  prefix,
  REGISTER_TYPE,
  type Text,
  vectorName,
  within,
} from './text.js';

/** What numbers of up to `most`, and `more`, stay below. */
const along = <Name extends 'threadIdx' | 'blockIdx' | 'blockDim' | 'gridDim'>(
  name: Name,
  most: readonly number[],
  more: 0 | 1,
) =>
  Object.fromEntries(
    most.map((n, i) => [`${name}.${'xyz'[i]}`, n > 65536 ? `0x${(n + more).toString(16)}` : `${n + more}`]),
  ) as Record<`${Name}.${Axis}`, string>;

/** What a launch's numbers stay below on every GPU. */
const SPECIAL_ENDS: Readonly<Record<Exclude<Special, Own>, string>> = {
  ...along('threadIdx', GPU.block, 0),
  ...along('blockIdx', GPU.grid, 0),
  ...along('blockDim', GPU.block, 1),
  ...along('gridDim', GPU.grid, 1),
};

/** The functions of the prelude for numbers of a thread's or block's own. */
const OWN = {
  laneId: 'lane_id',
  warpId: 'warp_id',
  clusterRank: 'cluster_rank',
  clusterSize: 'cluster_size',
} as const satisfies Record<Own, string>;

const isOwn = (name: Special): name is Own => name in OWN;

/** Float operators that vectors have as well. */
const OPERATORS: Partial<Record<ScalarOp, string>> = { add: '+', sub: '-', mul: '*', div: '/' };

export class CudaExpressions {
  readonly #prelude: Prelude;
  readonly #names: Names;
  readonly #analysis: Analysis;
  readonly #block: string;

  /** @param block what blockIdx.x is called */
  constructor(prelude: Prelude, names: Names, analysis: Analysis, block = 'blockIdx.x') {
    this.#block = block;
    this.#prelude = prelude;
    this.#names = names;
    this.#analysis = analysis;
  }

  /** The value of `e`, rounded to its dtype. */
  value(e: Expr): Text {
    const text = this.#unrounded(e);
    return e.type.lanes === 1 && isComputed(e) ? rounded(this.#prelude, e.type.dtype, text) : text;
  }

  /** The value of `e` as an element of memory, or several. A copy of 16-bit floats is one of their bits. */
  stored(e: Expr): Text {
    const { dtype, lanes } = e.type;
    const from = e.op === 'load' && isHalf(dtype) ? accessOf(e)! : undefined;
    if (
      from &&
      (lanes === 1 || (!isVectorArray(from.memory) && this.isWide(from.memory, from.indices, lanes)))
    )
      return this.place(from.memory, from.indices, lanes);
    if (lanes === 1) return toMemory(this.#prelude, dtype, this.#unrounded(e));
    const text = this.value(e);
    if (!isHalf(dtype) && dtype !== bool) return text;
    const name = `store_${memoryVectorName(dtype, lanes)}`;
    this.#prelude.memoryVector(dtype, lanes);
    this.#prelude.laneWise(name, memoryVectorName(dtype, lanes), [vectorName(dtype, lanes)], lanes, ([a]) =>
      toMemory(this.#prelude, dtype, a!),
    );
    return call(name, text);
  }

  /** The element, or the `lanes` elements from there on, as something to read or assign. */
  place(memory: MemoryNode, indices: readonly Expr[], lanes: Lanes): Text {
    const { dtype } = memory.type;
    if (lanes === 1 || isVectorArray(memory)) return this.#element(memory, indices);
    if (isTile(memory)) return this.#inTile(memory, indices, this.#prelude.memoryVector(dtype, lanes));
    const type = this.#prelude.memoryVector(dtype, lanes);
    const readOnly = memory.op === 'buffer' && !this.#analysis.written.has(memory.arg);
    const pointer = call(
      `reinterpret_cast<${readOnly ? 'const ' : ''}${type}*>`,
      this.address(memory, indices),
    );
    return { text: `*${pointer.text}`, precedence: PRECEDENCE.unary };
  }

  /**
   * Whether several lanes at once are one access: in global memory they have to be aligned, elsewhere this must be
   * seen from the index.
   */
  isWide(memory: MemoryNode, indices: readonly Expr[], lanes: Lanes): boolean {
    if (memory.op === 'buffer' || isVectorArray(memory)) return true;
    const { dims } = memory.arg;
    const rows = dims.length === 1 || dims.at(-1)! % lanes === 0;
    return rows && this.#analysis.isMultiple(indices.at(-1)!, lanes);
  }

  /** `x + i`, or `&tile[r][c]`. */
  address(memory: MemoryNode, indices: readonly Expr[]): Text {
    const name = this.#memoryName(memory);
    return memory.op === 'buffer'
      ? infix(postfix(name), '+', this.value(indices[0]!), PRECEDENCE.sum)
      : prefix('&', this.#element(memory, indices));
  }

  #memoryName(memory: MemoryNode): string {
    return this.#names.of(memory.arg, memory.arg.name);
  }

  /** What an operation of the copy engine or of a warpgroup works on. */
  placeText(kind: PlaceKind, memory: MemoryNode, indices: readonly Expr[]): PlaceText {
    const name = this.#memoryName(memory);
    const text = kind === 'sums' || isHeld(kind, memory) ? this.#element(memory, indices).text : name;
    return { memory, indices: indices.map((i) => this.value(i)), name, text };
  }

  /** What is there in a tile, whose rows lie swizzled: pieces of 16 bytes change places, by the number of the row. */
  #inTile(memory: MemoryNode, indices: readonly Expr[], type: string): Text {
    const { dims, dtype } = memory.type;
    const row = dims.at(-1)! * dtype.bytes;
    const name = `swizzled_${row}`;
    // A piece changes places by the number of its line of 128 bytes.
    const rowsShift = row === 128 ? '' : ` >> ${Math.log2(128 / row)}`;
    this.#prelude.define(
      name,
      () =>
        `__device__ inline unsigned char* ${name}(unsigned char* tile, int row, int byte) { return tile + row * ${row} + (byte ^ (row${rowsShift} & ${row / 16 - 1}) << 4); }`,
    );
    const values = indices.map((i) => this.value(i).text);
    const last = values.pop()!;
    const rows = values.reduce(
      (sum, index, i) => (i === 0 ? index : `(${sum}) * ${dims[i]} + ${index}`),
      '0',
    );
    const byte = dtype.bytes === 1 ? last : `(${last}) * ${dtype.bytes}`;
    const at = call(name, postfix(this.#memoryName(memory)), postfix(rows), postfix(byte));
    return { text: `*${call(`reinterpret_cast<${type}*>`, at).text}`, precedence: PRECEDENCE.unary };
  }

  #element(memory: MemoryNode, indices: readonly Expr[]): Text {
    if (isTile(memory)) return this.#inTile(memory, indices, MEMORY_TYPE[memory.type.dtype.name]);
    return postfix(`${this.#memoryName(memory)}${indices.map((i) => `[${this.value(i).text}]`).join('')}`);
  }

  /** As `value`, but what a store is to round need not be rounded yet. */
  beforeStore(e: Expr): Text {
    const [from] = e.src as readonly Expr[];
    const { dtype, lanes } = e.type;
    const isRounding = e.op === 'cast' && isHalf(dtype) && from!.type.dtype === f32;
    // Pairs of f16 are rounded where they are made: #roundPair says why.
    return isRounding && !(dtype === f16 && lanes === 2) ? this.value(from!) : this.value(e);
  }

  /** As `value`, but a computed f16 or bf16 is still the f32 before its rounding. */
  #unrounded(e: Expr): Text {
    const prelude = this.#prelude;
    const { dtype, lanes } = e.type;
    switch (e.op) {
      case 'const':
        return literal(dtype, e.arg);
      case 'param':
        return fromMemory(prelude, dtype, postfix(this.#names.of(e.arg, e.arg.name)));
      case 'variable':
        return postfix(this.#names.of(e.arg, e.arg.name));
      case 'special':
        return this.#special(e.arg);
      case 'alu':
        return this.#alu(e);
      case 'cast': {
        const [from] = e.src as readonly [Expr];
        const nearest = nearestOf(e);
        if (nearest) return nearestByte(prelude, e.type, nearest, (s) => this.value(s));
        if (dtype === f16 && from.type.dtype === f32 && e.type.lanes === 2) return this.#roundPair(from);
        if (dtype === f32 && isByte(from.type.dtype) && e.type.lanes > 1)
          return widenedBytes(prelude, from.type, this.value(from));
        return this.#lanes(`cast_${dtype.name}`, e, ([a]) => conversion(prelude, from.type.dtype, dtype, a!));
      }
      case 'bitcast': {
        const [from] = e.src as readonly [Expr];
        if (isPair(dtype, from.type)) return this.#pair(from);
        return this.#lanes(`bits_${dtype.name}`, e, ([a]) =>
          reinterpretation(prelude, from.type.dtype, dtype, a!),
        );
      }
      case 'select': {
        const [condition, then, otherwise] = e.src as readonly [Expr, Expr, Expr];
        if (condition.type.lanes > 1) return this.#lanes('select', e, ([a, b, c]) => selection(a!, b!, c!));
        return selection(this.value(condition), this.value(then), this.value(otherwise));
      }
      case 'vector':
        return postfix(
          `${prelude.vector(dtype, lanes)}{${e.src.map((s) => this.value(s as Expr).text).join(', ')}}`,
        );
      case 'splat':
        return this.#splat(e);
      case 'lane':
        return postfix(`${within(this.value(e.src[0] as Expr), PRECEDENCE.postfix)}.${LANES[e.arg]!}`);
      case 'load':
        return this.#load(e);
      case 'intrinsic':
        return this.#intrinsic(e);
    }
  }

  #special(name: Special): Text {
    if (isOwn(name)) {
      const part = OWN[name];
      this.#prelude.need(part);
      return call(part);
    }
    this.#prelude.need('index_below');
    const text = name === 'blockIdx.x' ? this.#block : name;
    return call('index_below', postfix(text), postfix(SPECIAL_ENDS[name]));
  }

  #alu(e: Expr & { op: 'alu' }): Text {
    const operand = (e.src[0] as Expr).type.dtype;
    if (this.#isShared(e)) return this.#shared(e);
    const operator = OPERATORS[e.arg];
    const name =
      operator && operand.kind === 'float' && !isHalf(operand)
        ? `operator${operator}`
        : `${e.arg}_${operand.name}`;
    const plain = this.#analysis.indexArithmetic.has(e);
    return this.#lanes(name, e, (args) => scalarOp(this.#prelude, e.arg, operand, args, plain));
  }

  /**
   * `body` on the operands of `e`; on vectors, a function of the prelude that applies it lane by lane (`name` and the
   * lanes make its name).
   */
  #lanes(name: string, e: Expr, body: (args: readonly Text[]) => Text): Text {
    const operands = e.src as readonly Expr[];
    const args = operands.map((s) => this.value(s));
    const { dtype, lanes } = e.type;
    if (lanes === 1) return body(args);
    const prelude = this.#prelude;
    prelude.vector(dtype, lanes);
    const types = operands.map((s) => prelude.vector(s.type.dtype, lanes));
    const isOperator = name.startsWith('operator');
    const own = isOperator ? name : `${name}x${lanes}`;
    prelude.laneWise(own, vectorName(dtype, lanes), types, lanes, (a) =>
      isComputed(e) ? rounded(prelude, dtype, body(a)) : body(a),
    );
    if (!isOperator) return call(own, ...args);
    const operator = name.slice('operator'.length);
    const level = operator === '+' || operator === '-' ? PRECEDENCE.sum : PRECEDENCE.product;
    return infix(args[0]!, operator, args[1]!, level);
  }

  /** Whether it is a quotient of lanes whose divisor divides others, too. */
  #isShared({ arg, type, src }: Expr): boolean {
    if (arg !== 'div' || type.dtype !== f32 || type.lanes === 1) return false;
    const by = src[1] as Expr;
    return by.op === 'splat' || (by.op === 'variable' && this.#analysis.divisors.has(by.arg));
  }

  /**
   * Quotients rounded as divisions round them. The compiler computes 1 / b, its remainder and what is asked of b once where b
   * is the same for many. r + s is 1 / b to 46 bits, so q is a / b or one of its neighbours, and the last step rounds it
   * rightly (P. Markstein, IBM J. Res. Dev. 34, 1990, theorem of corrected quotients): as long as nothing leaves the normal
   * numbers, which the bounds see to.
   */
  #shared({ src, type: { lanes } }: Expr): Text {
    const prelude = this.#prelude;
    const type = prelude.vector(f32, lanes);
    const name = `shared_div_x${lanes}`;
    const vector = (of: (lane: string) => string): string => `{${LANES.slice(0, lanes).map(of).join(', ')}}`;
    const extreme = (of: 'fminf' | 'fmaxf', what: string): string =>
      LANES.slice(0, lanes)
        .map((i) => `fabsf(${what}.${i})`)
        .reduce((x, y) => `${of}(${x}, ${y})`);
    prelude.define(
      name,
      () => `__device__ inline ${type} ${name}(${type} a, ${type} b) {
  const ${type} r = ${vector((i) => `1 / b.${i}`)};
  const ${type} s = ${vector((i) => `fmaf(-b.${i}, r.${i}, 1.0f) * r.${i}`)};
  if (${extreme('fminf', 'b')} >= 0x1p-40f && ${extreme('fmaxf', 'b')} <= 0x1p40f && ${extreme('fminf', 'a')} >= 0x1p-80f && ${extreme('fmaxf', 'a')} <= 0x1p80f) {
    const ${type} q = ${vector((i) => `fmaf(a.${i}, r.${i}, a.${i} * s.${i})`)};
    return ${vector((i) => `fmaf(fmaf(-b.${i}, q.${i}, a.${i}), r.${i}, q.${i})`)};
  }
  return ${vector((i) => `a.${i} / b.${i}`)};
}`,
    );
    return call(name, ...src.map((v) => this.value(v as Expr)));
  }

  /**
   * Two numbers of f32 rounded to f16, by the one instruction that does both. ptxas (13.0) makes it of two conversions itself, and
   * then moves it over the wait for the products of warpgroups that give them.
   */
  #roundPair(from: Expr): Text {
    const prelude = this.#prelude;
    const type = prelude.vector(f32, 2);
    prelude.need('f16_to_float');
    prelude.define(
      'cast_f16x2',
      () =>
        `__device__ inline ${type} cast_f16x2(${type} a) { unsigned both; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(a.y), "f"(a.x)); return {f16_to_float((f16)both), f16_to_float((f16)(both >> 16))}; }`,
    );
    return call('cast_f16x2', this.value(from));
  }

  /** Two 16-bit floats as one word; what is converted to them, by the one instruction that does both. */
  #pair(both: Expr): Text {
    const prelude = this.#prelude;
    const { dtype } = both.type;
    const inner = both.src[0] as Expr | undefined;
    const from = both.op === 'cast' && inner?.type.dtype === f32 ? inner : both;
    const name = `pair_${dtype.name}`;
    const type = prelude.vector(from.type.dtype, 2);
    prelude.define(
      `${name}(${type})`,
      () =>
        `__device__ inline unsigned ${name}(${type} v) { unsigned both; asm("cvt.rn.${dtype.name}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v.y), "f"(v.x)); return both; }`,
    );
    return call(name, this.value(from));
  }

  #splat(e: Expr): Text {
    const { dtype, lanes } = e.type;
    const type = this.#prelude.vector(dtype, lanes);
    const element = REGISTER_TYPE[dtype.name];
    const name = `splat_${type}`;
    this.#prelude.define(
      name,
      () =>
        `__device__ inline ${type} ${name}(${element} a) { return {${Array(lanes).fill('a').join(', ')}}; }`,
    );
    return call(name, this.value(e.src[0] as Expr));
  }

  #load(e: Expr): Text {
    const { memory, indices } = accessOf(e)!;
    const { dtype, lanes } = e.type;
    const prelude = this.#prelude;
    if (lanes === 1) return fromMemory(prelude, dtype, this.place(memory, indices, 1));
    const type = prelude.vector(dtype, lanes);
    if (isVectorArray(memory)) return this.place(memory, indices, lanes);
    if (!this.isWide(memory, indices, lanes)) {
      const name = `load_${type}`;
      const own = isHalf(dtype) || dtype === bool ? `load_each_${memoryVectorName(dtype, lanes)}` : name;
      const each = LANES.slice(0, lanes).map((_, i) => fromMemory(prelude, dtype, postfix(`p[${i}]`)).text);
      prelude.define(
        own,
        () =>
          `__device__ inline ${type} ${own}(const ${MEMORY_TYPE[dtype.name]}* p) { return {${each.join(', ')}}; }`,
      );
      return call(own, this.address(memory, indices));
    }
    const place = this.place(memory, indices, lanes);
    if (isByte(dtype)) return loadedBytes(prelude, e.type, place);
    if (!isHalf(dtype) && dtype !== bool) return place;
    const name = `load_${memoryVectorName(dtype, lanes)}`;
    prelude.laneWise(name, vectorName(dtype, lanes), [memoryVectorName(dtype, lanes)], lanes, ([a]) =>
      fromMemory(prelude, dtype, a!),
    );
    return call(name, place);
  }

  #intrinsic(e: Expr & { op: 'intrinsic' }): Text {
    const record: IntrinsicRecord = INTRINSICS[e.arg];
    const args = e.src.slice(e.src.length - record.params.length) as readonly Expr[];
    const texts = args.map((a) => this.value(a));
    const at = accessOf(e);
    const t: DType = at ? at.memory.type.dtype : (args[0]?.type.dtype ?? u8);
    const place = at && prefix('&', this.#element(at.memory, at.indices));
    return intrinsicCall(this.#prelude, e.arg as Exclude<Intrinsic, Asynchronous>, t, texts, place);
  }
}

const isTile = (memory: MemoryNode): boolean => memory.op === 'array' && memory.arg.form === 'tile';

/** An array whose elements are vectors. */
export const isVectorArray = (memory: MemoryNode): boolean => memory.op === 'array' && memory.arg.lanes > 1;

/** Whether a 16-bit float has to be rounded after `e`: what is loaded, selected or moved is rounded already. */
const isComputed = (e: Expr): boolean => e.op === 'cast' || (e.op === 'alu' && needsRounding(e.arg));
