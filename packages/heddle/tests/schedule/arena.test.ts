/** Whose memory is taken over by whom inside a program. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { crossEntropy, nn, tensor, zeros } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { type Lifetime, planArena } from '../../src/schedule/passes/memory.js';
import { runsBefore } from '../../src/schedule/passes/needs.js';
import { schedule } from '../../src/schedule/schedule.js';
import { property } from '../property.js';

const lifetime = fc.record({ bytes: fc.integer({ min: 1, max: 500 }), from: fc.nat(9), length: fc.nat(4) });
property(
  'memory is shared only at different times, and only by those who may; everything begins at a line of the caches',
  [fc.array(lifetime, { maxLength: 30 }), fc.integer({ min: 1, max: 5 })],
  (all, modulus) => {
    const lifetimes = all.map(({ bytes, from, length }) => ({ bytes, from, to: from + length }));
    const mayShare = (i: number, j: number): boolean => (i + j) % modulus === 0;
    const { offsets, bytes } = planArena(lifetimes, mayShare);
    lifetimes.forEach((a, i) => {
      const end = offsets[i]! + a.bytes;
      assert.ok(end <= bytes);
      assert.equal(offsets[i]! % 128, 0);
      lifetimes.forEach((b, j) => {
        const overlap = offsets[i]! < offsets[j]! + b.bytes && offsets[j]! < end;
        if (i !== j && overlap) assert.ok((a.to < b.from || b.to < a.from) && mayShare(i, j), `${i}, ${j}`);
      });
    });
  },
);

const over = fc.record({
  pair: fc.integer({ min: 1, max: 500 }),
  before: fc.nat(9),
  after: fc.nat(9),
  length: fc.nat(4),
});
property(
  'what is written over another is exactly in its place, or elsewhere',
  [fc.array(lifetime, { maxLength: 20 }), fc.array(over, { minLength: 1, maxLength: 10 })],
  (all, pairs) => {
    const lifetimes: Lifetime[] = all.map(({ bytes, from, length }) => ({ bytes, from, to: from + length }));
    for (const { pair: bytes, before, after, length } of pairs) {
      const [at, over] = [before + length, lifetimes.length];
      lifetimes.push({ bytes, from: before, to: at }, { bytes, from: at, to: at + after, over });
    }
    const { offsets, bytes } = planArena(lifetimes);
    lifetimes.forEach((a, i) => {
      const end = offsets[i]! + a.bytes;
      assert.ok(end <= bytes);
      lifetimes.forEach((b, j) => {
        if (i >= j || offsets[i]! >= offsets[j]! + b.bytes || offsets[j]! >= end) return;
        const apart = a.to < b.from || b.to < a.from;
        assert.ok(apart || (b.over === i && offsets[i] === offsets[j]), `${i}, ${j}`);
      });
    });
  },
);

test('one that is written over another takes its place, unless a third is there when it begins', () => {
  const pair = [
    { bytes: 300, from: 0, to: 2 },
    { bytes: 300, from: 2, to: 4, over: 0 },
  ];
  assert.deepEqual(planArena(pair), { offsets: [0, 0], bytes: 384 });
  // Placed first, since it is larger.
  const third = { bytes: 500, from: 3, to: 4 };
  assert.deepEqual(planArena([...pair, third]), { offsets: [0, 512, 0], bytes: 896 });
});

test('on a GPU, launches do not wait for memory as long as the cache holds all of it', () => {
  const model = new nn.Sequential(
    ...[new nn.Conv2d(1, 6, 5), new nn.ReLU(), new nn.MaxPool2d(2)],
    ...[new nn.Conv2d(6, 16, 5), new nn.ReLU(), new nn.MaxPool2d(2)],
    ...[new nn.Flatten(), new nn.Linear(256, 120), new nn.ReLU(), new nn.Linear(120, 10)],
  );
  const x = zeros([64, 1, 28, 28]);
  crossEntropy(model.forward(x), tensor(new Int32Array(64))).backward();
  const roots = model.parameters().map(({ grad }) => grad!.node);
  const planned = (cacheBytes: number) =>
    schedule(roots, { ...H200, limits: { ...H200.limits, cacheBytes } });
  const [roomy, tight] = [planned(H200.limits.cacheBytes), planned(0)];
  assert.ok(tight.arenaBytes < roomy.arenaBytes);
  const ordered = ({ launches }: typeof tight): number => {
    const isBefore = runsBefore(launches.map(({ needs }) => needs));
    return launches.flatMap((_, then) => launches.filter((_, first) => isBefore(first, then))).length;
  };
  assert.ok(ordered(roomy) < ordered(tight), `${ordered(roomy)} and ${ordered(tight)} pairs in order`);
  // Still less than if nothing were shared.
  assert.ok(roomy.arenaBytes < roomy.launches.reduce((sum, { bytes }) => sum + bytes, 0));
});
