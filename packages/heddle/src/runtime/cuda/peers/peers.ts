/**
 * Memory that the GPUs of a host copy into each other's. Ranks show each other parts of their memory, which the driver maps into the other
 * process (interprocess memory); copies between GPUs are made by their copy engines, which leaves the multiprocessors to kernels.
 *
 * Each rank has a board that the others see, too: flags of the device, by which the streams of two ranks wait for each other, and letters
 * of the host, by which processes show each other memory while a program is traced. Who waits for a flag sets it back, so every flag goes
 * from 0 to 1 and back to 0, with the same values in each turn: a graph that has captured this runs as often as one likes.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { DeviceError } from '../../../core/errors.js';
import { debug } from '../../../core/log.js';
import { type Driver, IPC_HANDLE_BYTES, openDriver } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import type { CapturingGraph } from '../vendor/routine.js';
import { PAGE_BYTES } from './routes.js';

/** The default stream of the context, on which no program runs. */
const DEFAULT_STREAM = 0;

/** CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: the GPUs are linked by NVLink. */
const LINKED = 3;

/** How long a rank waits for another one's letter, in ms. */
const PATIENCE_MS = 300_000;

/** Between two looks at a letter, in ms. */
const PAUSE_MS = 1;

/** Of a letter: its number, how far into the shown block the memory begins, and the block's handle. */
const LETTER_BYTES: number = 16 + IPC_HANDLE_BYTES;

/** A letter that shows no memory has this offset. */
const NOTHING_SHOWN = 2 ** 52;

/** The board of one rank, as this process sees it. */
export class Board {
  readonly #address: number;
  readonly #ranks: number;

  constructor(address: number, ranks: number) {
    this.#address = address;
    this.#ranks = ranks;
  }

  /** @param ranks how many ranks share it. */
  static bytes(ranks: number): number {
    return Math.ceil((3 * LETTER_BYTES + 2 * 4 * ranks) / PAGE_BYTES) * PAGE_BYTES;
  }

  /** The flag that says: that rank is ready to receive. The owner of this board waits for it. */
  ready(rank: number): number {
    return this.#flag(rank);
  }

  /** The flag that says: the owner of this board has all that rank had for it. The owner waits for it. */
  arrived(rank: number): number {
    return this.#flag(this.#ranks + rank);
  }

  /**
   * Where the owner writes its letter of that number. One is written over the one but last, which all have read by then: they have
   * written the last one.
   */
  letter(number: number): number {
    return this.#address + (number % 2) * LETTER_BYTES;
  }

  /** Room for a letter that the owner has copied from another board. */
  get received(): number {
    return this.#address + 2 * LETTER_BYTES;
  }

  #flag(index: number): number {
    return this.#address + 3 * LETTER_BYTES + 4 * index;
  }
}

/** Ranks that copy into each other's memory. */
export interface PeerGroup {
  /** Of the ranks, by their places in the group. */
  readonly boards: readonly Board[];
  /** The place of this process. */
  readonly index: number;
  /** Graphs that have captured copies between the GPUs. */
  readonly graphs: Set<CapturingGraph>;
  /** Memory of this rank that has been shown, by its address: where the other ranks have the same, by their places. */
  readonly shown: ReadonlyMap<number, readonly number[]>;
  /**
   * Show the others memory of this rank that they copy into; all of them call it, and each waits for the others.
   * @param address of the memory, which stays until the ranks leave each other; undefined if this rank has none
   * @returns whether all have shown theirs, which is the same on all ranks
   * @throws DeviceError if another rank does not do so in time
   */
  show(address: number | undefined): boolean;
  close(): void;
}

/** By their ranks. */
const groups = new Map<string, PeerGroup>();

/** @returns undefined where these ranks do not copy into each other's memory */
export const peersOf = (ranks: readonly number[]): PeerGroup | undefined => groups.get(ranks.join());

/** What a rank tells the others of its board, if it can show one. */
interface Offer {
  /** Why it cannot. */
  readonly failure?: string;
  /** Of the host, since it was booted. */
  readonly host: string;
  /** PCI bus of the GPU. */
  readonly bus: string;
  /** Of the memory, in base64. */
  readonly handle: string;
}

/** What is asked of the driver. */
export interface PeerDriver extends Pick<Driver, 'handle' | 'number' | 'openShared'> {
  readonly api: Pick<
    Driver['api'],
    | 'cuCtxGetDevice'
    | 'cuDeviceGetByPCIBusId'
    | 'cuDeviceGetP2PAttribute'
    | 'cuDeviceGetPCIBusId'
    | 'cuIpcGetMemHandle'
    | 'cuMemAlloc_v2'
    | 'cuMemGetAddressRange_v2'
    | 'cuMemcpyDtoDAsync_v2'
    | 'cuMemcpyDtoHAsync_v2'
    | 'cuMemcpyHtoDAsync_v2'
    | 'cuMemsetD8Async'
    | 'cuStreamSynchronize'
  >;
  readonly raw: Pick<Driver['raw'], 'cuIpcCloseMemHandle' | 'cuMemFree_v2'>;
}

/** Gives all ranks a text of this one. @returns those of all ranks, in their order */
export type ShareText = (what: string, mine: string) => Promise<readonly string[]>;

/**
 * Let the ranks of a group copy into each other's memory, if their GPUs, one for each, are linked on one host. The context of this
 * process's GPU is current. All ranks call it.
 * @param index the place of this process in `ranks`
 * @returns the group, which the routines of these ranks use from now on; undefined, on all ranks, if they cannot
 */
export async function connectPeers(
  ranks: readonly number[],
  index: number,
  share: ShareText,
  driver: PeerDriver = openDriver(),
): Promise<PeerGroup | undefined> {
  const { api } = driver;
  const bytes = Board.bytes(ranks.length);
  const own = driver.handle((at) => api.cuMemAlloc_v2(at, bytes));
  const mapped = new MappedBlocks(driver);
  const close = (): void => {
    mapped.close();
    driver.raw.cuMemFree_v2(own);
  };
  let addresses: number[] | undefined;
  let reason = '';
  const offers = (await share('board', JSON.stringify(offerOf(driver, own)))).map(
    (text) => JSON.parse(text) as Offer,
  );
  try {
    requireLinks(driver, offers, index);
    addresses = offers.map(({ handle }, i) =>
      i === index ? own : mapped.open(new Uint8Array(Buffer.from(handle, 'base64'))),
    );
    // No flag is set, and no letter has a number.
    api.cuMemsetD8Async(own, 0, bytes, DEFAULT_STREAM);
    api.cuStreamSynchronize(DEFAULT_STREAM);
  } catch (error) {
    reason = (error as Error).message;
  }
  const reasons = await share('board seen', reason);
  const found = reasons.find((text) => text !== '');
  if (found !== undefined || !addresses) {
    debug(1, () => `cuda: ranks ${ranks.join()} do not copy into each other's memory: ${found}`);
    close();
    return undefined;
  }
  const boards = addresses.map((address) => new Board(address, ranks.length));
  const letters = new Letters(driver, boards, index, ranks);
  const shown = new Map<number, readonly number[]>();
  const show = (address: number | undefined): boolean => {
    const places = letters.exchange(placeOf(driver, address));
    if (places.includes(undefined)) return false;
    shown.set(
      address!,
      places.map((place, i) => (i === index ? address! : mapped.open(place!.handle) + place!.offset)),
    );
    return true;
  };
  const group: PeerGroup = { boards, index, graphs: new Set(), shown, show, close };
  groups.set(ranks.join(), group);
  return group;
}

/** Let go of all memory of other ranks. Programs that copy into it must not run any more, on no rank. */
export function disconnectPeers(): void {
  for (const group of groups.values()) {
    for (const graph of [...group.graphs]) graph.dispose();
    group.close();
  }
  groups.clear();
}

/** Blocks of other processes' memory that are mapped into this one, each once. */
class MappedBlocks {
  readonly #driver: PeerDriver;
  readonly #addresses = new Map<string, number>();

  constructor(driver: PeerDriver) {
    this.#driver = driver;
  }

  /** @returns where the block is */
  open(handle: Uint8Array): number {
    const key = Buffer.from(handle).toString('base64');
    const known = this.#addresses.get(key);
    if (known !== undefined) return known;
    const address = this.#driver.openShared(handle);
    this.#addresses.set(key, address);
    return address;
  }

  close(): void {
    for (const address of this.#addresses.values()) this.#driver.raw.cuIpcCloseMemHandle(address);
    this.#addresses.clear();
  }
}

/** Memory that a rank shows: a block, by its handle, and how far into it the memory begins. */
interface ShownMemory {
  readonly handle: Uint8Array;
  readonly offset: number;
}

/** Undefined where there is no memory, or none that can be shown. */
function placeOf(driver: PeerDriver, address: number | undefined): ShownMemory | undefined {
  if (address === undefined) return undefined;
  try {
    const block = driver.handle((at) => driver.api.cuMemGetAddressRange_v2(at, 0, address));
    return { handle: handleOf(driver, block), offset: address - block };
  } catch (error) {
    debug(1, () => `cuda: memory for copies cannot be shown: ${(error as Error).message}`);
    return undefined;
  }
}

function handleOf({ api }: PeerDriver, address: number): Uint8Array {
  const handle = new NativeMemory(IPC_HANDLE_BYTES);
  api.cuIpcGetMemHandle(handle.address, address);
  return handle.bytes;
}

/** What the processes of a group write to each other on their boards. */
class Letters {
  readonly #driver: PeerDriver;
  readonly #boards: readonly Board[];
  readonly #index: number;
  readonly #ranks: readonly number[];
  readonly #host = new NativeMemory(LETTER_BYTES);
  #number = 0;

  constructor(driver: PeerDriver, boards: readonly Board[], index: number, ranks: readonly number[]) {
    this.#driver = driver;
    this.#boards = boards;
    this.#index = index;
    this.#ranks = ranks;
  }

  /** @returns what all ranks show, by their places @throws DeviceError if another rank does not write in time */
  exchange(mine: ShownMemory | undefined): (ShownMemory | undefined)[] {
    this.#number++;
    this.#write(mine);
    return this.#boards.map((_, i) => (i === this.#index ? mine : this.#await(i)));
  }

  #write(mine: ShownMemory | undefined): void {
    const { api } = this.#driver;
    const host = this.#host;
    const to = this.#boards[this.#index]!.letter(this.#number);
    host.setU64(0, this.#number);
    host.setU64(8, mine ? mine.offset : NOTHING_SHOWN);
    host.bytes.set(mine ? mine.handle : new Uint8Array(IPC_HANDLE_BYTES), 16);
    // The number comes last: who sees it finds all before.
    api.cuMemcpyHtoDAsync_v2(to + 8, host.address + 8, LETTER_BYTES - 8, DEFAULT_STREAM);
    api.cuStreamSynchronize(DEFAULT_STREAM);
    api.cuMemcpyHtoDAsync_v2(to, host.address, 8, DEFAULT_STREAM);
    api.cuStreamSynchronize(DEFAULT_STREAM);
  }

  #await(rank: number): ShownMemory | undefined {
    const end = performance.now() + PATIENCE_MS;
    while (this.#read(rank) !== this.#number) {
      if (performance.now() > end)
        throw new DeviceError(
          `[distributed] rank ${this.#ranks[rank]} has not traced the step that this rank traces, for ${PATIENCE_MS / 1000} seconds. ` +
            'All ranks of a group must make the same calls in the same order.',
        );
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
    // What was copied beside the number may have been copied before it.
    this.#read(rank);
    const offset = this.#host.u64(8);
    return offset === NOTHING_SHOWN
      ? undefined
      : { offset, handle: this.#host.bytes.slice(16, LETTER_BYTES) };
  }

  /** Reads the letter of a rank. @returns its number */
  #read(rank: number): number {
    const { api } = this.#driver;
    const { received } = this.#boards[this.#index]!;
    const letter = this.#boards[rank]!.letter(this.#number);
    api.cuMemcpyDtoDAsync_v2(received, letter, LETTER_BYTES, DEFAULT_STREAM);
    api.cuMemcpyDtoHAsync_v2(this.#host.address, received, LETTER_BYTES, DEFAULT_STREAM);
    api.cuStreamSynchronize(DEFAULT_STREAM);
    return this.#host.u64();
  }
}

function offerOf(driver: PeerDriver, own: number): Offer {
  try {
    return requireOffer(driver, own);
  } catch (error) {
    return { failure: (error as Error).message, host: '', bus: '', handle: '' };
  }
}

/** @throws DriverError where memory cannot be shared between processes */
function requireOffer(driver: PeerDriver, own: number): Offer {
  const { api } = driver;
  const text = new NativeMemory(256);
  const gpu = driver.number((at) => api.cuCtxGetDevice(at));
  api.cuDeviceGetPCIBusId(text.address, 256, gpu);
  return {
    host: `${hostname()} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`,
    bus: text.text(),
    handle: Buffer.from(handleOf(driver, own)).toString('base64'),
  };
}

/** @throws Error that says why the ranks cannot copy from each other */
function requireLinks(driver: PeerDriver, offers: readonly Offer[], index: number): void {
  const { api } = driver;
  const own = offers[index]!;
  if (process.env.NCCL_P2P_DISABLE === '1') throw new Error('NCCL_P2P_DISABLE is 1');
  offers.forEach(({ failure, host, bus }, i) => {
    if (failure !== undefined) throw new Error(`rank ${i} shares no memory: ${failure}`);
    if (i === index) return;
    if (host !== own.host) throw new Error(`rank ${i} is on another host`);
    if (bus === own.bus) throw new Error(`rank ${i} has the same GPU`);
    const [from, to] = [own.bus, bus].map((id) =>
      driver.number((at) => api.cuDeviceGetByPCIBusId(at, id)),
    ) as [number, number];
    const isLinked = driver.number((at) => api.cuDeviceGetP2PAttribute(at, LINKED, from, to));
    if (isLinked !== 1) throw new Error(`the GPU of rank ${i} is not linked by NVLink`);
  });
}
