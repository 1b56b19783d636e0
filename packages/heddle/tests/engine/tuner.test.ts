/** The autotuner on a device with a clock of its own, which says how long each kernel takes. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { DeviceError } from '../../src/core/errors.js';
import { CompiledGraph } from '../../src/engine/program.js';
import { tuning } from '../../src/engine/tuner.js';
import { TuningMemory } from '../../src/engine/tuner-memory.js';
import * as b from '../../src/graph/build.js';
import type { FusedOp, KernelIo, Stage, Variant } from '../../src/graph/fused-op.js';
import { buffer, defineKernel } from '../../src/kernel/language/index.js';
import { type Launch, nameOfLaunch, type Program } from '../../src/runtime/device.js';
import { SimDevice } from '../../src/runtime/sim/device.js';

/** The simulator; a run of a kernel takes as long as `costs` says, in µs. */
class ClockedDevice extends SimDevice {
  readonly costs: Readonly<Record<string, number>>;
  timed = 0;
  /** The sample during which the host is held up for long, if there is one. */
  delayed: number | undefined;
  /** Kernels that it was asked to compile before anything was timed. */
  readonly first = new Set<string>();
  #now = 0;

  constructor(costs: Readonly<Record<string, number>>) {
    super();
    this.costs = costs;
  }

  override compile(launches: readonly Launch[]): Program {
    if (launches.some((l) => nameOfLaunch(l) === 'tooLarge'))
      throw new DeviceError('[tooLarge] too much shared memory.');
    const program = super.compile(launches);
    return {
      ...program,
      run: (slots, times = 1) => {
        program.run(slots);
        for (const l of launches) this.#now += times * (this.costs[nameOfLaunch(l)] ?? 0);
      },
    };
  }

  prepare(launches: readonly Launch[]): boolean {
    if (this.timed === 0) for (const launch of launches) this.first.add(nameOfLaunch(launch));
    return true;
  }

  timeSync(work: () => void): number {
    this.timed++;
    const started = this.#now;
    work();
    return this.#now - started + (this.timed === this.delayed ? 1e6 : 0);
  }
}

/**
 * x·2, by kernels of these names that differ in nothing else; but of `parts` another launch finishes what it leaves in memory.
 * @param flops that it claims to have
 */
function twice(names: readonly string[], flops = 0): FusedOp<null> {
  const stages = ({ node, output, finish }: KernelIo, name: string): readonly Stage[] => {
    const kernel = defineKernel(
      name,
      { x: buffer(f32), y: buffer(output.dtype) },
      ({ x, y }, { globalId, N, finish }) => {
        const i = globalId.x;
        if (i < N) y[i] = finish(x[i] * 2, i);
      },
      { N: node.size, finish: finish([node.size]) },
    );
    const stage = (args: Stage['args']): Stage => ({ kernel, grid: [1, 1, 1], block: [32, 1, 1], args });
    if (name !== 'parts') return [stage([{ input: 0 }, { output: true }])];
    const parts = { scratch: 'parts', bytes: 4 * node.size };
    const copy = defineKernel(
      name,
      { x: buffer(f32), y: buffer(f32) },
      ({ x, y }, { globalId, N }) => {
        const i = globalId.x;
        if (i < N) y[i] = x[i];
      },
      { N: node.size },
    );
    return [{ ...stage([{ input: 0 }, parts]), kernel: copy }, stage([parts, { output: true }])];
  };
  const variant = (io: KernelIo, name: string): Variant => ({
    name,
    ...(name === 'library' && { leastUs: 4 }),
    plan: () => {
      if (name === 'unplanned') throw new DeviceError('no such way');
      return stages(io, name);
    },
  });
  return {
    name: 'twice',
    flops: () => flops,
    infer: ([x]) => x!,
    compose: ([x]) => b.add(x!, x!),
    kernels: [
      {
        name: 'twice-kernel',
        when: ({ model }) => model === 'threads',
        finishes: true,
        plan: (io) => stages(io, names[0]!),
        variants: (io) => names.map((name) => variant(io, name)),
      },
    ],
  };
}

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'heddle-tuner-'));
  path = join(folder, 'sub', 'tuning.jsonl');
});
afterEach(() => {
  rmSync(folder, { recursive: true });
  delete process.env.HEDDLE_TUNE;
});

/** Which of the variants a program takes; `memory` as a new process finds it. */
function chosen(device: ClockedDevice, names: readonly string[], measure = true, size = 8): string {
  const x = b.leaf([size], f32, false);
  const y = b.mul(b.call(twice(names), [x], null), x);
  const options = tuning(device, measure, new TuningMemory(path));
  const compiled = new CompiledGraph([y], 1, device, options);
  const [launch] = compiled.schedule.launches;
  compiled.dispose();
  assert.ok(launch && 'kernel' in launch.work);
  return launch.work.kernel.name;
}

describe('autotuner', () => {
  test('takes the fastest, and remembers it', () => {
    const device = new ClockedDevice({ guess: 10, slow: 30, fast: 5 });
    const names = ['guess', 'slow', 'fast'];
    assert.equal(chosen(device, names), 'fast');
    assert.ok(device.timed > 0);
    assert.equal(device.memory().used, 0, 'its memory is given back');

    const later = new ClockedDevice({ guess: 1, slow: 1, fast: 100 });
    assert.equal(chosen(later, names), 'fast', 'what is chosen is chosen');
    assert.equal(later.timed, 0);
    const [line] = readFileSync(path, 'utf8').split('\n');
    const { us, key } = JSON.parse(line!) as { us: unknown; key: string };
    assert.deepEqual(us, { guess: 10, slow: 30, fast: 5 });
    assert.match(key, /^twice-kernel .* f32\(8\) → f32\(8\) [0-9a-f]+$/);
  });

  test('the epilogue is timed with the kernel', () => {
    const device = new ClockedDevice({ guess: 10, fast: 5 });
    const launched = new Set<string>();
    const compile = device.compile.bind(device);
    device.compile = (launches) => {
      for (const l of launches) if ('kernel' in l) launched.add(l.kernel.params.map((p) => p.name).join());
      return compile(launches);
    };
    chosen(device, ['guess', 'fast']);
    assert.deepEqual([...launched], ['x,y,finish0']);
  });

  test('calls that differ in what is computed at their stores share a choice: one of them is timed', () => {
    const device = new ClockedDevice({ guess: 10, fast: 5 });
    const op = twice(['guess', 'fast']);
    const [x, y] = [b.leaf([8], f32, false), b.leaf([8], f32, false)];
    const roots = [b.mul(b.call(op, [x], null), x), b.add(b.call(op, [y], null), x)];
    const compiled = new CompiledGraph(roots, 2, device, tuning(device, true, new TuningMemory(path)));
    const names = compiled.schedule.launches.map(({ work }) => 'kernel' in work && work.kernel.name);
    compiled.dispose();
    assert.deepEqual(names, ['fast_and_fast']);
    assert.equal(readFileSync(path, 'utf8').trimEnd().split('\n').length, 1);
  });

  test('keeps the guess where another gains next to nothing, and ours where a library does', () => {
    assert.equal(chosen(new ClockedDevice({ guess: 10, other: 9.9 }), ['guess', 'other']), 'guess');
    const costs = { guess: 10, ours: 5, library: 4.9 };
    assert.equal(chosen(new ClockedDevice(costs), ['guess', 'ours', 'library']), 'ours');
  });

  test('of those that are as fast takes the one with the least memory between launches', () => {
    assert.equal(chosen(new ClockedDevice({ parts: 4.95, whole: 10 }), ['parts', 'whole']), 'whole');
    assert.equal(chosen(new ClockedDevice({ parts: 2.5, whole: 10 }), ['parts', 'whole'], true, 16), 'parts');
  });

  test('passes over what has never been faster than the best so far', () => {
    const device = new ClockedDevice({ guess: 4, library: 1 });
    assert.equal(chosen(device, ['guess', 'library']), 'guess');
    assert.equal(
      chosen(new ClockedDevice({ guess: 6, library: 5 }), ['guess', 'library'], true, 16),
      'library',
    );
  });

  test('other sizes and other candidates are other work', () => {
    assert.equal(chosen(new ClockedDevice({ guess: 10, other: 5 }), ['guess', 'other']), 'other');
    const device = new ClockedDevice({ guess: 5, other: 10, third: 10 });
    assert.equal(chosen(device, ['guess', 'other'], true, 16), 'guess');
    assert.equal(chosen(device, ['guess', 'other', 'third']), 'guess');
  });

  test('leaves out what cannot be planned or compiled', () => {
    const device = new ClockedDevice({ guess: 10, fast: 5, tooLarge: 1 });
    assert.equal(chosen(device, ['guess', 'unplanned', 'tooLarge', 'fast']), 'fast');
  });

  test('frozen: what is remembered, else the guess, and nothing is timed', () => {
    const names = ['guess', 'fast'];
    process.env.HEDDLE_TUNE = 'frozen';
    const device = new ClockedDevice({ guess: 10, fast: 5 });
    assert.equal(chosen(device, names), 'guess');
    assert.equal(device.timed, 0);
    process.env.HEDDLE_TUNE = 'on';
    chosen(device, names);
    process.env.HEDDLE_TUNE = 'frozen';
    const later = new ClockedDevice({});
    assert.equal(chosen(later, names), 'fast');
    assert.equal(later.timed, 0);
  });

  test('off: the guess, whatever is remembered', () => {
    const device = new ClockedDevice({ guess: 10, fast: 5 });
    assert.equal(chosen(device, ['guess', 'fast']), 'fast');
    process.env.HEDDLE_TUNE = 'off';
    assert.equal(chosen(device, ['guess', 'fast']), 'guess');
  });

  test('without leave to measure, only what is remembered', () => {
    const device = new ClockedDevice({ guess: 10, fast: 5 });
    assert.equal(chosen(device, ['guess', 'fast'], false), 'guess');
    assert.equal(device.timed, 0);
    chosen(device, ['guess', 'fast']);
    assert.equal(chosen(device, ['guess', 'fast'], false), 'fast');
  });

  test('calls that take next to nothing of a program keep their guess, untimed, whatever is remembered', () => {
    const costs = { guess: 10, fast: 5, smallGuess: 10, smallFast: 5 };
    const device = new ClockedDevice(costs);
    const names = ['smallGuess', 'smallFast'];
    const program = (flops: number): string[] => {
      const [x, y] = [b.leaf([8], f32, false), b.leaf([16], f32, false)];
      const roots = [b.call(twice(['guess', 'fast'], flops), [x], null), b.call(twice(names), [y], null)];
      const compiled = new CompiledGraph(roots, 2, device, tuning(device, true, new TuningMemory(path)));
      compiled.dispose();
      return compiled.schedule.launches.flatMap(({ work }) =>
        nameOfLaunch({ ...work, args: [] }).split('_and_'),
      );
    };
    const remembered = (): number => readFileSync(path, 'utf8').trimEnd().split('\n').length;
    assert.deepEqual(program(1e12).sort(), ['fast', 'smallGuess']);
    assert.equal(remembered(), 1);
    const meanwhile = [...device.first].sort();
    assert.deepEqual(meanwhile, ['fast', 'guess', 'guess_and_smallGuess'], 'as it runs with the guess');

    assert.equal(chosen(device, names, true, 16), 'smallFast', 'where it is all there is, it is timed');
    assert.deepEqual(
      program(1e12).sort(),
      ['fast', 'smallGuess'],
      'the program gives the same bits as before',
    );
    assert.deepEqual(program(0).sort(), ['fast', 'smallFast']);
    assert.equal(remembered(), 2);
  });

  test('a device that cannot time on the spot tunes nothing', () => {
    assert.deepEqual(tuning(new SimDevice(), true, new TuningMemory(path)), {});
  });
});

test('what is compiled is timed while the rest is still being compiled', () => {
  const order: string[] = [];
  class Compiling extends ClockedDevice {
    override compile(launches: readonly Launch[]): Program {
      order.push(nameOfLaunch(launches[0]!));
      return super.compile(launches);
    }
    override prepare(launches: readonly Launch[]): boolean {
      super.prepare(launches);
      return this.timed > 0 || nameOfLaunch(launches[0]!) !== 'slow';
    }
  }
  const device = new Compiling({ slow: 10, slowest: 20, guess: 10, fast: 5 });
  const [x, y] = [b.leaf([8], f32, false), b.leaf([16], f32, false)];
  const roots = [b.call(twice(['slowest', 'slow']), [x], null), b.call(twice(['guess', 'fast']), [y], null)];
  new CompiledGraph(roots, 2, device, tuning(device, true, new TuningMemory(undefined))).dispose();
  assert.deepEqual(order.slice(0, 4), ['guess', 'fast', 'slowest', 'slow']);
});

test('a delay of the host during a sample decides nothing', () => {
  const device = new ClockedDevice({ guess: 10, fast: 5 });
  chosen(device, ['guess', 'fast']);
  for (let n = 1; n <= device.timed; n++) {
    const held = new ClockedDevice({ guess: 10, fast: 5 });
    held.delayed = n;
    assert.equal(chosen(held, ['guess', 'fast'], true, 8 + n), 'fast', `sample ${n}`);
  }
});

describe('what the tuner remembers', () => {
  const tuned = (chosen: string) => ({ device: 'GPU', key: 'work', chosen, us: { a: 1, b: 2 } });

  test('the first of two choices counts, also between processes', () => {
    const [first, second] = [new TuningMemory(path), new TuningMemory(path)];
    first.put(tuned('a'));
    assert.equal(second.get('GPU', 'work')?.chosen, 'a', 'a later line is seen');
    second.put(tuned('b'));
    assert.equal(new TuningMemory(path).get('GPU', 'work')?.chosen, 'a');
    const [third, fourth] = [new TuningMemory(path), new TuningMemory(path)];
    const other = (chosen: string) => ({ ...tuned(chosen), key: 'timed at once by two' });
    third.put(other('c'));
    fourth.put(other('d'));
    assert.equal(third.get('GPU', other('').key)?.chosen, 'c');
    assert.equal(fourth.get('GPU', other('').key)?.chosen, 'c', 'both go on with the one that is kept');
    assert.equal(new TuningMemory(path).get('another GPU', 'work'), undefined);
  });

  test('damaged lines are passed over, and none is lost after a torn one', () => {
    new TuningMemory(path).put(tuned('a'));
    appendFileSync(path, '\u0000garbage\n{"device":"GPU"}\n[]\n{"device":"GPU","key":"torn');
    const memory = new TuningMemory(path);
    assert.equal(memory.get('GPU', 'work')?.chosen, 'a');
    memory.put({ ...tuned('b'), key: 'more' });
    const later = new TuningMemory(path);
    assert.equal(later.get('GPU', 'more')?.chosen, 'b');
    assert.equal(later.size, 2);
  });

  test('a folder that cannot be written costs the memory, not the run', () => {
    writeFileSync(join(folder, 'file'), '');
    const memory = new TuningMemory(join(folder, 'file', 'tuning.jsonl'));
    memory.put(tuned('a'));
    assert.equal(memory.get('GPU', 'work')?.chosen, 'a');
  });
});

test('what a device compiles beside is waited for at the first run', () => {
  let [done, asked, compiled] = [false, 0, 0];
  const device = new (class extends SimDevice {
    prepare(launches: readonly Launch[]): boolean {
      asked += launches.length;
      return done;
    }

    override compile(launches: readonly Launch[]): Program {
      compiled += launches.length;
      return super.compile(launches);
    }
  })();
  const x = b.leaf([8], f32, false);
  const program = new CompiledGraph([b.add(x, x)], 1, device, { beside: true });
  assert.deepEqual([program.ready, asked, compiled], [false, 2, 0]);
  done = true;
  assert.deepEqual([program.ready, asked, compiled], [true, 3, 0], 'asked again');
  done = false;
  program.run([device.allocate(32, 'x')], 'test', false);
  assert.deepEqual([program.ready, asked, compiled], [true, 3, 1]);
  assert.ok(new CompiledGraph([b.add(x, x)], 1, device).ready, 'unless asked for, it is compiled at once');
});
