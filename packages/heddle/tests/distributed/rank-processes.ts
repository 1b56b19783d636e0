/** Runs the ranks of a test as processes (rank-program.ts). */
import assert from 'node:assert/strict';
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./rank-program.js', import.meta.url));

export interface RankRun {
  /** What each rank found; undefined of one that did not get so far. */
  readonly results: readonly unknown[];
  readonly codes: readonly (number | null)[];
  /** What all of them printed. */
  readonly output: string;
}

export interface RankOptions {
  readonly argument?: unknown;
  /** The most time they may take, in ms (default 120,000): then they are killed, and the test fails. */
  readonly limit?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Is given the processes and the folder of their files when they have been started. */
  readonly during?: (processes: readonly ChildProcess[], folder: string) => Promise<void>;
}

/** Why there is no MPI here, or undefined. */
export const mpiMissing: string | undefined =
  spawnSync('mpirun', ['--version'], { stdio: 'ignore' }).status === 0 ? undefined : 'no mpirun on the PATH';

/** Run a scenario on so many ranks, and wait until all processes have ended. */
export async function runRanks(
  by: 'tcp' | 'mpi',
  ranks: number,
  scenario: string,
  { argument = null, limit = 120_000, env = {}, during }: RankOptions = {},
): Promise<RankRun> {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-ranks-'));
  const args = [by, scenario, folder, JSON.stringify(argument)];
  const base = { ...process.env, ...env };
  const processes =
    by === 'tcp'
      ? Array.from({ length: ranks }, (_, r) =>
          fork(PROGRAM, args, {
            env: { ...base, TEST_RANK: String(r), TEST_SIZE: String(ranks) },
            ...{ silent: true, execArgv: [] },
          }),
        )
      : [
          spawn('mpirun', ['--oversubscribe', '-n', String(ranks), process.execPath, PROGRAM, ...args], {
            env: { ...base, OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' },
            stdio: 'pipe',
          }),
        ];
  let output = '';
  for (const { stdout, stderr } of processes)
    for (const stream of [stdout, stderr])
      stream!.on('data', (part) => {
        output += String(part);
      });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    for (const one of processes) one.kill('SIGKILL');
  }, limit);
  try {
    const ends = processes.map(
      (one) => new Promise<number | null>((resolve) => one.once('close', (code) => resolve(code))),
    );
    await during?.(processes, folder);
    const codes = await Promise.all(ends);
    assert.ok(!late, `${scenario} on ${ranks} ranks took more than ${limit} ms. ${output}`);
    const results = Array.from({ length: ranks }, (_, r) => resultIn(join(folder, `result-${r}.json`)));
    return { results, codes, output };
  } finally {
    clearTimeout(timer);
    for (const one of processes) one.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

function resultIn(path: string): unknown {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { readonly result: unknown }).result;
  } catch {
    return undefined;
  }
}
