/** Random kernels against JavaScript: expressions with the rounding of their dtype, and programs of statements. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Scalar } from '../../src/kernel/ir/ops.js';
import { printKernel } from '../../src/kernel/ir/print.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { buffer, defineKernel, f32, i32, type KernelIr } from '../../src/kernel/language/index.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { property } from '../property.js';
import { type Arguments, interpret } from './interpreter.js';

process.env.HEDDLE_CHECK = '1';

const CPU: Target = { ...H200, name: 'cpu', model: 'blocks', units: 1, fma: false, capability: 0 };

const fromText = (text: string): never => new Function(`return ${text}`)() as never;

/** As parsed, and as it is before it is lowered to addresses, which the interpreter does not know. */
const both = (ir: KernelIr): KernelIr[] => [ir, compile(ir, CPU).lowered!.from];

// ── Expressions ──────────────────────────────────────────────────────────────────────────────────────────────────

interface Environment {
  readonly a: number;
  readonly b: number;
  readonly n: number;
  readonly m: number;
}

/** The text of an expression and what JavaScript says it is. */
interface Sample<T> {
  readonly text: string;
  readonly value: (e: Environment) => T;
}

const float = Math.fround;
const binary =
  <A, B>(symbol: string, of: (x: A, y: A) => B) =>
  (x: Sample<A>, y: Sample<A>): Sample<B> => ({
    text: `(${x.text} ${symbol} ${y.text})`,
    value: (e) => of(x.value(e), y.value(e)),
  });
const called =
  <A, B>(name: string, of: (...v: A[]) => B) =>
  (...args: Sample<A>[]): Sample<B> => ({
    text: `${name}(${args.map((x) => x.text).join(', ')})`,
    value: (e) => of(...args.map((x) => x.value(e))),
  });

type Numbers = Sample<number>;
type Pair = (x: Numbers, y: Numbers) => Numbers;

const FLOATS: readonly Pair[] = [
  binary('+', (x, y) => float(x + y)),
  binary('-', (x, y) => float(x - y)),
  binary('*', (x, y) => float(x * y)),
  binary('/', (x, y) => float(x / y)),
  binary('%', (x, y) => float(x % y)),
  called('Math.max', Math.max),
  called('Math.min', Math.min),
];
const INTEGERS: readonly Pair[] = [
  binary('+', (x, y) => (x + y) | 0),
  binary('-', (x, y) => (x - y) | 0),
  binary('*', Math.imul),
  binary('%', (x, y) => (y === 0 ? 0 : x % y) | 0),
  binary('&', (x, y) => x & y),
  binary('|', (x, y) => x | y),
  binary('^', (x, y) => x ^ y),
  binary('<<', (x, y) => x << y),
  binary('>>', (x, y) => x >> y),
  called('idiv', (x = 0, y = 0) => (y === 0 ? 0 : Math.trunc(x / y)) | 0),
];
const COMPARISONS = ['<', '<=', '>', '>=', '===', '!=='] as const;
const compare = (symbol: (typeof COMPARISONS)[number]) =>
  binary(symbol, (x: number, y: number): boolean => {
    switch (symbol) {
      case '<':
        return x < y;
      case '<=':
        return x <= y;
      case '>':
        return x > y;
      case '>=':
        return x >= y;
      case '===':
        return x === y;
      case '!==':
        return x !== y;
    }
  });

const variable = (name: keyof Environment): Numbers => ({ text: name, value: (e) => e[name] });
const constant = (v: number): Numbers => ({
  text: Object.is(v, -0) ? '(-0)' : `(${v})`,
  value: () => v,
});

/** At least one side of an operation is typed, since two literals are JavaScript numbers until they meet one. */
const { floats, integers } = fc.letrec<{ floats: Numbers; integers: Numbers; bools: Sample<boolean> }>(
  (tie) => {
    const grown = (
      kind: 'floats' | 'integers',
      leaf: fc.Arbitrary<Numbers>,
      literal: fc.Arbitrary<Numbers>,
      pairs: readonly Pair[],
      unary: fc.Arbitrary<Numbers>,
    ): fc.Arbitrary<Numbers> => {
      const operation = (x: fc.Arbitrary<Numbers>, y: fc.Arbitrary<Numbers>): fc.Arbitrary<Numbers> =>
        fc.tuple(fc.constantFrom(...pairs), x, y).map(([pair, l, r]) => pair(l, r));
      return fc.oneof(
        { maxDepth: 4 },
        leaf,
        operation(tie(kind), tie(kind)),
        operation(tie(kind), literal),
        operation(literal, tie(kind)),
        unary,
        fc.tuple(tie('bools'), tie(kind), fc.oneof(tie(kind), literal)).map(([c, x, y]) => ({
          text: `(${c.text} ? ${x.text} : ${y.text})`,
          value: (e: Environment) => (c.value(e) ? x.value(e) : y.value(e)),
        })),
      );
    };
    const negated = (x: Numbers, round: (v: number) => number): Numbers => ({
      text: `(-${x.text})`,
      value: (e) => round(-x.value(e)),
    });
    const f = tie('floats');
    const i = tie('integers');
    return {
      floats: grown(
        'floats',
        fc.constantFrom(variable('a'), variable('b')),
        fc.oneof(fc.integer({ min: -9, max: 9 }), fc.double({ min: -9, max: 9, noNaN: true })).map((v) => ({
          ...constant(v),
          value: () => float(v),
        })),
        FLOATS,
        fc.oneof(
          f.map((x) => negated(x, float)),
          f.map(called('Math.floor', (v: number) => Math.floor(v))),
          f.map(called('Math.abs', (v: number) => Math.abs(v))),
          i.map(called('f32', float)),
        ),
      ),
      integers: grown(
        'integers',
        fc.constantFrom(variable('n'), variable('m')),
        fc.integer({ min: -40, max: 40 }).map(constant),
        INTEGERS,
        fc.oneof(
          i.map((x) => negated(x, (v) => v | 0)),
          i.map((x) => ({ text: `(~${x.text})`, value: (e: Environment) => ~x.value(e) })),
        ),
      ),
      bools: fc.oneof(
        { maxDepth: 3 },
        fc.tuple(fc.constantFrom(...COMPARISONS), f, f).map(([c, x, y]) => compare(c)(x, y)),
        fc.tuple(fc.constantFrom(...COMPARISONS), i, i).map(([c, x, y]) => compare(c)(x, y)),
        fc
          .tuple(tie('bools'), tie('bools'))
          .map(([x, y]) => binary('&&', (p: boolean, q: boolean) => p && q)(x, y)),
        fc
          .tuple(tie('bools'), tie('bools'))
          .map(([x, y]) => binary('||', (p: boolean, q: boolean) => p || q)(x, y)),
        tie('bools').map((x): Sample<boolean> => ({ text: `!${x.text}`, value: (e) => !x.value(e) })),
      ),
    };
  },
);

const numbers = { a: f32, b: f32, n: i32, m: i32, x: buffer(f32), y: buffer(i32) } as const;
const environment = fc.record({
  a: fc.float({ noNaN: true, min: -100, max: 100 }),
  b: fc.float({ noNaN: true, min: -100, max: 100 }),
  n: fc.integer({ min: -1000, max: 1000 }),
  m: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
});
property(
  'expressions mean what JavaScript says, rounded to their dtype',
  [floats, integers, fc.array(environment, { minLength: 1, maxLength: 4 })],
  (f, i, environments) => {
    const text = `({ a, b, n, m, x, y }, { f32, idiv }) => { x[0] = ${f.text}; y[0] = ${i.text}; }`;
    const ir = defineKernel('expression', numbers, fromText(text));
    for (const kernel of both(ir)) {
      for (const e of environments) {
        const args = { ...e, x: [0], y: [0] };
        interpret(kernel, args);
        assert.ok(
          Object.is(args.x[0], f.value(e)),
          `${f.text} = ${f.value(e)}, not ${args.x[0]}\n${printKernel(kernel)}`,
        );
        assert.equal(args.y[0], i.value(e), `${i.text}\n${printKernel(kernel)}`);
      }
    }
  },
  { runs: 300 },
);

// ── Programs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Integers stay below 256 by masking, so that the kernel's function gives the same numbers when it runs itself. */
const value: fc.Arbitrary<string> = fc.letrec<{ v: string; c: string }>((tie) => ({
  v: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('n', 'p', 'q', 'i', 'x[n & 7]', 'x[(p + 3) & 7]', 't[1]', 't[q & 3]'),
    fc.integer({ min: 0, max: 9 }).map(String),
    fc
      .tuple(tie('v'), fc.constantFrom('+', '*', '^', '|', '&', '-'), tie('v'))
      .map(([l, o, r]) => `(((${l}) ${o} (${r}) + n - n) & 255)`),
    fc.tuple(tie('c'), tie('v'), tie('v')).map(([c, l, r]) => `(${c} ? ${l} : ${r})`),
    tie('v').map((v) => `pick(${v}, n)`),
    fc
      .constantFrom('p++', '--q', '(p = q)', 'x[2]++', '(x[q & 7] += 1)', 'take(x, p & 7)')
      .map((v) => `(${v} & 255)`),
  ),
  c: fc.oneof(
    { maxDepth: 2 },
    fc
      .tuple(tie('v'), fc.constantFrom('<', '>=', '===', '!=='), tie('v'))
      .map(([l, o, r]) => `(${l}) ${o} (${r})`),
    fc.tuple(tie('c'), tie('c')).map(([l, r]) => `(${l} && ${r})`),
    fc.tuple(tie('c'), tie('c')).map(([l, r]) => `(${l} || ${r})`),
    tie('c').map((c) => `!(${c})`),
  ),
})).v;

const condition = fc
  .tuple(value, fc.constantFrom('<', '>', '===', '!=='), value)
  .map(([l, o, r]) => `(${l}) ${o} (${r})`);

const statementsOf = (inLoop: boolean, depth: number): fc.Arbitrary<string> => {
  const simple = fc.oneof(
    fc.tuple(fc.constantFrom('p', 'q'), value).map(([v, e]) => `${v} = ${e};`),
    fc.tuple(fc.constantFrom('p', 'q'), value).map(([v, e]) => `${v} = (${v} + ${e}) & 255;`),
    fc.tuple(value, value).map(([i, e]) => `x[(${i}) & 7] = ${e};`),
    fc.tuple(fc.integer({ min: 0, max: 3 }), value).map(([i, e]) => `t[${i}] ^= ${e};`),
    value.map((e) => `{ const k = ${e}; p ^= k; }`),
  );
  if (depth === 0) return fc.array(simple, { maxLength: 3 }).map((s) => s.join('\n'));
  const inner = fc.boolean().chain(() => statementsOf(inLoop, depth - 1));
  const body = statementsOf(true, depth - 1);
  const jump = fc.tuple(condition, fc.constantFrom('break', 'continue')).map(([c, j]) => `if (${c}) ${j};`);
  const nested = fc.oneof(
    fc.tuple(condition, inner, inner).map(([c, a, b]) => `if (${c}) { ${a} } else { ${b} }`),
    fc.tuple(condition, inner).map(([c, a]) => `if (${c}) { ${a} }`),
    fc.tuple(fc.integer({ min: 0, max: 4 }), body).map(([n, b]) => `for (let i = 0; i < ${n}; i++) { ${b} }`),
    fc
      .tuple(fc.constantFrom('n & 3', 'p & 3', 'x[1] & 3'), body)
      .map(([n, b]) => `for (let i = 0; i <= (${n}) && i < 5; i += 2) { ${b} }`),
    fc
      .tuple(fc.constantFrom('n', 'q', 'x[1]'), body)
      .map(([n, b]) => `for (let i = 0, end = ${n} & 3; i < end; i++) { ${b} }`),
    fc.tuple(condition, body).map(([c, b]) => `{ let i = 0; while (i < 3 && ${c}) { i++; ${b} } }`),
    fc.tuple(condition, body).map(([c, b]) => `{ let i = 0; do { i++; ${b} } while (i < 3 && ${c}); }`),
    ...(inLoop ? [jump] : [condition.map((c) => `if (${c} && n === 77) return;`)]),
  );
  return fc
    .array(fc.oneof({ weight: 2, arbitrary: simple }, { weight: 1, arbitrary: nested }), { maxLength: 4 })
    .map((s) => s.join('\n'));
};

const pick = (v: number, n: number): number => {
  if (v > 100) return v - 100;
  const w = v ^ n;
  if (w < 0) {
    if (n > 5) return 1;
  } else if (w > 50) return w & 15;
  return w & 255;
};
const take = (x: Record<number, number>, i: number): number => {
  const old = x[i]!;
  x[i] = (old + 1) & 255;
  return old;
};

property(
  'programs leave what they leave in JavaScript',
  [statementsOf(false, 2), fc.array(fc.integer({ min: 0, max: 80 }), { minLength: 1, maxLength: 3 })],
  (body, ns) => {
    const text = `({ x, n }, { local, i32, pick, take }) => {
        const i = 1; let p = n, q = 2;
        const t = local(i32, 4);
        for (let i = 0; i < 4; i++) t[i] = i;
        ${body}
        x[8] = p; x[9] = q; for (let i = 0; i < 4; i++) x[10 + i] = t[i];
      }`;
    const fn = fromText(text) as (params: Arguments, context: object) => void;
    const ir = defineKernel('program', { x: buffer(i32), n: i32 }, fn as never, { pick, take });
    for (const kernel of both(ir)) {
      for (const n of ns) {
        const start = (): Scalar[] => [5, 1, 4, 200, 3, 17, 9, 0, 0, 0, 0, 0, 0, 0];
        const args = { x: start(), n };
        const expected = { x: start(), n };
        fn(expected, { local: () => [], i32: null, pick, take });
        interpret(kernel, args);
        assert.deepEqual(args.x, expected.x, `n = ${n}\n${text}\n${printKernel(kernel)}`);
      }
    }
  },
  { runs: 300 },
);
