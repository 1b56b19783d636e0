/** What processes tell rank 0, and it them. A message is a JSON text behind its length. */

/** A process that takes part. */
export interface WorldMember {
  readonly rank: number;
  readonly host: string;
  readonly pid: number;
}

export const named = ({ rank, host, pid }: WorldMember): string => `rank ${rank} (pid ${pid} on ${host})`;

/** `rank 1`, or `ranks 0, 2`. */
export const ranks = (all: readonly number[]): string =>
  `${all.length === 1 ? 'rank' : 'ranks'} ${all.join(', ')}`;

/** The first message of a process. */
export interface Hello extends WorldMember {
  readonly kind: 'hello';
  readonly job: string;
  readonly restart: number;
  readonly worldSize: number;
  /** Of Heddle, with its build. */
  readonly version: string;
}

/** What a process asks rank 0; the answer has the same id. Times are in ms. */
export type ControlRequest =
  | { readonly kind: 'set'; readonly id: number; readonly key: string; readonly value: string }
  | { readonly kind: 'get'; readonly id: number; readonly key: string; readonly timeoutMs: number }
  | { readonly kind: 'barrier'; readonly id: number; readonly timeoutMs: number };

export interface ControlAnswer {
  readonly kind: 'answer';
  readonly id: number;
  readonly value?: string;
  readonly error?: string;
}

export type ToServer =
  | Hello
  | ControlRequest
  /** It is about to end, and why. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** It ends in order. */
  | { readonly kind: 'bye' }
  /** The headers of collectives that it has begun. */
  | { readonly kind: 'calls'; readonly headers: readonly (readonly number[])[] }
  | { readonly kind: 'alive' };

export type ToMember =
  /** It has been let in; others are still missing. */
  | { readonly kind: 'waiting'; readonly host: WorldMember }
  /** `isEarly`: rank 0 that it looks for is about to start. */
  | { readonly kind: 'refused'; readonly reason: string; readonly isEarly?: boolean }
  | { readonly kind: 'formed'; readonly members: readonly WorldMember[] }
  | ControlAnswer
  /** The others know that this process has failed, or that it ends. */
  | { readonly kind: 'noted' }
  /** Ranks make calls that do not fit together. */
  | { readonly kind: 'different'; readonly reason: string }
  /** A rank is gone without having said good-bye. */
  | { readonly kind: 'lost'; readonly rank: number; readonly reason: string }
  /** A rank has ended in order. */
  | { readonly kind: 'left'; readonly rank: number }
  | { readonly kind: 'alive' };

/** What comes first on a connection, from both sides: the name of the protocol and its version. */
export const MAGIC = Buffer.from('heddle/1', 'latin1');
const NAME_BYTES = 7;

/** Values are addresses, ids and states of loaders. */
export const MOST_BYTES = 2 ** 26;

export function frameOf(message: ToServer | ToMember): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const frame = Buffer.alloc(4 + text.length);
  frame.writeUInt32BE(text.length);
  text.copy(frame, 4);
  return frame;
}

/** What is received is of no Heddle process, or of one of another protocol. */
export class ForeignBytes extends Error {
  /** Of another version of Heddle. */
  readonly isHeddle: boolean;
  constructor(isHeddle: boolean) {
    super(isHeddle ? 'another version of Heddle' : 'no process of Heddle');
    this.isHeddle = isHeddle;
  }
}

/** Cuts what is received into messages. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);
  #begun = false;

  /** @throws ForeignBytes */
  read(bytes: Buffer): unknown[] {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    if (!this.#begun && !this.#readMagic()) return [];
    const messages: unknown[] = [];
    while (this.#rest.length >= 4) {
      const length = this.#rest.readUInt32BE();
      if (length > MOST_BYTES) throw new ForeignBytes(false);
      if (this.#rest.length < 4 + length) break;
      messages.push(parsed(this.#rest.toString('utf8', 4, 4 + length)));
      this.#rest = this.#rest.subarray(4 + length);
    }
    return messages;
  }

  #readMagic(): boolean {
    const { length } = this.#rest;
    const name = Math.min(length, NAME_BYTES);
    if (!this.#rest.subarray(0, name).equals(MAGIC.subarray(0, name))) throw new ForeignBytes(false);
    if (length < MAGIC.length) return false;
    if (!this.#rest.subarray(0, MAGIC.length).equals(MAGIC)) throw new ForeignBytes(true);
    this.#rest = this.#rest.subarray(MAGIC.length);
    this.#begun = true;
    return true;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ForeignBytes(false);
  }
}

/** Whether a message is a process's first one. What follows it is of the same version, and is not checked. */
export function isHello(message: unknown): message is Hello {
  const hello = message as Partial<Hello> | null;
  return (
    typeof hello === 'object' &&
    hello?.kind === 'hello' &&
    [hello.rank, hello.worldSize, hello.pid, hello.restart].every(Number.isSafeInteger) &&
    [hello.job, hello.version, hello.host].every((text) => typeof text === 'string')
  );
}
