/** Which ranks copy into each other's memory, and how they show it, with a driver that stands in for CUDA's. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { IPC_HANDLE_BYTES } from '../../src/runtime/cuda/driver/driver.js';
import { viewNative } from '../../src/runtime/cuda/driver/native.js';
import { Board } from '../../src/runtime/cuda/peers/board.js';
import {
  connectPeers,
  disconnectPeers,
  type PeerGroup,
  peersOf,
  type ShareText,
} from '../../src/runtime/cuda/peers/peers.js';
import type { PeerDriver } from '../../src/runtime/cuda/peers/shown-memory.js';

/** What is wrong with a rank's GPU. */
interface Flaws {
  readonly bus?: string;
  readonly sharesNothing?: boolean;
  readonly opensNothing?: boolean;
  /** Buses that no link leads to. */
  readonly unlinked?: readonly string[];
}

const busOf = (rank: number): string => `0000:0${rank}:00.0`;

/** Bytes of all GPUs, by their addresses; those that were never written are 255. */
class Memory {
  readonly #pages = new Map<number, Uint8Array>();

  write(at: number, bytes: Uint8Array): void {
    for (const { page, from, done, count } of this.#parts(at, bytes.length))
      page.set(bytes.subarray(done, done + count), from);
  }

  read(at: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (const { page, from, done, count } of this.#parts(at, length))
      bytes.set(page.subarray(from, from + count), done);
    return bytes;
  }

  /** The pages that so many bytes lie in: where in each, and how many bytes lie in those before. */
  *#parts(at: number, length: number) {
    const size = 2 ** 16;
    for (let done = 0, count = 0; done < length; done += count) {
      const place = placeOf(at) + done;
      const from = place % size;
      count = Math.min(size - from, length - done);
      const start = place - from;
      const page = this.#pages.get(start) ?? new Uint8Array(size).fill(255);
      this.#pages.set(start, page);
      yield { page, from, done, count };
    }
  }
}

/** What another process has mapped is so much further on in this one. */
const MAPPED = 2 ** 40;
const placeOf = (address: number): number => address % MAPPED;
const memoryOf = (rank: number): number => (rank + 1) * 2 ** 32;
/** How far into its block the memory is that a rank shows. */
const OFFSET = 4096;

/** The driver of one rank. A handle is the address as text. */
class FakeDriver implements PeerDriver {
  /** What is held: memory of its own, and that of others which is mapped. */
  readonly held = new Set<number>();
  readonly api: PeerDriver['api'];
  readonly raw: PeerDriver['raw'];
  /** Called when it looks at what another rank has written. */
  looks: () => void = () => {};
  readonly #flaws: Flaws;
  #last = 0;

  constructor(rank: number, memory: Memory, flaws: Flaws = {}) {
    this.#flaws = flaws;
    const buses: string[] = [];
    const write = (at: number, text: string, bytes: number): void => {
      const view = viewNative(at, bytes);
      view.fill(0);
      view.set(new TextEncoder().encode(text));
    };
    this.api = {
      cuCtxGetDevice: () => {
        this.#last = rank;
      },
      cuDeviceGetByPCIBusId: (_, bus) => {
        if (!buses.includes(bus)) buses.push(bus);
        this.#last = buses.indexOf(bus);
      },
      cuDeviceGetP2PAttribute: (_, __, ___, to) => {
        this.#last = flaws.unlinked?.includes(buses[to]!) ? 0 : 1;
      },
      cuDeviceGetPCIBusId: (at, bytes) => write(at, flaws.bus ?? busOf(rank), bytes),
      cuIpcGetMemHandle: (at, address) => {
        if (flaws.sharesNothing) throw new Error('operation not supported');
        write(at, String(address), IPC_HANDLE_BYTES);
      },
      cuMemAlloc_v2: () => {
        this.#last = memoryOf(rank);
        this.held.add(this.#last);
      },
      cuMemGetAddressRange_v2: (_, __, address) => {
        this.#last = address - OFFSET;
      },
      cuMemcpyDtoDAsync_v2: (to, from, bytes) => {
        if (placeOf(from) !== from) this.looks();
        memory.write(to, memory.read(from, Number(bytes)));
      },
      cuMemcpyDtoHAsync_v2: (to, from, bytes) =>
        viewNative(to, Number(bytes)).set(memory.read(from, Number(bytes))),
      cuMemcpyHtoDAsync_v2: (to, from, bytes) => memory.write(to, viewNative(from, Number(bytes))),
      cuMemsetD8Async: (at, value, bytes) => memory.write(at, new Uint8Array(Number(bytes)).fill(value)),
      cuStreamSynchronize: () => {},
    };
    const release = (address: number): number => Number(!this.held.delete(address));
    this.raw = { cuIpcCloseMemHandle: release, cuMemFree_v2: release };
  }

  handle(call: (at: number) => void): number {
    call(0);
    return this.#last;
  }

  number(call: (at: number) => void): number {
    return this.handle(call);
  }

  openShared(handle: Uint8Array): number {
    if (this.#flaws.opensNothing) throw new Error('invalid resource handle');
    const text = new TextDecoder().decode(handle.subarray(0, handle.indexOf(0)));
    const address = Number(text) + MAPPED;
    assert.ok(!this.held.has(address), 'a block is mapped once');
    this.held.add(address);
    return address;
  }
}

/** Shares texts between ranks in one process. */
function sharing(ranks: number): (rank: number) => ShareText {
  const texts = new Map<string, PromiseWithResolvers>();
  const of = (key: string): PromiseWithResolvers => {
    const known = texts.get(key) ?? withResolvers();
    texts.set(key, known);
    return known;
  };
  return (rank) => (what, mine) => {
    of(`${what} ${rank}`).resolve(mine);
    return Promise.all(Array.from({ length: ranks }, (_, i) => of(`${what} ${i}`).promise));
  };
}

interface PromiseWithResolvers {
  readonly promise: Promise<string>;
  readonly resolve: (text: string) => void;
}

function withResolvers(): PromiseWithResolvers {
  let resolve: (text: string) => void = () => {};
  const promise = new Promise<string>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

interface Connected {
  readonly groups: readonly (PeerGroup | undefined)[];
  readonly drivers: readonly FakeDriver[];
  readonly memory: Memory;
}

/** All ranks connect at the same time. */
async function connected(flaws: readonly Flaws[]): Promise<Connected> {
  const ranks = flaws.map((_, rank) => rank);
  const memory = new Memory();
  const drivers = flaws.map((flaw, rank) => new FakeDriver(rank, memory, flaw));
  const shareOf = sharing(ranks.length);
  const groups = await Promise.all(
    ranks.map((rank) => connectPeers(ranks, rank, shareOf(rank), drivers[rank]!)),
  );
  return { groups, drivers, memory };
}

describe('ranks that copy into each other', () => {
  afterEach(() => disconnectPeers());

  test('see the boards of all, on which no flag is set', async () => {
    const { groups, drivers, memory } = await connected([{}, {}, {}]);
    drivers.forEach(({ held }, rank) => {
      assert.equal(held.size, 3);
      const { boards, index } = groups[rank]!;
      assert.equal(index, rank);
      const flags = [0, 1, 2].flatMap((other) => [boards[rank]!.ready(other), boards[rank]!.arrived(other)]);
      assert.equal(new Set(flags).size, 6);
      for (const flag of flags) assert.deepEqual(memory.read(flag, 4), new Uint8Array(4));
      assert.ok(Math.max(...flags) + 4 <= memoryOf(rank) + Board.bytes(3));
      // Each rank sees the others' flags where they are.
      for (const [other, board] of boards.entries())
        assert.equal(placeOf(board.ready(rank)), groups[other]!.boards[other]!.ready(rank));
    });
    assert.equal(peersOf([0, 1, 2])?.boards.length, 3);
    assert.equal(peersOf([0, 1]), undefined);
  });

  /** Each rank shows its memory when another one looks for that. @returns what each was told */
  const shownBy = ({ groups, drivers }: Connected, addresses: readonly (number | undefined)[]): boolean[] => {
    const told: boolean[] = [];
    const begun = new Set<number>();
    const begin = (rank: number): void => {
      if (begun.has(rank)) return;
      begun.add(rank);
      told[rank] = groups[rank]!.show(addresses[rank]);
    };
    const beginAll = (): void => {
      for (const rank of addresses.keys()) begin(rank);
    };
    for (const driver of drivers) driver.looks = beginAll;
    begin(0);
    return told;
  };

  test('know where the memory is that the others show, time after time', async () => {
    const all = await connected([{}, {}]);
    for (let round = 0; round < 5; round++) {
      const own = [0, 1].map((rank) => memoryOf(rank) + 2 ** 24 * (1 + round) + OFFSET);
      assert.deepEqual(shownBy(all, own), [true, true]);
      all.groups.forEach((group, rank) => {
        const there = group!.shown.get(own[rank]!)!;
        assert.deepEqual(there.map(placeOf), own);
        assert.deepEqual(
          there.map((address) => address >= MAPPED),
          [0, 1].map((other) => other !== rank),
        );
      });
    }
    disconnectPeers();
  });

  test('learn that one of them has no memory to show, and go on', async () => {
    const all = await connected([{}, {}]);
    const own = [0, 1].map((rank) => memoryOf(rank) + 2 ** 24 + OFFSET);
    assert.deepEqual(shownBy(all, [own[0], undefined]), [false, false]);
    assert.equal(all.groups[0]!.shown.size, 0);
    assert.deepEqual(shownBy(all, own), [true, true]);
  });

  test('dispose of graphs that copy before the memory goes', async () => {
    const { groups } = await connected([{}, {}]);
    let disposed = 0;
    // The last one to connect stands for this process.
    peersOf([0, 1])!.graphs.add({ dispose: () => disposed++ });
    assert.ok(groups.includes(peersOf([0, 1])));
    disconnectPeers();
    assert.equal(disposed, 1);
    assert.equal(peersOf([0, 1]), undefined);
  });

  const FLAWS: Readonly<Record<string, readonly Flaws[]>> = {
    'a rank cannot share memory': [{}, { sharesNothing: true }],
    'a rank cannot open the memory of another': [{ opensNothing: true }, {}, {}],
    'two ranks have the same GPU': [{ bus: busOf(0) }, { bus: busOf(0) }],
    'two GPUs are not linked': [{ unlinked: [busOf(1)] }, {}],
  };
  for (const [title, flaws] of Object.entries(FLAWS))
    test(`are none, and all memory is given back, if ${title}`, async () => {
      const { groups, drivers } = await connected(flaws);
      assert.deepEqual(
        groups,
        flaws.map(() => undefined),
      );
      for (const { held } of drivers) assert.equal(held.size, 0);
      assert.equal(peersOf(flaws.map((_, rank) => rank)), undefined);
    });

  test('are none with NCCL_P2P_DISABLE=1', async () => {
    const before = process.env.NCCL_P2P_DISABLE;
    process.env.NCCL_P2P_DISABLE = '1';
    try {
      assert.deepEqual((await connected([{}, {}])).groups, [undefined, undefined]);
    } finally {
      if (before === undefined) delete process.env.NCCL_P2P_DISABLE;
      else process.env.NCCL_P2P_DISABLE = before;
    }
  });
});
