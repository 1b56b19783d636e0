/** The passes one by one, and the verifier that stands between them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InternalError } from '../../src/core/errors.js';
import {
  alu,
  arrayNode,
  block,
  breakLoop,
  bufferParam,
  constant,
  declare,
  type Expr,
  forLoop,
  int,
  load,
  type Node,
  type Param,
  read,
  type Statement,
  set,
  store,
  type Variable,
  when,
} from '../../src/kernel/ir/ir.js';
import { printKernel } from '../../src/kernel/ir/print.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { value } from '../../src/kernel/ir/types.js';
import { verify } from '../../src/kernel/ir/verify.js';
import { bool, buffer, defineKernel, f32, i32, type KernelIr } from '../../src/kernel/language/index.js';
import { compile, PASSES } from '../../src/kernel/passes/pipeline.js';
import { promote } from '../../src/kernel/passes/promote.js';
import { simplify } from '../../src/kernel/passes/simplify.js';
import { unroll } from '../../src/kernel/passes/unroll.js';

const cpu: Target = { ...H200, name: 'cpu', model: 'blocks', units: 1, fma: false, capability: 0 };

/** The lines of a kernel's body. */
const lines = (ir: KernelIr): string[] =>
  printKernel(ir)
    .split('\n')
    .slice(1, -1)
    .map((l) => l.slice(2));

test('simplify: exact algebra only', () => {
  const ir = defineKernel('k', { x: buffer(f32), y: buffer(i32), a: f32, n: i32 }, ({ x, y, a, n }) => {
    x[0] = a * 1 + 0;
    x[1] = a / 1 - 0;
    x[2] = a * 0;
    y[0] = (n + 1) * 4 + 3 - 2;
    y[1] = n * 4 * 8 + (n + 5) + (n + 7);
    y[2] = n * 0 + (n | 0);
    y[3] = n % 1;
    y[4] = 2 + 3 * n;
  });
  assert.deepEqual(lines(simplify(ir)), [
    'x[0] = a + 0.0',
    'x[1] = a',
    'x[2] = a * 0.0',
    'y[0] = (n * 4) + 5',
    'y[1] = (((n * 32) + n) + n) + 12',
    'y[2] = n',
    'y[3] = 0',
    'y[4] = (n * 3) + 2',
  ]);
});

test('simplify: what is known is carried forward, what is unused goes', () => {
  const ir = defineKernel('k', { y: buffer(i32), n: i32 }, ({ y, n }, { i32, atomicAdd, local }) => {
    const four = i32(4);
    const dead = n * four;
    const unused = local(i32, 4);
    unused[0];
    const deader = dead + 1;
    let _never = deader;
    _never = n;
    if (four > 5) y[0] = 1;
    else if (n > 2) y[1] = four;
    for (let i = 3; i < four; i++) y[i] = i;
    for (let i = 4; i < four; i++) y[i] = i;
    const _kept = atomicAdd(y, 0, 1);
    if (n > 5) {
      const _nothing = n;
    }
  });
  assert.deepEqual(lines(simplify(ir)), [
    'if n > 2',
    '  y[1] = 4',
    'y[3] = 3',
    'const _kept: i32 = atomicAdd(y, 0, 1)',
  ]);
});

test('unroll: short loops with constant bounds, inner ones first', () => {
  const ir = defineKernel('k', { y: buffer(i32), n: i32 }, ({ y, n }) => {
    for (let i = 0; i < n; i++) for (let j = 0; j < 2; j++) for (let k = 0; k <= 4; k += 4) y[i] += j + k;
    for (let i = 0; i < 17; i++) y[i] = i;
    for (let i = 0; i < 4; i++) {
      if (y[i] > 3) break;
      y[i] = 0;
    }
  });
  assert.deepEqual(lines(simplify(unroll(simplify(ir)))), [
    'for i from 0 to n step 1',
    '  y[i] = y[i]',
    '  y[i] = y[i] + 4',
    '  y[i] = y[i] + 1',
    '  y[i] = y[i] + 5',
    'for i_2 from 0 to 17 step 1 unroll',
    '  y[i_2] = i_2',
    'for i_3 from 0 to 4 step 1 unroll',
    '  if y[i_3] > 3',
    '    break',
    '  y[i_3] = 0',
  ]);
});

test('unroll: code that would grow too much stays a loop', () => {
  const ir = defineKernel('k', { y: buffer(i32) }, ({ y }) => {
    for (let a = 0; a < 16; a++)
      for (let b = 0; b < 16; b++) for (let c = 0; c < 16; c++) y[a * 256 + b * 16 + c] = 1;
  });
  const text = lines(simplify(unroll(simplify(ir))));
  assert.equal(text[0], 'for a from 0 to 16 step 1 unroll');
  assert.equal(text.length, 1 + 256);
});

test('promote: an array with one index that is not constant stays memory', () => {
  const ir = defineKernel('k', { y: buffer(i32), n: i32 }, ({ y, n }, { local, shared, i32 }) => {
    const a = local(i32, 2, 2);
    const b = local(i32, 2);
    const c = shared(i32, 2);
    a[1][1] = n;
    b[n] = n;
    b[0] = a[1][1];
    c[0] = 1;
    y[0] = a[1][1] + b[0] + c[0];
  });
  assert.deepEqual(lines(promote(simplify(ir))), [
    'local b: i32[2]',
    'shared c: i32[2]',
    'let a_3: i32 = 0',
    'a_3 = n',
    'b[n] = n',
    'b[0] = a_3',
    'c[0] = 1',
    'y[0] = (a_3 + b[0]) + c[0]',
  ]);
});

test('promote: for the CUDA compiler where an array has many stores', () => {
  const sums = (terms: number): KernelIr =>
    defineKernel(
      'k',
      { x: buffer(f32), y: buffer(f32) },
      ({ x, y }, { local, f32, PLACES }) => {
        const a = local(f32, 4);
        for (let i = 0; i < 4; i++) a[i] = 0;
        // A list needs its places as constants, so that this loop is unrolled from the start.
        for (let t = 0; t < PLACES.length; t++) a[PLACES[t]!] = a[PLACES[t]!]! + x[t]!;
        for (let i = 0; i < 4; i++) y[i] = a[i]!;
      },
      { PLACES: Array.from({ length: terms }, (_, t) => t % 4) },
    );
  const cuda: Target = { ...H200, name: 'cuda' };
  const arraysOf = (terms: number): string[] => compile(sums(terms), cuda).arrays.map(({ name }) => name);
  assert.deepEqual(arraysOf(100), ['a']);
  assert.deepEqual(arraysOf(600), []);
});

test('compile: a page of named passes', () => {
  assert.deepEqual(
    PASSES.map((p) => p.name),
    [
      ...['serialize', 'simplify', 'unroll', 'simplify-unrolled', 'promote', 'promote-for-cuda'],
      ...['branch', 'decompose', 'address', 'hoist', 'hoist-blocks', 'strength', 'share', 'atomics'],
      ...['copies', 'limit-unrolling', 'overlap'],
    ],
  );
  const ir = defineKernel('k', { y: buffer(i32) }, ({ y }) => {
    for (let i = 0; i < 2; i++) y[i] = 1;
  });
  assert.equal(
    compile(ir, { ...cpu, name: 'sim', model: 'threads' }),
    ir,
    'the simulator runs what was written',
  );
  assert.deepEqual(lines(compile(ir, { ...cpu, name: 'cuda', model: 'threads' })), [
    'for i from 0 to 2 step 1 unroll',
    '  y[i] = 1',
  ]);
});

// ── The verifier ─────────────────────────────────────────────────────────────────────────────────────────────────

const y: Param = { name: 'y', schema: buffer(i32) };
const kernelOf = (...body: Statement[]): KernelIr => ({
  name: 'k',
  params: [y],
  arrays: [],
  body: block(body),
});
const variable = (name: string, constantForGood = false): Variable => ({
  name,
  type: value(i32),
  constant: constantForGood,
});
const bad = (node: unknown): never => node as never;

const v = variable('v');
const fixed = variable('fixed', true);
const i = variable('i', true);
const yes = constant(bool, true);

/** The body after all passes for a GPU whose launches overlap. */
const onGpu = (ir: KernelIr): string[] => lines(compile(ir, { ...H200, overlapped: true }));
const [WAIT, START] = ['waitForEarlierLaunches()', 'startLaterLaunches()'];

test('overlap: a launch waits before it touches memory or ends, on every way', () => {
  const schema = { x: buffer(f32), y: buffer(f32), n: i32 };
  const plain = defineKernel('k', schema, ({ x, y }, { blockIdx }) => {
    let i = blockIdx.x * 7;
    i += 1;
    y[i] = x[i]!;
    y[0] = x[1]!;
  });
  assert.deepEqual(onGpu(plain), [
    'let i: i32 = blockIdx.x * 7',
    'i = i + 1',
    WAIT,
    'y[i] = x[i]',
    'y[0] = x[1]',
    START,
  ]);
  const branches = defineKernel('k', schema, ({ x, y, n }, { blockIdx }) => {
    const i = blockIdx.x;
    if (i < n) y[i] = x[i]!;
  });
  assert.deepEqual(onGpu(branches), [
    'if blockIdx.x < n',
    `  ${WAIT}`,
    '  y[blockIdx.x] = x[blockIdx.x]',
    'else',
    `  ${WAIT}`,
    START,
  ]);
  const condition = defineKernel('k', schema, ({ x, y }) => {
    if (x[0]! < 1) y[0] = x[2]!;
  });
  assert.deepEqual(onGpu(condition), [WAIT, 'if x[0] < 1.0', '  y[0] = x[2]', START]);
  const asserted = defineKernel('k', schema, ({ n }, { assert }) => {
    assert(n < 9, 'small');
  });
  assert.deepEqual(onGpu(asserted), [WAIT, 'assert n < 9, "small"', START]);
  assert.deepEqual(onGpu(defineKernel('k', schema, () => {})), [WAIT, START]);
});

test('limit-unrolling and copies: what the CUDA compiler is not asked for', () => {
  const loops = defineKernel('k', { y: buffer(i32) }, ({ y }) => {
    for (let i = 0; i < 128; i++) y[i] = i;
    for (let i = 0; i < 129; i++) y[i] = i;
  });
  assert.deepEqual(lines(compile(loops, H200)), [
    'for i from 0 to 128 step 1 unroll',
    '  y[i] = i',
    'for i_2 from 0 to 129 step 1',
    '  y[i_2] = i_2',
  ]);
  // The inner loop alone is small enough to be unrolled; a hundred of it are not.
  const large = defineKernel('k', { y: buffer(i32) }, ({ y }) => {
    for (let i = 0; i < 100; i++) for (let j = 0; j < 128; j++) y[i] = y[i]! * j;
  });
  assert.deepEqual(lines(compile(large, H200)), [
    'for i from 0 to 100 step 1',
    '  for j from 0 to 128 step 1 unroll',
    '    y[i] = y[i] * j',
  ]);
  // Long rounds that wait for threads stay a loop, unless their number says which registers they take.
  const rounds = (chooses: boolean): KernelIr =>
    defineKernel(
      'k',
      { y: buffer(f32) },
      ({ y }, { barrier, chooses, f32, idiv, local }) => {
        const sums = local(f32, 8);
        for (let i = 0; i < 8; i++) {
          const first = i * 2;
          for (let j = 0; j < 128; j++) y[first] = y[first + j]! * 2;
          barrier();
          sums[chooses ? idiv(first, 2) : 0] = y[first];
        }
      },
      { chooses },
    );
  const [outer, inner] = ['for i from 0 to 8 step 1', 'for j from 0 to 128 step 1 unroll'];
  for (const chooses of [false, true])
    assert.deepEqual(
      lines(compile(rounds(chooses), H200)).filter((line) => line.includes('for ')),
      [`${outer}${chooses ? ' unroll' : ' rolled'}`, `  ${inner}`],
    );
  // The CUDA compiler is told to keep loops that wait for phases, and the loops around these.
  const phases = defineKernel('k', { n: i32 }, ({ n }, { arrive, mbarriers, waitBarrier }) => {
    const full = mbarriers(1);
    for (let tile = 0; tile < n; tile++) {
      for (let i = 0; i < n; i++) waitBarrier(full, 0, i);
      for (let i = 0; i < n; i++) arrive(full, 0);
    }
  });
  assert.deepEqual(
    lines(compile(phases, H200)).filter((line) => line.includes('for ')),
    [
      'for tile from 0 to n step 1 rolled',
      '  for i from 0 to n step 1 rolled',
      '  for i_2 from 0 to n step 1',
    ],
  );
  const copies = defineKernel('k', { x: buffer(f32), n: i32 }, ({ x, n }, { copyAsync, shared, f32 }) => {
    const s = shared(f32, 4);
    copyAsync(s, 0, x, n, n > 0);
    copyAsync(s, 1, x, n, n > 0 && n < 0 && false);
  });
  const ways = compile(copies, H200).body.src.map((s) => (s as Statement).arg);
  assert.deepEqual(ways, ['async', null]);
});

test('atomics: those without an instruction become updates', () => {
  const ir = defineKernel('k', { x: buffer(f32), y: buffer(i32) }, ({ x, y }, { atomicAdd, atomicMax }) => {
    x[1] = atomicAdd(x, 0, x[2]! * 3);
    atomicMax(y, 0, 7);
    atomicAdd(y, 1, 7);
  });
  assert.deepEqual(lines(compile(ir, cpu)).slice(1), [
    'const argument: f32 = x[x][8] * 3.0',
    'let old: f32 = update x[x][0] to old + argument',
    'const atomicAdd: f32 = old',
    'x[x][4] = atomicAdd',
    'let old_2: i32 = update y[y][0] to Math.max(old_2, 7)',
    'atomicAdd(y, y, 4, 7)',
  ]);
});

test('unroll: a loop that is never to be unrolled stays', () => {
  const loop = (unroll: boolean | 'never'): KernelIr =>
    kernelOf(forLoop(i, int(0), int(2), int(1), block([store(bufferParam(y), read(i), [int(0)])]), unroll));
  assert.deepEqual(lines(unroll(loop(false))), ['y[0] = 0', 'y[0] = 1']);
  assert.deepEqual(lines(unroll(loop('never'))), ['for i from 0 to 2 step 1 loop', '  y[0] = i']);
});

const broken: Record<string, [KernelIr, RegExp]> = {
  'a variable that is not declared': [
    kernelOf(store(bufferParam(y), read(v), [int(0)])),
    /v is not declared here/,
  ],
  'a variable outside of its block': [
    kernelOf(when(yes, block([declare(v, int(1))])), set(v, int(2))),
    /`set`.*v may not be set here/,
  ],
  'a constant that is set': [
    kernelOf(declare(fixed, int(1)), set(fixed, int(2))),
    /fixed may not be set here/,
  ],
  'a loop variable that is set': [
    kernelOf(forLoop(i, int(0), int(2), int(1), block([set(i, int(1))]))),
    /i may not be set here/,
  ],
  'two declarations': [kernelOf(declare(v, int(1)), declare(v, int(2))), /v is declared twice/],
  'another type': [kernelOf(declare(v, constant(f32, 1))), /has f32 where i32 is needed/],
  'a float stored as an integer': [
    kernelOf(store(bufferParam(y), constant(f32, 1), [int(0)])),
    /stores f32 to global i32/,
  ],
  'an index missing': [kernelOf(store(bufferParam(y), int(1), [])), /y takes 1 indices, got 0/],
  'a float index': [kernelOf(store(bufferParam(y), int(1), [constant(f32, 0)])), /an index is i32/],
  'memory of another kernel': [
    kernelOf(declare(v, load(bufferParam({ name: 'z', schema: buffer(i32) }), [int(0)]))),
    /z is not of this kernel/,
  ],
  'an array of another kernel': [
    kernelOf(
      declare(v, load(arrayNode({ name: 't', dtype: i32, space: 'local', dims: [2], lanes: 1 }), [int(0)])),
    ),
    /t is not of this kernel/,
  ],
  'a condition that is a number': [kernelOf(when(int(1), block([]))), /a condition is a scalar bool/],
  'a branch that is no block': [
    kernelOf(bad({ ...when(yes, block([])), src: [yes, breakLoop()] })),
    /a block is missing/,
  ],
  'break outside of a loop': [kernelOf(breakLoop()), /stands outside of a loop/],
  'an expression as a statement': [kernelOf(bad(int(1))), /`const`: is not a statement/],
  'operands that differ': [
    kernelOf(declare(v, bad({ ...alu('add', [int(1), int(2)]), src: [int(1), constant(f32, 2)] }))),
    /operands of add differ: i32,f32/,
  ],
  'an op that does not take the dtype': [
    kernelOf(declare(v, bad({ ...alu('neg', [int(1)]), arg: 'sqrt' }))),
    /sqrt does not take i32/,
  ],
  'a result of another type': [
    kernelOf(declare(v, bad({ ...alu('lt', [int(1), int(2)]), type: value(i32) }))),
    /lt has the type i32/,
  ],
  'a constant of another kind': [
    kernelOf(declare(v, bad({ ...int(1), arg: true }))),
    /true is not a value of i32/,
  ],
};

for (const [name, [ir, message]] of Object.entries(broken)) {
  test(`verify: ${name}`, () => {
    assert.throws(
      () => verify(ir, 'fold'),
      (error) =>
        error instanceof InternalError &&
        message.test(error.message) &&
        error.message.includes('kernel k, after the pass fold'),
    );
  });
}

test('verify: an expression that is shared a million times over is checked quickly', () => {
  let e: Expr = read(v);
  for (let k = 0; k < 20; k++) e = alu('add', [e, e]);
  verify(kernelOf(declare(v, int(1)), store(bufferParam(y), e, [int(0)])), 'parse');
  const count = (node: Node, seen = new Set<Node>()): number => {
    if (!seen.has(node)) for (const s of node.src) count(s as Node, seen.add(node));
    return seen.size;
  };
  assert.ok(count(simplify(kernelOf(declare(v, int(1)), store(bufferParam(y), e, [int(0)]))).body) < 50);
});

test('HEDDLE_CHECK=1 verifies after every pass, and names the one that breaks a rule', () => {
  const ir = defineKernel(
    'k',
    { y: buffer(f32), n: i32 },
    ({ y, n }, { threadIdx, barrier, shared, f32 }) => {
      const s = shared(f32, 4);
      s[threadIdx.x] = Math.sin(y[threadIdx.x]!);
      barrier();
      for (let i = 0; i < n; i++) y[i * 4 + threadIdx.x] = n > 2 ? s[3 - threadIdx.x]! : 0;
    },
  );
  const broken = (pass: (typeof PASSES)[number]): typeof pass => ({
    ...pass,
    run: (...given) => {
      const now = pass.run(...given);
      return { ...now, body: block([...(now.body.src as Statement[]), breakLoop()]) };
    },
  });
  const gpu: Target = { ...H200, overlapped: true };
  const before = process.env.HEDDLE_CHECK;
  try {
    for (const pass of PASSES) {
      const target = pass.when?.({ target: cpu, block: [4, 1, 1] }, ir) === false ? gpu : cpu;
      const passes = PASSES.map((p) => (p === pass ? broken(p) : p));
      process.env.HEDDLE_CHECK = '1';
      assert.throws(
        () => compile(ir, target, [4, 1, 1], passes),
        new RegExp(`kernel k, after the pass ${pass.name}: \`break\``),
      );
      process.env.HEDDLE_CHECK = '0';
      compile(ir, target, [4, 1, 1], passes);
    }
    process.env.HEDDLE_CHECK = '1';
    compile(ir, cpu, [4, 1, 1]);
  } finally {
    if (before === undefined) delete process.env.HEDDLE_CHECK;
    else process.env.HEDDLE_CHECK = before;
  }
});

test('verify: a lowered kernel names addresses, and its locals end with it', () => {
  const from = kernelOf();
  const lowered = { from, once: block([]), scratchBytes: 0 };
  const write = store(bufferParam(y), int(1), [int(0)]);
  const chosen = block([when(yes, block([set(v, int(1))])), declare(variable('w'), read(v))]);
  verify({ ...from, body: chosen, lowered: { ...lowered, scratchBytes: undefined } }, 'branch');
  assert.throws(() => verify({ ...from, body: chosen }, 'branch'), /v may not be set here/);
  const late = block([declare(variable('w'), read(v)), set(v, int(1))]);
  assert.throws(() => verify({ ...from, body: late, lowered }, 'hoist'), /v is not declared here/);
  assert.throws(
    () => verify({ ...from, body: block([write]), lowered }, 'address'),
    /y takes 2 indices, got 1/,
  );
  const moving = store(bufferParam(y), int(1), [int(0), alu('add', [int(1), int(2)])]);
  assert.throws(
    () => verify({ ...from, body: block([moving]), lowered }, 'address'),
    /an offset is a constant/,
  );
});
