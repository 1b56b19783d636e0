/** Each finding of the simulator, by a kernel that has exactly that fault; and the corrected kernel, clean. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bool, type DType, f32, i32 } from '../../src/core/dtype.js';
import { type FindingKind, type Location, SimulatorError } from '../../src/core/errors.js';
import {
  type ArrayDecl,
  alu,
  arrayNode,
  assertion,
  barrier,
  block,
  bufferParam,
  constant,
  declare,
  type Expr,
  effect,
  forLoop,
  int,
  intrinsic,
  type KernelIr,
  leave,
  load,
  type Param,
  print,
  read,
  type Statement,
  set,
  special,
  splat,
  store,
  type Variable,
  when,
  whileLoop,
} from '../../src/kernel/ir/ir.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import type { LaunchConfig } from '../../src/runtime/launch-rules.js';
import { type SimArguments, simulate } from '../../src/runtime/sim/launch.js';
import type { RunOptions } from '../../src/runtime/sim/run.js';

const at = (line: number): Location => ({ file: 'kernel.ts', line, column: 3, text: `  line ${line};` });
const x: Param = { name: 'x', schema: buffer(f32) };
const y: Param = { name: 'y', schema: buffer(f32) };
const counter: Param = { name: 'counter', schema: buffer(i32) };
const tid = special('threadIdx.x');
const bid = special('blockIdx.x');
const f = (v: number): Expr => constant(f32, v);
const add = (a: Expr, b: Expr): Expr => alu('add', [a, b]);
const mod = (a: Expr, b: number): Expr => alu('mod', [a, int(b)]);
const lt = (a: Expr, b: Expr): Expr => alu('lt', [a, b]);
const eq = (a: Expr, b: Expr): Expr => alu('eq', [a, b]);
const shared = (dims: number[], dtype: DType = f32): ArrayDecl => ({
  ...{ name: 's', dtype, space: 'shared', dims, lanes: 1 },
});
const kernel = (params: Param[], body: Statement[], arrays: ArrayDecl[] = []): KernelIr => ({
  ...{ name: 'k', params, arrays, body: block(body) },
});

type Triple = readonly [number, number, number];

function finds(
  ir: KernelIr,
  config: LaunchConfig,
  args: SimArguments,
  expected: { kind: FindingKind; line: number; block?: Triple; thread?: Triple; message: RegExp },
  options?: RunOptions,
): void {
  assert.throws(
    () => simulate(ir, config, args, options),
    (error: unknown) => {
      assert.ok(error instanceof SimulatorError, String(error));
      assert.equal(error.kind, expected.kind, error.message);
      assert.equal(error.at?.line, expected.line, error.message);
      assert.deepEqual(error.block, expected.block ?? [0, 0, 0], error.message);
      assert.deepEqual(error.thread, expected.thread ?? [0, 0, 0], error.message);
      assert.match(error.message, expected.message);
      assert.match(error.message, new RegExp(`kernel.ts:${expected.line}:3\\n`));
      return true;
    },
  );
}

test('a load past the end of a buffer', () => {
  const globalId = add(alu('mul', [bid, special('blockDim.x')]), tid);
  const copy = store(bufferParam(y), load(bufferParam(x), [globalId], 1, at(4)), [globalId], at(5));
  const arrays = { x: new Float32Array(6), y: new Float32Array(8) };
  finds(kernel([x, y], [copy]), { grid: 2, block: 4 }, arrays, {
    ...{ kind: 'out-of-bounds', line: 4, block: [1, 0, 0], thread: [2, 0, 0] },
    message: /^x\[6\] is outside 0 to 5\./,
  });
  simulate(kernel([x, y], [when(lt(globalId, int(6)), copy)]), { grid: 2, block: 4 }, arrays);
});

test('a store before the start of a buffer', () => {
  finds(
    kernel([y], [store(bufferParam(y), f(1), [alu('sub', [tid, int(1)])], at(2))]),
    { grid: 1, block: 2 },
    { y: new Float32Array(2) },
    { kind: 'out-of-bounds', line: 2, message: /y\[-1\] is outside 0 to 1/ },
  );
});

test('an empty buffer has no elements', () => {
  finds(
    kernel([y], [store(bufferParam(y), f(1), [int(0)], at(2))]),
    { grid: 1, block: 1 },
    { y: new Float32Array(0) },
    { kind: 'out-of-bounds', line: 2, message: /outside an empty array/ },
  );
});

test('each dimension of a shared array is checked, though the flat index may fit', () => {
  const tile = shared([4, 8]);
  const write = (column: Expr): Statement => store(arrayNode(tile), f(1), [int(1), column], at(3));
  finds(
    kernel([], [write(add(tid, int(7)))], [tile]),
    { grid: 1, block: 2 },
    {},
    {
      kind: 'out-of-bounds',
      line: 3,
      thread: [1, 0, 0],
      message: /s: index 8 of dimension 1 is outside 0 to 7/,
    },
  );
  simulate(kernel([], [write(tid)], [tile]), { grid: 1, block: 8 }, {});
});

test('a local array is checked too', () => {
  const registers: ArrayDecl = { name: 'r', dtype: f32, space: 'local', dims: [4], lanes: 1 };
  finds(
    kernel([], [store(arrayNode(registers), f(1), [int(4)], at(3))], [registers]),
    { grid: 1, block: 1 },
    {},
    { kind: 'out-of-bounds', line: 3, message: /r\[4\] is outside 0 to 3/ },
  );
});

test('a wide access that is not at a multiple of its lanes', () => {
  const wide = (index: Expr): KernelIr =>
    kernel([y], [store(bufferParam(y), splat(f(1), 4), [index], at(2))]);
  const arrays = { y: new Float32Array(16) };
  finds(wide(alu('mul', [tid, int(2)])), { grid: 1, block: 4 }, arrays, {
    ...{ kind: 'misaligned', line: 2, thread: [1, 0, 0] },
    message: /y\[2\]: 4 elements at once must start at a multiple of 4/,
  });
  finds(wide(int(16)), { grid: 1, block: 1 }, arrays, {
    ...{ kind: 'out-of-bounds', line: 2 },
    message: /y\[16\] to \[19\] is outside 0 to 15/,
  });
  simulate(wide(alu('mul', [tid, int(4)])), { grid: 1, block: 4 }, arrays);
  assert.deepEqual(arrays.y, new Float32Array(16).fill(1));
});

test('a wide access to shared memory must be aligned', () => {
  const s = shared([8]);
  finds(
    kernel([], [store(arrayNode(s), splat(f(1), 2), [int(3)], at(2))], [s]),
    { grid: 1, block: 1 },
    {},
    { kind: 'misaligned', line: 2, message: /s\[3\]: 2 elements/ },
  );
});

test('a read of shared memory that nothing was written to', () => {
  const s = shared([4]);
  const out = store(bufferParam(y), load(arrayNode(s), [tid], 1, at(6)), [tid]);
  const fill = (threads: number): Statement => when(lt(tid, int(threads)), store(arrayNode(s), f(2), [tid]));
  const arrays = { y: new Float32Array(4) };
  finds(kernel([y], [fill(3), barrier(), out], [s]), { grid: 1, block: 4 }, arrays, {
    ...{ kind: 'uninitialized-read', line: 6, thread: [3, 0, 0] },
    message: /s\[3\] is read before it is written/,
  });
  simulate(kernel([y], [fill(4), barrier(), out], [s]), { grid: 1, block: 4 }, arrays);
  assert.deepEqual(arrays.y, new Float32Array([2, 2, 2, 2]));
});

test('what an earlier block wrote to its shared memory is not there for the next', () => {
  const s = shared([1]);
  finds(
    kernel(
      [y],
      [
        when(eq(bid, int(0)), store(arrayNode(s), f(1), [int(0)])),
        store(bufferParam(y), load(arrayNode(s), [int(0)], 1, at(3)), [bid]),
      ],
      [s],
    ),
    { grid: 2, block: 1 },
    { y: new Float32Array(2) },
    { kind: 'uninitialized-read', line: 3, block: [1, 0, 0], message: /s\[0\] is read before/ },
  );
});

test('a sum into a local array that was not zeroed', () => {
  const acc: ArrayDecl = { name: 'acc', dtype: f32, space: 'local', dims: [2], lanes: 1 };
  const grow = store(arrayNode(acc), add(load(arrayNode(acc), [int(1)], 1, at(3)), f(1)), [int(1)], at(3));
  finds(
    kernel([], [grow], [acc]),
    { grid: 1, block: 1 },
    {},
    {
      ...{ kind: 'uninitialized-read', line: 3 },
      message: /acc\[1\] is read before it is written/,
    },
  );
  simulate(kernel([], [store(arrayNode(acc), f(0), [int(1)]), grow], [acc]), { grid: 1, block: 1 }, {});
});

test('a race in shared memory: a neighbour is read without a barrier', () => {
  const s = shared([32]);
  const put = store(arrayNode(s), f(1), [tid], at(2));
  const take = (line: number): Statement =>
    store(bufferParam(y), load(arrayNode(s), [mod(add(tid, int(1)), 32)], 1, at(line)), [tid], at(line));
  const first = store(arrayNode(s), f(0), [tid]);
  const arrays = { y: new Float32Array(32) };
  finds(kernel([y], [first, barrier(), put, take(3)], [s]), { grid: 1, block: 32 }, arrays, {
    ...{ kind: 'race', line: 2, thread: [1, 0, 0] },
    message:
      /a race on s\[1\]: thread \(1,0,0\) writes what thread \(0,0,0\) read \(line 3\), with no barrier/,
  });
  simulate(kernel([y], [first, barrier(), put, barrier(), take(3)], [s]), { grid: 1, block: 32 }, arrays);
});

test('a race in shared memory: written, then read in the same interval', () => {
  const s = shared([32]);
  const odd = eq(mod(tid, 2), int(1));
  const put = when(odd, block([]), store(arrayNode(s), f(1), [tid], at(2)));
  const take = when(
    odd,
    store(bufferParam(y), load(arrayNode(s), [alu('sub', [tid, int(1)])], 1, at(5)), [tid]),
  );
  const arrays = { y: new Float32Array(32) };
  finds(kernel([y], [put, take], [s]), { grid: 1, block: 32 }, arrays, {
    ...{ kind: 'race', line: 5, thread: [1, 0, 0] },
    message: /s\[0\]: thread \(1,0,0\) reads what thread \(0,0,0\) wrote \(line 2\)/,
  });
  simulate(kernel([y], [put, barrier(), take], [s]), { grid: 1, block: 32 }, arrays);
});

test('a race on a loop: the second tile is written while others may still read the first', () => {
  const s = shared([8]);
  const k: Variable = { name: 'k', type: value(i32), constant: true };
  const body = (last: Statement[]): Statement =>
    block([
      store(arrayNode(s), f(1), [tid], at(3)),
      barrier(at(4)),
      store(bufferParam(y), load(arrayNode(s), [mod(add(tid, int(1)), 8)], 1, at(5)), [tid], at(5)),
      ...last,
    ]);
  const loop = (last: Statement[]): KernelIr =>
    kernel([y], [forLoop(k, int(0), int(3), int(1), body(last))], [s]);
  const arrays = { y: new Float32Array(8) };
  finds(loop([]), { grid: 1, block: 8 }, arrays, {
    ...{ kind: 'race', line: 3, thread: [1, 0, 0] },
    message: /s\[1\]: thread \(1,0,0\) writes what thread \(0,0,0\) read \(line 5\)/,
  });
  simulate(loop([barrier(at(6))]), { grid: 1, block: 8 }, arrays);
});

test('two threads that write the same value to the same place still race', () => {
  finds(
    kernel([y], [store(bufferParam(y), f(1), [int(0)], at(2))]),
    { grid: 1, block: 2 },
    { y: new Float32Array(1) },
    { kind: 'race', line: 2, thread: [1, 0, 0], message: /writes what thread \(0,0,0\) wrote \(line 2\)/ },
  );
});

test('a race across blocks, that no barrier helps', () => {
  const put = store(bufferParam(y), f(1), [bid], at(2));
  const take = store(bufferParam(x), load(bufferParam(y), [int(0)], 1, at(4)), [bid]);
  finds(
    kernel([x, y], [put, barrier(at(3)), take]),
    { grid: 2, block: 1 },
    { x: new Float32Array(2), y: new Float32Array(2) },
    {
      ...{ kind: 'race', line: 4, block: [1, 0, 0] },
      message:
        /y\[0\]: thread \(0,0,0\) reads what thread \(0,0,0\) of block \(0,0,0\) wrote \(line 2\), and nothing orders blocks/,
    },
  );
});

test('an earlier block that read is remembered behind the running one', () => {
  const take = store(bufferParam(x), load(bufferParam(y), [int(0)], 1, at(2)), [bid]);
  const put = when(eq(bid, int(1)), store(bufferParam(y), f(1), [int(0)], at(3)));
  finds(
    kernel([x, y], [take, put]),
    { grid: 2, block: 1 },
    { x: new Float32Array(2), y: new Float32Array(2) },
    {
      kind: 'race',
      line: 3,
      block: [1, 0, 0],
      message: /writes what an earlier block read, and nothing orders blocks/,
    },
  );
});

test('atomics do not race with each other, but with plain accesses', () => {
  const addOne = effect(intrinsic('atomicAdd', [bufferParam(counter), int(0), int(1)], i32, at(2)), at(2));
  const args = { counter: new Int32Array(1) };
  simulate(kernel([counter], [addOne]), { grid: 3, block: 64 }, args);
  assert.equal(args.counter[0], 192);
  finds(
    kernel([counter], [addOne, when(eq(tid, int(0)), store(bufferParam(counter), int(0), [int(0)], at(3)))]),
    { grid: 1, block: 2 },
    args,
    {
      ...{ kind: 'race', line: 2, thread: [1, 0, 0] },
      message: /counter\[0\]: thread \(1,0,0\) atomically updates what thread \(0,0,0\) wrote \(line 3\)/,
    },
  );
});

test('parameters that look at the same memory race with each other', () => {
  const memory = new Float32Array(8);
  const ir = kernel([x, y], [store(bufferParam(y), load(bufferParam(x), [tid], 1, at(2)), [tid], at(2))]);
  simulate(ir, { grid: 1, block: 4 }, { x: memory, y: memory });
  finds(
    ir,
    { grid: 1, block: 4 },
    { x: memory.subarray(1), y: memory },
    {
      ...{ kind: 'race', line: 2, thread: [1, 0, 0] },
      message: /y\[1\]: thread \(1,0,0\) writes what thread \(0,0,0\) read/,
    },
  );
});

test('a barrier that some threads do not reach', () => {
  const half = lt(tid, int(16));
  const arrays = {};
  finds(kernel([], [when(half, barrier(at(3)))]), { grid: 2, block: 32 }, arrays, {
    ...{ kind: 'divergent-barrier', line: 3 },
    message: /barrier\(\) is reached by 16 of the block's 32 threads: thread \(16,0,0\) has returned/,
  });
  finds(kernel([], [when(half, leave(at(2))), barrier(at(3))]), { grid: 1, block: 32 }, arrays, {
    ...{ kind: 'divergent-barrier', line: 3, thread: [16, 0, 0] },
    message: /thread \(0,0,0\) has returned/,
  });
  finds(kernel([], [when(half, barrier(at(3)), barrier(at(5)))]), { grid: 1, block: 32 }, arrays, {
    ...{ kind: 'divergent-barrier', line: 3 },
    message: /thread \(16,0,0\) waits at barrier\(\) \(line 5\)/,
  });
  simulate(kernel([], [barrier(at(3))]), { grid: 2, block: 32 }, arrays);
});

test('a warp operation in divergent control flow', () => {
  const sum = (line: number): Statement => effect(intrinsic('warpSum', [tid], i32, at(line)), at(line));
  finds(
    kernel([], [when(lt(tid, int(8)), sum(3)), barrier(at(5))]),
    { grid: 1, block: 32 },
    {},
    {
      ...{ kind: 'divergent-barrier', line: 3 },
      message:
        /warpSum\(\) is reached by 8 of the warp's 32 running threads: thread \(8,0,0\) waits at barrier\(\) \(line 5\)/,
    },
  );
  finds(
    kernel([], [when(lt(tid, int(40)), sum(3), sum(4))]),
    { grid: 1, block: 64 },
    {},
    {
      ...{ kind: 'divergent-barrier', line: 3, thread: [32, 0, 0] },
      message: /8 of the warp's 32 running threads: thread \(40,0,0\) waits at warpSum\(\) \(line 4\)/,
    },
  );
  simulate(kernel([], [when(lt(tid, int(32)), sum(3), sum(4)), barrier(at(5))]), { grid: 1, block: 64 }, {});
});

test('a failed assert', () => {
  const ir = kernel(
    [x],
    [assertion(alu('ge', [load(bufferParam(x), [tid]), f(0)]), 'x is not negative', at(2))],
  );
  finds(
    ir,
    { grid: 1, block: [2, 2] },
    { x: new Float32Array([1, -1, 1, 1]) },
    {
      ...{ kind: 'assert', line: 2, thread: [1, 0, 0] },
      message: /assert failed: x is not negative/,
    },
  );
  simulate(ir, { grid: 1, block: [2, 1] }, { x: new Float32Array([1, 0]) });
});

test('a loop that never ends', () => {
  const i: Variable = { name: 'i', type: value(i32), constant: false };
  const loop = (by: number): KernelIr =>
    kernel(
      [],
      [
        declare(i, int(0)),
        whileLoop(lt(read(i), int(100)), block([]), block([set(i, add(read(i), int(by)))]), at(3)),
      ],
    );
  finds(
    loop(0),
    { grid: 1, block: 1 },
    {},
    {
      ...{ kind: 'step-budget', line: 3 },
      message: /more than 1000 loop iterations/,
    },
    { stepBudget: 1000 },
  );
  assert.equal(simulate(loop(1), { grid: 1, block: 2 }, {}, { stepBudget: 1000 }).steps, 200);
  const forever = kernel([], [whileLoop(constant(bool, true), block([barrier()]), block([]), at(2))]);
  finds(
    forever,
    { grid: 1, block: 2 },
    {},
    {
      ...{ kind: 'step-budget', line: 2 },
      message: /a runaway loop/,
    },
    { stepBudget: 1000 },
  );
});

test('print collects lines with the block and the thread', () => {
  const ir = kernel(
    [x],
    [when(eq(tid, int(1)), print('x = {}, i = {}', [load(bufferParam(x), [tid]), tid]))],
  );
  assert.deepEqual(simulate(ir, { grid: 2, block: 2 }, { x: new Float32Array([0, 0.1]) }).prints, [
    '[block (0,0,0) thread (1,0,0)] x = 0.1, i = 1',
    '[block (1,0,0) thread (1,0,0)] x = 0.1, i = 1',
  ]);
});
