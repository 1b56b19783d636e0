/** Schedules on disk: what is read is what was scheduled, and it is read only where the same would be chosen. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import { doNow } from '../../src/core/later.js';
import { ObjectReader, ObjectWriter } from '../../src/core/object-table.js';
import { keptSchedule } from '../../src/engine/kept-schedule.js';
import type { Tuner } from '../../src/engine/tuner.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import { kernelFingerprint, knownKernelHash } from '../../src/kernel/ir/fingerprint.js';
import { packKernel, unpackKernel } from '../../src/kernel/ir/pack.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { conv2d } from '../../src/ops/conv2d/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import type { Schedule } from '../../src/schedule/launch.js';
import { fingerprint } from '../../src/schedule/passes/canonical.js';
import { type ScheduleOptions, schedule } from '../../src/schedule/schedule.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-schedules-'));
after(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true });
  process.env.HEDDLE_CACHE = folder;
});

const gpu = H200;
const cpu: Target = { ...gpu, name: 'cpu', model: 'blocks', units: 2, capability: 0 };

/** A convolution, a product, a softmax and a random number: hand-written kernels, generated ones, and a leaf that is updated. */
function graph(): GraphNode[] {
  const x = b.leaf([4, 1, 8, 8], f32, false);
  const kernel = b.leaf([2, 1, 3, 3], f32, false);
  const weights = b.leaf([72, 5], f32, false);
  const counter = b.leaf([], i32, false);
  const features = b.reshape(conv2d(x, kernel), [4, 72]);
  const logits = matmul(features, weights);
  const shifted = b.add(logits, b.expand(b.reduce('max', logits, [1]), [4, 5]));
  return [shifted, b.add(counter, b.like(counter, 1))];
}

/** A clock that only `kept` moves: how busy the machine is decides nothing. */
let clock = 0;
performance.now = () => clock;

interface Asked {
  readonly roots?: readonly GraphNode[];
  readonly target?: Target;
  readonly tuner?: Tuner;
  readonly options?: Omit<ScheduleOptions, 'tune'>;
  readonly ms?: number;
}

/** The schedule of the graph, and whether it was made anew. */
function kept(asked: Asked = {}): { of: Schedule; made: boolean } {
  const { roots = graph(), target = gpu, tuner, options = {}, ms = 20 } = asked;
  let made = false;
  const of = keptSchedule({ fingerprint: fingerprint(roots).text, target, options, tuner }, (all) => {
    made = true;
    clock += ms;
    return schedule(roots, target, all);
  });
  doNow();
  return { of, made };
}

const defined = (record: object): object =>
  Object.fromEntries(Object.entries(record).filter(([, v]) => v !== undefined));

/** All of a schedule, kernels as text. */
const described = ({ launches, ...rest }: Schedule): unknown => ({
  ...rest,
  launches: launches.map(({ work, call, ...launch }) => ({
    ...defined(launch),
    call: call && defined(call),
    work: 'kernel' in work ? { ...work, kernel: kernelFingerprint(work.kernel) } : work,
  })),
});

test('objects that are written are read as they were', () => {
  const shared = { v: -0, none: undefined };
  const whole = { a: shared, b: [shared, 5n, Number.NaN, -1 / 0, '#1', '', true, null], t: f32, n: 0.1 };
  const writer = new ObjectWriter();
  const [first, second] = [writer.write(whole), writer.write({ again: shared })];
  const reader = new ObjectReader();
  const read = reader.read(first) as typeof whole;
  assert.deepEqual(read, { ...whole, a: { v: -0 }, b: [{ v: -0 }, ...whole.b.slice(1)] });
  assert.equal(read.a, read.b[0]);
  assert.equal(read.t, f32);
  assert.equal((reader.read(second) as { again: unknown }).again, read.a);
});

for (const [name, target] of Object.entries({ gpu, cpu })) {
  test(`${name}: what is read is what was scheduled`, () => {
    const options = { updates: new Map([[1, 3]]) };
    const made = kept({ target, options });
    const read = kept({ target, options });
    assert.ok(made.made && !read.made);
    assert.deepEqual(described(read.of), described(made.of));
    const calls = read.of.launches.filter(
      (l) => l.call?.op === made.of.launches.find((m) => m.call)?.call?.op,
    );
    assert.ok(
      calls.every((l) => l.call === calls[0]!.call),
      'one object in all stages of a call',
    );
  });
}

test('a kernel that is read is the kernel that was written; its hash is known without a look inside', () => {
  kept();
  const { of } = kept();
  for (const { work } of of.launches) {
    if (!('kernel' in work)) continue;
    assert.ok(knownKernelHash(work.kernel));
    const copy = unpackKernel(...packKernel(work.kernel));
    assert.equal(knownKernelHash(copy), undefined);
    assert.equal(kernelFingerprint(copy), kernelFingerprint(work.kernel));
    assert.deepEqual(copy.params, work.kernel.params);
  }
});

test('another target, other options and other graphs have schedules of their own', () => {
  assert.ok(kept().made);
  assert.ok(kept({ target: { ...gpu, units: 78 } }).made);
  assert.ok(kept({ options: { kernels: false } }).made);
  assert.ok(kept({ options: { updates: new Map([[1, 3]]) } }).made);
  assert.ok(!kept().made);
});

test('what is scheduled quickly is not kept, and a damaged file is made anew', () => {
  kept({ ms: 0 });
  assert.ok(kept().made);
  const files = (): string[] => readdirSync(join(folder, 'schedule'));
  const [file] = files();
  const path = join(folder, 'schedule', file!);
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes);
  assert.ok(kept().made);
  assert.ok(!kept().made);
});

test('a tuned schedule is read only while the same variants are chosen', () => {
  const memory = new Map<string, string>();
  const tuner: Tuner = {
    tune: (requests) =>
      requests.map(({ key, variants }) => {
        const name = memory.get(key) ?? variants[0]!.name;
        memory.set(key, name);
        return name;
      }),
    measures: true,
    chosen: (key) => memory.get(key),
  };
  assert.ok(kept({ tuner }).made);
  assert.ok(memory.size > 0);
  assert.ok(!kept({ tuner }).made);
  memory.clear();
  assert.ok(kept({ tuner }).made, 'nothing is remembered any more: all is timed anew');
  assert.ok(kept().made, 'without a tuner each kernel takes its own guess');
});

test('a schedule with a call that is too small to be timed is read again, whatever others choose for it', () => {
  const memory = new Map<string, string>();
  const tuner: Tuner = {
    tune: (requests) =>
      requests.map(({ key, variants }) => {
        memory.set(key, variants.at(-1)!.name);
        return variants.at(-1)!.name;
      }),
    measures: true,
    chosen: (key) => memory.get(key),
  };
  const square = (n: number): GraphNode => matmul(b.leaf([n, n], f32, false), b.leaf([n, n], f32, false));
  const both = (): GraphNode[] => [square(3072), square(64)];
  const { of, made } = kept({ tuner, roots: both() });
  assert.deepEqual([made, memory.size], [true, 1]);
  assert.ok(!kept({ tuner, roots: both() }).made);
  assert.ok(kept({ tuner, roots: [square(64)] }).made);
  assert.equal(memory.size, 2);
  const read = kept({ tuner, roots: both() });
  assert.ok(!read.made);
  assert.deepEqual(described(read.of), described(of));
});

test('a guess is kept as long as nothing is remembered or may be timed', () => {
  const memory = new Map<string, string>();
  const tuner = (measures: boolean): Tuner => ({
    tune: (requests) => {
      for (const { key, variants } of requests) if (measures) memory.set(key, variants[0]!.name);
      return requests.map(({ key }) => memory.get(key));
    },
    measures,
    chosen: (key) => memory.get(key),
  });
  assert.ok(kept({ tuner: tuner(false) }).made);
  assert.ok(!kept({ tuner: tuner(false) }).made);
  assert.ok(kept({ tuner: tuner(true) }).made);
  assert.ok(!kept({ tuner: tuner(false) }).made, 'what has been timed is taken without timing');
});
