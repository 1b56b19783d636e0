/**
 * The connections between this rank and all others: two for each pair, one for each direction of the bytes. The rank that
 * receives opens the connection and says who it is; on the same connection it later says, as a line of JSON, that it leaves or
 * why it has failed. The other side reads that all the time, and so learns at once when a process has ended.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { DistributedError } from '../../core/errors.js';
import { ranks } from '../control/messages.js';
import { Inbox } from './inbox.js';
import type { TcpAddress } from './messages.js';

/** The longest attempt to reach one of a machine's addresses, in ms. */
const LONGEST_ATTEMPT = 5000;
/** How long to wait for the reason when bytes stop coming, in ms. */
const GRACE = 1000;
/** The longest that a rank which has failed waits for the others to read why, in ms. */
const LONGEST_FAREWELL = 5000;
/** More than a failure's text has. */
const LONGEST_LINE = 64 * 1024;

/** A line from the rank that receives to the one that sends. */
type Notice =
  | { readonly rank: number; readonly token: string }
  | { readonly leaves: true }
  | { readonly failed: string; readonly by: number };

/** Another rank. */
interface Peer {
  inbox?: Inbox;
  inboxClosed: boolean;
  /** Takes the bytes that this rank sends it. */
  outbox?: Socket;
  /** It has ended in good order. */
  left: boolean;
}

export class Links {
  readonly rank: number;
  readonly #peers = new Map<number, Peer>();
  readonly #token = randomBytes(16).toString('hex');
  readonly #server: Server;
  #error: DistributedError | undefined;
  #fail!: (error: DistributedError) => void;
  #leaving = false;
  /** Is rejected when a rank is gone or has failed. */
  readonly failed: Promise<never>;
  #connected!: () => void;
  /** Done when all others have connected to this rank. */
  readonly #complete: Promise<void>;

  constructor(rank: number, worldSize: number) {
    this.rank = rank;
    for (let r = 0; r < worldSize; r++)
      if (r !== rank) this.#peers.set(r, { inboxClosed: false, left: false });
    this.failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // It is waited for only during a call.
    this.failed.catch(() => {});
    this.#complete = new Promise((resolve) => {
      this.#connected = resolve;
    });
    if (worldSize === 1) this.#connected();
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }

  /** @param host address of the interface to listen on; without it, all. @throws DistributedError */
  async listen(host: string | undefined): Promise<TcpAddress> {
    this.#server.listen({ port: 0, ...(host !== undefined && { host }) });
    try {
      await once(this.#server, 'listening');
    } catch (cause) {
      throw new DistributedError(
        `[distributed] rank ${this.rank} cannot listen on ${host ?? 'any address'}: ${(cause as Error).message}. ` +
          'The host must be an address of this machine.',
        { cause },
      );
    }
    const hosts = host === undefined ? addresses() : [host];
    const { port } = this.#server.address() as AddressInfo;
    return { machine: host === undefined ? hostname() : '', hosts, port, token: this.#token };
  }

  /** Connect all ranks with each other. @param timeout in ms @throws DistributedError */
  async connect(all: readonly TcpAddress[], timeout: number): Promise<void> {
    const inboxes = [...this.#peers].map(([rank, peer]) => this.#open(rank, peer, all[rank]!));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const missing = [...this.#peers]
          .filter(([, { outbox, inbox }]) => !outbox || !inbox)
          .map(([rank]) => rank);
        reject(
          new DistributedError(
            `[distributed] rank ${this.rank} has no connection with ${ranks(missing)} after ${timeout / 1000} s. ` +
              'Do these processes run, and may they connect to each other on any port?',
          ),
        );
      }, timeout);
    });
    try {
      await Promise.race([Promise.all([...inboxes, this.#complete]), late, this.failed]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Send bytes to a rank; done when they are out of this memory. */
  send(rank: number, bytes: Uint8Array): Promise<void> {
    const { outbox } = this.#reach(rank);
    return new Promise((done) => {
      if (bytes.length === 0) done();
      else outbox!.write(bytes, () => done());
    });
  }

  /** Put the next bytes of a rank into `into`. */
  receive(rank: number, into: Uint8Array): Promise<void> {
    const peer = this.#reach(rank);
    const arrival = peer.inbox!.receive(into);
    if (peer.inboxClosed) this.#inboxClosed(rank, peer);
    return arrival;
  }

  /** Hold back small messages to a rank until `release`, to send them as one. */
  hold(rank: number): void {
    this.#reach(rank).outbox!.cork();
  }

  release(rank: number): void {
    this.#reach(rank).outbox!.uncork();
  }

  #reach(rank: number): Peer {
    if (this.#error) throw this.#error;
    const peer = this.#peers.get(rank)!;
    if (peer.left)
      throw this.#abort(`rank ${rank} has left, and rank ${this.rank} still exchanges values with it`);
    return peer;
  }

  /**
   * Nothing can be exchanged any more. The other ranks are told why: whichever hears of it first from whom, all name the same cause.
   * @param by the rank that found it
   */
  abort(error: DistributedError, failed: string = error.message, by: number = this.rank): void {
    if (this.#error) return;
    this.#error = error;
    this.#fail(error);
    const notice = `${JSON.stringify({ failed, by } satisfies Notice)}\n`;
    for (const { inbox, outbox } of this.#peers.values()) {
      inbox?.socket.end(notice);
      inbox?.discard();
      outbox?.destroy();
    }
    this.#server.close();
  }

  #abort(what: string): DistributedError {
    const error = new DistributedError(`[distributed] ${what}.`);
    this.abort(error);
    return this.#error ?? error;
  }

  /** Take leave of the others, when all bytes are out and, after a failure, when they know of it. */
  async leave(): Promise<void> {
    this.#leaving = true;
    this.#server.close();
    const peers = [...this.#peers.values()];
    if (this.#error) {
      // Who has read the reason closes the connection.
      const closed = Promise.all(peers.map(({ inbox }) => inbox && endOf(inbox.socket)));
      await Promise.race([closed, sleep(LONGEST_FAREWELL, undefined, { ref: false })]);
      return;
    }
    const notice = `${JSON.stringify({ leaves: true } satisfies Notice)}\n`;
    const sockets = peers.flatMap(({ inbox, outbox }) => [inbox?.socket.end(notice), outbox?.end()]);
    await Promise.all(sockets.map((socket) => socket && !socket.writableFinished && endOf(socket, 'finish')));
  }

  /** Connect to the first of its addresses that answers. */
  async #open(rank: number, peer: Peer, { machine, hosts, port, token }: TcpAddress): Promise<void> {
    const errors: string[] = [];
    for (const host of machine === hostname() ? ['127.0.0.1', ...hosts] : hosts) {
      const inbox = new Inbox(host, port);
      const { socket } = inbox;
      const reason = await new Promise<string | undefined>((resolve) => {
        socket.setTimeout(LONGEST_ATTEMPT, () => resolve(`no answer for ${LONGEST_ATTEMPT / 1000} s`));
        socket.once('connect', () => resolve(undefined)).once('error', ({ message }) => resolve(message));
      });
      if (reason === undefined) {
        socket.setTimeout(0);
        socket.on('error', () => {});
        socket.once('close', () => this.#inboxClosed(rank, peer));
        socket.write(`${JSON.stringify({ rank: this.rank, token } satisfies Notice)}\n`);
        peer.inbox = inbox;
        return;
      }
      socket.destroy();
      errors.push(`${host}: ${reason}`);
    }
    throw new DistributedError(
      `[distributed] rank ${this.rank} cannot reach rank ${rank} on port ${port} (${errors.join('; ')}). ` +
        'Ranks connect to each other on any free port: does a firewall stop them, or has a machine several networks?',
    );
  }

  #accept(socket: Socket): void {
    let text = '';
    let rank: number | undefined;
    let peer: Peer | undefined;
    socket.setEncoding('utf8');
    socket.on('data', (part: string) => {
      text += part;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        const notice = noticeIn(text.slice(0, end));
        text = text.slice(end + 1);
        if (peer) {
          this.#heed(rank!, peer, notice);
        } else if (notice && 'token' in notice && notice.token === this.#token) {
          rank = notice.rank;
          peer = this.#peers.get(rank);
          if (peer) peer.outbox = socket;
          if ([...this.#peers.values()].every(({ outbox }) => outbox)) this.#connected();
        }
        // A stranger, as a scan of ports is.
        if (!peer) socket.destroy();
      }
      if (text.length > LONGEST_LINE) socket.destroy();
    });
    let how = 'its connection closed';
    socket.on('error', ({ message }) => {
      how = message;
    });
    socket.once('close', () => {
      if (peer && !peer.left && !this.#leaving)
        this.#abort(`rank ${rank} is gone: ${how}. Its own output says why it ended`);
    });
  }

  #heed(rank: number, peer: Peer, notice: Notice | undefined): void {
    if (!notice) return;
    if ('failed' in notice) {
      const { failed, by } = notice;
      const cause = failed.replace('[distributed] ', '');
      this.abort(new DistributedError(`[distributed] rank ${by} has failed: ${cause}`), failed, by);
    }
    if ('leaves' in notice) {
      peer.left = true;
      if (peer.inboxClosed) this.#inboxClosed(rank, peer);
    }
  }

  /** Without a reason yet, it comes on the other connection. */
  #inboxClosed(rank: number, peer: Peer): void {
    peer.inboxClosed = true;
    if (this.#error || !peer.inbox?.waiting) return;
    if (peer.left) this.#abort(`rank ${rank} has left, and rank ${this.rank} still waits for its values`);
    else setTimeout(() => this.#abort(`rank ${rank} is gone: its connection closed`), GRACE).unref();
  }
}

/** Done when the socket is closed, with or without an error, or at an earlier event. */
const endOf = (socket: Socket, earlier?: 'finish'): Promise<void> =>
  new Promise((done) => {
    if (socket.closed) done();
    else socket.once('close', done);
    if (earlier) socket.once(earlier, done);
  });

function noticeIn(line: string): Notice | undefined {
  try {
    return JSON.parse(line) as Notice;
  } catch {
    return undefined;
  }
}

/** Addresses of this machine by which others may reach it. */
const addresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address);
