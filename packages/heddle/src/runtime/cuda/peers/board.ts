/**
 * The board of a rank, which the others of its group see: flags of the device, by which the streams of two ranks wait for each other, and
 * letters of the host, by which processes show each other memory while a program is traced. Who waits for a flag sets it back, so every
 * flag goes from 0 to 1 and back to 0, with the same values in each turn: a graph that has captured this runs as often as one likes.
 */
import { DeviceError } from '../../../core/errors.js';
import { IPC_HANDLE_BYTES } from '../driver/driver.js';
import { NativeMemory } from '../driver/native.js';
import { PAGE_BYTES } from './routes.js';
import type { PeerDriver, ShownMemory } from './shown-memory.js';

/** The default stream of the context, on which no program runs. */
export const DEFAULT_STREAM = 0;

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

/** What the processes of a group write to each other on their boards. */
export class Letters {
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
