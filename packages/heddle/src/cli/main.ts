/**
 * The `heddle` command. Exit codes: 0 done · 1 failed · 2 not understood · ended by a signal: 130 Ctrl-C, 143 SIGTERM,
 * 129 SIGHUP.
 */
import { CommanderError } from 'commander';
import { ArgumentError, DistributedError, HeddleError } from '../core/errors.js';
import { wakeGpu } from '../runtime/cuda/driver/wake.js';
import { styled } from './terminal.js';

// What nobody reads any more (`heddle train … | head`, a terminal that was closed) is not printed; the work goes on.
const UNREAD = new Set(['EPIPE', 'EIO', 'ERR_STREAM_DESTROYED']);
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (!UNREAD.has(error.code ?? '')) throw error;
  });
}

/** Where starters of several processes say which one of its host this is: others than the first have other GPUs. */
const LOCAL_RANKS = ['LOCAL_RANK', 'OMPI_COMM_WORLD_LOCAL_RANK', 'MPI_LOCALRANKID', 'SLURM_LOCALID'];

const args = process.argv.slice(2);
if (trainsAlone(args)) wakeGpu(deviceOf(args));

try {
  // Two hundred modules, and the GPU gets ready meanwhile.
  const { createProgram } = await import('./program.js');
  const program = await createProgram(args, (exitCode) => {
    process.exitCode = exitCode;
  });
  await program.parseAsync();
  // By the signal itself: at an ordinary exit Node aborts where the terminal is gone.
  if (process.exitCode === 129) process.kill(process.pid, 'SIGHUP');
} catch (error) {
  if (error instanceof DistributedError) (await import('../distributed/control/control.js')).endIfLost();
  process.exitCode = exitCodeOf(error);
}

/** Whether this is a training in one process, or in the first of its host. */
function trainsAlone([command, ...rest]: readonly string[]): boolean {
  return (
    command === 'train' &&
    !rest.some((arg) => /^(-h|--help)$|^--(gpus|processes)\b/.test(arg)) &&
    LOCAL_RANKS.every((name) => Number(process.env[name] ?? 0) === 0)
  );
}

/** What `--device` says. */
function deviceOf(args: readonly string[]): string | undefined {
  const at = args.indexOf('--device');
  return at >= 0 ? args[at + 1] : undefined;
}

/** Prints what commander has not printed yet. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof HeddleError) {
    process.stderr.write(`${styled('heddle:', 'red', process.stderr)} ${error.message}\n`);
    return error instanceof ArgumentError ? 2 : 1;
  }
  process.stderr.write(`heddle: ${error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}
