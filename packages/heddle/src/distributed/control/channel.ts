/** A connection between a process and rank 0 that notices when the other side is gone. */
import type { Socket } from 'node:net';
import { ForeignBytes, FrameReader, frameOf, MAGIC, type ToMember, type ToServer } from './messages.js';

/** Both sides say so often that they are there. */
const BEAT_MS = 1000;
/** Who is silent for so long is gone. With a beat, and the time that a process is given to end, it is below 10 s. */
export const SILENCE_MS = 6000;

/** What ended a connection. */
export type ChannelEnd =
  | { readonly how: 'closed' }
  | { readonly how: 'silent' }
  /** The other side is not a process of this version of Heddle. */
  | { readonly how: 'foreign'; readonly isHeddle: boolean };

interface ChannelEvents {
  /** Is told every message but those that only say that the other side is there. */
  readonly onMessage: (message: unknown) => void;
  /** Is called once, unless this side closes. */
  readonly onEnd: (end: ChannelEnd) => void;
}

export class ControlChannel<Sent extends ToMember | ToServer> {
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  readonly #events: ChannelEvents;
  readonly #beat: NodeJS.Timeout;
  #heardAt = performance.now();
  #beatAt = performance.now();
  #isOver = false;

  constructor(socket: Socket, events: ChannelEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.setNoDelay(true);
    socket.on('data', (bytes) => this.#receive(bytes));
    socket.on('error', () => this.#end({ how: 'closed' }));
    socket.on('close', () => this.#end({ how: 'closed' }));
    socket.write(MAGIC);
    this.#beat = setInterval(() => this.#check(), BEAT_MS);
  }

  send(message: Sent): void {
    if (!this.#isOver) this.#socket.write(frameOf(message));
  }

  /** Sends what is still to be sent, and closes. */
  async close(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#beat);
    await new Promise<void>((resolve) => {
      // The other side may be gone.
      const late = setTimeout(() => this.#socket.destroy(), 500);
      this.#socket.once('close', () => {
        clearTimeout(late);
        resolve();
      });
      this.#socket.end();
    });
  }

  #receive(bytes: Buffer): void {
    this.#heardAt = performance.now();
    let messages: unknown[];
    try {
      messages = this.#reader.read(bytes);
    } catch (error) {
      this.#end({ how: 'foreign', isHeddle: error instanceof ForeignBytes && error.isHeddle });
      return;
    }
    for (const message of messages) {
      if (this.#isOver) return;
      if ((message as ToMember | null)?.kind !== 'alive') this.#events.onMessage(message);
    }
  }

  #check(): void {
    const now = performance.now();
    // This side has been suspended, or had no processor: what was sent meanwhile has not been read yet.
    if (now - this.#beatAt > 2 * BEAT_MS) this.#heardAt = now;
    this.#beatAt = now;
    if (now - this.#heardAt > SILENCE_MS) this.#end({ how: 'silent' });
    else this.#socket.write(frameOf({ kind: 'alive' }));
  }

  #end(end: ChannelEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#beat);
    this.#socket.destroy();
    this.#events.onEnd(end);
  }
}

/** Why a process is gone whose connection ended without a good-bye. */
export const reasonOf = (end: ChannelEnd): string =>
  end.how === 'silent'
    ? `nothing has been heard of it for ${SILENCE_MS / 1000} s: it is stopped, or its host or the network is down`
    : 'its connection was closed without a good-bye, as when a process is killed or runs out of memory';
