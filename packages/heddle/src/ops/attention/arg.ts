import type { Precision } from '../../core/precision.js';
import type { AttentionDropout } from './dropout.js';

/** What attention computes, apart from its sources. */
export interface AttentionArg {
  /** Whether query i attends to keys 0 … i only, beside what the mask says. */
  readonly isCausal: boolean;
  /** The factor of the products. */
  readonly scale: number;
  /** Of products of f32. */
  readonly precision: Precision;
  /** Default: none. */
  readonly dropout?: AttentionDropout | undefined;
}

/** The sources that are not always there. */
export interface OptionalSources<T> {
  readonly mask: T | undefined;
  /** Of the generator that dropout draws from. */
  readonly counter: T | undefined;
}

/** They are the last ones, in this order. */
export function optionalSources<T>(last: readonly T[], { dropout }: AttentionArg): OptionalSources<T> {
  const hasMask = last.length > (dropout ? 1 : 0);
  return { mask: hasMask ? last[0] : undefined, counter: dropout && last.at(-1) };
}
