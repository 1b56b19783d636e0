/** Random race-free kernels compute the same with threads and, serialized, with loops. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import fc from 'fast-check';
import { i32 } from '../../src/core/dtype.js';
import {
  type ArrayDecl,
  alu,
  arrayNode,
  barrier,
  block,
  breakLoop,
  bufferParam,
  continueLoop,
  declare,
  type Expr,
  forLoop,
  int,
  intrinsic,
  type KernelIr,
  leave,
  load,
  type Param,
  read,
  type Statement,
  set,
  special,
  store,
  type Variable,
  when,
  whileLoop,
} from '../../src/kernel/ir/ir.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import { verify } from '../../src/kernel/ir/verify.js';
import { serialize } from '../../src/kernel/serialize/serialize.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { property } from '../property.js';

const THREADS = 36;
const cpu = new CpuDevice();
after(() => cpu.close());
const tid = special('threadIdx.x');
const place = alu('add', [alu('mul', [special('blockIdx.x'), int(THREADS)]), tid]);
const y: Param = { name: 'y', schema: buffer(i32) };
const s: ArrayDecl = { name: 's', dtype: i32, space: 'shared', dims: [THREADS], lanes: 1 };
const r: ArrayDecl = { name: 'r', dtype: i32, space: 'local', dims: [2], lanes: 1 };
const settable = (name: string): Variable => ({ name, type: value(i32), constant: false });
const mine = [settable('a'), settable('b')];
const common = settable('common');

const add = (p: Expr, q: Expr): Expr => alu('add', [p, q]);
const modulo = (p: Expr, n: number): Expr => alu('mod', [alu('and', [p, int(0x7fffffff)]), int(n)]);

type Plan =
  | {
      readonly do: 'mix' | 'register' | 'exchange' | 'warp' | 'common';
      readonly v: number;
      readonly k: number;
    }
  | { readonly do: 'leave'; readonly v: number; readonly k: number }
  | {
      readonly do: 'if' | 'for' | 'while';
      readonly agreed: boolean;
      readonly k: number;
      readonly body: Plan[];
    };

const plan = fc.letrec<{ list: Plan[]; step: Plan }>((tie) => ({
  list: fc.array(tie('step'), { maxLength: 4, depthIdentifier: 'list' }),
  step: fc.oneof(
    { depthIdentifier: 'list', maxDepth: 4 },
    fc.record({
      do: fc.constantFrom('mix', 'register', 'exchange', 'warp', 'common', 'leave'),
      v: fc.nat(1),
      k: fc.integer({ min: 1, max: 9 }),
    }) as fc.Arbitrary<Plan>,
    fc.record({
      do: fc.constantFrom('if', 'for', 'while'),
      agreed: fc.boolean(),
      k: fc.integer({ min: 1, max: 4 }),
      body: tie('list'),
    }) as fc.Arbitrary<Plan>,
  ),
})).list;

/** Statements for a plan. `agreed`: all threads are here; only then may they wait for each other. */
function statements(list: readonly Plan[], agreed: boolean, inLoop: boolean): Statement[] {
  return list.flatMap((p) => step(p, agreed, inLoop));
}

function step(p: Plan, agreed: boolean, inLoop: boolean): Statement[] {
  switch (p.do) {
    case 'mix': {
      const other = read(mine[1 - p.v]!);
      return [set(mine[p.v]!, add(alu('mul', [read(mine[p.v]!), int(p.k)]), add(other, tid)))];
    }
    case 'register':
      return [
        set(mine[p.v]!, add(read(mine[p.v]!), load(arrayNode(r), [int(p.k % 2)]))),
        store(arrayNode(r), read(mine[1 - p.v]!), [int(p.v)]),
      ];
    case 'exchange':
      if (!agreed) return [];
      return [
        store(arrayNode(s), read(mine[p.v]!), [tid]),
        barrier(),
        set(mine[p.v]!, load(arrayNode(s), [modulo(add(tid, int(p.k)), THREADS)])),
        barrier(),
      ];
    case 'warp':
      if (!agreed) return [];
      return [
        set(
          mine[p.v]!,
          add(
            intrinsic(
              p.k % 2 ? 'warpSum' : 'shuffleUp',
              p.k % 2 ? [read(mine[p.v]!)] : [read(mine[p.v]!), int(p.k)],
              i32,
            ),
            int(1),
          ),
        ),
      ];
    case 'common':
      return agreed ? [set(common, add(read(common), int(p.k)))] : [set(mine[p.v]!, read(common))];
    case 'leave': {
      if (!inLoop) return [];
      const test = alu('eq', [modulo(agreed ? read(common) : read(mine[p.v]!), p.k), int(0)]);
      return [when(test, block([p.v ? breakLoop() : continueLoop()]))];
    }
    case 'if': {
      const together = agreed && p.agreed;
      const condition = alu('lt', [modulo(together ? read(common) : read(mine[0]!), 7), int(p.k)]);
      const half = p.body.length >> 1;
      const branch = (part: Plan[]): Statement =>
        block(statements(part, together, inLoop && together === agreed));
      return [when(condition, branch(p.body.slice(0, half + 1)), branch(p.body.slice(half + 1)))];
    }
    case 'for': {
      const together = agreed && p.agreed;
      const i: Variable = { name: 'i', type: value(i32), constant: true };
      const end = together ? int(p.k) : modulo(add(tid, int(p.k)), 3);
      const use = set(mine[0]!, add(read(mine[0]!), read(i)));
      return [forLoop(i, int(0), end, int(1), block([use, ...statements(p.body, together, true)]))];
    }
    case 'while': {
      const together = agreed && p.agreed;
      const n = settable('n');
      const condition = alu('lt', [read(n), together ? int(p.k) : modulo(tid, p.k)]);
      const update = block([set(n, add(read(n), int(1)))]);
      return [declare(n, int(0)), whileLoop(condition, block(statements(p.body, together, true)), update)];
    }
  }
}

/** A last part without barriers, in which threads return where they like. */
function ending(list: readonly Plan[]): Statement[] {
  const out = statements(list, false, false);
  const stop = (n: number): Statement =>
    when(alu('eq', [modulo(read(mine[0]!), n), int(0)]), block([leave()]));
  const put = store(bufferParam(y), read(mine[1]!), [place]);
  const i: Variable = { name: 'i', type: value(i32), constant: true };
  return [
    stop(5),
    ...out,
    put,
    when(alu('ge', [tid, int(20)]), block([stop(3), set(mine[1]!, int(7))]), block([put])),
    forLoop(i, int(0), int(4), int(1), block([set(mine[0]!, add(read(mine[0]!), read(i))), stop(4)])),
    store(bufferParam(y), add(read(mine[0]!), read(mine[1]!)), [place]),
  ];
}

property(
  'serialized kernels compute what their threads do',
  [plan, plan, fc.boolean()],
  async (list, last, early) => {
    const ir: KernelIr = {
      name: 'k',
      params: [y],
      arrays: [s, r],
      body: block([
        declare(mine[0]!, tid),
        declare(mine[1]!, alu('mul', [tid, tid])),
        declare(common, special('blockIdx.x')),
        store(arrayNode(r), int(1), [int(0)]),
        store(arrayNode(r), int(2), [int(1)]),
        ...(early ? [when(alu('eq', [read(common), int(2)]), block([leave()]))] : []),
        ...statements(list, true, false),
        ...ending(last),
      ]),
    };
    verify(ir, 'fuzz');
    const serial = serialize(ir, [THREADS, 1, 1]);
    verify(serial, 'serialize');
    const [threads, loops] = [new Int32Array(3 * THREADS), new Int32Array(3 * THREADS)];
    simulate(ir, { grid: 3, block: THREADS }, { y: threads });
    simulate(serial, { grid: 3, block: 1 }, { y: loops });
    assert.deepEqual(loops, threads);
    const out = cpu.allocate(threads.byteLength, 'y');
    const launch = { kernel: ir, grid: [3, 1, 1], block: [THREADS, 1, 1] } as const;
    const program = cpu.compile([{ ...launch, args: [{ slot: 0, offset: 0 }] }]);
    cpu.write(out, new Uint8Array(threads.byteLength));
    program.run([out]);
    const got = await cpu.read(out);
    program.dispose();
    cpu.free(out);
    assert.deepEqual(new Int32Array(got.buffer), threads, 'on the CPU device');
  },
);
