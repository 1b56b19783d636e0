/** The simulator as a device (`HEDDLE_DEVICE=sim`): plain memory, one thread after another, every access checked. */
import { print } from '#platform/process.js';
import { viewAs } from '../../core/dtype.js';
import { DeviceError, OutOfMemoryError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { argumentsOf } from '../../kernel/ir/ir.js';
import { isBuffer } from '../../kernel/ir/types.js';
import {
  type Device,
  type DeviceBuffer,
  type KernelLaunch,
  type Launch,
  type MemoryReport,
  type Program,
  requireKernels,
  type Stream,
} from '../device.js';
import { requireSizes } from '../launch-rules.js';
import { ImmediateStream } from '../stream.js';
import { Sanitizer, SIM_TARGET } from './launch.js';

interface SimBuffer extends DeviceBuffer {
  memory: ArrayBuffer | undefined;
}

/** The simulator. Launches run as soon as they are asked for; findings are thrown by `run`. */
export class SimDevice implements Device {
  readonly name = 'sim';
  readonly description = 'simulator: JavaScript, one thread, checks every access';
  readonly target = SIM_TARGET;
  /** Loop iterations that kernels have taken so far. */
  steps = 0;
  readonly #sanitizer = new Sanitizer();
  readonly #live = new Set<SimBuffer>();
  #used = 0;
  #peak = 0;

  allocate(bytes: number, label: string): DeviceBuffer {
    const buffer: SimBuffer = { device: this, bytes, label, memory: this.#take(bytes, label) };
    this.#live.add(buffer);
    this.#used += bytes;
    this.#peak = Math.max(this.#peak, this.#used);
    return buffer;
  }

  free(buffer: DeviceBuffer): void {
    const mine = buffer as SimBuffer;
    if (!this.#live.delete(mine)) return;
    this.#used -= mine.bytes;
    mine.memory = undefined;
  }

  write(buffer: DeviceBuffer, source: Uint8Array, offset = 0): void {
    new Uint8Array(liveMemory(buffer)).set(source, offset);
  }

  clear(buffer: DeviceBuffer): void {
    new Uint8Array(liveMemory(buffer)).fill(0);
  }

  async read(buffer: DeviceBuffer, offset = 0, bytes = buffer.bytes - offset): Promise<Uint8Array> {
    return new Uint8Array(liveMemory(buffer).slice(offset, offset + bytes));
  }

  peek(buffer: DeviceBuffer): Uint8Array | undefined {
    const { memory } = buffer as SimBuffer;
    return memory && new Uint8Array(memory);
  }

  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void {
    new Uint8Array(liveMemory(to)).set(new Uint8Array(liveMemory(from), 0, bytes));
  }

  compile(launches: readonly Launch[]): Program {
    const kernels = requireKernels(this.name, launches);
    return {
      launches,
      run: (slots, times = 1) => {
        for (let i = 0; i < times; i++) for (const launch of kernels) this.#launch(launch, slots);
      },
      dispose() {},
    };
  }

  openStream(): Stream {
    return new ImmediateStream(this);
  }

  async synchronize(): Promise<void> {}

  async time(work: () => void): Promise<number> {
    const started = performance.now();
    work();
    return (performance.now() - started) * 1000;
  }

  memory(): MemoryReport {
    const holders = new Map<string, { label: string; bytes: number; buffers: number }>();
    for (const { label, bytes } of this.#live) {
      const holder = holders.get(label) ?? { label, bytes: 0, buffers: 0 };
      holder.bytes += bytes;
      holder.buffers++;
      holders.set(label, holder);
    }
    return {
      used: this.#used,
      reserved: this.#used,
      peak: this.#peak,
      buffers: this.#live.size,
      holders: [...holders.values()].sort((a, b) => b.bytes - a.bytes).slice(0, 10),
    };
  }

  async close(): Promise<void> {
    for (const buffer of [...this.#live]) this.free(buffer);
  }

  #take(bytes: number, label: string): ArrayBuffer {
    try {
      return new ArrayBuffer(bytes);
    } catch {
      const held = this.memory().holders.map((h) => `${h.label} ${h.bytes}`);
      throw new OutOfMemoryError(
        `the simulator cannot get ${bytes} bytes for '${label}': it holds ${this.#used} bytes` +
          `${held.length > 0 ? ` (${held.join(', ')})` : ''}.`,
      );
    }
  }

  #launch(launch: KernelLaunch, slots: readonly DeviceBuffer[]): void {
    const { kernel, grid, block, sharedBytes = 0, cluster } = launch;
    requireSizes(kernel.name, { grid, block, cluster });
    const args = argumentsOf(kernel).map((p, i) => {
      const arg = launch.args[i];
      if (!arg) throw new DeviceError(`[${kernel.name}] the argument ${p.name} is missing.`);
      if ('value' in arg) return arg.value;
      const slot = slots[arg.slot];
      if (!slot)
        throw new DeviceError(
          `[${kernel.name}] no buffer for ${p.name}: slot ${arg.slot} of ${slots.length}.`,
        );
      if (!isBuffer(p.schema)) throw new DeviceError(`[${kernel.name}] ${p.name} is a scalar, got a buffer.`);
      const { dtype } = p.schema;
      const length = Math.floor((slot.bytes - arg.offset) / dtype.bytes);
      return viewAs(dtype, liveMemory(slot), arg.offset, length);
    });
    const run = this.#sanitizer.launch(kernel, { grid, block, sharedBytes, cluster }, args);
    this.steps += run.steps;
    debug(2, () => `[sim] ${kernel.name} grid (${grid}) block (${block}) ${run.steps} steps`);
    for (const line of run.prints) print(line);
  }
}

function liveMemory(buffer: DeviceBuffer): ArrayBuffer {
  const { memory } = buffer as SimBuffer;
  if (!memory) throw new DeviceError(`the buffer '${buffer.label}' has been freed.`);
  return memory;
}
