/** What the main thread and the thread that exchanges bytes tell each other. */
import type { MessagePort } from 'node:worker_threads';
import type { CollectiveCall } from '../call.js';

/** Where a rank listens, as it tells the others. */
export interface TcpAddress {
  /** Its machine's name: ranks of the same machine reach each other by the loopback interface. */
  readonly machine: string;
  /** Addresses of its machine, to be tried in this order. */
  readonly hosts: readonly string[];
  readonly port: number;
  /** Whoever connects must know it. */
  readonly token: string;
}

export interface TcpWorkerData {
  readonly rank: number;
  readonly worldSize: number;
  readonly host: string | undefined;
  readonly port: MessagePort;
  /** One word: how many answers there have been. The main thread waits for the next. */
  readonly answers: Int32Array<SharedArrayBuffer>;
}

/** Each order gets one answer, in the same order. */
export type TcpOrder =
  | { readonly order: 'listen' }
  /** @param timeout in ms */
  | { readonly order: 'connect'; readonly addresses: readonly TcpAddress[]; readonly timeout: number }
  /** Its memory must be shared. */
  | { readonly order: 'call'; readonly call: CollectiveCall }
  /** Take leave of the others. */
  | { readonly order: 'leave' };

/** An error's text, or where this rank listens. */
export interface TcpAnswer {
  readonly error?: string;
  readonly address?: TcpAddress;
}
