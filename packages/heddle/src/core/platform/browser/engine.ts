/** A browser's JavaScript engine: it has no flags, and collects garbage when it wants to. */
import type * as node from '../node/engine.js';
import { mayShare, mayWait } from './scope.js';

export const optimizeWasm: typeof node.optimizeWasm = () => {};

export const allowRelaxedSimd: typeof node.allowRelaxedSimd = () => {};

export const collectGarbage: typeof node.collectGarbage = () => {};

type Channel = InstanceType<typeof MessageChannel>;
let channel: Channel | undefined;
const waiting: (() => void)[] = [];

function channelOfTurns(): Channel {
  const made = new MessageChannel();
  (made.port1 as unknown as { onmessage: () => void }).onmessage = () => waiting.shift()?.();
  return made;
}

/** By a message: timers are held up to some milliseconds. */
export const turn: typeof node.turn = () =>
  new Promise((resolve) => {
    channel ??= channelOfTurns();
    waiting.push(resolve);
    channel.port2.postMessage(undefined);
  });

const concurrency = (): number =>
  (globalThis as unknown as { readonly navigator: { readonly hardwareConcurrency: number } }).navigator
    .hardwareConcurrency;

/**
 * Threads need memory that they share, which a page has that is cross-origin isolated; and the one that starts a program
 * waits for the others, which a page's main thread may not.
 */
export const parallelism: typeof node.parallelism = () => (mayShare() && mayWait() ? concurrency() : 1);

export const processorModel: typeof node.processorModel = () => 'browser';
