/**
 * A program as one WebAssembly module: its kernels, and a function `run(table, scratch, thread, epoch)` that every
 * thread calls once a run. It goes through the sections of the program in order. A section's launches need nothing
 * from each other; what it has to do is cut into chunks, which the threads claim one by one. A section is done when
 * its chunks are, whoever did them: a thread that comes late finds nothing left and goes on, so none waits for one
 * that sleeps.
 *
 * A thread that has waited for long returns, so that it can see whether the others still live, and is called again:
 * it finds what it has done finished.
 *
 * Counters of claims and of finished chunks only ever rise, by the section's chunks in each run (epoch): a thread
 * that is still in an earlier run finds all of it claimed and done.
 */
import type { KernelIr } from '../../kernel/ir/ir.js';
import { isBuffer } from '../../kernel/ir/types.js';
import type { Message } from '../../render/message.js';
import { FunctionBuilder, type Local } from '../../render/wasm/encode.js';
import { KernelModule, SCRATCH_GLOBAL, type WasmKernel } from '../../render/wasm/render.js';
import { laneType } from '../../render/wasm/values.js';
import type { KernelLaunch } from '../device.js';
import { ABORT, DONE, FAILED, WAITED, WAITING } from './control.js';

/** A launch, with its kernel as the module holds it. */
export interface CompiledLaunch {
  readonly launch: KernelLaunch;
  /** The launch's kernel after the passes. */
  readonly ir: KernelIr;
  /** Estimated instructions, of all blocks together. */
  readonly work: number;
}

export interface ProgramModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly text: () => string;
  readonly messages: readonly Message[];
  /** Scratch memory per thread, in bytes. */
  readonly scratchBytes: number;
  /** Chunks of each section, if there is more than one thread's work; counters follow the slots in the table. */
  readonly sections: readonly number[];
}

/** Looks at a counter before sleeping: some 20 µs. */
const SPINS = 20_000;
/** How long a sleeper waits before it returns, in ns. */
const NAP = 50_000_000n;
/** What `memory.atomic.wait32` returns after that time. */
const TIMED_OUT = 2;
/** A section with less to do, in instructions, is done by the main thread alone: about 10 µs. */
const SHARED_WORK = 40_000;
/** A chunk has at least so much to do, and a launch at most so many chunks per thread. */
const CHUNK_WORK = 10_000;
const CHUNKS_PER_THREAD = 4;

/** Where the counters of a section are, after the slots: claimed chunks, and finished ones on a cache line of their own. */
export const SECTION_BYTES = 128;
const FINISHED = 64;
export const countersAt = (slots: number): number => Math.ceil((4 * slots) / 64) * 64;

export interface RenderOptions {
  readonly fma: boolean;
  /** Buffers given to a run. */
  readonly slots: number;
  /** That may take part. */
  readonly threads: number;
}

export function renderProgram(launches: readonly CompiledLaunch[], options: RenderOptions): ProgramModule {
  const module = new KernelModule(options);
  const functions = new Map<string, WasmKernel>();
  const kernels = new Map<KernelIr, number>();
  const functionOf = ({ ir, launch }: CompiledLaunch): WasmKernel => {
    const linear = launch.grid[1] * launch.grid[2] === 1;
    const number = kernels.get(ir) ?? kernels.size;
    kernels.set(ir, number);
    const name = `${ir.name}_${number}${linear ? '' : '_grid'}`;
    const known = functions.get(name) ?? module.add(ir, name, linear);
    functions.set(name, known);
    return known;
  };
  let scratchBytes = 0;
  for (const l of launches) {
    scratchBytes = Math.max(scratchBytes, functionOf(l).scratchBytes + (l.launch.sharedBytes ?? 0));
  }
  scratchBytes = Math.ceil(scratchBytes / 64) * 64;
  const sections = cut(launches, options.threads);
  const alone = sections.every((s) => !s.shared);

  const f = new FunctionBuilder('run', 'i32');
  const x: RunContext = {
    f,
    table: f.param('table', 'i32'),
    scratch: f.param('scratch', 'i32'),
    thread: f.param('thread', 'i32'),
    epoch: f.param('epoch', 'i32'),
    limit: f.local('limit', 'i32'),
    claimed: f.local('claimed', 'i32'),
    mine: f.local('mine', 'i32'),
    start: f.local('start', 'i32'),
    status: f.local('status', 'i32'),
    functionOf,
  };
  f.get(x.scratch);
  f.get(x.thread);
  f.i32(scratchBytes);
  f.op('i32.mul');
  f.op('i32.add');
  f.op('global.set', SCRATCH_GLOBAL);
  if (alone) {
    for (const s of sections) for (const l of s.launches) callAll(x, l);
  } else {
    const awaitCount = module.module.add(awaitFunction());
    sections.forEach((section, i) => {
      const at = countersAt(options.slots) + SECTION_BYTES * i;
      emitSection(x, section, at);
      const wait = (): void => {
        f.get(x.table);
        f.i32(at + FINISHED);
        f.op('i32.add');
        f.get(x.limit);
        f.op('call', awaitCount);
        f.tee(x.status);
        f.when(() => {
          f.get(x.status);
          f.op('return');
        });
      };
      if (i + 1 < sections.length) {
        wait();
      } else {
        f.get(x.thread);
        f.op('i32.eqz');
        f.when(wait);
      }
    });
  }
  f.i32(DONE);
  module.module.add(f, { exported: true });
  return {
    bytes: module.bytes(),
    text: () => module.text(),
    messages: module.messages,
    scratchBytes,
    sections: alone ? [] : sections.map((s) => s.chunks),
  };
}

/** Launches that run concurrently, or, if not shared, one after another on the main thread. */
interface Section {
  readonly launches: readonly CompiledLaunch[];
  readonly shared: boolean;
  /** In all; 1 if not shared. */
  readonly chunks: number;
  readonly chunksOf: (l: CompiledLaunch) => number;
}

function cut(launches: readonly CompiledLaunch[], threads: number): Section[] {
  const groups: CompiledLaunch[][] = [];
  let first = 0;
  launches.forEach((l, i) => {
    const waits = l.launch.needs?.some((need) => need >= first) ?? true;
    if (i > 0 && !waits) {
      groups.at(-1)!.push(l);
    } else {
      first = i;
      groups.push([l]);
    }
  });
  const chunksOf = (l: CompiledLaunch): number => {
    const most = Math.min(blocksOf(l.launch), CHUNKS_PER_THREAD * threads, Math.floor(l.work / CHUNK_WORK));
    const per = Math.ceil(blocksOf(l.launch) / Math.max(1, most));
    return Math.ceil(blocksOf(l.launch) / per);
  };
  const sections: Section[] = [];
  for (const group of groups) {
    const chunks = group.reduce((n, l) => n + chunksOf(l), 0);
    const work = group.reduce((n, l) => n + l.work, 0);
    const shared = threads > 1 && chunks > 1 && work >= SHARED_WORK;
    const last = sections[sections.length - 1];
    if (!shared && last && !last.shared) {
      sections[sections.length - 1] = { ...last, launches: [...last.launches, ...group] };
    } else {
      sections.push({ launches: group, shared, chunks: shared ? chunks : 1, chunksOf });
    }
  }
  return sections;
}

/** The function `run` under construction. */
interface RunContext {
  readonly f: FunctionBuilder;
  readonly table: Local;
  readonly scratch: Local;
  readonly thread: Local;
  readonly epoch: Local;
  /** What a section's counters reach in this run. */
  readonly limit: Local;
  readonly claimed: Local;
  /** Chunks of the section that this thread has done. */
  readonly mine: Local;
  readonly start: Local;
  /** Why a section is not waited for any longer. */
  readonly status: Local;
  readonly functionOf: (l: CompiledLaunch) => WasmKernel;
}

function call(x: RunContext, l: CompiledLaunch, range: () => void): void {
  const { f } = x;
  l.ir.params.forEach((p, i) => {
    pushArgument(f, x.table, l.launch, i, isBuffer(p.schema) ? 'i32' : laneType(p.schema));
  });
  for (const size of l.launch.grid) f.i32(size);
  range();
  f.op('call', x.functionOf(l).f);
}

function callAll(x: RunContext, l: CompiledLaunch): void {
  call(x, l, () => {
    x.f.i32(0);
    x.f.i32(blocksOf(l.launch));
  });
}

/** @param at where the section's counters are in the table */
function emitSection(x: RunContext, section: Section, at: number): void {
  const { f, mine } = x;
  f.get(x.epoch);
  f.i32(1);
  f.op('i32.add');
  f.i32(section.chunks);
  f.op('i32.mul');
  f.set(x.limit);
  f.i32(0);
  f.set(mine);
  if (section.shared) {
    claimChunks(x, section, at);
  } else {
    f.get(x.thread);
    f.op('i32.eqz');
    f.when(() => {
      isUnfinished(x, at);
      f.when(() => {
        for (const l of section.launches) callAll(x, l);
        f.i32(1);
        f.set(mine);
      });
    });
  }
  f.get(mine);
  f.when(() => {
    f.get(x.table);
    f.get(mine);
    f.op('i32.atomic.rmw.add', undefined, at + FINISHED);
    f.get(mine);
    f.op('i32.add');
    f.get(x.limit);
    f.op('i32.eq');
    f.when(() => {
      f.i32(0);
      f.op('i32.atomic.load', undefined, WAITING);
      f.when(() => {
        f.get(x.table);
        f.i32(-1);
        f.op('memory.atomic.notify', undefined, at + FINISHED);
        f.op('drop');
      });
    });
  });
}

/** Whether the section's counter of finished chunks has not reached its limit yet. */
function isUnfinished({ f, table, limit }: RunContext, at: number): void {
  f.get(table);
  f.op('i32.atomic.load', undefined, at + FINISHED);
  f.get(limit);
  f.op('i32.sub');
  f.i32(0);
  f.op('i32.lt_s');
}

/** Claim chunks and run them until none is left. */
function claimChunks(x: RunContext, section: Section, at: number): void {
  const { f, claimed } = x;
  f.block('claimed', (done) =>
    f.loop('claim', (again) => {
      f.get(x.table);
      f.op('i32.atomic.load', undefined, at);
      f.tee(claimed);
      f.get(x.limit);
      f.op('i32.sub');
      f.i32(0);
      f.op('i32.ge_s');
      f.branch(done, 'br_if');
      f.get(x.table);
      f.get(claimed);
      f.get(claimed);
      f.i32(1);
      f.op('i32.add');
      f.op('i32.atomic.rmw.cmpxchg', undefined, at);
      f.get(claimed);
      f.op('i32.ne');
      f.branch(again, 'br_if');
      f.get(x.mine);
      f.i32(1);
      f.op('i32.add');
      f.set(x.mine);
      // The number of the chunk within its launch.
      f.get(claimed);
      f.get(x.limit);
      f.op('i32.sub');
      f.i32(section.chunks);
      f.op('i32.add');
      f.set(claimed);
      for (const l of section.launches) {
        const chunks = section.chunksOf(l);
        f.get(claimed);
        f.i32(chunks);
        f.op('i32.lt_u');
        f.when(() => {
          runChunk(x, l, Math.ceil(blocksOf(l.launch) / chunks));
          f.branch(again);
        });
        f.get(claimed);
        f.i32(chunks);
        f.op('i32.sub');
        f.set(claimed);
      }
      f.branch(again);
    }),
  );
}

/** Blocks claimed·per to the next multiple, or the last. */
function runChunk(x: RunContext, l: CompiledLaunch, per: number): void {
  const { f, start } = x;
  const blocks = blocksOf(l.launch);
  f.get(x.claimed);
  f.i32(per);
  f.op('i32.mul');
  f.set(start);
  call(x, l, () => {
    f.get(start);
    f.get(start);
    f.i32(per);
    f.op('i32.add');
    f.i32(blocks);
    f.get(start);
    f.i32(blocks - per);
    f.op('i32.lt_u');
    f.op('select');
  });
}

const blocksOf = ({ grid: [x, y, z] }: KernelLaunch): number => x * y * z;

function pushArgument(
  f: FunctionBuilder,
  table: Local,
  launch: KernelLaunch,
  index: number,
  type: 'i32' | 'i64' | 'f32' | 'f64',
): void {
  const arg = launch.args[index]!;
  if ('slot' in arg) {
    f.get(table);
    f.op('i32.load', undefined, 4 * arg.slot);
    if (arg.offset > 0) {
      f.i32(arg.offset);
      f.op('i32.add');
    }
    return;
  }
  const v = arg.value;
  if (type === 'i32') f.i32(Number(v));
  else if (type === 'i64') f.op('i64.const', BigInt.asIntN(64, BigInt(v)));
  else f.op(`${type}.const`, Number(v));
}

/**
 * Waits until the counter at an address has reached a limit: DONE, or FAILED if a thread has. Looks at it for a while,
 * then sleeps on it; WAITED if that was for long.
 */
function awaitFunction(): FunctionBuilder {
  const f = new FunctionBuilder('await', 'i32');
  const address = f.param('address', 'i32');
  const limit = f.param('limit', 'i32');
  const seen = f.local('seen', 'i32');
  const left = f.local('left', 'i32');
  const waiting = (by: number): void => {
    f.i32(0);
    f.i32(by);
    f.op('i32.atomic.rmw.add', undefined, WAITING);
    f.op('drop');
  };
  f.i32(SPINS);
  f.set(left);
  f.block('reached', (reached) =>
    f.loop('look', (again) => {
      f.get(address);
      f.op('i32.atomic.load');
      f.tee(seen);
      f.get(limit);
      f.op('i32.sub');
      f.i32(0);
      f.op('i32.ge_s');
      f.branch(reached, 'br_if');
      f.i32(0);
      f.op('i32.atomic.load', undefined, ABORT);
      f.when(() => {
        f.i32(FAILED);
        f.op('return');
      });
      f.get(left);
      f.i32(1);
      f.op('i32.sub');
      f.tee(left);
      f.branch(again, 'br_if');
      waiting(1);
      f.get(address);
      f.get(seen);
      f.op('i64.const', NAP);
      f.op('memory.atomic.wait32');
      waiting(-1);
      f.i32(TIMED_OUT);
      f.op('i32.eq');
      f.when(() => {
        f.i32(WAITED);
        f.op('return');
      });
      f.i32(1);
      f.set(left);
      f.branch(again);
    }),
  );
  f.i32(DONE);
  return f;
}
