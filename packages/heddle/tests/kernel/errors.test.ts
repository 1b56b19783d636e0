/** Errors of the kernel language about syntax and names: message and place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelError } from '../../src/core/errors.js';
import { buffer, defineKernel, f32 } from '../../src/kernel/language/index.js';
import { fails, schema } from './refusal.js';

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
  /`schema` is not known in the kernel, which does not see what is around it\. A constant goes into the fourth argument/,
  'schema',
);
fails(
  'an unknown name',
  ({ x }) => {
    x[0] = OUTSIDE;
  },
  /`OUTSIDE` is not known in the kernel.*taken from the second parameter, \(\{ … \}, \{ OUTSIDE \}\) => …/,
  'OUTSIDE',
);
fails(
  'a constant that was not passed',
  ({ x }, { TILE }) => {
    x[0] = TILE!;
  },
  /`TILE` is neither an intrinsic nor a constant of the kernel\. A constant goes into the fourth argument/,
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
  /threadIdx has no `w`\. It has x, y, z/,
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
declare const barrier: () => void;
declare const syncthreads: () => void;
declare const n: number;
declare const vallue: number;

// What to do instead

fails(
  'a dtype of the import',
  ({ x, n }) => {
    x[0] = (f32 as unknown as (v: number) => number)(n);
  },
  /`f32` is an intrinsic of the kernel: take it from the second parameter of the function, \(\{ … \}, \{ f32 \}\) => …/,
  'f32 as',
);
fails(
  'an intrinsic that is not taken',
  () => {
    barrier();
  },
  /`barrier` is an intrinsic of the kernel: take it from the second parameter/,
  'barrier',
);
fails(
  'a parameter that is not taken',
  ({ y }) => {
    y[0] = n;
  },
  /`n` is a parameter of the kernel: take it from the first parameter of the function, \(\{ n \}, \{ … \}\) => …/,
  'n',
);
fails(
  'a constant that is not taken',
  ({ y }) => {
    y[0] = OUTSIDE;
  },
  /`OUTSIDE` is a constant of the kernel: take it from the second parameter/,
  'OUTSIDE',
  { OUTSIDE: 3 },
);
fails(
  'an intrinsic among the parameters',
  (({ y, i32 }: { y: number[]; i32: (v: number) => number }) => {
    y[0] = i32(1);
  }) as never,
  /`i32` is an intrinsic of the kernel: take it from the second parameter/,
  'i32(1)',
);
fails(
  'a name that the schema lacks',
  (({ y, m }: { y: number[]; m: number }) => {
    y[0] = m;
  }) as never,
  /`m` is not in the schema of the kernel, \{ x, y, .*\}\. Add it there: m: f32 for a number, m: buffer\(f32\) for memory/,
  'm;',
);
fails(
  "CUDA's name of an intrinsic",
  ((_p: never, { syncthreads }: { syncthreads: () => void }) => {
    syncthreads();
  }) as never,
  /`syncthreads` is neither an intrinsic nor a constant of the kernel\. Write barrier\(\)/,
  'syncthreads',
);
fails(
  "CUDA's name, taken from nowhere",
  () => {
    syncthreads();
  },
  /`syncthreads` is not part of the kernel language\. Write barrier\(\)/,
  'syncthreads',
);
fails(
  'console',
  ({ n }) => {
    console.log(n);
  },
  /`console` is not part of the kernel language\. Write print\('x = \{\}', x\)/,
  'console',
);
fails(
  'a clock',
  ({ y }) => {
    y[0] = Date.now();
  },
  /`Date` is not part of the kernel language: of JavaScript's own names it has only Math/,
  'Date',
);
fails(
  'a misspelled name',
  ({ x }) => {
    const value = x[0];
    x[1] = vallue + value;
  },
  /`vallue` is not known in the kernel.*Did you mean `value`\?/,
  'vallue',
);
fails(
  'a misspelled intrinsic',
  ({ x }, { shufle }) => {
    x[0] = (shufle as unknown as (v: number, lane: number) => number)(x[0], 1);
  },
  /`shufle` is neither an intrinsic nor a constant of the kernel\. Did you mean `shuffle`\?/,
  'shufle as',
);
fails(
  'a misspelled function of Math',
  ({ x }) => {
    x[0] = (Math as unknown as { squrt: (v: number) => number }).squrt(x[0]);
  },
  /Math has no `squrt`\. Did you mean `sqrt`\? It has/,
  'squrt',
);
fails(
  'a result',
  (({ x }: { x: number[] }) => {
    if (x[0]! > 1) return 1;
  }) as never,
  /a kernel returns nothing: write its result to memory, y\[i\] = …/,
  '1;',
);
fails('a value as the body', (({ x }: { x: number[] }) => x[0]) as never, /a kernel returns nothing/, 'x[0]');
fails(
  'undefined as a value',
  ({ y }) => {
    const none = undefined;
    y[0] = none as unknown as number;
  },
  /a kernel has no undefined values: give `none` one, or declare it without: let none;/,
  'undefined',
);
fails(
  'shared memory inside of an if',
  ({ x, n }, { shared, f32 }) => {
    if (n > 1) {
      const tile = shared(f32, 32);
      tile[0] = 1;
      x[0] = tile[0];
    }
  },
  /shared inside of an if: shared memory belongs to the whole block and is there whatever the condition is/,
  'shared(f32',
);
fails(
  'more shared memory than a block has',
  ({ x }, { shared, f32 }) => {
    const small = shared(f32, 1024);
    const large = shared(f32, 256, 240);
    large[0]![0] = small[0];
    x[0] = 1;
  },
  /the shared arrays of the kernel take 249856 bytes: a block has at most 232448/,
  'shared(f32, 256',
);

test('what is no schema, and what is no function', () => {
  const define = defineKernel as (name: string, schema: unknown, fn: unknown) => unknown;
  const nothing = (): void => {};
  assert.throws(
    () => define('k', { x: 'f32' }, nothing),
    /kernel k: the parameter x must be a dtype or buffer\(dtype\), got 'f32'\. Write x: f32 for a number/,
  );
  for (const wrong of [undefined, { x: buffer }, { x: { kind: 'buffer' } }, { x: null }])
    assert.throws(() => define('k', wrong, nothing), KernelError);
  assert.throws(() => define('k', {}, undefined), /kernel k must be a function.*got undefined/);
});

test('an effect as the body, and a return that minifiers write', () => {
  const bodies = [
    '({ x }) => (x[0] = 1)',
    '({ x, n }) => { if (n > 1) return void (x[0] = 2); x[0] = 1; return undefined; }',
    '({ x, n }) => { if (n > 1) return (x[0] = 1, x[1] = 2); return n > 0 ? (x[0] = 3) : void 0; }',
  ];
  for (const text of bodies) defineKernel('k', schema, new Function(`return ${text}`)() as never);
});

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
