/** Parts that are stored where they belong: planned for an H200, and run in the simulator, which finds races. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { bf16, type DType, f32 } from '../../src/core/dtype.js';
import {
  cat,
  grad,
  manualSeed,
  randn,
  realize,
  scaledDotProductAttention,
  softmax,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import type { Schedule } from '../../src/schedule/launch.js';
import { schedule } from '../../src/schedule/schedule.js';

const before = process.env.HEDDLE_CHECK;
beforeEach(() => {
  process.env.HEDDLE_CHECK = '1';
  useDevice('sim');
  manualSeed(7);
});
afterEach(() => {
  if (before === undefined) delete process.env.HEDDLE_CHECK;
  else process.env.HEDDLE_CHECK = before;
});

const of = (dtype: DType, ...shape: number[]): Tensor =>
  randn(shape)
    .cast(dtype as typeof f32)
    .realize();

const planOf = (...results: readonly Tensor[]): Schedule =>
  schedule(
    results.map(({ node }) => node),
    H200,
  );

const namesOf = ({ launches }: Schedule): string[] =>
  launches.map(({ work }) => ('kernel' in work ? work.kernel.name : work.library.name));

/** Computed in the simulator, and on the CPU of the same sources. */
async function both(
  make: (...t: Tensor[]) => Tensor[],
  sources: readonly Tensor[],
): Promise<readonly (readonly [Float32Array, Float32Array])[]> {
  const computed = async (from: readonly Tensor[]): Promise<Float32Array[]> => {
    const wide = make(...from).map((t) => t.cast(f32));
    realize(...wide);
    return Promise.all(wide.map((t) => t.data()));
  };
  const values = await Promise.all(sources.map((t) => t.cast(f32).data()));
  const first = await computed(sources);
  useDevice('cpu');
  const onCpu = sources.map(
    ({ shape, dtype }, i) => tensor(values[i]!, { shape }).cast(dtype as typeof f32) as Tensor,
  );
  const second = await computed(onCpu);
  return first.map((x, i) => [x, second[i]!] as const);
}

function close([got, wanted]: readonly [Float32Array, Float32Array], within: number): void {
  const off = Math.max(...got.map((x, i) => Math.abs(x - wanted[i]!)));
  assert.ok(off <= within, `off by ${off}`);
}

/** A softmax that is only a part of something, as rows or as columns. */
const softmaxIn = (x: Tensor, axis: number): Tensor => softmax(x, axis);

for (const [widths, axis] of [
  [[64, 32], 1],
  [[33, 30], 1],
  [[7, 9], 0],
] as const)
  test(`a concatenation along axis ${axis} of ${widths} has no launch of its own`, async () => {
    const shape = (n: number): number[] => (axis === 1 ? [16, n] : [n, 16]);
    const sources = widths.map((n) => of(f32, ...shape(n)));
    const make = (...[x, y]: Tensor[]): Tensor[] => [cat([softmaxIn(x!, 1), softmaxIn(y!, 1)], axis)];
    // Either is a launch, or both are one.
    const parts = namesOf(planOf(...make(...sources))).flatMap((name) => name.split('_and_'));
    assert.deepEqual(
      parts,
      widths.map((n) => `map_${shape(n).join('x')}`),
    );
    for (const pair of await both(make, sources)) close(pair, 1e-6);
  });

for (const [after, names] of [
  [2, ['map_16x14', 'detach_16x2']],
  // Vectors of its rows would not be aligned.
  [1, ['pad_16x15', 'map_16x14']],
] as const)
  test(`${after} columns of zeros after those of a softmax are a launch, the softmax stays one`, async () => {
    const sources = [of(f32, 16, 14)];
    const make = (...[x]: Tensor[]): Tensor[] => {
      const padded = softmaxIn(x!, 1).pad([
        [0, 0],
        [0, after],
      ]);
      return [padded.sum(0).sin(), padded];
    };
    const made = namesOf(planOf(...make(...sources))).flatMap((name) => name.split('_and_'));
    assert.deepEqual(
      names.filter((name) => !made.includes(name)),
      [],
      made.join(' '),
    );
    assert.equal(made.includes(`pad_16x${14 + after}`), after === 1, made.join(' '));
    for (const pair of await both(make, sources)) close(pair, 1e-6);
  });

test('columns, rows and a copy of what is given meet in one tensor', async () => {
  const sources = [of(f32, 24, 12), of(f32, 24, 20), of(f32, 24, 5)];
  const make = (...[x, y, z]: Tensor[]): Tensor[] => {
    const joined = cat([softmaxIn(x!, 0), z!, softmaxIn(y!, 1)], 1);
    return [joined.sum(0), joined];
  };
  const names = namesOf(planOf(...make(...sources)));
  assert.equal(names.filter((name) => name.includes('detach_24x5')).length, 1, names.join(' '));
  assert.equal(names.filter((name) => name.includes('24x37')).length, 0, names.join(' '));
  for (const pair of await both(make, sources)) close(pair, 1e-5);
});

test('the gradient of what was split is stored by those who make its parts', async () => {
  const sources = [of(bf16, 2, 16, 96)];
  const loss = (x: Tensor): Tensor => {
    const [a, c] = x.split(48, -1) as Tensor[];
    return softmax(a!, -1).square().sum().add(softmax(c!, -1).sin().sum()) as Tensor;
  };
  const make = (x: Tensor): Tensor[] => [(grad(loss)(x) as Tensor).cast(f32).sum(0)];
  const names = namesOf(planOf(...make(sources[0]!)));
  assert.equal(names.filter((name) => name === 'map_2x16x96').length, 0, names.join(' '));
  for (const pair of await both(make, sources)) close(pair, 0.02);
});

/** Queries, keys and values of 2 heads of 64 features, from one tensor. */
function attended(x: Tensor): Tensor {
  const [n, length] = x.shape as [number, number];
  const heads = (t: Tensor): Tensor => t.reshape([n, length, 2, 64]).permute([0, 2, 1, 3]) as Tensor;
  const [q, k, v] = (x.split(128, -1) as Tensor[]).map(heads) as [Tensor, Tensor, Tensor];
  return scaledDotProductAttention(q, k, v, { isCausal: true }).square().sum() as Tensor;
}

test('the gradients of queries, keys and values become that of their projection where they are made', async () => {
  const x = of(bf16, 1, 24, 384);
  const make = (...[x]: Tensor[]): Tensor[] => [grad(attended)(x!) as Tensor];
  const plan = planOf((make(x)[0] as Tensor).cast(f32).sum([0, 1]) as Tensor);
  const names = namesOf(plan);
  assert.equal(names.filter((name) => /^map_1x24x384/.test(name)).length, 0, names.join(' '));
  // Both write the same tensor, side by side; who reads it waits for both.
  const [keys, queries] = ['KeyValue', 'Query'].map((of) => names.findIndex((name) => name.includes(of)));
  assert.ok(keys! >= 0 && queries! >= 0);
  assert.ok(
    !plan.launches[keys!]!.needs.includes(queries!) && !plan.launches[queries!]!.needs.includes(keys!),
  );
  const reader = plan.launches.findIndex(({ needs }) => needs.includes(keys!) && needs.includes(queries!));
  assert.ok(reader >= 0);
  for (const pair of await both(make, [x])) close(pair, 0.05);
});

for (const [name, parts] of [
  ['itself', (y: Tensor) => [y, y]],
  ['what is made of it', (y: Tensor) => [y.square(), y]],
] as const)
  test(`a value beside ${name} is made before another launch reads it`, async () => {
    const make = (x: Tensor): Tensor[] => [cat([...parts(softmaxIn(x, 1))], 1)];
    const sources = [of(f32, 16, 12)];
    // The simulator names launches that run side by side and touch the same memory.
    for (const pair of await both(make as never, sources)) close(pair, 1e-6);
  });

test('a part that others read as well stays where it is', () => {
  const [x, y] = [of(f32, 16, 64), of(f32, 16, 64)];
  const part = softmaxIn(x, 1);
  const plan = planOf(cat([part, softmaxIn(y, 1)], 1) as Tensor, part.matmul(y.permute([1, 0])) as Tensor);
  const joined = plan.launches.filter(
    ({ work }) => 'kernel' in work && /^detach_16x64/.test(work.kernel.name),
  );
  // It is copied; the other is not.
  assert.equal(joined.length, 1);
});
