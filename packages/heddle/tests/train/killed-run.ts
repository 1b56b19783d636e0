/**
 * A training that is killed and goes on. As a program: `node killed-run.js <folder> <seed> [epochs]` trains until it is done,
 * wherever an earlier process in that folder came to, and writes result.json. As a module: starts and kills such processes.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { PhiloxStream } from '../../src/core/philox.js';
import { quadrantPoints } from '../../src/data/index.js';
import {
  accuracy,
  type Callback,
  crossEntropy,
  earlyStopping,
  fit,
  type JsonValue,
  Loader,
  manualSeed,
  nn,
  optim,
  type Tensor,
} from '../../src/index.js';
import { writeFileAtomic } from '../../src/io/index.js';

/** Batch norm on points, as on images of one pixel. */
class Norm extends nn.Module {
  readonly norm = new nn.BatchNorm2d(12);
  forward(x: Tensor): Tensor {
    return this.norm.forward(x.reshape([-1, 12, 1, 1])).reshape([-1, 12]);
  }
}

/** All losses of a training, step by step. */
class Losses implements Callback {
  #seen: string[] = [];
  readonly onStep: NonNullable<Callback['onStep']> = ({ epoch, step, loss, lr }) => {
    this.#seen.push(`${epoch} ${step} ${loss} ${lr}`);
  };
  readonly saveState = (): JsonValue => this.#seen;
  readonly loadState = (state: JsonValue): void => {
    this.#seen = [...(state as string[])];
  };
}

const { chain, plateau, warmup } = optim.schedules;

/** Dropout, running statistics, Adam, a schedule, a shuffled loader with a last batch that is not full. */
export async function train(folder: string, seed: number, epochs = 40): Promise<void> {
  manualSeed(seed);
  const model = new nn.Sequential(
    ...[new nn.Linear(2, 12), new Norm(), new nn.ReLU(), new nn.Dropout({ p: 0.2 }), new nn.Linear(12, 2)],
  );
  const { train: examples, test } = quadrantPoints({ seed, trainLength: 150, testLength: 60 });
  const losses = new Losses();
  const history = await fit(model, {
    train: new Loader(examples, { batchSize: 16, shuffle: true, seed }),
    validation: new Loader(test, { batchSize: 25 }),
    optimizer: new optim.Adam(model.parameters(), { lr: 0.01 }),
    schedule: chain(warmup(30), plateau({ patience: 2, factor: 0.7 })),
    loss: crossEntropy,
    metrics: { accuracy },
    epochs,
    readEvery: 2,
    resident: seed % 2 === 0,
    ...(seed % 2 === 1 && { accumulate: 3, clipGradNorm: 0.5 }),
    ...(seed % 4 >= 2 && { autocast: 'f16' as const }),
    ...(seed % 4 >= 2 && { ema: { decay: 0.95 } }),
    callbacks: [losses, earlyStopping({ patience: 20 })],
    ...{ folder, resume: true, checkpointEvery: { epochs: 1, steps: 7 }, monitor: 'accuracy' },
  });
  if (history.ended === 'aborted') return;
  const figures = history.epochs.map(({ epoch, loss, lr, validation }) => [
    ...[epoch, loss, lr, validation?.loss ?? null, validation?.metrics.accuracy ?? null],
  ]);
  const result = { ended: history.ended, steps: history.steps, figures, losses: losses.saveState() };
  const { tensors } = await weightsOf(model);
  await writeFileAtomic(join(folder, 'result.json'), JSON.stringify({ ...result, tensors }));
}

async function weightsOf(model: nn.Module): Promise<{ tensors: Record<string, number[]> }> {
  const entries = Object.entries(model.stateDict()).map(
    async ([name, t]) => [name, Array.from(await t.data(), Number)] as const,
  );
  return { tensors: Object.fromEntries(await Promise.all(entries)) };
}

/** What a training came to, all of it; undefined if it has not ended. */
export function resultOf(folder: string): string | undefined {
  const files = readdirSync(folder);
  return files.includes('result.json') ? readFileSync(join(folder, 'result.json'), 'utf8') : undefined;
}

/** This file as a program. */
export const PROGRAM = fileURLToPath(import.meta.url);

/**
 * Train in `folder`, by processes that are killed after random times.
 * @param random where the times are from · @returns how many were killed before one came to the end
 */
export async function trainKilled(
  folder: string,
  seed: number,
  random: PhiloxStream,
  most: number,
): Promise<number> {
  for (let kills = 0; ; kills++) {
    const child = spawn(process.execPath, [PROGRAM, folder, String(seed)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    const closed = once(child, 'close');
    if (kills < most) {
      await Promise.race([once(child.stdout, 'data'), closed]); // it has begun to train, or to resume
      await Promise.race([wait(random.uniform() * 600), closed]);
      child.kill('SIGKILL');
    }
    await closed;
    assert.equal(errors, '');
    if (resultOf(folder) !== undefined) return kills;
    const names = readdirSync(folder).filter((name) => !name.endsWith('.tmp'));
    for (const name of names) assert.match(name, /^(checkpoint|best)\.safetensors$/);
  }
}

if (process.argv[1] === PROGRAM) {
  process.stdout.write('begun\n');
  await train(process.argv[2]!, Number(process.argv[3]), Number(process.argv[4] ?? 40));
}
