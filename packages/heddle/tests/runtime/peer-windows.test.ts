/** Which ranks give each other windows of their GPUs' memory, with a driver that stands in for CUDA's. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { IPC_HANDLE_BYTES } from '../../src/runtime/cuda/driver/driver.js';
import { viewNative } from '../../src/runtime/cuda/driver/native.js';
import {
  connectPeers,
  disconnectPeers,
  PeerWindow,
  peerWindowsOf,
  type ShareText,
  SLOTS,
  type WindowDriver,
} from '../../src/runtime/cuda/peers/windows.js';

/** What is wrong with a rank's GPU. */
interface Flaws {
  readonly bus?: string;
  readonly sharesNothing?: boolean;
  readonly opensNothing?: boolean;
  /** Buses that no link leads to. */
  readonly unlinked?: readonly string[];
}

const busOf = (rank: number): string => `0000:0${rank}:00.0`;

/** The driver of one rank. Its memory begins at (rank + 1) · 2³²; a handle is the address as text. */
class FakeDriver implements WindowDriver {
  /** Flags, by their addresses. */
  readonly written = new Map<number, number>();
  /** What is held: memory of its own, and windows of others. */
  readonly held = new Set<number>();
  readonly api: WindowDriver['api'];
  readonly raw: WindowDriver['raw'];
  readonly #flaws: Flaws;
  #last = 0;

  constructor(rank: number, flaws: Flaws = {}) {
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
      cuCtxSynchronize: () => {},
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
        this.#last = (rank + 1) * 2 ** 32;
        this.held.add(this.#last);
      },
      cuStreamWriteValue32_v2: (_, at, value) => void this.written.set(at, value),
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
    // It is somewhere else here.
    const address = Number(text) + 2 ** 40;
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

/** All ranks connect at the same time. */
async function connected(flaws: readonly Flaws[]): Promise<{ answers: boolean[]; drivers: FakeDriver[] }> {
  const ranks = flaws.map((_, rank) => rank);
  const drivers = flaws.map((flaw, rank) => new FakeDriver(rank, flaw));
  const shareOf = sharing(ranks.length);
  const answers = await Promise.all(
    ranks.map((rank) => connectPeers(ranks, rank, shareOf(rank), drivers[rank]!)),
  );
  return { answers, drivers };
}

describe('windows of other GPUs', () => {
  afterEach(() => disconnectPeers());

  test('are opened by all ranks of a host, with every flag in its first state', async () => {
    const { answers, drivers } = await connected([{}, {}, {}]);
    assert.deepEqual(answers, [true, true, true]);
    drivers.forEach(({ held, written }, rank) => {
      assert.equal(held.size, 3);
      const own = new PeerWindow((rank + 1) * 2 ** 32, 3);
      assert.equal(written.size, 2 * 3 * SLOTS);
      for (const other of [0, 1, 2])
        for (let slot = 0; slot < SLOTS; slot++) {
          assert.equal(written.get(own.full(other, slot)), 0);
          assert.equal(written.get(own.taken(other, slot)), 1);
        }
      assert.ok(Math.max(...written.keys()) + 4 <= own.slot(0) + PeerWindow.bytes(3));
    });
    assert.equal(peerWindowsOf([0, 1, 2])?.windows.length, 3);
    assert.equal(peerWindowsOf([0, 1]), undefined);
  });

  test('graphs that copy between them are disposed of before they go', async () => {
    await connected([{}, {}]);
    const { graphs } = peerWindowsOf([0, 1])!;
    let disposed = 0;
    graphs.add({ dispose: () => disposed++ });
    disconnectPeers();
    assert.equal(disposed, 1);
    assert.equal(peerWindowsOf([0, 1]), undefined);
  });

  const FLAWS: Readonly<Record<string, readonly Flaws[]>> = {
    'a rank cannot share memory': [{}, { sharesNothing: true }],
    'a rank cannot open the memory of another': [{ opensNothing: true }, {}, {}],
    'two ranks have the same GPU': [{ bus: busOf(0) }, { bus: busOf(0) }],
    'two GPUs are not linked': [{ unlinked: [busOf(1)] }, {}],
  };
  for (const [title, flaws] of Object.entries(FLAWS))
    test(`no rank has any, and all memory is given back, if ${title}`, async () => {
      const { answers, drivers } = await connected(flaws);
      assert.deepEqual(
        answers,
        flaws.map(() => false),
      );
      for (const { held } of drivers) assert.equal(held.size, 0);
      assert.equal(peerWindowsOf(flaws.map((_, rank) => rank)), undefined);
    });

  test('no rank has any with NCCL_P2P_DISABLE=1', async () => {
    const before = process.env.NCCL_P2P_DISABLE;
    process.env.NCCL_P2P_DISABLE = '1';
    try {
      assert.deepEqual((await connected([{}, {}])).answers, [false, false]);
    } finally {
      if (before === undefined) delete process.env.NCCL_P2P_DISABLE;
      else process.env.NCCL_P2P_DISABLE = before;
    }
  });
});
