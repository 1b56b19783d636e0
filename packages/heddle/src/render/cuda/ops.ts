/** The scalar operations and conversions in C++. Each line means exactly what kernel/ir/ops.ts says. */
import { type DType, isByte, isHalf, u8 } from '../../core/dtype.js';
import { MATH_FUNCTIONS, type MathFunction, type ScalarOp } from '../../kernel/ir/ops.js';
import type { PartName, Prelude } from './prelude.js';
import {
  call,
  convertTo,
  infix,
  literal,
  PRECEDENCE,
  type Precedence,
  prefix,
  REGISTER_TYPE,
  type Text,
  ternary,
} from './text.js';

/** One use of an op on scalars of dtype `t`. */
interface OpUse {
  readonly t: DType;
  readonly a: Text;
  readonly b: Text;
  readonly c: Text;
  readonly prelude: Prelude;
  /** Signed arithmetic may be left to C++'s operators: it cannot overflow in a correct program. */
  readonly plain: boolean;
}

type OpText = (use: OpUse) => Text;

/** Signed, and as wide as C++ computes it: it may overflow. */
const isSigned = (t: DType): boolean => t.kind === 'int' && !isByte(t);

/** C++ computes bytes as int: cut the result. */
const cut = (t: DType, text: Text): Text => (isByte(t) ? convertTo(REGISTER_TYPE[t.name], text) : text);

/** A function of our prelude, written for the register type of `t`. */
const ours =
  (part: PartName, name: string = part): OpText =>
  ({ t, a, b, prelude }) => {
    prelude.need(part, REGISTER_TYPE[t.name]);
    return b.text === '' ? call(name, a) : call(name, a, b);
  };

const arithmetic =
  (operator: string, precedence: Precedence, wrapping: OpText): OpText =>
  (use) =>
    isSigned(use.t) && !use.plain ? wrapping(use) : cut(use.t, infix(use.a, operator, use.b, precedence));

const compare =
  (operator: string, precedence: Precedence): OpText =>
  ({ a, b }) =>
    infix(a, operator, b, precedence);

const bitwise =
  (operator: string, precedence: Precedence): OpText =>
  ({ t, a, b }) => {
    const both = infix(a, operator, b, precedence);
    return t.name === 'bool' ? convertTo('bool', both) : cut(t, both);
  };

/** A function of CUDA's mathematical library. */
const math =
  (name: string): OpText =>
  ({ t, a, b }) =>
    call(t.name === 'f64' ? name : `${name}f`, ...(b.text === '' ? [a] : [a, b]));

/** CUDA's library has C's functions, by their names. */
const FUNCTIONS = Object.fromEntries(MATH_FUNCTIONS.map((name) => [name, math(name)])) as Record<
  MathFunction,
  OpText
>;

const extreme =
  (side: 'min' | 'max'): OpText =>
  ({ t, a, b, prelude }) => {
    if (t.kind !== 'float') return cut(t, call(side, a, b));
    prelude.need(t.name === 'f64' ? `nan_${side}_f64` : `nan_${side}`);
    return call(`nan_${side}`, a, b);
  };

/** By a literal that is neither 0 nor −1, C++'s operator does; else by zero is 0. */
const division =
  (operator: '/' | '%', name: 'idiv' | 'mod'): OpText =>
  ({ t, a, b, prelude }) => {
    if (b.literal !== undefined && Number(b.literal) > 0)
      return cut(t, infix(a, operator, b, PRECEDENCE.product));
    if (isByte(t)) {
      prelude.need(name, 'int');
      return cut(t, call(name, a, b));
    }
    const part = t.kind === 'uint' ? (name === 'idiv' ? 'udiv' : 'umod') : name;
    prelude.need(part, REGISTER_TYPE[t.name]);
    return call(name, a, b);
  };

/** A shift count, modulo the width. */
const count = (t: DType, b: Text): Text => {
  const mask = t.name === 'i64' ? 63 : 31;
  if (b.literal !== undefined)
    return literal(t, t.name === 'i64' ? BigInt(b.literal) & 63n : Number(b.literal) & 31);
  return infix(b, '&', literal(t, t.name === 'i64' ? BigInt(mask) : mask), PRECEDENCE.bitAnd);
};

const SCALAR = {
  ...FUNCTIONS,
  exp2Normal: ours('exp2_normal'),
  normcdf: (use) => (use.t.name === 'f64' ? math('normcdf') : ours('normal_cdf'))(use),
  exp16: ours('exp16'),
  normpdf16: ours('normpdf16'),
  normcdf16: ours('normcdf16'),
  add: arithmetic('+', PRECEDENCE.sum, ours('wrap_add')),
  sub: arithmetic('-', PRECEDENCE.sum, ours('wrap_sub')),
  mul: arithmetic('*', PRECEDENCE.product, ours('wrap_mul')),
  div: ({ a, b }) => infix(a, '/', b, PRECEDENCE.product),
  idiv: division('/', 'idiv'),
  mod: (use) =>
    use.t.kind === 'float'
      ? call(use.t.name === 'f64' ? 'fmod' : 'fmodf', use.a, use.b)
      : division('%', 'mod')(use),
  neg: (use) => (isSigned(use.t) && !use.plain ? ours('wrap_neg')(use) : cut(use.t, prefix('-', use.a))),
  abs: (use) => {
    if (use.t.kind === 'float') return math('fabs')(use);
    if (isSigned(use.t)) return ours('wrap_abs')(use);
    return use.t.name === 'i8' ? cut(use.t, call('abs', use.a)) : use.a;
  },
  min: extreme('min'),
  max: extreme('max'),
  fma: ({ t, a, b, c }) => call(t.name === 'f64' ? 'fma' : 'fmaf', a, b, c),
  sqrt: math('sqrt'),
  floor: math('floor'),
  ceil: math('ceil'),
  trunc: math('trunc'),
  rint: math('rint'),
  tf32: ({ a, prelude }) => {
    prelude.need('round_tf32');
    return call('round_tf32', a);
  },
  lt: compare('<', PRECEDENCE.relation),
  le: compare('<=', PRECEDENCE.relation),
  gt: compare('>', PRECEDENCE.relation),
  ge: compare('>=', PRECEDENCE.relation),
  eq: compare('==', PRECEDENCE.equality),
  ne: compare('!=', PRECEDENCE.equality),
  and: bitwise('&', PRECEDENCE.bitAnd),
  or: bitwise('|', PRECEDENCE.bitOr),
  xor: bitwise('^', PRECEDENCE.bitXor),
  not: ({ t, a }) => (t.name === 'bool' ? prefix('!', a) : cut(t, prefix('~', a))),
  shl: (use) => {
    const { t, a, b } = use;
    if (isSigned(t) && !use.plain) return ours('shl')(use);
    const left = isByte(t) ? convertTo('unsigned', a) : a;
    return cut(t, infix(left, '<<', count(t, b), PRECEDENCE.shift));
  },
  shr: ({ t, a, b }) => cut(t, infix(a, '>>', count(t, b), PRECEDENCE.shift)),
  mulhi: ({ t, a, b }) => {
    if (t.name === 'u8') return literal(t, 0);
    return cut(t, call(t.name === 'i64' ? '__mul64hi' : t.name === 'u32' ? '__umulhi' : '__mulhi', a, b));
  },
  dp4a: ({ a, b, c }) => call('__dp4a', a, b, c),
  dp4aPositive: ({ a, b, c }) => call('__dp4a', a, b, c),
} as const satisfies Record<ScalarOp, OpText>;

const NOTHING: Text = { text: '', precedence: PRECEDENCE.postfix };

/** `op` on scalars of `t`; a result of f16 or bf16 is not rounded to it yet (`rounded` does that). */
export function scalarOp(
  prelude: Prelude,
  op: ScalarOp,
  t: DType,
  [a = NOTHING, b = NOTHING, c = NOTHING]: readonly Text[],
  plain = false,
): Text {
  const rule: OpText = SCALAR[op];
  return rule({ t, a, b, c, prelude, plain });
}

/** An f32 text rounded to `t` where that is a 16-bit float. */
export function rounded(prelude: Prelude, t: DType, text: Text): Text {
  if (t.name !== 'f16' && t.name !== 'bf16') return text;
  prelude.need(`round_${t.name}`);
  return call(`round_${t.name}`, text);
}

/** What f32 does not hold, on its way to 16 bits. */
const ODD: Partial<Record<DType['name'], PartName>> = {
  f64: 'odd_f64',
  i32: 'odd_i32',
  u32: 'odd_u32',
  i64: 'odd_i64',
};

/** A value of `from` as `to`; for f16 and bf16 not rounded yet. `convert` in kernel/ir/ops.ts is the meaning. */
export function conversion(prelude: Prelude, from: DType, to: DType, a: Text): Text {
  const type = REGISTER_TYPE[to.name];
  if (to.name === 'bool')
    return infix(a, '!=', literal(from, from.name === 'i64' ? 0n : 0), PRECEDENCE.equality);
  if (to.kind === 'float') {
    if (type === REGISTER_TYPE[from.name]) return a;
    const part = ODD[from.name];
    if (!part || !isHalf(to)) return convertTo(type, a);
    prelude.need(part);
    return call(part, a);
  }
  if (from.kind === 'float') {
    const part = `saturate_${to.name as 'i32' | 'u32' | 'i8' | 'u8' | 'i64'}` as const;
    prelude.need(part, REGISTER_TYPE[from.name]);
    return call(part, a);
  }
  return convertTo(type, a);
}

/** The bits of a value in memory, as the value in a register. */
export function fromMemory(prelude: Prelude, t: DType, element: Text): Text {
  if (t.name === 'bool') return infix(element, '!=', literal(u8, 0), PRECEDENCE.equality);
  if (t.name !== 'f16' && t.name !== 'bf16') return element;
  prelude.need(`${t.name}_to_float`);
  return call(`${t.name}_to_float`, element);
}

/** The value in a register as it is in memory. Rounds f16 and bf16. */
export function toMemory(prelude: Prelude, t: DType, a: Text): Text {
  if (t.name !== 'f16' && t.name !== 'bf16') return a;
  prelude.need(`float_to_${t.name}`);
  return call(`float_to_${t.name}`, a);
}

/** The same bits as a value of another dtype of the same size. */
export function reinterpretation(prelude: Prelude, from: DType, to: DType, a: Text): Text {
  const intoFloat: Partial<Record<DType['name'], string>> = { i32: '__int_as_float', u32: '__uint_as_float' };
  const fromFloat: Partial<Record<DType['name'], string>> = { i32: '__float_as_int', u32: '__float_as_uint' };
  if (from === to) return a;
  if (isHalf(from) || isHalf(to)) return fromMemory(prelude, to, toMemory(prelude, from, a));
  if (to.name === 'f32') return call(intoFloat[from.name]!, a);
  if (from.name === 'f32') return call(fromFloat[to.name]!, a);
  if (to.name === 'f64') return call('__longlong_as_double', a);
  if (from.name === 'f64') return call('__double_as_longlong', a);
  if (to.name === 'bool') return infix(a, '!=', literal(from, 0), PRECEDENCE.equality);
  return convertTo(REGISTER_TYPE[to.name], a);
}

/** Whether a select of these is C++'s && or ||. */
export function selection(condition: Text, then: Text, otherwise: Text): Text {
  if (otherwise.literal === false) return infix(condition, '&&', then, PRECEDENCE.logicalAnd);
  if (then.literal === true) return infix(condition, '||', otherwise, PRECEDENCE.logicalOr);
  return ternary(condition, then, otherwise);
}
