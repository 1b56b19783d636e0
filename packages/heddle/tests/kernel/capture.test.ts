/** Kernels captured from what compilers, minifiers and coverage tools make of the author's source. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TransformOptions, transformSync } from 'esbuild';
import { KernelError } from '../../src/core/errors.js';
import { buffer, defineKernel, f32, i32, type KernelIr } from '../../src/kernel/language/index.js';
import { interpret } from './interpreter.js';

const schema = { x: buffer(f32), y: buffer(f32), n: i32, a: f32 } as const;

/** A kernel with the statements that minifiers like to merge. */
const SOURCE = `
interface Params { x: number[]; y: number[]; n: number; a: number }
const twice = (v: number): number => v * 2;
export const kernel = ({ x, y: target, n, a }: Params, { globalId, atomicAdd, f32, twice: double, STEP }: any): void => {
  const i: number = globalId.x;
  if (i >= n) return;
  const local = (v: number) => { if (v > 3) return v - 3; return v; };
  let sum = 0;
  let last = 0.0;
  for (let k = 0; k < n; k += STEP) {
    const v = x[k]!;
    if (v > 100) continue;
    if (v < 0) { sum -= v; last = v; } else { sum += v; }
  }
  function halve(v: number): number { return v * 0.5; }
  let steps = 0;
  while (steps < 3 && sum < 1000) { sum += a; steps++; }
  if (a > 0) atomicAdd(target, 2, 1);
  if (a > 1) { target[0] = local(sum); target[1] = double(last); }
  else target[0] = halve(sum);
  target[3] = a > 5 ? 1 : f32(steps);
};
export { twice };
`;

type Module = { readonly kernel: never; readonly twice: never };

/** Evaluate a module's CommonJS text in this process. */
function evaluated(text: string, prelude = ''): Module {
  const module = { exports: {} as Module };
  new Function('module', 'exports', prelude + text)(module, module.exports);
  return module.exports;
}

const transformed = (options: TransformOptions): Module =>
  evaluated(transformSync(SOURCE, { loader: 'ts', format: 'cjs', target: 'es2022', ...options }).code);

function compiled({ kernel, twice }: Module): KernelIr {
  return defineKernel('captured', schema, kernel, { twice, STEP: 1 });
}

/** The same results as the kernel has in JavaScript. */
function check(ir: KernelIr): void {
  for (const a of [2, 0.5, -1]) {
    const args = { x: [1, 200, -2, 5], y: [0, 0, 0, 0], n: 4, a };
    interpret(ir, args);
    const sum = 8 + 3 * a;
    const expected = a > 1 ? [sum - 3, -4, 1, 3] : [sum / 2, 0, a > 0 ? 1 : 0, 3];
    assert.deepEqual(args.y, expected);
  }
}

const settings: Record<string, TransformOptions> = {
  'esbuild, types removed': {},
  'tsx: names kept, whitespace minified': { keepNames: true, minifyWhitespace: true },
  'esbuild, names kept': { keepNames: true },
  'esbuild, syntax minified': { minifySyntax: true },
  'esbuild, identifiers minified': { minifyIdentifiers: true },
  'esbuild, all minified': { minify: true },
  'esbuild, all minified, names kept': { minify: true, keepNames: true },
};

for (const [name, options] of Object.entries(settings)) {
  test(`captured from ${name}`, () => check(compiled(transformed(options))));
}

test('what terser and oxc make of choices: f(c ? 4 : n) of two calls, +(a === b) of 1 and 0, functions called where they stand', () => {
  const kernel = new Function(`return ({ x, y, n, a }, { local, f32, SIZE }) => {
    const sum = (size) => ((count) => {
      const kept = local(f32, count);
      for (let i = 0; i < count; i++) kept[i] = x[i];
      let all = +(a > 1);
      for (let i = 0; i < count; i++) all += kept[i];
      return all;
    })(size);
    y[0] = sum(n > 3 ? SIZE : SIZE - 2) + +!0;
  }`)() as never;
  const ir = defineKernel('chosen', schema, kernel, { SIZE: 4 });
  for (const [n, a, expected] of [
    [4, 2, 12],
    [3, 0, 4],
  ] as const) {
    const args = { x: [1, 2, 3, 4], y: [0], n, a };
    interpret(ir, args);
    assert.deepEqual(args.y, [expected]);
  }
});

test('captured from istanbul', () => {
  const prelude = 'const cov_1a2b = () => ({ s: [], b: [[0, 0]], f: [] });';
  const text = `cov_1a2b().s[0]++;
  const twice = v => { cov_1a2b().f[1]++; cov_1a2b().s[9]++; return v * 2; };
  const kernel = ({ x, y: target, n, a }, { globalId, atomicAdd, f32, twice: double, STEP }) => {
    cov_1a2b().f[0]++;
    const i = (cov_1a2b().s[1]++, globalId.x);
    cov_1a2b().s[2]++;
    if (i >= n) { cov_1a2b().b[0][0]++; cov_1a2b().s[3]++; return; } else { cov_1a2b().b[0][1]++; }
    let sum = (cov_1a2b().s[4]++, 0);
    let last = (cov_1a2b().s[4]++, 0);
    cov_1a2b().s[5]++;
    for (let k = (cov_1a2b().s[6]++, 0); k < n; k += STEP) {
      const v = (cov_1a2b().s[7]++, x[k]);
      cov_1a2b().s[8]++;
      if (v > 100) { cov_1a2b().b[1][0]++; cov_1a2b().s[3]++; continue; } else { cov_1a2b().b[1][1]++; }
      if (v < 0) { cov_1a2b().b[2][0]++; sum -= v; last = v; } else { cov_1a2b().b[2][1]++; sum += v; }
    }
    let steps = (cov_1a2b().s[4]++, 0);
    while ((cov_1a2b().b[3][0]++, steps < 3) && (cov_1a2b().b[3][1]++, sum < 1000)) { sum += a; steps++; }
    if (a > 0) { cov_1a2b().s[3]++; atomicAdd(target, 2, 1); }
    if (a > 1) { target[0] = sum > 3 ? (cov_1a2b().b[4][0]++, sum - 3) : (cov_1a2b().b[4][1]++, sum); target[1] = double(last); }
    else { target[0] = sum * 0.5; }
    target[3] = a > 5 ? (cov_1a2b().b[5][0]++, 1) : (cov_1a2b().b[5][1]++, f32(steps));
  };
  module.exports = { kernel, twice };`;
  check(compiled(evaluated(text, prelude)));
});

test('a function whose text has no file is located in its own text', () => {
  const kernel = new Function('return ({ x, n }) => {\n  x[0] = n;\n}')() as never;
  assert.throws(
    () => defineKernel('loose', schema, kernel),
    (error) => {
      assert.ok(error instanceof KernelError && error.at);
      const { file, line, text } = error.at;
      assert.deepEqual({ file, line, text }, { file: 'kernel loose', line: 2, text: '  x[0] = n;' });
      return true;
    },
  );
});

test('methods and function expressions are kernels as well', () => {
  const object = {
    run({ y, n }: { y: { [i: number]: number }; n: number }): void {
      if (n > 0) y[0] = 7;
    },
  };
  for (const fn of [
    object.run,
    function named({ y }: { y: { [i: number]: number } }): void {
      y[0] = 7;
    },
  ]) {
    const args = { x: [], y: [0], n: 1, a: 0 };
    interpret(defineKernel('m', schema, fn), args);
    assert.deepEqual(args.y, [7]);
  }
});

/** Run a file with a kernel error in another process; what it says about the place. */
function errorFrom(
  file: string,
  text: string,
  flags: readonly string[],
  extra: Record<string, string> = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-capture-'));
  try {
    const path = join(folder, file);
    for (const [name, content] of Object.entries({ ...extra, [file]: text }))
      writeFileSync(join(folder, name), content);
    return execFileSync(process.execPath, [...flags, path], { encoding: 'utf8' }).replaceAll(
      folder,
      'FOLDER',
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const language = new URL('../../src/kernel/language/index.js', import.meta.url).href;
const FAULTY = `import { defineKernel, buffer, f32, i32 } from '${language}';
interface Unused { readonly gone: number }
const define = (n: number): string => {
  try {
    defineKernel('faulty', { x: buffer(f32), n: i32 }, ({ x, n }, { globalId }) => {
      const i: number = globalId.x;
      if (i < n) {
        x[i] = n / 2;
      }
    });
  } catch (error) {
    return (error as Error).message;
  }
  return String(n);
};
console.log(define(1));
`;
const PLACE = `  at FOLDER/faulty.ts:8:16
  |         x[i] = n / 2;
  |                ^`;

test('an error under tsx is placed in the TypeScript file', () => {
  const text = errorFrom('faulty.ts', FAULTY, ['--import', import.meta.resolve('tsx')]);
  assert.ok(text.includes(PLACE), text);
});

test('an error in a bundle is placed by its source map, minified or not', () => {
  for (const minify of [false, true]) {
    for (const sourcemap of ['inline', 'external'] as const) {
      const { code, map } = transformSync(FAULTY, {
        loader: 'ts',
        format: 'esm',
        sourcefile: 'faulty.ts',
        sourcemap,
        minify,
        keepNames: true,
      });
      const reference = sourcemap === 'external' ? '\n//# sourceMappingURL=bundle.mjs.map' : '';
      const text = errorFrom(
        'bundle.mjs',
        code + reference,
        [],
        sourcemap === 'external' ? { 'bundle.mjs.map': map } : {},
      );
      assert.ok(text.includes('faulty.ts:8:1'), text);
      assert.ok(text.includes('  |         x[i] = n / 2;'), text);
    }
  }
});

test('the place of an error is found in a file without a source map', () => {
  const { code } = transformSync(FAULTY, { loader: 'ts', format: 'esm' });
  const line = code.split('\n').findIndex((l) => /x\[i\] = n\d* \/ 2/.test(l)) + 1;
  assert.ok(line > 0);
  assert.match(errorFrom('plain.mjs', code, []), new RegExp(`at FOLDER/plain\\.mjs:${line}:`));
});

test('a name that minifiers give to several variables', () => {
  const ir = defineKernel(
    'reused',
    schema,
    ({ y, n, a }, { STEPS }) => {
      for (let c = 0; c < n; c++) y[0] = y[0]! + 1;
      for (let u = 0; u < STEPS.length; u++) {
        // biome-ignore lint/style/useConst: as minifiers write it
        let c = STEPS[u]!;
        y[0] = y[0]! + c.by;
      }
      const twice = (c: number): number => {
        c *= 2;
        return c;
      };
      y[1] = twice(a);
    },
    { STEPS: [{ by: 1 }, { by: 3 }] },
  );
  const args = { x: [], y: [0, 0], n: 3, a: 4 };
  interpret(ir, args);
  assert.deepEqual(args.y, [7, 8]);
});

test('a variable is settable where its own name is set, in a nested function too', () => {
  const ir = defineKernel('counted', schema, ({ y, n }, { f32 }) => {
    let sum = 0;
    const add = (by: number): void => {
      sum += by;
    };
    for (let i = 0; i < n; i++) add(f32(i));
    y[0] = sum;
    {
      let sum = 5;
      sum++;
      y[1] = f32(sum);
    }
  });
  const args = { x: [], y: [0, 0], n: 4, a: 0 };
  interpret(ir, args);
  assert.deepEqual(args.y, [6, 6]);
});

test('a long line is quoted around the place of the error', () => {
  const text = `x[0] = 1;${'x[1] = 2; '.repeat(1000)}x[2] = n;${' x[3] = 3;'.repeat(1000)}`;
  const fn = new Function('{ x, n }', text) as never;
  assert.throws(
    () => defineKernel('long', schema, fn),
    (error: unknown) => {
      assert.ok(error instanceof KernelError);
      assert.ok(error.message.length < 600, error.message);
      const [, quoted, caret] = error.message.match(/\| (.*)\n {2}\| ( *\^)$/)!;
      assert.equal(quoted!.slice(caret!.length - 1).slice(0, 1), 'n');
      assert.match(quoted!, /^….*x\[2\] = n; x\[3\] = 3;.*…$/);
      return true;
    },
  );
});

test('an inspector that answers late, with errors or not at all costs only the place', async () => {
  const real = process.getBuiltinModule;
  type Answer = (error: Error | null, answer?: object) => void;
  const late = (answer: Answer): unknown => setTimeout(() => answer(new Error('late')), 0);
  const posts: ((method: string, params: object, answer: Answer) => void)[] = [
    (_method, _params, answer) => late(answer),
    (_method, _params, answer) => answer(new Error('unknown method')),
    (_method, _params, answer) => answer(null, {}),
    () => {},
    () => {
      throw new Error('not implemented');
    },
  ];
  const refused = posts.map((post) => {
    class Session {
      post = post;
      on(): void {}
      connect(): void {}
      disconnect(): void {
        throw new Error('not connected');
      }
    }
    process.getBuiltinModule = (() => ({ Session })) as unknown as typeof real;
    try {
      defineKernel('faulty', schema, ({ y, n }) => {
        y[0] = n;
      });
    } catch (error) {
      return String(error);
    } finally {
      process.getBuiltinModule = real;
    }
    return 'accepted';
  });
  for (const text of refused) assert.match(text, /at kernel faulty:2:\d+\n {2}\| +y\[0\] = n;/);
  // What is thrown by a late answer would end the process.
  await new Promise((resolve) => setTimeout(resolve, 5));
});
