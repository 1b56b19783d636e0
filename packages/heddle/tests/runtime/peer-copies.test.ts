/** What ranks put on their streams to copy from each other's windows, run in random order in a model of their memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PhiloxStream } from '../../src/core/philox.js';
import { enqueueCopies } from '../../src/runtime/cuda/peers/copies.js';
import { PeerWindow, SLOT_BYTES } from '../../src/runtime/cuda/peers/windows.js';

/** A stretch of memory that lies somewhere: address → what is known to be there. */
interface Stretch {
  readonly at: number;
  readonly bytes: number;
  /** Whose source it is from, and where in that. */
  readonly from: number;
}

/** Memory by stretches: copies keep account of which bytes of which source are where. */
class Memory {
  #stretches: Stretch[] = [];

  write(at: number, bytes: number, from: number): void {
    this.#stretches = this.#stretches.flatMap((s) => {
      const end = s.at + s.bytes;
      if (end <= at || s.at >= at + bytes) return [s];
      const left = s.at < at ? [{ ...s, bytes: at - s.at }] : [];
      const cut = at + bytes - s.at;
      const right = end > at + bytes ? [{ at: at + bytes, bytes: end - at - bytes, from: s.from + cut }] : [];
      return [...left, ...right];
    });
    this.#stretches.push({ at, bytes, from });
  }

  copy(to: number, at: number, bytes: number): void {
    for (const s of this.read(at, bytes)) this.write(to + s.at - at, s.bytes, s.from);
  }

  /** What is known of a part, in the order of addresses; neighbours that belong together are one. */
  read(at: number, bytes: number): Stretch[] {
    const cut = this.#stretches
      .filter((s) => s.at < at + bytes && s.at + s.bytes > at)
      .map((s) => {
        const first = Math.max(s.at, at);
        return {
          at: first,
          bytes: Math.min(s.at + s.bytes, at + bytes) - first,
          from: s.from + first - s.at,
        };
      })
      .sort((a, b) => a.at - b.at);
    const joined: Stretch[] = [];
    for (const s of cut) {
      const last = joined.at(-1);
      if (last && last.at + last.bytes === s.at && last.from + last.bytes === s.from)
        joined[joined.length - 1] = { ...last, bytes: last.bytes + s.bytes };
      else joined.push(s);
    }
    return joined;
  }
}

/** Apart from each other, whatever they hold. */
const SPACE = 2 ** 36;
const sourceOf = (rank: number, run: number, i: number): number =>
  (1 + rank) * SPACE + (10 * run + i) * 2 ** 30;
const resultOf = (rank: number): number => (20 + rank) * SPACE;
const windowOf = (rank: number): number => (40 + rank) * SPACE;

type Sizes = readonly { readonly at: number; readonly bytes: number }[];

/** Ranks that exchange sources, several times, each step of theirs in random order. @param flawed without a wait for what is taken */
function exchanged(ranks: number, sources: Sizes, bytes: number, seed: number, flawed = false): string[] {
  const memory = new Memory();
  const flags = new Map<number, number>();
  const windows = Array.from({ length: ranks }, (_, rank) => new PeerWindow(windowOf(rank), ranks));
  for (const window of windows)
    for (let rank = 0; rank < ranks; rank++)
      for (const slot of [0, 1]) flags.set(window.taken(rank, slot), 1);
  const isTaken = (flag: number, index: number): boolean =>
    Array.from({ length: ranks }, (_, rank) => rank).some((rank) =>
      [0, 1].some((slot) => windows[index]!.taken(rank, slot) === flag),
    );
  const wrong: string[] = [];
  const RUNS = 3;
  /** Of each rank, in its order: false where it must wait. */
  const streams = windows.map((_, index) => {
    const steps: (() => boolean)[] = [];
    for (let run = 0; run < RUNS; run++) {
      steps.push(() => {
        sources.forEach((source, i) => {
          memory.write(sourceOf(index, run, i), source.bytes, sourceOf(index, run, i));
        });
        return true;
      });
      const addresses = sources.map((_, i) => sourceOf(index, run, i));
      enqueueCopies(
        {
          cuMemcpyDtoDAsync_v2: (to, from, length) =>
            void steps.push(() => {
              memory.copy(to, from, Number(length));
              return true;
            }),
          cuStreamWaitValue32_v2: (_, flag, value) =>
            void steps.push(() => (flawed && isTaken(flag, index)) || (flags.get(flag) ?? 0) === value),
          cuStreamWriteValue32_v2: (_, flag, value) =>
            void steps.push(() => {
              flags.set(flag, value);
              return true;
            }),
        },
        0,
        { windows, index },
        { sources, bytes },
        addresses,
        resultOf(index),
      );
      steps.push(() => {
        for (let other = 0; other < ranks; other++) {
          if (other === index) continue;
          const place = resultOf(index) + (other < index ? other : other - 1) * bytes;
          sources.forEach((source, i) => {
            const got = memory.read(place + source.at, source.bytes);
            const expected = [{ at: place + source.at, bytes: source.bytes, from: sourceOf(other, run, i) }];
            if (source.bytes > 0 && JSON.stringify(got) !== JSON.stringify(expected))
              wrong.push(`rank ${index}, run ${run}, source ${i} of rank ${other}`);
          });
        }
        return true;
      });
    }
    return steps;
  });
  const random = new PhiloxStream(seed);
  const next = streams.map(() => 0);
  while (next.some((at, rank) => at < streams[rank]!.length)) {
    const waiting = new Set<number>();
    let rank = random.below(ranks);
    // A rank that must wait lets another one go on; where all must, none ever will.
    while (next[rank] === streams[rank]!.length || !streams[rank]![next[rank]!]!()) {
      waiting.add(rank);
      if (waiting.size === ranks) return [...wrong, 'all ranks wait'];
      rank = (rank + 1) % ranks;
    }
    next[rank]! += 1;
  }
  return wrong;
}

/** Sources one after the other at multiples of 64 bytes. */
function placed(sizes: readonly number[]): { sources: Sizes; bytes: number } {
  let bytes = 0;
  const sources = sizes.map((size) => {
    const at = bytes;
    bytes += Math.ceil(size / 64) * 64;
    return { at, bytes: size };
  });
  return { sources, bytes };
}

const CASES: Readonly<Record<string, readonly number[]>> = {
  'one small source': [4],
  'several sources': [4, 1000, 70_000],
  'a slot exactly': [SLOT_BYTES],
  'sources across slots': [SLOT_BYTES - 64, 200, 3 * SLOT_BYTES + 4, 64],
};

for (const [title, sizes] of Object.entries(CASES))
  test(`every rank has what the others had: ${title}`, () => {
    const { sources, bytes } = placed(sizes);
    for (const ranks of [2, 3, 4])
      for (let seed = 0; seed < 20; seed++)
        assert.deepEqual(exchanged(ranks, sources, bytes, seed), [], `${ranks} ranks, seed ${seed}`);
  });

test('the model finds a slot that is filled before all have taken what was in it', () => {
  const { sources, bytes } = placed([5 * SLOT_BYTES]);
  const found = Array.from({ length: 20 }, (_, seed) => exchanged(3, sources, bytes, seed, true).length > 0);
  assert.ok(found.includes(true));
});
