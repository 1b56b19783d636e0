/** What kernels print and assert: records that they leave in pinned memory, read when the device has been waited for. */
import { KernelError } from '../../core/errors.js';
import { MESSAGE_HEADER, MESSAGE_LOG, messageLogOf } from '../../render/cuda/messages.js';
import type { Message } from '../../render/message.js';
import { formatScalar } from '../sim/run.js';
import type { Driver } from './driver/driver.js';
import { NativeMemory, viewNative } from './driver/native.js';

/** Words of 8 bytes; what does not fit is dropped and counted. */
const CAPACITY = 1 << 17;

/** Addresses on the device, and the records as this process sees them. */
interface Log {
  readonly taken: number;
  readonly records: number;
  readonly view: DataView;
}

export class MessageBoard {
  readonly #driver: Driver;
  readonly #stream: number;
  /** The messages of each kernel, by its number less 1. */
  readonly #kernels: (readonly Message[])[] = [];
  #log: Log | undefined;

  constructor(driver: Driver, stream: number) {
    this.#driver = driver;
    this.#stream = stream;
  }

  /** Give the module of a kernel its log. */
  register(module: number, entry: string, messages: readonly Message[]): void {
    const { api } = this.#driver;
    this.#log ??= this.#open();
    const log = this.#log;
    this.#kernels.push(messages);
    const value = new NativeMemory(MESSAGE_LOG.bytes);
    value.setU64(MESSAGE_LOG.taken, log.taken);
    value.setU64(MESSAGE_LOG.records, log.records);
    value.setU32(MESSAGE_LOG.capacity, CAPACITY);
    value.setU32(MESSAGE_LOG.kernel, this.#kernels.length);
    const place = this.#driver.handle((at) =>
      api.cuModuleGetGlobal_v2(at, at + 8, module, messageLogOf(entry)),
    );
    api.cuMemcpyHtoDAsync_v2(place, value.address, MESSAGE_LOG.bytes, this.#stream);
    api.cuStreamSynchronize(this.#stream);
  }

  /**
   * Write out what was printed. Costs nothing where nothing was said.
   * @param join lets the stream wait for all others
   * @throws KernelError for the first assertion that failed, with its line, the block and the thread
   */
  flush(join: () => void): void {
    const log = this.#log;
    if (!log || log.view.getUint32(0, true) === 0) return;
    const { api } = this.#driver;
    // Kernels queued meanwhile may be at it still.
    join();
    api.cuStreamSynchronize(this.#stream);
    const taken = new NativeMemory(8);
    api.cuMemcpyDtoHAsync_v2(taken.address, log.taken, 4, this.#stream);
    api.cuMemsetD8Async(log.taken, 0, 4, this.#stream);
    api.cuStreamSynchronize(this.#stream);
    const failed = this.#read(log.view, Math.min(taken.u32(), CAPACITY));
    if (taken.u32() > CAPACITY)
      process.stdout.write(`(more was printed than the ${8 * CAPACITY} bytes kept for it)\n`);
    if (failed) throw failed;
  }

  /**
   * Write out what was printed before a fault, as far as it arrived: its own count is lost with the device.
   * @returns the error of the first assertion that failed
   */
  salvage(): KernelError | undefined {
    return this.#log && this.#read(this.#log.view, CAPACITY);
  }

  close(): void {
    if (!this.#log) return;
    this.#driver.api.cuMemFree_v2(this.#log.taken);
    this.#driver.api.cuMemFreeHost(this.#log.records);
    this.#log = undefined;
  }

  /** Write out and clear the records; the error of the first assertion among them. */
  #read(view: DataView, words: number): KernelError | undefined {
    let failed: KernelError | undefined;
    let at = 0;
    while (at + MESSAGE_HEADER <= words) {
      const u32 = (i: number): number => view.getUint32(8 * at + 4 * i, true);
      const message = this.#kernels[u32(0) - 1]?.[u32(1) - 1];
      if (!message) break;
      const where = `block (${u32(2)},${u32(3)},${u32(4)})${message.kind === 'assert' ? ',' : ''} thread (${u32(5)},${u32(6)},${u32(7)})`;
      at += MESSAGE_HEADER;
      if (message.kind === 'assert') {
        failed ??= new KernelError(
          `[${message.kernel}] assertion failed${message.text && `: ${message.text}`}\n  ${where}`,
          message.at,
        );
        continue;
      }
      const values = message.values.map(({ dtype, lanes }) => {
        const each = Array.from({ length: lanes }, () => {
          const place = 8 * at++;
          if (dtype.kind === 'float') return formatScalar(dtype, view.getFloat64(place, true));
          const v = view.getBigInt64(place, true);
          return dtype.name === 'bool' ? String(v !== 0n) : String(v);
        });
        return lanes > 1 ? `(${each.join(', ')})` : each[0]!;
      });
      let next = 0;
      const line = message.text.replaceAll('{}', () => values[next++] ?? '{}');
      process.stdout.write(`[${where}] ${line}\n`);
    }
    new Uint8Array(view.buffer, view.byteOffset, 8 * at).fill(0);
    return failed;
  }

  #open(): Log {
    const { api } = this.#driver;
    const taken = this.#driver.handle((at) => api.cuMemAlloc_v2(at, 256));
    // Pinned, so that it survives a fault of the device.
    const records = this.#driver.handle((at) => api.cuMemHostAlloc(at, 8 * CAPACITY, 0));
    const bytes = viewNative(records, 8 * CAPACITY);
    bytes.fill(0);
    api.cuMemsetD8Async(taken, 0, 256, this.#stream);
    return { taken, records, view: new DataView(bytes.buffer) };
  }
}
