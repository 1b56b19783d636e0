/** What devices share in looking after memory: size classes for reuse, and who holds how much. */
import { ArgumentError } from '../core/errors.js';
import type { DeviceBuffer, MemoryReport } from './device.js';

/** The least a buffer takes, and what addresses are multiples of, in bytes. */
export const ALIGNMENT = 64;

/** `bytes` rounded up to a size that freed buffers are kept by: four sizes per power of two. */
export function sizeClass(bytes: number): number {
  if (bytes <= ALIGNMENT) return ALIGNMENT;
  const step = Math.max(ALIGNMENT, 2 ** (Math.ceil(Math.log2(bytes)) - 3));
  return Math.ceil(bytes / step) * step;
}

/** @throws ArgumentError unless these bytes are within the buffer */
export function requireRange({ label, bytes: all }: DeviceBuffer, offset: number, bytes: number): void {
  if (offset >= 0 && bytes >= 0 && offset + bytes <= all) return;
  throw new ArgumentError(`[${label}] bytes ${offset} to ${offset + bytes} are outside of its ${all}.`);
}

/** What to do where memory runs out. */
export const MEMORY_HINT =
  'Use a smaller batch, or dispose of what is no longer needed. Tensors that nothing refers to any more give their ' +
  'memory back only while the program waits: in a long loop, await a value now and then.';

/** Bytes for people. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB'];
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

interface Holder {
  bytes: number;
  buffers: number;
}

/** Who holds memory, by label. */
export class Ledger {
  used = 0;
  peak = 0;
  buffers = 0;
  readonly #byLabel = new Map<string, Holder>();

  hold(label: string, bytes: number): void {
    const holder = this.#byLabel.get(label) ?? { bytes: 0, buffers: 0 };
    holder.bytes += bytes;
    holder.buffers++;
    this.#byLabel.set(label, holder);
    this.buffers++;
    this.used += bytes;
    this.peak = Math.max(this.peak, this.used);
  }

  release(label: string, bytes: number): void {
    const holder = this.#byLabel.get(label);
    if (!holder) return;
    holder.bytes -= bytes;
    holder.buffers--;
    if (holder.buffers === 0) this.#byLabel.delete(label);
    this.buffers--;
    this.used -= bytes;
  }

  report(reserved: number): MemoryReport {
    const holders = [...this.#byLabel].map(([label, h]) => ({ label, ...h }));
    holders.sort((a, b) => b.bytes - a.bytes);
    return {
      used: this.used,
      reserved,
      peak: this.peak,
      buffers: this.buffers,
      holders: holders.slice(0, 10),
    };
  }

  /** The largest holders in a sentence. */
  describe(): string {
    const { holders } = this.report(0);
    if (holders.length === 0) return 'nothing is held';
    const list = holders.slice(0, 5).map((h) => `${h.label} ${formatBytes(h.bytes)} in ${h.buffers}`);
    return `the largest holders are ${list.join(', ')}`;
  }
}
