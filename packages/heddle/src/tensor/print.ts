/**
 * What `console.log` shows of a tensor: its shape, dtype and device, and its values as NumPy's repr has them, where they
 * can be read without computing or waiting.
 */
import { type DType, type DTypeName, isFloat } from '../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../core/float16.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { decode, glance } from '../engine/realize.js';
import type { Handle } from '../engine/trace.js';

/** Node's console, and what imitates it, calls the method of this name. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** What the console passes on. */
export interface InspectOptions {
  readonly depth?: number | null | undefined;
}

/** Characters per line, elements from which values are left out, and those kept at each end of an axis then. */
const WIDTH = 75;
const MOST = 1000;
const ENDS = 3;
/** Characters of values within another object, where they share its line. */
const INSIDE = 60;

/** Whether the console is inside another object, which is `depth` of its own levels away from the last it shows. */
export const isInside = (depth: number | null, { depth: most }: InspectOptions): boolean =>
  typeof most === 'number' && typeof depth === 'number' && depth < most;

/** @param inside within another object: on one line, without values that are too long for it */
export function describeTensor(tensor: Handle, inside: boolean): string {
  const { shape, dtype, requiresGrad } = tensor.ownNode;
  const { where, bytes } = glance(tensor);
  const head = `Tensor(${[formatShape(shape), dtype.name, where, ...(requiresGrad ? ['requiresGrad'] : [])].join(', ')})`;
  if (!bytes) return head;
  const { bytes: wide } = dtype;
  const at = (i: number): number | bigint => decode(bytes.subarray(i * wide, (i + 1) * wide), dtype)[0]!;
  const values = printed(at, shape, dtype);
  if (!inside) return `${head}${values.includes('\n') ? '\n' : ' '}${values}`;
  const line = values.replace(/\s*\n\s*/g, ' ');
  return line.length > INSIDE ? head : `${head} ${line}`;
}

/** Values in nested brackets, in aligned columns; of more than 1000, the first and last 3 of each axis. */
export function printed(at: (i: number) => number | bigint, shape: Shape, dtype: DType): string {
  const isShort = sizeOf(shape) > MOST;
  /** The positions along an axis that are shown; undefined stands for those left out. */
  const shown = (length: number): (number | undefined)[] => {
    const all = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
    if (!isShort || length <= 2 * ENDS) return all(length);
    return [...all(ENDS), undefined, ...all(ENDS).map((i) => length - ENDS + i)];
  };
  const strides = shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
  const visible = shape.reduce<number[]>(
    (starts, length, axis) =>
      starts.flatMap((s) => shown(length).flatMap((i) => (i === undefined ? [] : s + i * strides[axis]!))),
    [0],
  );
  if (sizeOf(shape) === 0) return '[]';
  const format = formatOf(visible.map(at), dtype);
  const nest = (axis: number, offset: number): string => {
    if (axis === shape.length) return format(at(offset));
    const indent = ' '.repeat(axis + 1);
    const items = shown(shape[axis]!).map((i) =>
      i === undefined ? '…' : nest(axis + 1, offset + i * strides[axis]!),
    );
    const left = shape.length - axis - 1;
    return left > 0
      ? `[${items.join(`,${'\n'.repeat(left)}${indent}`)}]`
      : `[${wrapped(items, indent, WIDTH - axis - 1)}]`;
  };
  return nest(0, 0);
}

/** Words with commas between them, in lines of at most `width`. */
function wrapped(words: readonly string[], indent: string, width: number): string {
  const lines: string[] = [];
  let line = '';
  words.forEach((word, i) => {
    if (line !== '' && indent.length + line.length + word.length > width) {
      lines.push(line.trimEnd());
      line = '';
    }
    line += i < words.length - 1 ? `${word}, ` : word;
  });
  return [...lines, line].join(`\n${indent}`);
}

type Format = (value: number | bigint) => string;

/** How one of these values is written, so that all are equally long. */
function formatOf(values: readonly (number | bigint)[], dtype: DType): Format {
  const plain: Format = dtype.name === 'bool' ? (v) => (v ? 'true' : 'false') : String;
  const text = isFloat(dtype) ? floatFormat(values as readonly number[], dtype) : plain;
  const width = Math.max(...values.map((v) => text(v).length));
  return (v) => text(v).padStart(width);
}

/** The next number of a dtype. */
const ROUND: Readonly<Partial<Record<DTypeName, (v: number) => number>>> = {
  f32: Math.fround,
  f16: (v) => fromF16(toF16(v)),
  bf16: (v) => fromBf16(toBf16(v)),
};

/** The number of fewest decimal digits that is rounded to `v`. */
function shortest(v: number, dtype: DType): number {
  const round = ROUND[dtype.name];
  if (!round) return v;
  for (let digits = 1; digits < 17; digits++) {
    const short = Number(v.toPrecision(digits));
    if (round(short) === v) return short;
  }
  return v;
}

/** The size from which on NumPy writes exponents: what a dtype's digits reach. */
const LARGE: Readonly<Partial<Record<DTypeName, number>>> = { f64: 1e8, f32: 1e6, f16: 1e3, bf16: 1e3 };

/** At most 8 digits after the point; exponents where sizes are extreme, or one is more than 1000 times another. */
function floatFormat(values: readonly number[], dtype: DType): Format {
  const finite = values.filter(Number.isFinite);
  const sizes = finite.filter((v) => v !== 0).map(Math.abs);
  const [least, largest] = [Math.min(...sizes), Math.max(...sizes)];
  const exponents = largest >= LARGE[dtype.name]! || least < 1e-4 || largest / least > 1000;
  /** The digits before the point, those after it, and the exponent. */
  const partsOf = (v: number): [string, string, string] => {
    const short = Math.abs(shortest(v, dtype));
    const [digits, exponent = ''] = (exponents ? short.toExponential(8) : short.toFixed(8)).split('e');
    const [whole, fraction] = digits!.split('.') as [string, string];
    const sign = v < 0 || Object.is(v, -0) ? '-' : '';
    return [sign + whole, fraction.replace(/0+$/, ''), exponent];
  };
  const parts = finite.map(partsOf);
  const after = Math.max(0, ...parts.map(([, fraction]) => fraction.length));
  const power = Math.max(2, ...parts.map(([, , exponent]) => exponent.length - 1));
  return (v) => {
    if (!Number.isFinite(v)) return Number.isNaN(v) ? 'nan' : v > 0 ? 'inf' : '-inf';
    const [whole, fraction, exponent] = partsOf(v as number);
    if (!exponents) return `${whole}.${fraction.padEnd(after)}`;
    return `${whole}.${fraction.padEnd(after, '0')}e${exponent[0]}${exponent.slice(1).padStart(power, '0')}`;
  };
}
