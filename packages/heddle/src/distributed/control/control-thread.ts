/**
 * The thread that keeps a process's connection to rank 0, and in rank 0 also the server. The main thread waits for other ranks
 * in collectives, and cannot notice that one of them is gone.
 */
import { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { CallLog } from './call-log.js';
import { AGAIN_MS, ControlClient, TooEarly, withResolvers } from './client.js';
import { EXIT_LOST, endProcess, type RankLoss, tell } from './ending.js';
import type { WorldMember } from './messages.js';
import { ControlServer } from './server.js';
import {
  type ControlThreadData,
  type FromControlThread,
  SHARED,
  type ToControlThread,
} from './thread-messages.js';

/** What the main thread gets to end the process itself. */
const GRACE_MS = 2000;
/** Milliseconds between two reports of the collectives that have begun. */
const SHOW_MS = 1000;

const data = workerData as ControlThreadData;
const { me, shared, launcher } = data;
const post = (message: FromControlThread): void => parentPort!.postMessage(message);

let members: readonly WorldMember[] = [];
let server: ControlServer | undefined;
let client: ControlClient | undefined;
let watched: Socket | undefined;

function raise(flag: number): void {
  Atomics.store(shared, flag, 1);
  Atomics.notify(shared, flag);
}

function end(): void {
  raise(SHARED.lost);
  raise(SHARED.noted);
  post({ kind: 'lost' });
  setTimeout(() => endProcess(EXIT_LOST), GRACE_MS);
}

function lost(loss: RankLoss): void {
  tell(loss, me, members, launcher);
  end();
}

/** Shows rank 0 what this process has begun since it did so last. */
function showCalls(): void {
  const log = new CallLog(data.calls);
  let first = 0;
  setInterval(() => {
    const { next, headers } = log.from(first);
    first = next;
    if (headers.length > 0) client!.show(headers);
  }, SHOW_MS).unref();
}

async function join(): Promise<readonly WorldMember[]> {
  const deadline = performance.now() + data.timeoutMs;
  for (;;) {
    client = await ControlClient.reach(data, {
      onAnswer: post,
      onLost: (rank, reason) => lost({ member: members[rank]!, reason }),
      onDifferent: (reason) => lost({ reason }),
      onLeft: (rank) => Atomics.store(shared, SHARED.ranks + rank, 1),
    });
    try {
      return await client.formed;
    } catch (error) {
      if (!(error instanceof TooEarly) || performance.now() > deadline) throw error;
      await wait(AGAIN_MS);
    }
  }
}

/** Rank 0 is told by its server why the ranks do not get together, the others by their connections. */
async function host(): Promise<readonly WorldMember[]> {
  const { promise: refused, reject } = withResolvers<never>();
  server = new ControlServer({ ...data, onRefused: (reason) => reject(new Error(reason)) });
  await server.listen();
  return Promise.race([join(), refused]);
}

/** A launcher that is killed closes its end. Nobody is left to tell anything to. */
function watchLauncher(descriptor: number): void {
  watched = new Socket({ fd: descriptor, readable: true, writable: false });
  watched.on('error', end).on('close', end).resume().unref();
}

async function leave(waits: boolean): Promise<void> {
  await client?.leave();
  await server?.close(!waits);
  await client?.close();
  watched?.removeAllListeners().destroy();
}

parentPort!.on('message', async (message: ToControlThread) => {
  switch (message.kind) {
    case 'failed':
      await client?.fail(message.reason);
      raise(SHARED.noted);
      return;
    case 'leave':
      await leave(false);
      raise(SHARED.noted);
      return;
    case 'close':
      await leave(true);
      post({ kind: 'closed' });
      parentPort!.close();
      return;
    default:
      client!.ask(message);
  }
});

try {
  members = await (me.rank === 0 ? host() : join());
  if (launcher !== undefined) watchLauncher(launcher);
  showCalls();
  post({ kind: 'formed', members });
} catch (error) {
  await client?.close();
  await server?.close(true);
  post({ kind: 'refused', reason: (error as Error).message });
  parentPort!.close();
}
