/** Pieces of C++: expressions with their precedence, literals, type names and identifiers. */
import { bool, type DType, type DTypeName, isHalf } from '../../core/dtype.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import type { Lanes, ValueType } from '../../kernel/ir/types.js';

/** C++ operator precedence, as far as it is used; a higher one binds tighter. */
export const PRECEDENCE = {
  ternary: 1,
  logicalOr: 2,
  logicalAnd: 3,
  bitOr: 4,
  bitXor: 5,
  bitAnd: 6,
  equality: 7,
  relation: 8,
  shift: 9,
  sum: 10,
  product: 11,
  unary: 12,
  postfix: 13,
} as const;

export type Precedence = (typeof PRECEDENCE)[keyof typeof PRECEDENCE];

/** An expression in C++. */
export interface Text {
  readonly text: string;
  readonly precedence: Precedence;
  /** Its value, where it is a literal. */
  readonly literal?: Scalar;
}

export const postfix = (text: string): Text => ({ text, precedence: PRECEDENCE.postfix });

/** `a` in parentheses if it binds less tightly than `least`. */
export const within = (a: Text, least: Precedence): string => (a.precedence < least ? `(${a.text})` : a.text);

/** A left-associative operator: an operand of the same precedence needs parentheses on the right only. */
export const infix = (a: Text, operator: string, b: Text, precedence: Precedence): Text => ({
  text: `${within(a, precedence)} ${operator} ${within(b, (precedence + 1) as Precedence)}`,
  precedence,
});

export const prefix = (operator: string, a: Text): Text => ({
  text:
    a.precedence < PRECEDENCE.unary || a.text.startsWith(operator)
      ? `${operator}(${a.text})`
      : `${operator}${a.text}`,
  precedence: PRECEDENCE.unary,
});

export const call = (name: string, ...args: readonly Text[]): Text =>
  postfix(`${name}(${args.map((a) => a.text).join(', ')})`);

/** `type(a)`, or `(type)a` where the type's name is more than one word. */
export const convertTo = (type: string, a: Text): Text =>
  type.includes(' ')
    ? { text: `(${type})${within(a, PRECEDENCE.unary)}`, precedence: PRECEDENCE.unary }
    : call(type, a);

export const ternary = (condition: Text, then: Text, otherwise: Text): Text => ({
  text: `${within(condition, PRECEDENCE.logicalOr)} ? ${within(then, PRECEDENCE.ternary)} : ${within(otherwise, PRECEDENCE.ternary)}`,
  precedence: PRECEDENCE.ternary,
});

/** What a value is held in. The 16-bit floats are computed with in f32 and rounded after every operation. */
export const REGISTER_TYPE = {
  f16: 'float',
  bf16: 'float',
  f32: 'float',
  f64: 'double',
  i8: 'signed char',
  u8: 'unsigned char',
  i32: 'int',
  u32: 'unsigned',
  i64: 'long long',
  bool: 'bool',
} as const satisfies Record<DTypeName, string>;

/** What an element of memory is. */
export const MEMORY_TYPE = {
  ...REGISTER_TYPE,
  f16: 'f16',
  bf16: 'bf16',
  bool: 'unsigned char',
} as const satisfies Record<DTypeName, string>;

/** The names of a vector's lanes. */
export const LANES = ['x', 'y', 'z', 'w'] as const;

/** A vector's type in registers, such as f32x4; the prelude declares it. */
export const vectorName = (t: DType, lanes: Lanes): string => `${isHalf(t) ? 'f32' : t.name}x${lanes}`;
/** A vector's type in memory: its elements are those of memory. */
export const memoryVectorName = (t: DType, lanes: Lanes): string => `${t === bool ? 'u8' : t.name}x${lanes}`;

export const registerType = (t: ValueType): string =>
  t.lanes === 1 ? REGISTER_TYPE[t.dtype.name] : vectorName(t.dtype, t.lanes);

/** The shortest decimal that reads back as the same f32. */
function shortest(v: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const text = v.toPrecision(digits);
    if (Math.fround(Number(text)) === v) return String(Number(text));
  }
  return String(v);
}

const withPoint = (decimal: string): string => (/[.e]/.test(decimal) ? decimal : `${decimal}.0`);

const written = (text: string, v: Scalar): Text => ({
  text,
  precedence: text.startsWith('-') ? PRECEDENCE.unary : PRECEDENCE.postfix,
  literal: v,
});

function floatLiteral(t: DType, v: number): string {
  const double = t.name === 'f64';
  if (Number.isFinite(v)) {
    const digits = double ? String(v) : shortest(v);
    return `${Object.is(v, -0) ? '-0.0' : withPoint(digits)}${double ? '' : 'f'}`;
  }
  const high = Number.isNaN(v) ? '7ff8' : v > 0 ? '7ff0' : 'fff0';
  if (double) return `__longlong_as_double(0x${high}000000000000ll)`;
  return `__uint_as_float(0x${Number.isNaN(v) ? '7fc0' : v > 0 ? '7f80' : 'ff80'}0000u)`;
}

export function literal(t: DType, v: Scalar): Text {
  switch (t.name) {
    case 'bool':
      return written(v ? 'true' : 'false', v);
    case 'i32':
      return v === -(2 ** 31)
        ? { text: '(-2147483647 - 1)', precedence: PRECEDENCE.postfix, literal: v }
        : written(String(v), v);
    case 'i64':
      return v === -(2n ** 63n)
        ? { text: '(-9223372036854775807ll - 1)', precedence: PRECEDENCE.postfix, literal: v }
        : written(`${v}ll`, v);
    case 'u32':
      return written(`${v}u`, v);
    case 'i8':
    case 'u8':
      return written(String(v), v);
    default:
      return written(floatLiteral(t, v as number), v);
  }
}

/** A C string literal. */
export function quote(text: string): string {
  const escaped = text.replace(/[\\"?\n\r\t]/g, (c) => ESCAPES[c] ?? c);
  return `"${escaped.replace(/[^\x20-\x7e]/gu, (c) => [...new TextEncoder().encode(c)].map((b) => `\\${b.toString(8).padStart(3, '0')}`).join(''))}"`;
}
const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '"': '\\"',
  '?': '\\?',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};
