/**
 * What the service and its workers say to each other over a socket: frames of 8 bytes with two lengths, a JSON text of the
 * first, and bytes of the second.
 */
import type { Socket } from 'node:net';
import type { ModelSpec } from '../protocol/model-spec.js';

/** Bytes of the two lengths: u32, little-endian. */
const PREFIX = 8;

/** Says what a worker is to do: compute the outputs, or with a target the evidence for this class. */
export interface WorkerRequest {
  readonly rows: number;
  readonly shapes: readonly (readonly number[])[];
  readonly target?: number;
}

/** Says what a worker has to say: that its model is open, the result of a request, or why there is none. */
export type WorkerReply =
  | { readonly kind: 'ready'; readonly spec: ModelSpec }
  | {
      readonly kind: 'outputs';
      readonly shapes: readonly (readonly number[])[];
      readonly lengths: readonly number[];
      /** Of an explanation: the layer whose maps were looked at. */
      readonly layer?: string;
    }
  | { readonly kind: 'error'; readonly message: string; readonly isClients: boolean };

/** Send a frame: its parts go to the socket as they are. */
export function sendFrame(
  socket: Socket,
  head: WorkerRequest | WorkerReply,
  parts: readonly Uint8Array[],
): void {
  const json = JSON.stringify(head);
  const size = Buffer.byteLength(json);
  // Spaces, so that the bytes behind it are aligned as typed arrays of any dtype want them.
  const headLength = size + ((8 - (size % 8)) % 8);
  const start = Buffer.allocUnsafe(PREFIX + headLength);
  start.writeUInt32LE(headLength, 0);
  start.writeUInt32LE(
    parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
    4,
  );
  start.write(json.padEnd(json.length + headLength - size), PREFIX);
  socket.cork();
  socket.write(start);
  for (const part of parts) socket.write(part);
  socket.uncork();
}

/** Puts frames together again from the pieces that come from a socket: each is copied once, to its place in its frame. */
export class FrameReader<Head> {
  readonly #onFrame: (head: Head, body: Uint8Array) => void;
  readonly #prefix = Buffer.alloc(PREFIX);
  /** What is being filled, and how much of it is there: the prefix, then what it says is behind it. */
  #into: Buffer = this.#prefix;
  #at = 0;

  constructor(onFrame: (head: Head, body: Uint8Array) => void) {
    this.#onFrame = onFrame;
  }

  push(piece: Uint8Array): void {
    for (let from = 0; from < piece.length; ) {
      const count = Math.min(this.#into.length - this.#at, piece.length - from);
      this.#into.set(piece.subarray(from, from + count), this.#at);
      from += count;
      this.#at += count;
      if (this.#at === this.#into.length) this.#filled();
    }
  }

  #filled(): void {
    const headLength = this.#prefix.readUInt32LE(0);
    this.#at = 0;
    if (this.#into === this.#prefix) {
      // Memory of its own, which is aligned.
      this.#into = Buffer.allocUnsafeSlow(headLength + this.#prefix.readUInt32LE(4));
      return;
    }
    const frame = this.#into;
    this.#into = this.#prefix;
    this.#onFrame(JSON.parse(frame.toString('utf8', 0, headLength)) as Head, frame.subarray(headLength));
  }
}
