/** Launches compiled together, and their runs. */
import { DeviceError, KernelError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { compile } from '../../kernel/compile.js';
import type { KernelIr } from '../../kernel/ir.js';
import { serialize } from '../../kernel/serialize.js';
import type { Target } from '../../kernel/target.js';
import { FAILURE } from '../../render/wasm-abi.js';
import type { Message } from '../../render/wasm-statements.js';
import type { DeviceBuffer, Launch, Program } from '../device.js';
import type { RunFunction } from './control.js';
import type { CpuMemory } from './memory.js';
import { flushPrints } from './print.js';
import { type PlannedLaunch, renderProgram } from './render.js';
import { Instance, Module, type WasmModule } from './webassembly.js';
import { estimateWork } from './work.js';
import type { Workers } from './workers.js';

/** A launch with less to do, in instructions, is done by one thread: about 10 µs. */
const PARALLEL_WORK = 40_000;

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

export class CpuProgram implements Program {
  readonly launches: readonly Launch[];
  /** The module's text. */
  readonly text: () => string;
  private readonly host: ProgramHost;
  private readonly number = ++programs;
  private readonly messages: readonly Message[];
  private readonly scratchBytes: number;
  private readonly slots: number;
  private readonly table: number;
  private readonly parallel: boolean;
  private readonly module: WasmModule;
  private execute: RunFunction | undefined;
  private sent = false;

  constructor(host: ProgramHost, launches: readonly Launch[], planned: readonly PlannedLaunch[]) {
    this.host = host;
    this.launches = launches;
    const { bytes, text, messages, scratchBytes } = renderProgram(planned, host.target.fma);
    this.text = text;
    debug(4, () => `[cpu] program ${this.number}\n${text()}`);
    this.messages = messages;
    this.scratchBytes = scratchBytes;
    this.parallel = planned.some((p) => p.parallel);
    const used = launches.flatMap((l) => l.args.map((a) => ('slot' in a ? a.slot + 1 : 0)));
    this.slots = Math.max(0, ...used);
    this.module = new Module(bytes);
    const { exports } = new Instance(this.module, { heddle: { memory: host.heap.memory } });
    this.execute = exports.run as RunFunction;
    this.table = host.heap.allocate(4 * this.slots, 'program tables');
    if (this.parallel) host.workers.start();
  }

  run(slots: readonly DeviceBuffer[]): void {
    const { host, table, execute } = this;
    if (!execute) throw new DeviceError('This program has been disposed of.');
    if (slots.length < this.slots) {
      throw new DeviceError(`The program uses ${this.slots} buffers, ${slots.length} were given.`);
    }
    const words = new Int32Array(host.heap.bytes.buffer, table, this.slots);
    for (let i = 0; i < this.slots; i++) words[i] = host.addressOf(slots[i]!);
    const scratch = this.scratchBytes > 0 ? host.scratch(this.scratchBytes) : 0;
    const { workers } = host;
    const together = this.parallel && workers.ready;
    let failure: unknown;
    let status = 0;
    try {
      if (together) {
        if (!this.sent) workers.send({ kind: 'program', program: this.number, module: this.module });
        this.sent = true;
        workers.command(this.number, table, scratch);
      }
      status = execute(table, scratch, 0, together ? workers.threads : 1);
    } catch (error) {
      failure = error;
      if (together) workers.abort();
    }
    const said = together && (failure || status !== 0) ? workers.recover() : '';
    if (this.messages.length > 0) flushPrints(host.heap.bytes, this.messages);
    if (failure || status !== 0) throw this.failed(failure, said);
  }

  dispose(): void {
    if (!this.execute) return;
    this.execute = undefined;
    this.host.heap.release(this.table, 4 * this.slots, 'program tables');
    if (this.sent) this.host.workers.send({ kind: 'forget', program: this.number });
  }

  /** The error that a trap stands for. */
  private failed(cause: unknown, said: string): Error {
    const failed = new Int32Array(this.host.heap.bytes.buffer, FAILURE, 1);
    const message = this.messages[Atomics.exchange(failed, 0, 0) - 1];
    if (message) {
      return new KernelError(`[${message.kernel}] assertion failed: ${message.text}`, message.at);
    }
    const names = [...new Set(this.launches.map((l) => l.kernel.name))].join(', ');
    const what = cause instanceof Error ? cause.message : said;
    return new DeviceError(
      `A thread of the CPU device failed in a program of ${names}: ${what}. ` +
        'An index far out of bounds does this; kernel.simulate or DEV=sim finds the line.',
      { cause },
    );
  }
}

/** Kernels for blocks of one thread after the passes, by the kernel and its block size. */
const compiled = new WeakMap<KernelIr, Map<string, KernelIr>>();

/** What a launch comes to on this device. @throws KernelError if its threads cannot be put one after another */
export function planLaunch(launch: Launch, target: Target): PlannedLaunch {
  const { kernel, block } = launch;
  const known = compiled.get(kernel) ?? new Map<string, KernelIr>();
  compiled.set(kernel, known);
  const key = block.join();
  let ir = known.get(key);
  if (!ir) {
    let single: KernelIr = kernel;
    if (key !== '1,1,1') {
      const result = serialize(kernel, block);
      if ('reason' in result) throw new KernelError(`[${kernel.name}] ${result.reason}`);
      single = result;
    }
    ir = compile(single, target);
    known.set(key, ir);
  }
  return { launch, ir, parallel: target.units > 1 && isWorthIt(ir, launch) };
}

function isWorthIt(ir: KernelIr, launch: Launch): boolean {
  const [x, y, z] = launch.grid;
  return x * y * z > 1 && estimateWork(ir, launch) >= PARALLEL_WORK;
}
