/**
 * What rank 0 hosts: the others come to it, leave values, wait for each other, and are told of those that are gone. It is in
 * rank 0, and not in the launcher, because `mpirun`, `srun` and Kubernetes start ranks without one.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { WorldPlace } from '../environment.js';
import { CallComparison } from './call-log.js';
import { type ChannelEnd, ControlChannel, reasonOf } from './channel.js';
import {
  type ControlRequest,
  type Hello,
  isHello,
  named,
  type ToMember,
  type ToServer,
  type WorldMember,
} from './messages.js';
import { ControlStore } from './store.js';

/** A stranger is not listened to for longer. */
const HELLO_MS = 5000;

interface Seat {
  readonly member: WorldMember;
  readonly channel: ControlChannel<ToMember>;
  /** It has said good-bye, or has failed: that its connection ends is no news. */
  hasEnded: boolean;
}

/** Why a process cannot take part. */
interface Objection {
  readonly reason: string;
  /** It is one of this job, which then cannot begin. */
  readonly isOurs: boolean;
  readonly isEarly?: boolean;
}

export interface ServerOptions {
  readonly place: WorldPlace;
  readonly version: string;
  /** How long to wait for all ranks. */
  readonly timeoutMs: number;
  /** Is told why the ranks do not get together. */
  readonly onRefused: (reason: string) => void;
}

export class ControlServer {
  readonly #options: ServerOptions;
  readonly #server: Server;
  readonly #seats = new Map<number, Seat>();
  readonly #strangers = new Set<ControlChannel<ToMember>>();
  readonly #store: ControlStore;
  readonly #calls = new CallComparison();
  #deadline: NodeJS.Timeout | undefined;
  #isFormed = false;
  /** A rank is gone, or the ranks do not fit together: what happens next is a consequence. */
  #hasFailed = false;
  #allLeft: () => void = () => {};

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#store = new ControlStore(options.place.worldSize);
    this.#server = createServer((socket) => this.#welcome(socket));
  }

  /** @throws Error saying why it cannot listen */
  async listen(): Promise<void> {
    const { address, port } = this.#options.place;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) => reject(new Error(whyDeaf(error, port))));
      // Others reach it by a name that may not be one of this host's own.
      this.#server.listen({ port, host: isLoopback(address) ? address : undefined }, resolve);
    });
    const { timeoutMs } = this.#options;
    this.#deadline = setTimeout(() => this.#refuseAll(this.#missing(timeoutMs)), timeoutMs);
  }

  /** Ends when all ranks have said good-bye, or at once. */
  async close(now: boolean): Promise<void> {
    if (!now && this.#isFormed && !this.#hasFailed)
      await new Promise<void>((resolve) => {
        this.#allLeft = resolve;
        this.#notice();
      });
    clearTimeout(this.#deadline);
    this.#store.close();
    this.#server.close();
    await Promise.all([...this.#all()].map((channel) => channel.close()));
  }

  *#all(): Iterable<ControlChannel<ToMember>> {
    yield* this.#strangers;
    for (const { channel } of this.#seats.values()) yield channel;
  }

  #welcome(socket: Socket): void {
    let seat: Seat | undefined;
    const from = socket.remoteAddress;
    const late = setTimeout(() => void channel.close(), HELLO_MS);
    const channel: ControlChannel<ToMember> = new ControlChannel<ToMember>(socket, {
      onMessage: (message) => {
        if (seat) this.#hear(seat, message as ToServer);
        else {
          clearTimeout(late);
          this.#strangers.delete(channel);
          if (isHello(message)) seat = this.#admit(message, channel);
          else void channel.close();
        }
      },
      onEnd: (end) => {
        clearTimeout(late);
        this.#strangers.delete(channel);
        if (seat) this.#ended(seat, end);
        else if (end.how === 'foreign' && end.isHeddle && !this.#isFormed)
          this.#refuseAll(`A process at ${from} runs another version of Heddle. ${SAME_VERSION}`);
      },
    });
    this.#strangers.add(channel);
  }

  #admit(hello: Hello, channel: ControlChannel<ToMember>): Seat | undefined {
    const wrong = this.#objection(hello);
    if (wrong !== undefined) {
      channel.send({ kind: 'refused', ...wrong });
      void channel.close();
      if (wrong.isOurs && !this.#isFormed) this.#refuseAll(wrong.reason);
      return undefined;
    }
    const { rank, host, pid } = hello;
    const seat: Seat = { member: { rank, host, pid }, channel, hasEnded: false };
    this.#seats.set(rank, seat);
    channel.send({ kind: 'waiting', host: this.#seats.get(0)?.member ?? seat.member });
    if (this.#seats.size === this.#options.place.worldSize) this.#form();
    return seat;
  }

  #objection(hello: Hello): Objection | undefined {
    const { place, version } = this.#options;
    const zero = 'rank 0';
    const who = named(hello);
    if (hello.job !== place.job)
      return {
        reason: `Port ${place.port} of ${place.address} is used by another job ('${place.job}'; this is '${hello.job}'). Set MASTER_PORT to another port.`,
        isOurs: false,
      };
    if (hello.version !== version)
      return {
        reason: `${who} runs Heddle ${hello.version}, ${zero} runs ${version}. ${SAME_VERSION}`,
        isOurs: true,
      };
    if (hello.restart !== place.restart)
      return {
        reason: `${who} belongs to restart ${hello.restart} of the job, ${zero} to restart ${place.restart}.`,
        // The lower one fails, is started again, and catches up.
        isOurs: hello.restart > place.restart,
        isEarly: hello.restart > place.restart,
      };
    if (hello.worldSize !== place.worldSize)
      return {
        reason:
          `${who} has been told that there are ${hello.worldSize} ranks, ${zero} that there are ${place.worldSize}. ` +
          'Start all ranks with the same WORLD_SIZE (heddle launch: the same -n and --nodes).',
        isOurs: true,
      };
    const other = this.#seats.get(hello.rank);
    if (!other) return undefined;
    return {
      reason:
        `Two processes have rank ${hello.rank}: pid ${other.member.pid} on ${other.member.host}, and pid ${hello.pid} on ` +
        `${hello.host}. Give each process its own RANK (heddle launch: each host its own --node-rank).`,
      isOurs: true,
    };
  }

  #missing(timeoutMs: number): string {
    const { worldSize } = this.#options.place;
    const absent = Array.from({ length: worldSize }, (_, rank) => rank).filter(
      (rank) => !this.#seats.has(rank),
    );
    return (
      `${ranksText(absent)} of ${worldSize} ${absent.length === 1 ? 'has' : 'have'} not come within ${timeoutMs / 1000} s. ` +
      'Did they start, and with the same MASTER_ADDR and MASTER_PORT?'
    );
  }

  #form(): void {
    clearTimeout(this.#deadline);
    this.#isFormed = true;
    const members = [...this.#seats.values()].map(({ member }) => member).sort((a, b) => a.rank - b.rank);
    for (const { channel } of this.#seats.values()) channel.send({ kind: 'formed', members });
  }

  #refuseAll(reason: string): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    for (const channel of this.#all()) channel.send({ kind: 'refused', reason });
    this.#options.onRefused(reason);
  }

  #hear(seat: Seat, message: ToServer): void {
    switch (message.kind) {
      case 'set':
      case 'get':
      case 'barrier':
        this.#ask(seat, message);
        return;
      case 'failed':
        seat.hasEnded = true;
        this.#lose(seat, message.reason);
        seat.channel.send({ kind: 'noted' });
        return;
      case 'calls':
        this.#compare(seat, message.headers);
        return;
      case 'bye':
        seat.hasEnded = true;
        // First, so that whoever waits for this rank in vain knows that it has left.
        for (const { channel } of this.#others(seat)) channel.send({ kind: 'left', rank: seat.member.rank });
        this.#store.leave(seat.member.rank);
        seat.channel.send({ kind: 'noted' });
        this.#notice();
        return;
    }
  }

  #ask(seat: Seat, request: ControlRequest): void {
    this.#store.ask(seat.member.rank, request, (answer) =>
      seat.channel.send({ kind: 'answer', id: request.id, ...answer }),
    );
  }

  #compare({ member }: Seat, headers: readonly (readonly number[])[]): void {
    const reason = this.#calls.add(member.rank, headers);
    if (reason === undefined || this.#hasFailed) return;
    this.#hasFailed = true;
    for (const { channel } of this.#seats.values()) channel.send({ kind: 'different', reason });
  }

  #ended(seat: Seat, end: ChannelEnd): void {
    if (seat.hasEnded) return;
    seat.hasEnded = true;
    if (this.#isFormed) this.#lose(seat, reasonOf(end));
    else this.#refuseAll(`${named(seat.member)} is gone: ${reasonOf(end)}.`);
  }

  /** The first rank that is gone is the cause; those that follow it are consequences. */
  #lose(seat: Seat, reason: string): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    for (const { channel } of this.#others(seat))
      channel.send({ kind: 'lost', rank: seat.member.rank, reason });
  }

  *#others(seat: Seat): Iterable<Seat> {
    for (const other of this.#seats.values()) if (other !== seat) yield other;
  }

  #notice(): void {
    if ([...this.#seats.values()].every(({ hasEnded }) => hasEnded)) this.#allLeft();
  }
}

const SAME_VERSION = 'Install the same version on all hosts.';

const isLoopback = (address: string): boolean =>
  address === 'localhost' || address === '::1' || /^127\.\d+\.\d+\.\d+$/.test(address);

/** As the process of rank 0 itself reaches its server. */
export const ownAddress = (address: string): string => (isLoopback(address) ? address : '127.0.0.1');

const whyDeaf = ({ code, message }: NodeJS.ErrnoException, port: number): string =>
  code === 'EADDRINUSE'
    ? `Port ${port} is taken by another process. Set MASTER_PORT to a free port (heddle launch: --address).`
    : `Rank 0 cannot listen on port ${port}: ${message}`;

export const ranksText = (ranks: readonly number[]): string =>
  `${ranks.length === 1 ? 'Rank' : 'Ranks'} ${ranks.join(', ')}`;
