/**
 * Ranks of a host that copy into each other's memory. They show each other parts of it, which the driver maps into the other process;
 * copies between GPUs are made by their copy engines, which leaves the multiprocessors to kernels.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { debug } from '../../../core/log.js';
import { openDriver } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import type { CapturingGraph } from '../vendor/routine.js';
import { Board, DEFAULT_STREAM, Letters } from './board.js';
import { handleOf, MappedBlocks, type PeerDriver, placeOf } from './shown-memory.js';

/** CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: the GPUs are linked by NVLink. */
const LINKED = 3;

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
