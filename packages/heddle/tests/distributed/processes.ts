/** Ranks in processes of their own, which end with the test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';

export const RANK = fileURLToPath(new URL('./rank.js', import.meta.url));

export interface RankEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
  /** From the start, in seconds. */
  readonly seconds: number;
}

export interface RunningRank {
  readonly child: ChildProcess;
  readonly ended: Promise<RankEnd>;
  /** What it has printed so far. */
  readonly out: () => string;
}

/** Without what a starter around the tests may have set. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const STARTERS =
    /^(RANK|WORLD_SIZE|LOCAL_|MASTER_|OMPI_|PMI|SLURM_|HEDDLE_(DEVICE|DEBUG|RESTART|LAUNCHER)|FORCE_COLOR)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !STARTERS.test(name)));
}

/** What has not ended by then hangs: on a busy machine a process may take seconds to start. */
export const MOST_MS = 60_000;
/** For a test of one process after another. */
export const LIMIT = { timeout: 2 * MOST_MS };
/** How long ranks wait for each other. */
export const TIMEOUT_MS = 20_000;

export function start(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { cwd, mostMs = MOST_MS }: { readonly cwd?: string; readonly mostMs?: number } = {},
): RunningRank {
  const begun = performance.now();
  const child = spawn(command, args, { env: { ...cleanEnvironment(), ...env }, cwd });
  const timer = setTimeout(() => child.kill('SIGKILL'), mostMs);
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = once(child, 'close').then(([code, signal]): RankEnd => {
    clearTimeout(timer);
    return { code, signal, out, err, seconds: (performance.now() - begun) / 1000 };
  });
  return { child, ended, out: () => out };
}

export const startNode = (
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  options?: Parameters<typeof start>[3],
): RunningRank => start(process.execPath, args, env, options);

/** The variables of a rank on this host. */
export const ranksEnvironment = (rank: number, worldSize: number, port: number): NodeJS.ProcessEnv => ({
  RANK: String(rank),
  WORLD_SIZE: String(worldSize),
  LOCAL_RANK: String(rank),
  LOCAL_WORLD_SIZE: String(worldSize),
  MASTER_ADDR: '127.0.0.1',
  MASTER_PORT: String(port),
});

export const startRank = (
  args: readonly string[],
  rank: number,
  worldSize: number,
  port: number,
  env: NodeJS.ProcessEnv = {},
): RunningRank => startNode([RANK, ...args], { ...ranksEnvironment(rank, worldSize, port), ...env });

/** All ranks of a world, on a port that was free. */
export async function startWorld(
  worldSize: number,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<RunningRank[]> {
  const port = await freePort();
  return Array.from({ length: worldSize }, (_, rank) => startRank(args, rank, worldSize, port, env));
}

export const endOf = (ranks: readonly RunningRank[]): Promise<RankEnd[]> =>
  Promise.all(ranks.map(({ ended }) => ended));

/** Returns when the rank has printed something. @throws Error if it has not in that time, or has ended */
export async function printed(
  { child, out }: RunningRank,
  what: string | RegExp,
  mostMs = MOST_MS,
): Promise<void> {
  const deadline = performance.now() + mostMs;
  while (!(typeof what === 'string' ? out().includes(what) : what.test(out()))) {
    if (performance.now() > deadline || child.exitCode !== null)
      throw new Error(`not printed: ${what}; but: ${out()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function listening(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as { readonly port: number }).port;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  server.close();
  await once(server, 'close');
  return port;
}
