/** Trainings by several real processes, on any device. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { environmentOf, type RankDevice } from './device-tests.js';
import {
  endOf,
  freePort,
  MOST_MS,
  printed,
  type RunningRank,
  ranksEnvironment,
  startNode,
} from './processes.js';
import type { Trained, TrainingJob } from './rank-train.js';

export const TRAIN = fileURLToPath(new URL('./rank-train.js', import.meta.url));

/** A training without the file of its results. */
export type Job = Omit<TrainingJob, 'file'>;

/** What the ranks have, which is the same on all of them: that of rank 0. */
export function agreed(ranks: readonly Trained[]): Trained {
  const [first] = ranks;
  for (const { rank: _, ...other } of ranks) {
    const { rank: __, ...mine } = first!;
    assert.deepEqual(other, mine);
  }
  return first!;
}

/** The largest difference of two trainings' weights, of which the largest is about 1. */
export const distance = (a: Trained, b: Trained): number =>
  Math.max(...a.weights.map((v, i) => Math.abs(v - b.weights[i]!)));

/** @param limit of the differences of weights and losses */
export function requireClose(a: Trained, b: Trained, limit: number): void {
  assert.equal(a.steps, b.steps);
  assert.ok(distance(a, b) < limit, `weights differ by ${distance(a, b)}`);
  a.losses.forEach((loss, i) => {
    assert.ok(Math.abs(loss - b.losses[i]!) < limit, `losses ${loss} and ${b.losses[i]}`);
  });
  assert.ok(Math.abs(a.validation - b.validation) < limit);
  assert.ok(Math.abs(a.accuracy - b.accuracy) < 1e-12);
}

/** Trainings on one device, and the folder of their files, which goes with the tests. */
export class Trainings {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'heddle-ranks-'));
  readonly environment: NodeJS.ProcessEnv;
  /** Ranks that train one job after the other, by how many there are. */
  readonly #groups = new Map<number, Promise<readonly RunningRank[]>>();

  constructor(device: RankDevice) {
    // What one of them has compiled the others find.
    this.environment = { ...environmentOf(device), HEDDLE_CACHE: join(this.folder, 'cache') };
    after(async () => {
      for (const ranks of this.#groups.values()) {
        for (const { child } of await ranks) child.stdin!.end();
        for (const { code, err } of await endOf(await ranks)) assert.equal(code, 0, err);
      }
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  /** Where the ranks of a training write what they have in the end. */
  newFile(): string {
    return join(mkdtempSync(join(this.folder, 'trained-')), 'rank');
  }

  /** What ranks have written. */
  read(file: string, worldSize: number): Trained[] {
    return Array.from(
      { length: worldSize },
      (_, rank) => JSON.parse(readFileSync(`${file}.${rank}`, 'utf8')) as Trained,
    );
  }

  /** Ranks that train one job. */
  begin(worldSize: number, job: Job, file: string = this.newFile()): Promise<RunningRank[]> {
    return this.#start(worldSize, [JSON.stringify({ ...job, file })], MOST_MS);
  }

  /** By processes of its own. */
  async trainAnew(worldSize: number, job: Job): Promise<Trained> {
    const file = this.newFile();
    for (const { code, err } of await endOf(await this.begin(worldSize, job, file)))
      assert.equal(code, 0, err);
    return agreed(this.read(file, worldSize));
  }

  /** By processes that all trainings of so many ranks share. */
  async train(worldSize: number, job: Job): Promise<Trained> {
    const started = this.#groups.get(worldSize) ?? this.#start(worldSize, [], 20 * MOST_MS);
    this.#groups.set(worldSize, started);
    const file = this.newFile();
    await Promise.all(
      (await started).map(async (rank) => {
        rank.child.stdin!.write(`${JSON.stringify({ ...job, file })}\n`);
        const failed = rank.ended.then(({ err }) => assert.fail(`a rank has ended: ${err}`));
        await Promise.race([printed(rank, `trained ${file}\n`), failed]);
      }),
    );
    return agreed(this.read(file, worldSize));
  }

  async #start(worldSize: number, args: readonly string[], mostMs: number): Promise<RunningRank[]> {
    const port = await freePort();
    return Array.from({ length: worldSize }, (_, rank) =>
      startNode(
        [TRAIN, ...args],
        { ...ranksEnvironment(rank, worldSize, port), ...this.environment },
        { mostMs },
      ),
    );
  }

  /** A copy of a folder, to go on from it more than once. */
  copy(from: string, name: string): string {
    const to = join(this.folder, name);
    assert.equal(spawnSync('cp', ['-r', from, to]).status, 0);
    return to;
  }
}
