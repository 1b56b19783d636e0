/** Every error of the kernel language: its message, and its place in this very file. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { KernelError } from '../src/core/errors.js';
import {
  bool,
  buffer,
  type Constants,
  defineKernel,
  f32,
  f64,
  type Intrinsics,
  i32,
  i64,
  u32,
  type ValuesOf,
} from '../src/kernel/index.js';

const schema = {
  x: buffer(f32),
  y: buffer(i32),
  flags: buffer(bool),
  a: f32,
  d: f64,
  n: i32,
  u: u32,
  l: i64,
  yes: bool,
} as const;

type Context = Intrinsics & Readonly<Record<string, never>>;
type Kernel = (params: ValuesOf<typeof schema>, context: Context) => void;

/** @param mark what the error points at: the first place of it in the line */
function fails(name: string, fn: Kernel, message: RegExp, mark: string, constants: Constants = {}): void {
  test(name, () => {
    assert.throws(
      () => defineKernel('k', schema, fn as never, constants),
      (error) => {
        assert.ok(error instanceof KernelError, String(error));
        assert.match(error.message, message);
        const { at } = error;
        assert.ok(at);
        assert.match(at.file, /tests[\\/]kernel-errors\.test\.ts$/);
        const line = readFileSync(at.file, 'utf8').split('\n')[at.line - 1];
        assert.equal(at.text, line);
        assert.equal(line?.slice(at.column - 1).startsWith(mark), true, `${at.line}:${at.column} ${line}`);
        return true;
      },
    );
  });
}

interface Again {
  again(v: number, context: Again): number;
}
const callsItself = (v: number, context: Again): number => context.again(v, context);
const readsOutside = (v: number): number => v * schema.a.bytes;
const loops = (v: number): number => {
  for (let i = 0; i < 3; i++) if (v > 1) return i;
  return v;
};

// Types

fails(
  'mixing',
  ({ x, n }) => {
    x[0] = x[1] * n;
  },
  /`x\[1\] \* n`: f32 and i32 do not mix; nothing converts silently\. Convert one side: f32\(n\)\./,
  'x[1] * n',
);
fails(
  'mixing floats',
  ({ x, a, d }) => {
    x[0] = a + d;
  },
  /f32 and f64 do not mix/,
  'a + d',
);
fails(
  'mixing numbers and bools',
  ({ x, a, yes }) => {
    x[0] = a + Number(yes);
  },
  /Number\(x\) names no dtype: write f32\(x\), i32\(x\)/,
  'Number',
);
fails(
  'storing another type',
  ({ x, n }) => {
    x[n] = n;
  },
  /x\[…\] is f32, the value is i32\. Convert it: f32\(n\)\./,
  'n;',
);
fails(
  'storing a bool',
  ({ x, n }) => {
    x[n] = n > 1;
  },
  /x\[…\] is f32, the value is bool/,
  'n > 1',
);
fails(
  'setting another type',
  ({ x, n }) => {
    let v = x[0];
    v = n;
    x[0] = v;
  },
  /`v` is f32, the value is i32\. Convert it: f32\(n\)\./,
  'n;',
);
fails(
  'a second type for a literal let',
  ({ x, n }) => {
    let v = 0;
    v = x[0];
    v += n;
    x[0] = v;
  },
  /f32 and i32 do not mix/,
  'v += n',
);
fails(
  'division of integers',
  ({ y, n }) => {
    y[0] = n / 2;
  },
  /`n \/ 2` needs floats, got i32\. Write idiv\(a, b\) for the whole quotient/,
  'n / 2',
);
fails(
  'a fraction next to an integer',
  ({ y, n }) => {
    y[0] = n + 0.5;
  },
  /0\.5 is not an i32: whole numbers only/,
  '0.5',
);
fails(
  'a number out of range',
  ({ y, n }) => {
    y[0] = n + 3000000000;
  },
  /3000000000 is outside i32/,
  '3000000000',
);
fails(
  'Math on integers',
  ({ y, n }) => {
    y[0] = Math.sqrt(n);
  },
  /`Math\.sqrt\(n\)` needs floats, got i32\. Convert first: f32\(x\)/,
  'Math.sqrt',
);
fails(
  'bits of floats',
  ({ x, a }) => {
    x[0] = a | 0;
  },
  /`a \| 0` needs integers or bools, got f32\. Convert first: i32\(x\)/,
  'a | 0',
);
fails(
  'arithmetic on bools',
  ({ y, flags }) => {
    y[0] = flags[0] + flags[1];
  },
  /needs numbers, got bool\. Use select\(b, 1, 0\)/,
  'flags[0] + flags[1]',
);
fails(
  '>>> of i32',
  ({ y, n }) => {
    y[0] = n >>> 1;
  },
  /`>>>` needs an unsigned integer/,
  'n >>> 1',
);
fails(
  'a number as a condition',
  ({ x, n }) => {
    if (n) x[0] = 1;
  },
  /a condition must be a bool, got i32\. Compare it: x !== 0/,
  'n) x',
);
fails(
  'a number in &&',
  ({ x, n, yes }) => {
    if (yes && n) x[0] = 1;
  },
  /a condition must be a bool, got i32/,
  'n) x',
);
fails(
  'sides of a choice',
  ({ x, n, a, yes }) => {
    x[0] = yes ? a : n;
  },
  /the two sides of a choice: f32 and i32 do not mix/,
  'yes ?',
);
fails(
  'a float index',
  ({ x, a }) => {
    x[a] = 1;
  },
  /an index must be i32, got f32\. Convert it: i32\(x\)/,
  'a] = 1',
);
fails(
  'an i64 index',
  ({ x, l }) => {
    x[l] = 1;
  },
  /an index must be i32, got i64/,
  'l] = 1',
);
fails(
  'casting to bool what is compared',
  ({ flags, n }) => {
    flags[0] = n;
  },
  /flags\[…\] is bool, the value is i32\. Compare it: x !== 0/,
  'n;',
);

fails(
  'a literal let next to a float',
  ({ x, a }) => {
    for (let t = 0; t < a; t += 0.5) x[0] = t;
  },
  /i32 and f32 do not mix; nothing converts silently\. Declare it with its dtype: let t = f32\(…\)\./,
  't < a',
);

// Shapes

fails(
  'too few indices',
  ({ x }, { shared, f32 }) => {
    const t = shared(f32, 4, 4);
    x[0] = t[1];
  },
  /t takes 2 indices, got 1: t\[i\]\[i\]/,
  't[1]',
);
fails(
  'too many indices',
  ({ x }) => {
    x[0] = x[1][2];
  },
  /x takes 1 index, got 2: x\[i\]/,
  'x[1][2]',
);
fails(
  'a whole buffer as a value',
  ({ x, a }) => {
    x[0] = a + (x as unknown as number);
  },
  /a value is needed here, got x \(global f32\[\]\)\. Index it: x\[i\]/,
  'x',
);
fails(
  'a size that is not known',
  ({ n }, { shared, f32 }) => {
    shared(f32, n);
  },
  /the size of an array must be known when the kernel is compiled, got i32/,
  'n);',
);
fails(
  'a size of nothing',
  (_p, { local, f32 }) => {
    local(f32, 0);
  },
  /the size of an array must be a whole number above 0, got 0/,
  '0);',
);
fails(
  'a size that is missing',
  (_p, { local, f32 }) => {
    (local as unknown as (t: unknown) => void)(f32);
  },
  /local takes sizes after the dtype/,
  'local as',
);
fails(
  'a dtype that is missing',
  (_p, { local }) => {
    local(4 as never, 4);
  },
  /local takes a dtype first, got the constant 4/,
  '4',
);
fails(
  'a lane that is not there',
  ({ x }, { lane, load4 }) => {
    x[0] = lane(load4(x, 0), 4);
  },
  /lane 4 is out of range: the vector has 4 lanes/,
  '4);',
);
fails(
  'a lane of a scalar',
  ({ x, a }, { lane }) => {
    x[0] = lane(a, 0);
  },
  /lane takes a vector first, got f32/,
  'a, 0',
);
fails(
  'a vector into an element',
  ({ x }, { splat4, a }) => {
    x[0] = splat4(1);
    void a;
  },
  /x\[…\] has 1 lane, the value 4\. Take one: lane\(v, 0\)/,
  'splat4',
);
fails(
  'vectors of different widths',
  ({ x }, { load2, load4, store4 }) => {
    store4(x, 0, load4(x, 0) + load2(x, 0));
  },
  /vectors of 4 and of 2 lanes do not mix/,
  'load4(x, 0) + load2',
);
fails(
  'a vector as a condition',
  ({ x }, { load4 }) => {
    if (load4(x, 0) > 1) x[0] = 1;
  },
  /a condition must be a scalar/,
  'load4',
);
fails(
  'bitcast between sizes',
  ({ x, d }, { bitcast, f32 }) => {
    x[0] = bitcast(f32, d);
  },
  /bitcast needs equal sizes: f64 has 8 bytes, f32 4/,
  'bitcast',
);

// Syntax

fails(
  'switch',
  ({ n }) => {
    switch (n) {
      default:
    }
  },
  /`switch` is not part of the kernel language\. Write if … else if …/,
  'switch',
);
fails(
  'for of',
  ({ x }) => {
    for (const v of x as unknown as number[]) x[0] = v;
  },
  /`for … of` and `for … in` are not part.*Count: for/,
  'for (const',
);
fails(
  'try',
  ({ x }) => {
    try {
      x[0] = 1;
    } catch {}
  },
  /Exceptions have no meaning in a kernel\. Use assert/,
  'try',
);
fails(
  'throw',
  () => {
    throw new Error('no');
  },
  /Exceptions have no meaning/,
  'throw',
);
fails(
  'new',
  ({ x }) => {
    x[0] = new Float32Array(1)[0];
  },
  /`new` has no meaning in a kernel\. Arrays come from shared/,
  'new',
);
fails(
  'an array literal',
  ({ x }) => {
    const w = [1, 2];
    x[0] = w[0]!;
  },
  /array literals have no meaning in a kernel/,
  '[1, 2]',
);
fails(
  'a template',
  ({ x, a }, { print }) => {
    print(`${a}`);
    x[0] = 1;
  },
  /In print write \{\} and pass the value/,
  '`$',
);
fails(
  '??',
  ({ x, a }) => {
    x[0] = a ?? 1;
  },
  /`\?\?` is not part of the kernel language/,
  'a ??',
);
fails(
  'a label',
  ({ n }) => {
    // biome-ignore lint/correctness/noUnusedLabels: what is tested
    outer: for (let i = 0; i < n; i++) if (i > 2) break;
  },
  /labels are not part of the kernel language/,
  'outer',
);
fails(
  'this',
  function (this: void, { x }) {
    x[0] = this as unknown as number;
  },
  /`this` is not part of the kernel language/,
  'this as',
);
fails(
  'a string',
  ({ x }) => {
    x[0] = 'one';
  },
  /a value is needed here, got the constant one/,
  "'one'",
);
fails(
  'a destructured array',
  ({ x }) => {
    const [v] = x as unknown as number[];
    x[0] = v;
  },
  /only a name, or \{ names \}/,
  '[v]',
);
fails(
  'Math that there is not',
  ({ x, a }) => {
    x[0] = Math.hypot(a, a);
  },
  /Math\.hypot is not part of the kernel language\. There are abs, min/,
  'Math.hypot',
);
fails(
  'too many arguments',
  ({ x, a }) => {
    x[0] = (Math.sin as (...v: number[]) => number)(a, a);
  },
  /Math\.sin takes 1 argument, got 2/,
  'Math.sin',
);
fails(
  'print without a value',
  ({ n }, { print }) => {
    print('{} {}', n);
  },
  /the text has 2 \{\} for 1 value\./,
  'print(',
);
fails(
  'var',
  ({ x }) => {
    var v = 1;
    x[0] = v;
  },
  /`var` is not part of the kernel language\. Use let or const/,
  'var',
);

// Names and functions

fails(
  'a name from outside',
  ({ x }) => {
    x[0] = schema.a.bytes;
  },
  /`schema` is not a parameter, constant or intrinsic: pass it in the fourth argument of kernel\(\)/,
  'schema',
);
fails(
  'an unknown name',
  ({ x }) => {
    x[0] = OUTSIDE;
  },
  /`OUTSIDE` is not a parameter, constant or intrinsic: pass it in the fourth argument of kernel\(\)\./,
  'OUTSIDE',
);
fails(
  'a constant that was not passed',
  ({ x }, { TILE }) => {
    x[0] = TILE!;
  },
  /`TILE` is not a parameter, constant or intrinsic/,
  'TILE',
);
fails(
  'assigning a parameter',
  (p) => {
    let { n } = p;
    n = 1;
    p.x[0] = n;
  },
  /`n` cannot be assigned: copy it first, let v = n/,
  'n = 1',
);
fails(
  'assigning a buffer',
  ({ x }) => {
    (x as unknown) = 1;
  },
  /`x` is memory: assign its elements, x\[i\] = …/,
  'x as',
);
fails(
  'the length of a buffer',
  ({ x, y }) => {
    y[0] = (x as unknown as number[]).length;
  },
  /a kernel does not know the length of x: pass it as an i32 parameter/,
  'x as',
);
fails(
  'a member that there is not',
  ({ y }, { threadIdx }) => {
    y[0] = (threadIdx as unknown as { w: number }).w;
  },
  /`w` is not part of threadIdx/,
  'w;',
);
fails(
  'recursion',
  ({ x, a }, context) => {
    x[0] = (context.again as unknown as typeof callsItself)(a, context as never);
  },
  /recursive functions cannot be inlined/,
  'context.again(v',
  { again: callsItself },
);
fails(
  'a name outside of a function',
  ({ x, a }, { f }) => {
    x[0] = (f as unknown as (v: number) => number)(a);
  },
  /`schema` is not known in this function: pass it on as an argument, f\(x, \{ schema \}\)/,
  'schema',
  { f: readsOutside },
);
fails(
  'return from a loop',
  ({ x, a }, { f }) => {
    x[0] = (f as unknown as (v: number) => number)(a);
  },
  /a function that is inlined cannot return from inside a loop/,
  'for',
  { f: loops },
);
fails(
  'nothing as a value',
  ({ x }, { barrier }) => {
    x[0] = barrier() as unknown as number;
  },
  /a value is needed here, got nothing/,
  'barrier',
);
fails(
  'break in an unrolled loop',
  ({ x }, { lane, load4 }) => {
    for (let k = 0; k < 4; k++) {
      if (lane(load4(x, 0), k) > 1) break;
    }
  },
  /break in a loop whose variable is needed as a constant/,
  'break',
);
fails(
  'an intrinsic as a constant',
  ({ x }) => {
    x[0] = 1;
  },
  /the constant `barrier` has the name of an intrinsic\. Rename it/,
  '({ x })',
  { barrier: 1 },
);
fails(
  'three parameters',
  ((_p: never, _c: never, more: number) => more) as never,
  /a kernel takes two parameters/,
  'more: number',
);

declare const OUTSIDE: number;

test('functions that have no source, or are no plain functions', () => {
  const bound = (({ x }: { x: number[] }) => x).bind(undefined);
  assert.throws(
    () => defineKernel('b', schema, bound as never),
    /kernel b has no source: it is a native or bound function/,
  );
  assert.throws(() => defineKernel('b', schema, Math.max as never), /native or bound/);
  assert.throws(
    () => defineKernel('b', schema, (async () => {}) as never),
    /an async function: a kernel must be a plain function/,
  );
  assert.throws(
    () => defineKernel('b', schema, class {} as never),
    /must be a function or an arrow function/,
  );
});
