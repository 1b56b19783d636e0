/** Memory that a process shows others of its host, and that it has mapped of theirs, by the driver's interprocess memory. */
import { debug } from '../../../core/log.js';
import { type Driver, IPC_HANDLE_BYTES } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';

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

/** Memory that a rank shows: a block, by its handle, and how far into it the memory begins. */
export interface ShownMemory {
  readonly handle: Uint8Array;
  readonly offset: number;
}

/** Undefined where there is no memory, or none that can be shown. */
export function placeOf(driver: PeerDriver, address: number | undefined): ShownMemory | undefined {
  if (address === undefined) return undefined;
  try {
    const block = driver.handle((at) => driver.api.cuMemGetAddressRange_v2(at, 0, address));
    return { handle: handleOf(driver, block), offset: address - block };
  } catch (error) {
    debug(1, () => `cuda: memory for copies cannot be shown: ${(error as Error).message}`);
    return undefined;
  }
}

export function handleOf({ api }: PeerDriver, address: number): Uint8Array {
  const handle = new NativeMemory(IPC_HANDLE_BYTES);
  api.cuIpcGetMemHandle(handle.address, address);
  return handle.bytes;
}

/** Blocks of other processes' memory that are mapped into this one, each once. */
export class MappedBlocks {
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
