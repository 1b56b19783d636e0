/** Errors of the kernel language about syntax and names: message and place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defineKernel } from '../src/kernel/index.js';
import { fails, schema } from './kernel-refusal.js';

interface Again {
  again(v: number, context: Again): number;
}
const callsItself = (v: number, context: Again): number => context.again(v, context);
const readsOutside = (v: number): number => v * schema.a.bytes;
const loops = (v: number): number => {
  for (let i = 0; i < 3; i++) if (v > 1) return i;
  return v;
};

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
