/** How long matrix products by warpgroups take, in cycles of an H200: the part of machine.ts's model that browsers do without. */

/**
 * Fitted to 4,663 timings of 484 products and convolutions, in 14 training steps in bf16 and tf32 (H200, 2026-11-29). On average, the tile
 * that the model ranks first takes 3.4 % longer than the fastest one.
 */
export const WARPGROUP_TIMES = {
  /** Peak rate of a multiprocessor: multiply-adds per cycle, times the bytes of an operand. */
  rate: 4096,
  /** Share of the peak rate that long products reach. */
  sustained: 0.84,
  /** Cycles in which the copy engine loads a row of 128 bytes of A or B, while all multiprocessors load. Blocks share rows of B. */
  row: { a: 2.75, b: 2.16 },
  /** Cycles in which threads transpose one column of a stage. */
  turned: 5.2,
  /** Fixed cycles of a tile's epilogue. */
  tile: 1480,
  /** Cycles for each byte that the epilogue stores. */
  store: 0.044,
  /** Cycles for each byte of another matrix that the epilogue uses: loaded ahead by the copy engine, or by the threads themselves. */
  beside: { brought: 0.018, read: 0.175 },
  /** Cycles for each instruction of the epilogue, per element. */
  instruction: 0.0125,
  /** Cycles for each column sum that the epilogue computes, per element. */
  sum: 0.0058,
  /**
   * Two warpgroups that take turns, so that one runs its epilogue while the other multiplies: their products take `product` times as long,
   * and products and epilogues together 1 / `overlap` of their sum.
   */
  byTurns: { product: 1.06, overlap: 1.31 },
  /** Bytes of operands and results that a multiprocessor moves per cycle, from and to the cache and memory. */
  memory: 26,
  /** Bytes per cycle and multiprocessor that one kernel stores and the next one reads. */
  again: 23.5,
} as const;
