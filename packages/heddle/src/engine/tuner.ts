/**
 * The autotuner: times the variants of a hand-written kernel (tile sizes, splits, a vendor's library) on the given
 * sizes, with their epilogue, and takes the fastest. Choices are remembered on disk and reused in later runs, so that a
 * program gives the same bits once it is tuned. Calls that take next to nothing of a program are never asked for: they
 * keep their guess, whatever is remembered (schedule/passes/minor-calls.ts). HEDDLE_TUNE=off takes each kernel's default,
 * HEDDLE_TUNE=frozen uses only remembered choices; neither times anything.
 */
import { join } from '#platform/paths.js';
import { BUILD_ID } from '../core/build-id.js';
import { env } from '../core/env.js';
import { toBf16, toF16 } from '../core/float16.js';
import { debug } from '../core/log.js';
import { during } from '../core/phases.js';
import type { GraphNode } from '../graph/node.js';
import type { Device, DeviceBuffer, Launch, Program } from '../runtime/device.js';
import { cacheFolder } from '../runtime/disk-cache.js';
import type { StageWork } from '../schedule/launch.js';
import type { Trial, Tune, TuneRequest } from '../schedule/passes/tuning.js';
import { median } from './profile.js';
import { TuningMemory } from './tuner-memory.js';

/** Time that one sample should take at least, in µs: launches and the clock must not show. */
const SAMPLE = 250;
const MOST_RUNS = 60;
const SAMPLES = 5;
/** A variant that takes this much longer than the best in its first two samples is out. */
const HOPELESS = 2;
/** How much faster than those before it a variant must be: less is noise. */
const GAIN = 1.03;

const memories = new Map<string | undefined, TuningMemory>();

/** What is remembered, in the cache folder if there is one. */
export function tuningMemory(folder = cacheFolder()): TuningMemory {
  const path = folder && join(folder, 'tuning.jsonl');
  const known = memories.get(path) ?? new TuningMemory(path);
  memories.set(path, known);
  return known;
}

/** Chooses for the programs of a device. */
export interface Tuner {
  readonly tune: Tune;
  /** Times what is not remembered. */
  readonly measures: boolean;
  /** What is remembered for a `TuneRequest.key`. */
  chosen(key: string): string | undefined;
}

/**
 * The tuner for programs of a device; none where each kernel takes its own guess.
 * @param measure whether work that is not remembered may be timed
 */
export function tuning(device: Device, measure: boolean, memory?: TuningMemory): { readonly tuner?: Tuner } {
  const mode = env('HEDDLE_TUNE');
  if (mode === 'off' || !device.timeSync) return {};
  return { tuner: tunerOf(device, mode === 'on' && measure, memory ?? tuningMemory()) };
}

function tunerOf(device: Device, measure: boolean, memory: TuningMemory): Tuner {
  const where = `${device.description}, build ${BUILD_ID ?? 'unknown'}`;
  const remembered = ({ key, variants }: TuneRequest): string | undefined => {
    const known = memory.get(where, key)?.chosen;
    return variants.some((v) => v.name === known) ? known : undefined;
  };
  const tune: Tune = (requests, others) => {
    const unknown = new Map<string, TuneRequest[]>();
    for (const request of requests)
      if (!remembered(request)) unknown.set(request.key, [...(unknown.get(request.key) ?? []), request]);
    if (!measure || unknown.size === 0) return requests.map(remembered);
    // First those of several calls: what is chosen for the others is compiled while the rest is timed.
    const isAlone = ([, calls]: [string, TuneRequest[]]): number => Number(calls.length === 1);
    const inOrder = [...unknown].sort((a, b) => isAlone(a) - isAlone(b));
    // All that has to be compiled is begun, in the order in which it is waited for.
    const candidates = during('variants', () =>
      plan(
        device,
        inOrder.map(([, [first]]) => first!),
      ),
    );
    if (others) prepare(device, others());
    const trials = new TrialMemory(device);
    const untimed = inOrder.map(([key, [, ...more]]) => {
      const own = candidates.filter((c) => c.key === key);
      return { key, own, more };
    });
    try {
      while (untimed.length > 0) {
        // Where none is ready, the first is waited for.
        const ready = untimed.findIndex(({ own }) =>
          own.every(({ launches }) => isCompiled(device, launches)),
        );
        const { key, own, more } = untimed.splice(Math.max(ready, 0), 1)[0]!;
        const us = during('tune', () => timeCandidates(device, trials, own));
        const chosen = fastest(us, own);
        if (!chosen) continue;
        debug(1, () => `tuner: ${key}\n${table(us, chosen)}`);
        const rounded = Object.fromEntries([...us].map(([name, t]) => [name, Number(t.toPrecision(4))]));
        memory.put({ device: where, key, chosen, us: rounded });
        for (const request of more) prepareChosen(device, request, chosen);
      }
    } finally {
      trials.free();
    }
    return requests.map(remembered);
  };
  return { tune, measures: measure, chosen: (key) => memory.get(where, key)?.chosen };
}

const table = (us: ReadonlyMap<string, number>, chosen: string): string =>
  [...us]
    .map(([name, t]) => `${t.toFixed(2).padStart(12)} µs ${name === chosen ? '→' : ' '} ${name}`)
    .join('\n');

/**
 * Of those that are as good as the fastest the one that takes the least memory between its launches; of equals the first: the guess
 * before others, ours before a library's.
 */
function fastest(us: ReadonlyMap<string, number>, candidates: readonly Candidate[]): string | undefined {
  const least = Math.min(...us.values());
  const equals = candidates.filter(({ name }) => us.get(name)! <= GAIN * least);
  return equals.sort((a, b) => scratchOf(a.trial) - scratchOf(b.trial))[0]?.name;
}

/** Bytes. What a library takes is not known. */
const scratchOf = ({ memory, stages }: Trial): number =>
  stages.some(({ work }) => 'library' in work)
    ? Infinity
    : memory.reduce<number>((sum, of) => sum + (typeof of === 'number' ? of : 0), 0);

/** A variant that could be planned. */
interface Candidate {
  readonly key: string;
  readonly name: string;
  readonly leastUs: number;
  readonly trial: Trial;
  readonly launches: readonly Launch[];
}

/** While one is planned, those before are compiled, if the device does that in the background. */
const plan = (device: Device, requests: readonly TuneRequest[]): Candidate[] =>
  requests.flatMap(({ key, variants }) =>
    variants.flatMap(({ name, leastUs, make }) => {
      try {
        const trial = make();
        const launches = launchesOf(trial);
        device.prepare?.(launches);
        return [{ key, name, leastUs, trial, launches }];
      } catch (error) {
        leaveOut(key, name, error);
        return [];
      }
    }),
  );

const leaveOut = (key: string, name: string, error: unknown): void =>
  debug(1, () => `tuner: ${key}: ${name} is left out: ${(error as Error).message.split('\n')[0]}`);

const isCompiled = (device: Device, launches: readonly Launch[]): boolean =>
  device.prepare?.(launches) ?? true;

/** Begin to compile, if the device does that in the background. */
function prepare(device: Device, works: readonly StageWork[]): void {
  device.prepare?.(works.map((work): Launch => ({ ...work, args: [] })));
}

/** What another call of the same choice is computed by, too: with something else computed at its stores. */
function prepareChosen(device: Device, { key, variants }: TuneRequest, chosen: string): void {
  try {
    const variant = variants.find(({ name }) => name === chosen)!;
    prepare(
      device,
      variant.make().stages.map(({ work }) => work),
    );
  } catch (error) {
    leaveOut(key, chosen, error);
  }
}

/** In a race: a candidate with its memory. */
interface Runner {
  readonly name: string;
  readonly program: Program;
  readonly slots: readonly DeviceBuffer[];
  readonly samples: number[];
  runs: number;
}

/** Median µs of each candidate that runs, in their order. All do the same work. */
function timeCandidates(
  device: Device,
  memory: TrialMemory,
  candidates: readonly Candidate[],
): Map<string, number> {
  memory.begin();
  const us = timeHeat(
    device,
    memory,
    candidates.filter((c) => c.leastUs === 0),
  );
  const best = Math.min(...us.values());
  const later = candidates.filter((c) => c.leastUs > 0 && c.leastUs < best);
  return new Map([...us, ...timeHeat(device, memory, later)]);
}

function timeHeat(
  device: Device,
  memory: TrialMemory,
  candidates: readonly Candidate[],
): Map<string, number> {
  const runners: Runner[] = [];
  try {
    for (const { key, name, trial, launches } of candidates) {
      try {
        const slots = memory.of(trial);
        const runner: Runner = { name, program: device.compile(launches), slots, samples: [], runs: 1 };
        runners.push(runner);
        sample(device, runner);
      } catch (error) {
        leaveOut(key, name, error);
        if (runners.at(-1)?.name === name) runners.pop()!.program.dispose();
      }
    }
    return race(device, runners);
  } finally {
    for (const { program } of runners) program.dispose();
  }
}

/** Samples in turns, so that a change of clock meets all alike; those far behind drop out after two. */
function race(device: Device, runners: readonly Runner[]): Map<string, number> {
  for (const r of runners) {
    // How many runs make a sample is found in two steps. The first of every number prepares it, and does not count.
    for (let step = 0; step < 2; step++) {
      sample(device, r);
      r.runs = Math.min(MOST_RUNS, Math.max(1, Math.ceil(SAMPLE / Math.max(sample(device, r), 0.1))));
    }
    sample(device, r);
    r.samples.push(sample(device, r));
  }
  const best = Math.min(...runners.map((r) => r.samples[0]!));
  const isHopeless = ({ samples: [first] }: Runner): boolean => first! > HOPELESS * best;
  // Only who is so twice: the host may have been held up between two launches.
  for (const r of runners.filter(isHopeless)) r.samples[0] = Math.min(r.samples[0]!, sample(device, r));
  const left = runners.filter((r) => !isHopeless(r));
  for (let i = 1; i < SAMPLES; i++) for (const r of left) r.samples.push(sample(device, r));
  return new Map(runners.map((r) => [r.name, median(r.samples)]));
}

/** µs of one run. */
const sample = (device: Device, { program, slots, runs }: Runner): number =>
  device.timeSync!(() => program.run(slots, runs)) / runs;

const launchesOf = ({ stages }: Trial): Launch[] =>
  stages.map(({ work, slots }) => ({
    ...work,
    args: slots.map((s) => ('value' in s ? s : { slot: s.memory, offset: 0 })),
  }));

/** Memory of a node, and what is in it. */
interface Held {
  readonly kind: string;
  readonly buffer: DeviceBuffer;
}

/**
 * Memory for trials: nodes' with values like those of a network, shared by all variants of a call; scratch by its place.
 * The next call takes over what is large enough.
 */
class TrialMemory {
  readonly #device: Device;
  readonly #nodes = new Map<GraphNode, Held>();
  readonly #scratch: DeviceBuffer[][] = [];
  /** Of earlier calls, by the kind of their values. */
  readonly #free = new Map<string, Held[]>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** For another call. */
  begin(): void {
    for (const held of this.#nodes.values()) this.#freeOf(held.kind).push(held);
    this.#nodes.clear();
  }

  of({ memory, results }: Trial): DeviceBuffer[] {
    return memory.map((place, i) =>
      typeof place === 'number' ? this.#scratchOf(i, place) : this.#node(place, results.includes(place)),
    );
  }

  free(): void {
    this.begin();
    const held = [...this.#free.values()].flat().map(({ buffer }) => buffer);
    for (const buffer of [...held, ...this.#scratch.filter(Boolean).flat()]) this.#device.free(buffer);
  }

  #freeOf(kind: string): Held[] {
    const known = this.#free.get(kind) ?? [];
    this.#free.set(kind, known);
    return known;
  }

  #node(node: GraphNode, isResult: boolean): DeviceBuffer {
    const known = this.#nodes.get(node);
    if (known) return known.buffer;
    const { dtype, size } = node;
    const bytes = size * dtype.bytes;
    // What a trial has written is no random number any more.
    const kind = `${dtype.name}${isResult ? ' result' : ''}`;
    const free = this.#freeOf(kind);
    const at = free.findIndex(({ buffer }) => buffer.bytes >= bytes && buffer.bytes <= 2 * bytes);
    const held = at >= 0 ? free.splice(at, 1)[0]! : { kind, buffer: this.#allocate(bytes) };
    if (at < 0 && !isResult) this.#fill(held.buffer, blockOf(dtype.name));
    this.#nodes.set(node, held);
    return held.buffer;
  }

  #fill(buffer: DeviceBuffer, block: Uint8Array): void {
    for (let at = 0; at < buffer.bytes; at += block.length)
      this.#device.write(buffer, block.subarray(0, Math.min(block.length, buffer.bytes - at)), at);
  }

  #scratchOf(index: number, bytes: number): DeviceBuffer {
    const mine = this.#scratch[index] ?? [];
    this.#scratch[index] = mine;
    // A smaller one stays: the trial that took it runs again.
    const known = mine.find((b) => b.bytes >= bytes);
    if (known) return known;
    const made = this.#allocate(bytes);
    mine.push(made);
    return made;
  }

  /** Where memory runs short, what no call uses any more is given back. */
  #allocate(bytes: number): DeviceBuffer {
    const most = Math.max(4, bytes);
    try {
      return this.#device.allocate(most, 'tuner');
    } catch (error) {
      const unused = [...this.#free.values()].flat();
      if (unused.length === 0) throw error;
      this.#free.clear();
      for (const { buffer } of unused) this.#device.free(buffer);
      return this.#device.allocate(most, 'tuner');
    }
  }
}

const BLOCK = 1 << 20;

const blocks = new Map<string, Uint8Array>();

/** Bytes to repeat: numbers in [-1, 1), since zeros would take less power; zeros where they may be indices. */
function blockOf(dtype: string): Uint8Array {
  const known = blocks.get(dtype) ?? valuesOf(dtype, BLOCK);
  blocks.set(dtype, known);
  return known;
}

function valuesOf(dtype: string, bytes: number): Uint8Array {
  let state = 12345;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
  const fill = <T extends Float32Array | Float64Array | Uint16Array>(
    values: T,
    of: (v: number) => number,
  ): Uint8Array => {
    for (let i = 0; i < values.length; i++) values[i] = of(next());
    return new Uint8Array(values.buffer);
  };
  switch (dtype) {
    case 'f32':
      return fill(new Float32Array(bytes / 4), (v) => v);
    case 'f64':
      return fill(new Float64Array(bytes / 8), (v) => v);
    case 'f16':
      return fill(new Uint16Array(bytes / 2), toF16);
    case 'bf16':
      return fill(new Uint16Array(bytes / 2), toBf16);
    default:
      return new Uint8Array(bytes);
  }
}
