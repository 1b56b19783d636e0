/** What the main thread and the thread of the control tell each other. */
import type { WorldPlace } from '../environment.js';
import type { ControlAnswer, ControlRequest, WorldMember } from './messages.js';

export interface ControlThreadData {
  readonly place: WorldPlace;
  readonly me: WorldMember;
  readonly version: string;
  readonly timeoutMs: number;
  /** Places of SHARED, and behind them one for each rank: 1 if it has ended in order. */
  readonly shared: Int32Array;
  /** Of a `CallLog`. */
  readonly calls: Int32Array;
  /** The file descriptor on which `heddle launch` listens. */
  readonly launcher: number | undefined;
}

/** What the main thread looks at while it is blocked. */
export const SHARED = {
  /** 1: a rank is gone, and this process ends. */
  lost: 0,
  /** 1: the others know that this process ends, or need not know. */
  noted: 1,
  ranks: 2,
} as const;

export type ToControlThread =
  | ControlRequest
  | { readonly kind: 'failed'; readonly reason: string }
  /** Say good-bye at once; the process ends. */
  | { readonly kind: 'leave' }
  /** Say good-bye, and in rank 0 wait for those of the others. */
  | { readonly kind: 'close' };

export type FromControlThread =
  | { readonly kind: 'formed'; readonly members: readonly WorldMember[] }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'lost' }
  | { readonly kind: 'closed' }
  | ControlAnswer;
