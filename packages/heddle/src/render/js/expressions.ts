/** Expressions of the kernel IR as JavaScript that rounds exactly as ops.ts says. */
import { type DType, isByte, isHalf } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import { some } from '../../core/node.js';
import type { IntrinsicRecord } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS } from '../../kernel/ir/intrinsics.js';
import { type Expr, isPair, type MemoryNode, type Node } from '../../kernel/ir/ir.js';
import { needsRounding, OPS, type OpRecord, type Scalar, type ScalarOp } from '../../kernel/ir/ops.js';
import type { Scribe } from './names.js';

const INFIX: Partial<Record<ScalarOp, string>> = {
  ...{ add: '+', sub: '-', mul: '*', div: '/', mod: '%' },
  ...{ lt: '<', le: '<=', gt: '>', ge: '>=', eq: '===', ne: '!==' },
  ...{ and: '&', or: '|', xor: '^', shl: '<<' },
};

/** `raw`, a JavaScript expression of lowest precedence, rounded to what `t` can hold (`wrap` in ops.ts). */
function round(t: DType, raw: string): string {
  switch (t.name) {
    case 'f32':
      return `fround(${raw})`;
    case 'f64':
      return `(${raw})`;
    case 'f16':
      return `fromF16(toF16(${raw}))`;
    case 'bf16':
      return `fromBf16(toBf16(${raw}))`;
    case 'i32':
      return `(${raw} | 0)`;
    case 'u32':
      return `(${raw} >>> 0)`;
    case 'i8':
      return `(${raw} << 24 >> 24)`;
    case 'u8':
      return `(${raw} & 255)`;
    case 'i64':
      return `BigInt.asIntN(64, ${raw})`;
    case 'bool':
      return `!!(${raw})`;
  }
}

/** One scalar op on operands that are JavaScript primaries. */
function scalarOp(name: ScalarOp, t: DType, operands: readonly string[]): string {
  const [a, b] = operands;
  const record: OpRecord = OPS[name];
  const infix = INFIX[name];
  if (record.result === 'bool') return `(${a} ${infix} ${b})`;
  if (t.name === 'bool' && name === 'not') return `!${a}`;
  const whole = t.name === 'i32' || t.name === 'u32';
  if (whole && name === 'mul') return t.name === 'i32' ? `imul(${a}, ${b})` : `(imul(${a}, ${b}) >>> 0)`;
  if (whole && name === 'shr') return t.name === 'i32' ? `(${a} >> ${b})` : `(${a} >>> ${b})`;
  if (t.name === 'i64' && !['add', 'sub', 'mul', 'neg'].includes(name)) {
    return `evaluate('${name}', i64, ${operands.join(', ')})`;
  }
  const raw = infix
    ? `${a} ${infix} ${b}`
    : name === 'neg'
      ? `-${a}`
      : `OPS.${name}.eval(${operands.join(', ')})`;
  if (whole && /^(and|or|xor|shl)$/.test(name) && t.name === 'i32') return `(${raw})`;
  if (whole && infix) return round(t, /[&|^]|<</.test(infix) ? `(${raw})` : raw);
  if (t.kind === 'float' && !needsRounding(name)) return `(${raw})`;
  return round(t, isHalf(t) ? `fround(${raw})` : isByte(t) ? `(${raw})` : raw);
}

/** A conversion of one value (`convert` in ops.ts), the frequent ones inline. */
function conversion(from: DType, to: DType, v: string): string {
  const number = from.name !== 'i64' && from.name !== 'bool';
  if (to.name === 'bool' && number) return `(${v} !== 0)`;
  if (to.kind === 'float') {
    if (number) return to.name === 'f64' ? v : round(to, v);
    if (from.name === 'bool') return `(${v} ? 1 : 0)`;
  }
  if (to.name !== 'i64' && to.kind !== 'bool') {
    if (from.name === 'bool') return `(${v} ? 1 : 0)`;
    if (number && from.kind !== 'float') return round(to, v);
    if (from.kind === 'float' && to.name === 'i32') return `toI32(${v})`;
  }
  return `convert(${from.name}, ${to.name}, ${v})`;
}

export function literal(t: DType, v: Scalar): string {
  if (typeof v === 'bigint') return v < 0n ? `(${v}n)` : `${v}n`;
  if (typeof v === 'boolean') return String(v);
  if (t.name === 'bool') return String(v !== 0);
  if (t.name === 'i64') return `${v}n`;
  return v < 0 || Object.is(v, -0) ? `(${Object.is(v, -0) ? '-0' : v})` : String(v);
}

/** What stands in one element, from its bits in memory. */
function decoded(t: DType, element: string): string {
  if (t.name === 'bool') return `(${element} !== 0)`;
  return t.name === 'f16' ? `fromF16(${element})` : t.name === 'bf16' ? `fromBf16(${element})` : element;
}

/** The bits to put into memory for a value. */
export function encoded(t: DType, v: string): string {
  if (t.name === 'bool') return `(${v} ? 1 : 0)`;
  return t.name === 'f16' ? `toF16(${v})` : t.name === 'bf16' ? `toBf16(${v})` : v;
}

const isValue = (n: Node): n is Expr => n.type.kind === 'value';

/** Whether evaluating `e` reads memory or involves other threads: it must come before a store's own check. */
export const observes = (e: Node): boolean => some([e], ({ op }) => op === 'load' || op === 'intrinsic');

/**
 * The JavaScript of an expression, as a primary: it can stand as an operand anywhere. Vectors are arrays. A warp
 * operation yields `[site, ...arguments]` and is given this lane's result.
 */
export function expression(to: Scribe, e: Expr): string {
  const x = (n: Node): string => {
    if (!isValue(n)) throw new InternalError(`kernel JavaScript: ${n.op} where a value must stand`);
    return expression(to, n);
  };
  const lanes = (scalar: (names: string[]) => string, src: readonly Node[]): string => {
    const names = ['a', 'b', 'c'].slice(0, src.length);
    return `lanes${src.length}((${names.join(', ')}) => ${scalar(names)}, ${src.map(x).join(', ')})`;
  };
  const operand = e.src[0];
  switch (e.op) {
    case 'const': {
      const text = literal(e.type.dtype, e.arg);
      return e.type.lanes === 1 ? text : `[${Array(e.type.lanes).fill(text).join(', ')}]`;
    }
    case 'param':
    case 'variable':
      return to.name(e.arg);
    case 'special':
      return e.arg.replace('.', '_');
    case 'alu': {
      const t = (operand as Expr).type;
      const write = (names: readonly string[]): string => scalarOp(e.arg, t.dtype, names);
      return t.lanes === 1 ? write(e.src.map(x)) : lanes(write, e.src);
    }
    case 'cast': {
      const from = (operand as Expr).type.dtype;
      const write = (v: string): string => conversion(from, e.type.dtype, v);
      return e.type.lanes === 1 ? write(x(operand!)) : lanes(([v]) => write(v!), e.src);
    }
    case 'bitcast': {
      const from = (operand as Expr).type.dtype;
      if (isPair(e.type.dtype, (operand as Expr).type)) return `pairBits(${from.name}, ${x(operand!)})`;
      const write = (v: string): string => `bitcast(${from.name}, ${e.type.dtype.name}, ${v})`;
      return e.type.lanes === 1 ? write(x(operand!)) : lanes(([v]) => write(v!), e.src);
    }
    case 'select':
      return (operand as Expr).type.lanes === 1
        ? `(${x(e.src[0]!)} ? ${x(e.src[1]!)} : ${x(e.src[2]!)})`
        : lanes(([c, a, b]) => `${c} ? ${a} : ${b}`, e.src);
    case 'vector':
      return `[${e.src.map(x).join(', ')}]`;
    case 'splat':
      return `Array(${e.type.lanes}).fill(${x(operand!)})`;
    case 'lane':
      return `${x(operand!)}[${e.arg}]`;
    case 'load': {
      const place = access(
        to,
        'read',
        operand as MemoryNode,
        e.src.slice(1) as Expr[],
        e.type,
        to.site(e.at),
      );
      return gathered(to, e, place);
    }
    case 'intrinsic': {
      const record: IntrinsicRecord = INTRINSICS[e.arg];
      if (record.rows) {
        const memory = operand as MemoryNode;
        const site = to.site(e.at, { intrinsic: e.arg, dtype: memory.type.dtype, path: to.path() });
        const row = access(
          to,
          'read',
          memory,
          e.src.slice(1) as Expr[],
          { lanes: 16 / memory.type.dtype.bytes },
          site,
        );
        return `(yield [${site}, rowBits(${to.name(memory.arg)}, ${row})])`;
      }
      if (record.remote) {
        const memory = operand as MemoryNode;
        const site = to.site(e.at);
        const element = elementAt(to, memory, e.src.slice(1, -1) as Expr[], site);
        const rank = x(e.src.at(-1)!);
        return `gather(${e.type.dtype.name}, ${to.name(memory.arg)}$.remote(${element}, ${rank}, ${site}), ${element}, 1)[0]`;
      }
      if (!record.atomic) {
        const dtype = (operand as Expr | undefined)?.type.dtype;
        const site = to.site(e.at, { intrinsic: e.arg, path: to.path(), ...(dtype ? { dtype } : {}) });
        return `(yield [${[site, ...e.src.map(x)].join(', ')}])`;
      }
      const memory = operand as MemoryNode;
      const taken = e.src.length - record.params.length;
      const place = access(to, 'atomic', memory, e.src.slice(1, taken) as Expr[], e.type, to.site(e.at));
      const values = e.src.slice(taken).map(x).join(', ');
      return `atomic('${e.arg}', ${e.type.dtype.name}, ${to.name(memory.arg)}, ${place}, [${values}])`;
    }
  }
}

/** What `load` reads at a place that has been checked. */
export function gathered(to: Scribe, load: Extract<Expr, { op: 'load' }>, place: string): string {
  const data = to.name((load.src[0] as MemoryNode).arg);
  const { dtype, lanes } = load.type;
  return lanes === 1
    ? decoded(dtype, `${data}[${place}]`)
    : `gather(${dtype.name}, ${data}, ${place}, ${lanes})`;
}

/** `expression` where nothing can follow it: without the parentheses around the whole. */
export function bare(to: Scribe, e: Expr): string {
  const text = expression(to, e);
  if (!text.startsWith('(')) return text;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')' && --depth === 0) return i === text.length - 1 ? text.slice(1, -1) : text;
  }
  return text;
}

/** The element that an access touches first, checked on the way: `x$.read(i, site)`. */
export function access(
  to: Scribe,
  way: 'read' | 'write' | 'atomic',
  memory: MemoryNode,
  indices: readonly Expr[],
  type: { readonly lanes: number },
  site: number,
): string {
  const check = `${to.name(memory.arg)}$`;
  const flat = elementAt(to, memory, indices, site);
  return type.lanes === 1
    ? `${check}.${way}(${flat}, ${site})`
    : `${check}.${way}Lanes(${flat}, ${type.lanes}, ${site})`;
}

/** Which element of its memory stands at a place, its indices checked. */
function elementAt(to: Scribe, memory: MemoryNode, indices: readonly Expr[], site: number): string {
  const check = `${to.name(memory.arg)}$`;
  const at = indices.map((i) =>
    i.type.dtype.name === 'i64' ? `Number(${expression(to, i)})` : expression(to, i),
  );
  const { dims } = memory.type;
  const width = memory.op === 'array' ? memory.arg.lanes : 1;
  let flat = at[0] ?? '0';
  if (dims.length > 1) {
    flat = `${check}.dim(${flat}, 0, ${site})`;
    for (let d = 1; d < dims.length; d++) {
      flat = `${d > 1 ? `(${flat})` : flat} * ${dims[d]} + ${check}.dim(${at[d]}, ${d}, ${site})`;
    }
  }
  return width > 1 ? `(${flat}) * ${width}` : flat;
}
