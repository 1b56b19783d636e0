import type { Precision } from '../../core/precision.js';

/** What attention computes, apart from its sources. */
export interface AttentionArg {
  /** Whether query i attends to keys 0 … i only, beside what the mask says. */
  readonly isCausal: boolean;
  /** The factor of the products. */
  readonly scale: number;
  /** Of products of f32. */
  readonly precision: Precision;
}
