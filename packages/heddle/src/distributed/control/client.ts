/** A process's connection to rank 0. */
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { WorldPlace } from '../environment.js';
import { type ChannelEnd, ControlChannel, reasonOf } from './channel.js';
import {
  type ControlAnswer,
  type ControlRequest,
  named,
  type ToMember,
  type ToServer,
  type WorldMember,
} from './messages.js';
import { ownAddress } from './server.js';

/** Between two attempts to reach rank 0, which may not have started yet. */
export const AGAIN_MS = 200;
/** For one attempt: who drops packets lets it wait for minutes. */
const ATTEMPT_MS = 5000;

export interface ClientEvents {
  readonly onAnswer: (answer: ControlAnswer) => void;
  /** A rank is gone; called once. */
  readonly onLost: (rank: number, reason: string) => void;
  /** Ranks make calls that do not fit together; called once, instead of `onLost`. */
  readonly onDifferent: (reason: string) => void;
  /** A rank has ended in order. */
  readonly onLeft: (rank: number) => void;
}

export interface ClientOptions {
  readonly place: WorldPlace;
  readonly me: WorldMember;
  readonly version: string;
  /** How long to try to reach rank 0. */
  readonly timeoutMs: number;
}

/** Rank 0 that a process looks for has not started yet. */
export class TooEarly extends Error {}

export class ControlClient {
  readonly #channel: ControlChannel<ToServer>;
  readonly #events: ClientEvents;
  /** The ranks, once all have come. @throws Error saying why they have not */
  readonly formed: Promise<readonly WorldMember[]>;
  readonly #form: (members: readonly WorldMember[]) => void;
  readonly #refuse: (error: Error) => void;
  #isFormed = false;
  #host: WorldMember | undefined;
  #noted: () => void = () => {};
  /** Rank 0 has ended, or a rank is gone: nothing more is to be told. */
  #isOver = false;
  /** This process has said good-bye: that the connection ends is no news. */
  #hasLeft = false;
  /** Rank 0 has said good-bye. Its server ends after it, at the latest with the last rank. */
  #hostHasLeft = false;

  /** @throws Error saying why rank 0 is not reached */
  static async reach(options: ClientOptions, events: ClientEvents): Promise<ControlClient> {
    const { place, me, version } = options;
    const client = new ControlClient(await reached(options), place, events);
    const { job, restart, worldSize } = place;
    client.#channel.send({ kind: 'hello', job, restart, worldSize, version, ...me });
    return client;
  }

  private constructor(socket: Socket, place: WorldPlace, events: ClientEvents) {
    this.#events = events;
    const { promise, resolve, reject } = withResolvers<readonly WorldMember[]>();
    this.formed = promise;
    this.#form = resolve;
    this.#refuse = reject;
    this.#channel = new ControlChannel<ToServer>(socket, {
      onMessage: (message) => this.#hear(message as ToMember),
      onEnd: (end) => this.#ended(end, place),
    });
  }

  ask(request: ControlRequest): void {
    if (!this.#isOver) this.#channel.send(request);
    else
      this.#events.onAnswer({
        kind: 'answer',
        id: request.id,
        error: 'Rank 0 has ended, and with it what the ranks leave for each other.',
      });
  }

  /** Show the collectives that have begun. */
  show(headers: readonly (readonly number[])[]): void {
    if (!this.#isOver) this.#channel.send({ kind: 'calls', headers });
  }

  /** Tell the others that this process fails. Ends when they know. */
  fail(reason: string): Promise<void> {
    return this.#say({ kind: 'failed', reason });
  }

  /** Tell the others that this process ends in order. */
  async leave(): Promise<void> {
    await this.#say({ kind: 'bye' });
    this.#hasLeft = true;
  }

  close(): Promise<void> {
    this.#isOver = true;
    return this.#channel.close();
  }

  async #say(message: ToServer): Promise<void> {
    if (this.#isOver) return;
    await new Promise<void>((resolve) => {
      this.#noted = resolve;
      this.#channel.send(message);
    });
  }

  #hear(message: ToMember): void {
    switch (message.kind) {
      case 'waiting':
        this.#host = message.host;
        return;
      case 'refused':
        this.#refuse(message.isEarly ? new TooEarly(message.reason) : new Error(message.reason));
        void this.close();
        return;
      case 'formed':
        this.#isFormed = true;
        this.#form(message.members);
        return;
      case 'answer':
        this.#events.onAnswer(message);
        return;
      case 'noted':
        this.#noted();
        return;
      case 'lost':
        this.#lose(() => this.#events.onLost(message.rank, message.reason));
        return;
      case 'different':
        this.#lose(() => this.#events.onDifferent(message.reason));
        return;
      case 'left':
        if (message.rank === 0) this.#hostHasLeft = true;
        this.#events.onLeft(message.rank);
        return;
    }
  }

  #lose(tell: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    tell();
    this.#noted();
    void this.#channel.close();
  }

  #ended(end: ChannelEnd, { address, port }: WorldPlace): void {
    if (this.#hasLeft || this.#hostHasLeft) this.#isOver = true;
    else if (this.#isFormed) this.#lose(() => this.#events.onLost(0, reasonOf(end)));
    else if (this.#host) this.#refuse(new Error(`${named(this.#host)} is gone: ${reasonOf(end)}.`));
    else this.#refuse(new Error(strange(end, `${address}:${port}`)));
    this.#noted();
  }
}

function strange(end: ChannelEnd, where: string): string {
  if (end.how === 'foreign' && end.isHeddle)
    return `Rank 0 at ${where} runs another version of Heddle. Install the same version on all hosts.`;
  const what = end.how === 'foreign' ? 'What listens' : 'What has accepted a connection';
  return (
    `${what} at ${where} is no process of Heddle. Is that the host of rank 0? Set MASTER_ADDR and MASTER_PORT to its address and ` +
    'to a port that is free there.'
  );
}

/** @throws Error after the time limit */
async function reached({ place, me, timeoutMs }: ClientOptions): Promise<Socket> {
  const host = me.rank === 0 ? ownAddress(place.address) : place.address;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const left = deadline - performance.now();
    const attempt = await attempted(host, place.port, Math.min(ATTEMPT_MS, Math.max(left, 1)));
    if (typeof attempt !== 'string') return attempt;
    if (performance.now() + AGAIN_MS > deadline)
      throw new Error(
        `Rank ${me.rank} has not reached rank 0 at ${place.address}:${place.port} within ${timeoutMs / 1000} s: ${attempt}. ` +
          'Has rank 0 started, is that its address, and does no firewall close the port?',
      );
    await wait(AGAIN_MS);
  }
}

/** @returns why there is no connection, if there is none */
const attempted = (host: string, port: number, ms: number): Promise<Socket | string> =>
  new Promise((resolve) => {
    const socket = connect({ host, port });
    const give = (result: Socket | string): void => {
      clearTimeout(timer);
      socket.removeAllListeners();
      if (typeof result === 'string') socket.on('error', () => {}).destroy();
      resolve(result);
    };
    const timer = setTimeout(() => give('nothing answers'), ms);
    socket.once('connect', () => give(socket));
    socket.once('error', (error) => give(error.message || String((error as NodeJS.ErrnoException).code)));
  });

/** As Promise.withResolvers of Node 22. */
export function withResolvers<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
