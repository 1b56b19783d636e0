/** Which launches need which, by the memory they touch. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { launchNeeds as needsOfLaunches, type Touch } from '../../src/schedule/passes/needs.js';
import { property } from '../property.js';

/** Of launches as early as they can be. */
const launchNeeds = (touches: readonly (readonly Touch[])[]): number[][] =>
  needsOfLaunches(touches.map((t) => ({ touches: t, level: 0 })));

const reads = (from: number, to = from + 4, memory = 'arena'): Touch => ({ memory, from, to, writes: false });
const writes = (from: number, to = from + 4, memory = 'arena'): Touch => ({ memory, from, to, writes: true });

test('readers need the writer, the next writer all readers, and nobody what others need anyway', () => {
  const chain = [[writes(0)], [reads(0), writes(4)], [reads(0), writes(8)], [reads(4), reads(8), writes(0)]];
  assert.deepEqual(launchNeeds(chain), [[], [0], [0], [1, 2]]);
  assert.deepEqual(launchNeeds([[writes(0)], [reads(0), writes(4)], [reads(0), reads(4)]]), [[], [0], [1]]);
});

test('neighbours, other memory and readers of the same do not need each other', () => {
  assert.deepEqual(launchNeeds([[writes(0, 4)], [writes(4, 8)], [writes(0, 4, 'leaf')]]), [[], [], []]);
  assert.deepEqual(launchNeeds([[reads(0)], [reads(0)]]), [[], []]);
  assert.deepEqual(launchNeeds([[writes(0, 8)], [writes(7, 12)]]), [[], [0]]);
});

const touch = fc.record({
  memory: fc.constantFrom('a', 'b'),
  from: fc.nat(6),
  writes: fc.boolean(),
});
const touching = fc.array(
  fc.array(
    touch.map((t): Touch => ({ ...t, to: t.from + 2 })),
    { minLength: 1, maxLength: 3 },
  ),
  { maxLength: 70 },
);
property('two launches that touch the same bytes, one writing, are always in order', [touching], (all) => {
  const before: Set<number>[] = [];
  launchNeeds(all).forEach((needs, i) => {
    before.push(new Set(needs.flatMap((n) => [n, ...before[n]!])));
    // Nothing that is needed by another need is named.
    for (const n of needs) assert.ok(needs.every((m) => m === n || !before[m]!.has(n)));
    for (let j = 0; j < i; j++) {
      const clash = all[i]!.some((a) =>
        all[j]!.some((b) => a.memory === b.memory && (a.writes || b.writes) && Math.abs(a.from - b.from) < 2),
      );
      if (clash) assert.ok(before[i]!.has(j));
    }
  });
});

test('what runs later than it could needs the leading launch of the level before', () => {
  const level = (at: number, ...touches: Touch[]) => ({ level: at, touches });
  const chain = [
    level(0, writes(0)),
    level(1, reads(0), writes(8)),
    level(1, reads(0), writes(4)),
    level(2, reads(4), writes(12)),
    level(2, reads(0), writes(16)),
  ];
  assert.deepEqual(needsOfLaunches(chain), [[], [0], [0], [2], [2]]);
});

test('what awaits an exchange waits for no launch that awaits another one because of its level', () => {
  const level = (at: number, awaits: number, ...touches: Touch[]) => ({ level: at, awaits, touches });
  const after = (awaits: number): number[] =>
    needsOfLaunches([
      level(0, 0, writes(0)),
      level(1, 1, reads(0), writes(4)),
      level(2, awaits, reads(0), writes(8)),
    ])[2]!;
  assert.deepEqual([0, 1, 2].map(after), [[0], [1], [0]]);
});
