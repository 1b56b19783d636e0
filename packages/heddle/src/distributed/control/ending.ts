/** What a process does when another one is gone: it says so, once for each host, and ends. */
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { named, type WorldMember } from './messages.js';

/** The exit code of a process that ends because another one is gone. */
export const EXIT_LOST = 3;

/** Why all ranks end. */
export interface RankLoss {
  /** The rank that is gone, if one is. */
  readonly member?: WorldMember;
  readonly reason: string;
}

export const lossText = ({ member, reason }: RankLoss): string =>
  member ? `${named(member)} is gone: ${reason}. The other ranks end.` : `${reason} All ranks end.`;

/**
 * Say it to `heddle launch`, which says it once; or else on stderr, if this is the lowest rank of its host that still runs.
 * @param launcher the file descriptor on which `heddle launch` listens
 */
export function tell(
  loss: RankLoss,
  me: WorldMember,
  members: readonly WorldMember[],
  launcher: number | undefined,
): void {
  if (launcher !== undefined) write(launcher, `${JSON.stringify(loss)}\n`);
  else if (isSpeaker(me, members, loss.member?.rank)) write(2, `heddle: ${lossText(loss)}\n`);
}

const isSpeaker = (me: WorldMember, members: readonly WorldMember[], lost: number | undefined): boolean =>
  members.find(({ rank, host, pid }) => host === me.host && rank !== lost && (rank === me.rank || runs(pid)))
    ?.rank === me.rank;

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** From any thread, even if the main thread is blocked: its streams are written by the main thread. */
function write(descriptor: number, text: string): void {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      writeSync(descriptor, text);
      return;
    } catch (error) {
      // A full pipe is read in a moment; nobody reads any other.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/** Seconds that a process has for its end once it has failed. */
const ENDING_SECONDS = 5;

/**
 * See to it that a process which has failed ends, by a signal if need be: at their end, libraries that have work on a GPU wait for that,
 * and it may wait for a rank that is gone.
 */
export function endInTime(): void {
  try {
    libc().func('alarm', 'unsigned int', ['unsigned int'])(ENDING_SECONDS);
  } catch {
    // As below.
  }
}

/** End the process from any thread, whatever its main thread does: a worker's own `process.exit` ends the worker only. */
export function endProcess(code: number): void {
  try {
    libc().func('_exit', 'void', ['int'])(code);
  } catch {
    // No such library, or the permission model forbids it.
  }
  process.kill(process.pid, 'SIGKILL');
}

/** @throws Error where there is no such library */
function libc(): ReturnType<typeof import('koffi')['load']> {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  return koffi.load(process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6');
}
