/** A process of `heddle bench cpu`: does one job, with the threads and instructions that its environment sets. */

import { setTimeout } from 'node:timers/promises';
import { crossEntropy, fit, Loader, loadImages, optim } from 'heddle';
import type { Workload } from 'heddle/internal/cli/workload.js';
import { currentDevice } from 'heddle/internal/engine/storage.js';
import { Turns } from 'heddle/internal/train/turns.js';
import { PROGRAMS } from 'heddle/train';
import { CASES, trainingSteps } from './cpu-cases.js';

export type Job =
  | { readonly kind: 'cases'; readonly ids: readonly string[]; readonly seconds: number }
  /** Train one step, say so. */
  | { readonly kind: 'startup' }
  /** Train that many steps on MNIST, say how much memory that took. */
  | { readonly kind: 'memory'; readonly steps: number };

/** Setting of the process, as it came to be: fused multiply-add is not in every engine. */
export interface Setting {
  readonly threads: number;
  readonly fma: boolean;
}

export type Report =
  | { readonly kind: 'begin'; readonly id: string }
  | {
      readonly kind: 'samples';
      readonly id: string;
      readonly samples: readonly number[];
      readonly launches?: number;
      readonly setting: Setting;
    }
  | { readonly kind: 'failed'; readonly message: string };

const send = (report: Report): void => {
  process.send!(report);
};

const setting = (): Setting => {
  const { units, fma } = currentDevice().target;
  return { threads: units, fma };
};

/** Worker threads come up in the background, in tens of ms. */
const WORKERS_UP_MS = 60;
const LEAST_RUNS = 3;
const MOST_RUNS = 5000;

/** Milliseconds of each run after the warm-up, which takes a third as long. */
async function measure(prepared: Workload, seconds: number): Promise<number[]> {
  const turns = new Turns();
  prepared.run();
  await setTimeout(WORKERS_UP_MS);
  const warm = performance.now() + (seconds * 1000) / 3;
  do {
    prepared.run();
    await turns.next();
  } while (performance.now() < warm);
  const samples: number[] = [];
  const end = performance.now() + seconds * 1000;
  while (samples.length < LEAST_RUNS || (samples.length < MOST_RUNS && performance.now() < end)) {
    const start = performance.now();
    prepared.run();
    samples.push(performance.now() - start);
    await turns.next();
  }
  return samples;
}

async function measureCases(ids: readonly string[], seconds: number): Promise<void> {
  for (const { id, prepare } of CASES.filter((c) => ids.includes(c.id))) {
    send({ kind: 'begin', id });
    const prepared = prepare();
    const samples = await measure(prepared, seconds);
    send({ kind: 'samples', id, samples, launches: prepared.launches, setting: setting() });
    prepared.dispose();
  }
}

async function peakMemory(steps: number): Promise<void> {
  const { train } = await loadImages('mnist');
  const model = PROGRAMS.cnn.build();
  let left = steps;
  await fit(model, {
    train: new Loader(train, { batchSize: 64, shuffle: true }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.05 }),
    loss: crossEntropy,
    epochs: Math.ceil((steps * 64) / train.length),
    callbacks: [{ onStep: () => (--left > 0 ? undefined : 'stop') }],
  });
  send({
    kind: 'samples',
    id: 'memory',
    samples: [process.resourceUsage().maxRSS / 1024],
    setting: setting(),
  });
}

async function work(job: Job): Promise<void> {
  switch (job.kind) {
    case 'cases':
      return measureCases(job.ids, job.seconds);
    case 'startup':
      await trainingSteps('mlp', 1).next().item();
      // The parent's clock counts.
      return send({ kind: 'samples', id: 'startup', samples: [], setting: setting() });
    case 'memory':
      return peakMemory(job.steps);
  }
}

process.once('disconnect', () => process.exit());
// On a terminal, Ctrl-C reaches this process, too; the parent ends it.
process.on('SIGINT', () => {});
try {
  await work(JSON.parse(process.argv[2]!) as Job);
} catch (error) {
  send({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
}
process.disconnect();
