/**
 * What the service and its workers say to each other over a socket: frames of 8 bytes with two lengths, a JSON text of the
 * first, and bytes of the second.
 */
import type { Socket } from 'node:net';
import type { ModelSpec } from '../protocol/model-spec.js';

/** Bytes of the two lengths: u32, little-endian. */
const PREFIX = 8;

/** Says what a worker is to do. */
export type WorkerRequest =
  | {
      readonly kind: 'run';
      readonly rows: number;
      readonly shapes: readonly (readonly number[])[];
    }
  | { readonly kind: 'explain'; readonly shape: readonly number[]; readonly target: number };

/** Says what a worker has to say: that its model is open, the result of a request, or why there is none. */
export type WorkerReply =
  | { readonly kind: 'ready'; readonly spec: ModelSpec }
  | {
      readonly kind: 'outputs';
      readonly shapes: readonly (readonly number[])[];
      readonly lengths: readonly number[];
    }
  | {
      readonly kind: 'explanation';
      readonly height: number;
      readonly width: number;
      readonly target: number;
      readonly layer: string;
    }
  | { readonly kind: 'error'; readonly message: string; readonly isClients: boolean };

/** Send a frame: its parts are copied once, into the buffer that goes to the socket. */
export function sendFrame(
  socket: Socket,
  head: WorkerRequest | WorkerReply,
  parts: readonly Uint8Array[],
): void {
  const json = JSON.stringify(head);
  const size = Buffer.byteLength(json);
  // Spaces, so that the bytes behind it are aligned as typed arrays of any dtype want them.
  const headLength = size + ((8 - (size % 8)) % 8);
  const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const frame = Buffer.allocUnsafe(PREFIX + headLength + length);
  frame.writeUInt32LE(headLength, 0);
  frame.writeUInt32LE(length, 4);
  frame.write(json.padEnd(json.length + headLength - size), PREFIX);
  let at = PREFIX + headLength;
  for (const part of parts) {
    frame.set(part, at);
    at += part.byteLength;
  }
  socket.write(frame);
}

/** Puts frames together again from the pieces in which a socket hands them on. */
export class FrameReader<Head> {
  readonly #onFrame: (head: Head, body: Uint8Array) => void;
  #pieces: Buffer[] = [];
  #length = 0;
  #needed = PREFIX;

  constructor(onFrame: (head: Head, body: Uint8Array) => void) {
    this.#onFrame = onFrame;
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
    while (this.#length >= this.#needed) {
      const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces, this.#length);
      const headLength = all.readUInt32LE(0);
      const end = PREFIX + headLength + all.readUInt32LE(4);
      this.#needed = end;
      if (all.length < end) {
        this.#pieces = [all];
        return;
      }
      const head = JSON.parse(all.toString('utf8', PREFIX, PREFIX + headLength)) as Head;
      const rest = all.subarray(end);
      this.#pieces = rest.length > 0 ? [rest] : [];
      this.#length = rest.length;
      this.#needed = PREFIX;
      this.#onFrame(head, all.subarray(PREFIX + headLength, end));
    }
  }
}
