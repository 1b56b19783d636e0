/** Launches compiled together, and their runs. */

import { keptProgram } from '#runtime/kept-program.js';
import { DeviceError, KernelError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { during } from '../../core/phases.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { compile } from '../../kernel/passes/pipeline.js';
import type { Message } from '../../render/message.js';
import { FAILURE } from '../../render/wasm/abi.js';
import type { DeviceBuffer, KernelLaunch, Program } from '../device.js';
import { type Command, DONE, type RunFunction, WAITED } from './control.js';
import type { CpuMemory } from './memory.js';
import { flushPrints } from './print.js';
import { type CompiledLaunch, countersAt, renderProgram, SECTION_BYTES } from './render.js';
import { Instance, Module } from './webassembly.js';
import { estimateWork } from './work.js';
import type { Workers } from './workers.js';

/** What a program needs of its device. */
export interface ProgramHost {
  readonly target: Target;
  readonly heap: CpuMemory;
  readonly workers: Workers;
  addressOf(buffer: DeviceBuffer): number;
  /** The address of scratch memory of at least that many bytes for each thread. */
  scratch(bytesPerThread: number): number;
}

let programs = 0;

const TABLES = 'program tables';
const MODULES = 'program modules';

type ProgramPlace = Pick<Command, 'module' | 'moduleBytes' | 'place'>;

export class CpuProgram implements Program {
  readonly launches: readonly KernelLaunch[];
  /** The module's text. */
  readonly text: () => string;
  readonly #host: ProgramHost;
  readonly #number = ++programs;
  readonly #messages: readonly Message[];
  readonly #scratchBytes: number;
  readonly #slots: number;
  /** Addresses of the buffers, then the counters of the sections. */
  readonly table: number;
  readonly #tableBytes: number;
  readonly #sections: readonly number[];
  readonly #bytes: Uint8Array;
  execute: RunFunction | undefined;
  #epoch = 0;
  /** Where workers find it, once it is given to them. */
  #place: ProgramPlace | undefined;

  constructor(host: ProgramHost, launches: readonly KernelLaunch[]) {
    this.#host = host;
    this.launches = launches;
    const used = launches.flatMap((l) => l.args.map((a) => ('slot' in a ? a.slot + 1 : 0)));
    this.#slots = used.reduce((n, u) => Math.max(n, u), 0);
    const { fma, units: threads } = host.target;
    const program = keptProgram(launches, { fma, slots: this.#slots, threads }, (options) =>
      during('render', () =>
        renderProgram(
          launches.map((l) => planLaunch(l, host.target)),
          options,
        ),
      ),
    );
    this.text = program.text;
    debug(4, () => `[cpu] program ${this.#number}\n${program.text()}`);
    this.#messages = program.messages;
    this.#scratchBytes = program.scratchBytes;
    this.#sections = program.sections;
    this.#bytes = program.bytes;
    const { exports } = during(
      'compile',
      () => new Instance(new Module(program.bytes), { heddle: { memory: host.heap.memory } }),
    );
    this.execute = exports.run as RunFunction;
    this.#tableBytes = countersAt(this.#slots) + SECTION_BYTES * this.#sections.length;
    this.table = host.heap.allocate(this.#tableBytes, TABLES);
    host.heap.bytes.fill(0, this.table, this.table + this.#tableBytes);
    if (this.#sections.length > 0) host.workers.start();
  }

  run(slots: readonly DeviceBuffer[], times = 1): void {
    for (let i = 0; i < times; i++) this.#runOnce(slots);
  }

  #runOnce(slots: readonly DeviceBuffer[]): void {
    const host = this.#host;
    const table = this.table;
    const execute = this.execute;
    if (!execute) throw new DeviceError('This program has been disposed of.');
    if (slots.length < this.#slots) {
      throw new DeviceError(`The program uses ${this.#slots} buffers, ${slots.length} were given.`);
    }
    const addresses = new Uint32Array(host.heap.bytes.buffer, table, this.#slots);
    for (let i = 0; i < this.#slots; i++) addresses[i] = host.addressOf(slots[i]!);
    const scratch = this.#scratchBytes > 0 ? host.scratch(this.#scratchBytes) : 0;
    const { workers } = host;
    const epoch = this.#epoch;
    this.#epoch = (epoch + 1) | 0;
    const together = this.#sections.length > 0 && workers.ready;
    if (together) {
      this.#place ??= this.#publish();
      workers.command({ program: this.#number, epoch, table, scratch, ...this.#place });
    }
    let failure: unknown;
    let status = DONE;
    try {
      do status = execute(table, scratch, 0, epoch);
      while (status === WAITED && workers.alive);
    } catch (error) {
      failure = error;
    }
    const failed = failure !== undefined || status !== DONE;
    const lost = failed && !workers.alive;
    const said = failed ? workers.abandon() : '';
    if (failed) this.#restart();
    if (this.#messages.length > 0) flushPrints(host.heap.bytes, this.#messages);
    if (lost) throw this.#lost();
    if (failed) throw this.#failed(failure, said);
  }

  dispose(): void {
    if (!this.execute) return;
    this.execute = undefined;
    const { heap, workers } = this.#host;
    if (this.#place) {
      workers.rest();
      const { module, moduleBytes, place } = this.#place;
      heap.release(module, moduleBytes, MODULES);
      workers.leavePlace(place);
    }
    heap.release(this.table, this.#tableBytes, TABLES);
  }

  /** Put the module where workers find it: they compile it, which V8 does once for the same bytes. */
  #publish(): ProgramPlace {
    const { heap, workers } = this.#host;
    const moduleBytes = this.#bytes.length;
    const module = heap.allocate(moduleBytes, MODULES);
    heap.bytes.set(this.#bytes, module);
    return { module, moduleBytes, place: workers.takePlace() };
  }

  /** Counters as if no run had been: a failure has left them in between. */
  #restart(): void {
    this.#epoch = 0;
    this.#host.heap.bytes.fill(0, this.table + countersAt(this.#slots), this.table + this.#tableBytes);
  }

  get #names(): string {
    return [...new Set(this.launches.map((l) => l.kernel.name))].join(', ');
  }

  #lost(): Error {
    return new DeviceError(
      `A worker thread of the CPU device ended in the middle of a program of ${this.#names}. What the program writes is ` +
        'incomplete: compute it again, and load the weights of a training step from a checkpoint. ' +
        'Later programs run on one thread.',
    );
  }

  /** The error that a trap stands for. */
  #failed(cause: unknown, said: string): Error {
    const failed = new Int32Array(this.#host.heap.bytes.buffer, FAILURE, 1);
    const message = this.#messages[Atomics.exchange(failed, 0, 0) - 1];
    if (message) {
      return new KernelError(`[${message.kernel}] assertion failed: ${message.text}`, message.at);
    }
    const what = cause instanceof Error ? cause.message : said;
    return new DeviceError(
      `A thread of the CPU device failed in a program of ${this.#names}: ${what}. ` +
        'An index far out of bounds does this; kernel.simulate or HEDDLE_DEVICE=sim finds the line.',
      { cause },
    );
  }
}

/** Kernels after the passes, by the kernel and its block size. */
const compiled = new WeakMap<KernelIr, Map<string, KernelIr>>();

/** What a launch comes to on this device. @throws NotSerialized if its threads cannot be put one after another */
export function planLaunch(launch: KernelLaunch, target: Target): CompiledLaunch {
  const { kernel, block } = launch;
  const known = compiled.get(kernel) ?? new Map<string, KernelIr>();
  compiled.set(kernel, known);
  const key = block.join();
  let ir = known.get(key);
  if (!ir) {
    ir = compile(kernel, target, block);
    known.set(key, ir);
  }
  return { launch, ir, work: estimateWork(ir, launch) };
}
