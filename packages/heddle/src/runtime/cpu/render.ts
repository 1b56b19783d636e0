/**
 * A program as one WebAssembly module: its kernels, and a function `run(table, scratch, thread, threads)` that every
 * thread calls once. It goes through the launches in order, takes its share of the blocks of each, and waits for
 * the others where a launch needs what they did.
 */

import type { KernelIr } from '../../kernel/ir.js';
import { isBuffer } from '../../kernel/types.js';
import { type KernelFunction, KernelModule, SCRATCH_GLOBAL } from '../../render/wasm.js';
import { FunctionBuilder, type Local } from '../../render/wasm-encode.js';
import type { Message } from '../../render/wasm-statements.js';
import { laneType } from '../../render/wasm-values.js';
import type { Launch } from '../device.js';
import { ABORT, ARRIVED, GENERATION, WAITING } from './control.js';

/** A launch, with its kernel as the module holds it. */
export interface PlannedLaunch {
  readonly launch: Launch;
  /** The kernel for blocks of one thread, after the passes. */
  readonly ir: KernelIr;
  /** Worth more than one thread. */
  readonly parallel: boolean;
}

export interface ProgramModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly text: () => string;
  readonly messages: readonly Message[];
  /** Scratch memory per thread, in bytes. */
  readonly scratchBytes: number;
}

/** Looks at the barrier before sleeping: some 20 µs. */
const SPINS = 20_000;
/** How long a sleeper waits before it looks again whether the others have failed, in ns. */
const NAP = 50_000_000n;

export function renderProgram(launches: readonly PlannedLaunch[], fma: boolean): ProgramModule {
  const module = new KernelModule({ fma });
  const functions = new Map<string, KernelFunction>();
  const kernels = new Map<KernelIr, number>();
  const functionOf = ({ ir, launch }: PlannedLaunch): KernelFunction => {
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
  const parallel = launches.some((l) => l.parallel);
  const barrier = parallel ? module.module.add(barrierFunction()) : undefined;

  const f = new FunctionBuilder('run', 'i32');
  const table = f.param('table', 'i32');
  const scratch = f.param('scratch', 'i32');
  const thread = f.param('thread', 'i32');
  const threads = f.param('threads', 'i32');
  const start = f.local('start', 'i32');
  const end = f.local('end', 'i32');
  f.get(scratch);
  f.get(thread);
  f.i32(scratchBytes);
  f.op('i32.mul');
  f.op('i32.add');
  f.op('global.set', SCRATCH_GLOBAL);

  const call = (l: PlannedLaunch, range: () => void): void => {
    const { ir, launch } = l;
    ir.params.forEach((p, i) => {
      pushArgument(f, table, launch, i, isBuffer(p.schema) ? 'i32' : laneType(p.schema));
    });
    for (const size of launch.grid) f.i32(size);
    range();
    f.op('call', functionOf(l).f);
  };
  const wait = (): void => {
    if (!barrier) return;
    f.get(threads);
    f.op('call', barrier);
    f.when(() => {
      f.i32(1);
      f.op('return');
    });
  };

  let before: Section | undefined;
  for (const section of sections(launches)) {
    if (before && (before.parallel || section.parallel)) wait();
    const alone = section.launches.filter((l) => !l.parallel);
    if (alone.length > 0) {
      f.get(thread);
      f.op('i32.eqz');
      f.when(() => {
        for (const l of alone) {
          call(l, () => {
            f.i32(0);
            f.i32(blocksOf(l.launch));
          });
        }
      });
    }
    for (const l of section.launches) {
      if (!l.parallel) continue;
      share(f, blocksOf(l.launch), thread, threads, start, end);
      call(l, () => {
        f.get(start);
        f.get(end);
      });
    }
    before = section;
  }
  if (before && parallel) wait();
  f.i32(0);
  module.module.add(f, { exported: true });
  return { bytes: module.bytes(), text: () => module.text(), messages: module.messages, scratchBytes };
}

/** Launches that need nothing from each other. */
interface Section {
  readonly launches: PlannedLaunch[];
  parallel: boolean;
}

function sections(launches: readonly PlannedLaunch[]): Section[] {
  const list: Section[] = [];
  for (const l of launches) {
    const last = list[list.length - 1];
    if (last && l.launch.independent) {
      last.launches.push(l);
      last.parallel ||= l.parallel;
    } else {
      list.push({ launches: [l], parallel: l.parallel });
    }
  }
  return list;
}

const blocksOf = ({ grid: [x, y, z] }: Launch): number => x * y * z;

function pushArgument(
  f: FunctionBuilder,
  table: Local,
  launch: Launch,
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

/** start and end of this thread's share of `blocks`: the same number for all, but for the last. */
function share(
  f: FunctionBuilder,
  blocks: number,
  thread: Local,
  threads: Local,
  start: Local,
  end: Local,
): void {
  const least = (push: () => void, to: Local): void => {
    push();
    f.set(to);
    f.get(to);
    f.i32(blocks);
    f.get(to);
    f.i32(blocks);
    f.op('i32.lt_u');
    f.op('select');
    f.set(to);
  };
  const per = (): void => {
    f.i32(blocks - 1);
    f.get(threads);
    f.op('i32.div_u');
    f.i32(1);
    f.op('i32.add');
  };
  least(() => {
    per();
    f.get(thread);
    f.op('i32.mul');
  }, start);
  least(() => {
    f.get(start);
    per();
    f.op('i32.add');
  }, end);
}

/**
 * Waits until all threads are here; 1 if one has failed. The last to arrive opens it by raising the generation;
 * the others look at that for a while, then sleep on it.
 */
function barrierFunction(): FunctionBuilder {
  const f = new FunctionBuilder('barrier', 'i32');
  const threads = f.param('threads', 'i32');
  const generation = f.local('generation', 'i32');
  const left = f.local('left', 'i32');
  const word = (address: number): void => {
    f.i32(0);
    f.op('i32.atomic.load', undefined, address);
  };
  const add = (address: number, by: number): void => {
    f.i32(0);
    f.i32(by);
    f.op('i32.atomic.rmw.add', undefined, address);
  };
  f.get(threads);
  f.i32(1);
  f.op('i32.eq');
  f.when(() => {
    f.i32(0);
    f.op('return');
  });
  word(GENERATION);
  f.set(generation);
  add(ARRIVED, 1);
  f.i32(1);
  f.op('i32.add');
  f.get(threads);
  f.op('i32.eq');
  f.when(() => {
    f.i32(0);
    f.i32(0);
    f.op('i32.atomic.store', undefined, ARRIVED);
    add(GENERATION, 1);
    f.op('drop');
    word(WAITING);
    f.when(() => {
      f.i32(0);
      f.i32(-1);
      f.op('memory.atomic.notify', undefined, GENERATION);
      f.op('drop');
    });
    word(ABORT);
    f.op('return');
  });
  f.i32(SPINS);
  f.set(left);
  f.block('open', (open) =>
    f.loop('look', (again) => {
      word(GENERATION);
      f.get(generation);
      f.op('i32.ne');
      f.branch(open, 'br_if');
      word(ABORT);
      f.branch(open, 'br_if');
      f.get(left);
      f.i32(1);
      f.op('i32.sub');
      f.tee(left);
      f.branch(again, 'br_if');
      add(WAITING, 1);
      f.op('drop');
      f.i32(0);
      f.get(generation);
      f.op('i64.const', NAP);
      f.op('memory.atomic.wait32', undefined, GENERATION);
      f.op('drop');
      add(WAITING, -1);
      f.op('drop');
      f.i32(1);
      f.set(left);
      f.branch(again);
    }),
  );
  word(ABORT);
  return f;
}
