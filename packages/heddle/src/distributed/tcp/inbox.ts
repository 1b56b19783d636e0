/** The bytes that one peer sends to this rank, put where they are wanted. */
import { connect, type Socket } from 'node:net';

/** What is read before anybody has asked for it, and what is read of small messages. */
const STAGING = 64 * 1024;
/** Where at least so much is wanted, it is read in place. */
const DIRECT = 16 * 1024;

interface Wanted {
  readonly into: Uint8Array;
  at: number;
  readonly done: () => void;
}

/** One direction of the bytes between two ranks: the rank that receives opens the connection. */
export class Inbox {
  readonly #staging = new Uint8Array(STAGING);
  /** What has come and nobody has asked for. While there is any, the socket is not read. */
  #early: Uint8Array = this.#staging.subarray(0, 0);
  readonly #wanted: Wanted[] = [];
  #discards = false;
  readonly socket: Socket;

  constructor(host: string, port: number) {
    this.socket = connect({
      ...{ host, port, noDelay: true },
      onread: {
        buffer: () => this.#room(),
        callback: (bytes, buffer) => this.#arrived(bytes, buffer),
      },
    });
  }

  /** Whether there are bytes that have been asked for and have not come. */
  get waiting(): boolean {
    return this.#wanted.length > 0;
  }

  /** The next bytes go into `into`; done when it is full. */
  receive(into: Uint8Array): Promise<void> {
    return new Promise((done) => {
      if (into.length === 0 && this.#wanted.length === 0) {
        done();
        return;
      }
      this.#wanted.push({ into, at: 0, done });
      if (this.#early.length === 0) return;
      this.#serve();
      if (this.#early.length === 0) this.socket.resume();
    });
  }

  /** Read on until the sender ends, and keep nothing: a connection that is closed with bytes unread loses what was written to it. */
  discard(): void {
    this.#discards = true;
    this.socket.resume();
  }

  /** Where the next read goes. */
  #room(): Uint8Array {
    const first = this.#discards ? undefined : this.#wanted[0];
    return first && first.into.length - first.at >= DIRECT ? first.into.subarray(first.at) : this.#staging;
  }

  /** @returns whether to read on */
  #arrived(bytes: number, buffer: Uint8Array): boolean {
    if (this.#discards) return true;
    if (buffer.buffer === this.#staging.buffer) {
      this.#early = this.#staging.subarray(0, bytes);
      this.#serve();
    } else {
      this.#advance(bytes);
    }
    return this.#early.length === 0;
  }

  #serve(): void {
    for (let first = this.#wanted[0]; first && this.#early.length > 0; first = this.#wanted[0]) {
      const bytes = Math.min(this.#early.length, first.into.length - first.at);
      first.into.set(this.#early.subarray(0, bytes), first.at);
      this.#early = this.#early.subarray(bytes);
      this.#advance(bytes);
    }
  }

  #advance(bytes: number): void {
    const first = this.#wanted[0]!;
    first.at += bytes;
    while (this.#wanted[0] && this.#wanted[0].at === this.#wanted[0].into.length)
      this.#wanted.shift()!.done();
  }
}
