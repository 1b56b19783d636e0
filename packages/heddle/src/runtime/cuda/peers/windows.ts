/**
 * Memory through which the GPUs of a host copy from each other. A rank has a window: it puts there what the others take. Windows are
 * mapped into all of these processes by the driver (interprocess memory), and copies between GPUs are made by their copy engines,
 * which leaves the multiprocessors to kernels.
 *
 * A window is a few slots and flags. A slot in use goes round like this: its owner waits until all others have taken what was in it,
 * fills it, and tells them; each of them takes a copy, and tells the owner. Who waits sets the flag that it waited for back, so every
 * flag goes from 0 to 1 and back to 0, with the same values in each turn: a graph that has captured them runs as often as one likes.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { debug } from '../../../core/log.js';
import { type Driver, IPC_HANDLE_BYTES, openDriver } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import type { CapturingGraph } from '../vendor/routine.js';

/** Slots of a window: while the others take from one, the next is filled. */
export const SLOTS = 2;

/** Bytes of a slot. A gradient bucket of the usual size fits into one. */
export const SLOT_BYTES: number = 16 * 2 ** 20;

/** CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: the GPUs are linked by NVLink. */
const LINKED = 3;

/** The window of one rank, as this process sees it. */
export class PeerWindow {
  readonly #address: number;
  readonly #ranks: number;

  constructor(address: number, ranks: number) {
    this.#address = address;
    this.#ranks = ranks;
  }

  /** @param ranks how many ranks share it */
  static bytes(ranks: number): number {
    return SLOTS * SLOT_BYTES + 4 * 2 * ranks * SLOTS;
  }

  slot(slot: number): number {
    return this.#address + slot * SLOT_BYTES;
  }

  /** The flag that says: in the window of that rank, the slot is full. The owner of this window waits for it. */
  full(rank: number, slot: number): number {
    return this.#flag(rank * SLOTS + slot);
  }

  /** The flag that says: that rank has taken what was in the slot of this window. */
  taken(rank: number, slot: number): number {
    return this.#flag((this.#ranks + rank) * SLOTS + slot);
  }

  #flag(index: number): number {
    return this.#address + SLOTS * SLOT_BYTES + 4 * index;
  }
}

/** The windows of a group, by the places of their owners in it. */
export interface PeerWindows {
  readonly windows: readonly PeerWindow[];
  /** The place of this process. */
  readonly index: number;
  /** Graphs that have captured copies between the windows. */
  readonly graphs: Set<CapturingGraph>;
  close(): void;
}

/** By the ranks that share them. */
const groups = new Map<string, PeerWindows>();

/** @returns undefined where these ranks do not copy from each other */
export const peerWindowsOf = (ranks: readonly number[]): PeerWindows | undefined => groups.get(ranks.join());

/** What a rank tells the others of its window, if it has one. */
interface Offer {
  /** Why it has none. */
  readonly failure?: string;
  /** Of the host, since it was booted. */
  readonly host: string;
  /** PCI bus of the GPU. */
  readonly bus: string;
  /** Of the memory, in base64. */
  readonly handle: string;
}

/** What is asked of the driver. */
export interface WindowDriver extends Pick<Driver, 'handle' | 'number' | 'openShared'> {
  readonly api: Pick<
    Driver['api'],
    | 'cuCtxGetDevice'
    | 'cuCtxSynchronize'
    | 'cuDeviceGetByPCIBusId'
    | 'cuDeviceGetP2PAttribute'
    | 'cuDeviceGetPCIBusId'
    | 'cuIpcGetMemHandle'
    | 'cuMemAlloc_v2'
    | 'cuStreamWriteValue32_v2'
  >;
  readonly raw: Pick<Driver['raw'], 'cuIpcCloseMemHandle' | 'cuMemFree_v2'>;
}

/** Gives all ranks a text of this one. @returns those of all ranks, in their order */
export type ShareText = (what: string, mine: string) => Promise<readonly string[]>;

/**
 * Give the ranks of a group windows of each other, if their GPUs, one for each, are linked on one host. The context of this process's
 * GPU is current. All ranks call it.
 * @param index the place of this process in `ranks`
 * @returns whether all of them have, which is the same on all ranks
 */
export async function connectPeers(
  ranks: readonly number[],
  index: number,
  share: ShareText,
  driver: WindowDriver = openDriver(),
): Promise<boolean> {
  const { api } = driver;
  const own = driver.handle((at) => api.cuMemAlloc_v2(at, PeerWindow.bytes(ranks.length)));
  const opened: number[] = [];
  const close = (): void => {
    for (const address of opened) driver.raw.cuIpcCloseMemHandle(address);
    driver.raw.cuMemFree_v2(own);
  };
  let addresses: number[] | undefined;
  let reason = '';
  const offers = (await share('window', JSON.stringify(offerOf(driver, own)))).map(
    (text) => JSON.parse(text) as Offer,
  );
  try {
    requireLinks(driver, offers, index);
    addresses = offers.map(({ handle }, i) => {
      if (i === index) return own;
      const address = driver.openShared(new Uint8Array(Buffer.from(handle, 'base64')));
      opened.push(address);
      return address;
    });
    resetFlags(driver, own, ranks.length);
  } catch (error) {
    reason = (error as Error).message;
  }
  const reasons = await share('window opened', reason);
  const found = reasons.find((text) => text !== '');
  if (found !== undefined || !addresses) {
    debug(1, () => `cuda: ranks ${ranks.join()} do not copy from each other: ${found}`);
    close();
    return false;
  }
  const windows = addresses.map((address) => new PeerWindow(address, ranks.length));
  groups.set(ranks.join(), { windows, index, graphs: new Set(), close });
  return true;
}

/** Let all windows go. Programs that use them must not run any more, on no rank. */
export function disconnectPeers(): void {
  for (const group of groups.values()) {
    for (const graph of [...group.graphs]) graph.dispose();
    group.close();
  }
  groups.clear();
}

function offerOf(driver: WindowDriver, own: number): Offer {
  try {
    return requireOffer(driver, own);
  } catch (error) {
    return { failure: (error as Error).message, host: '', bus: '', handle: '' };
  }
}

/** @throws DriverError where memory cannot be shared between processes */
function requireOffer(driver: WindowDriver, own: number): Offer {
  const { api } = driver;
  const text = new NativeMemory(256);
  const gpu = driver.number((at) => api.cuCtxGetDevice(at));
  api.cuDeviceGetPCIBusId(text.address, 256, gpu);
  const handle = new NativeMemory(IPC_HANDLE_BYTES);
  api.cuIpcGetMemHandle(handle.address, own);
  return {
    host: `${hostname()} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`,
    bus: text.text(),
    handle: Buffer.from(handle.bytes).toString('base64'),
  };
}

/** @throws Error that says why the ranks cannot copy from each other */
function requireLinks(driver: WindowDriver, offers: readonly Offer[], index: number): void {
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

/** Nothing is full, and everything has been taken. */
function resetFlags(driver: WindowDriver, own: number, ranks: number): void {
  const window = new PeerWindow(own, ranks);
  const { api } = driver;
  for (let rank = 0; rank < ranks; rank++)
    for (let slot = 0; slot < SLOTS; slot++) {
      // The default stream; the wait is that of the whole context.
      api.cuStreamWriteValue32_v2(0, window.full(rank, slot), 0, 0);
      api.cuStreamWriteValue32_v2(0, window.taken(rank, slot), 1, 0);
    }
  api.cuCtxSynchronize();
}
