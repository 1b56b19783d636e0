/** What ranks put on their streams to copy into each other's memory, run in random order in a model of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PhiloxStream } from '../../src/core/philox.js';
import { Board } from '../../src/runtime/cuda/peers/board.js';
import { enqueueCopies, sentBy } from '../../src/runtime/cuda/peers/copies.js';
import { ANY, arrivalsOf, type Routes } from '../../src/runtime/cuda/peers/routes.js';

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
const boardOf = (rank: number): number => (40 + rank) * SPACE;

/** Which flag a rank does not wait for. */
type Flaw = 'ready' | 'arrived';

/** Of f32. */
const [BYTES, STEP] = [4, 16];

/** Ranks that exchange sources, several times, each step of theirs in random order. @returns what is wrong */
function exchanged(ranks: number, routes: Routes, seed: number, flaw?: Flaw): string[] {
  const memory = new Memory();
  const flags = new Map<number, number>();
  const boards = Array.from({ length: ranks }, (_, rank) => new Board(boardOf(rank), ranks));
  const isIgnored = (flag: number, index: number): boolean =>
    flaw !== undefined && boards.some((_, rank) => boards[index]![flaw](rank) === flag);
  const results = boards.map((_, rank) => resultOf(rank));
  const wrong: string[] = [];
  const RUNS = 3;
  /** Of each rank, in its order: false where it must wait. */
  const streams = boards.map((_, index) => {
    const steps: (() => boolean)[] = [];
    const sent = sentBy(routes, index, ranks, BYTES);
    for (let run = 0; run < RUNS; run++) {
      const addresses = routes.counts.map((__, i) => sourceOf(index, run, i));
      steps.push(() => {
        routes.counts.forEach((count, i) => {
          memory.write(addresses[i]!, count * BYTES, addresses[i]!);
        });
        return true;
      });
      enqueueCopies(
        {
          cuMemcpyDtoDAsync_v2: (to, from, length) =>
            void steps.push(() => {
              memory.copy(to, from, Number(length));
              return true;
            }),
          cuStreamWaitValue32_v2: (__, flag, value) =>
            void steps.push(() => isIgnored(flag, index) || (flags.get(flag) ?? 0) === value),
          cuStreamWriteValue32_v2: (__, flag, value) =>
            void steps.push(() => {
              flags.set(flag, value);
              return true;
            }),
        },
        0,
        { boards, index },
        sent,
        addresses,
        results,
      );
      steps.push(() => {
        for (const { sender, source, at } of arrivalsOf(routes, index, ranks, STEP).arrivals) {
          const place = resultOf(index) + at * BYTES;
          const bytes = routes.counts[source]! * BYTES;
          const expected = [{ at: place, bytes, from: sourceOf(sender, run, source) }];
          if (JSON.stringify(memory.read(place, bytes)) !== JSON.stringify(expected))
            wrong.push(`rank ${index}, run ${run}, source ${source} of rank ${sender}`);
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

const toAll = (counts: readonly number[]): Routes => {
  const any = counts.map(() => ANY);
  return { counts, senders: any, receivers: any };
};

const CASES: Readonly<Record<string, Routes>> = {
  'one small source': toAll([1]),
  'several sources': toAll([1, 1000, 70_000]),
  'each source to one rank': { ...toAll([5, 17, 300]), receivers: [1, 0, 1] },
  'each source from one rank': { ...toAll([5, 17, 300]), senders: [0, 0, 1] },
  'nothing for a rank': { ...toAll([5, 17]), receivers: [0, 0] },
};

for (const [title, routes] of Object.entries(CASES))
  test(`every rank has what others have sent it: ${title}`, () => {
    for (const ranks of [2, 3, 4])
      for (let seed = 0; seed < 20; seed++)
        assert.deepEqual(exchanged(ranks, routes, seed), [], `${ranks} ranks, seed ${seed}`);
  });

const FLAWS: Readonly<Record<Flaw, string>> = {
  ready: 'a result that is written before its rank has read it',
  arrived: 'a result that is read before it is there',
};
for (const [flaw, title] of Object.entries(FLAWS))
  test(`the model finds ${title}`, () => {
    const found = Array.from({ length: 20 }, (_, seed) => exchanged(3, toAll([7, 300]), seed, flaw as Flaw));
    assert.ok(found.some((wrong) => wrong.length > 0));
  });

test('arrivals lie side by side, at multiples of the step, those of one rank after those of another', () => {
  const routes = { counts: [3, 20, 16], senders: [ANY, 2, ANY], receivers: [ANY, ANY, 0] };
  assert.deepEqual(arrivalsOf(routes, 0, 3, 16), {
    arrivals: [
      { sender: 1, source: 0, at: 0 },
      { sender: 1, source: 2, at: 16 },
      { sender: 2, source: 0, at: 32 },
      { sender: 2, source: 1, at: 48 },
      { sender: 2, source: 2, at: 80 },
    ],
    size: 96,
  });
  assert.deepEqual(
    arrivalsOf(routes, 2, 3, 16).arrivals.map(({ source }) => source),
    [0, 0],
  );
});
