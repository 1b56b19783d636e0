/** How long products by warpgroups take, in cycles of an H200: a part of the model in machine.ts that browsers do without. */

/**
 * Fitted to 4,663 timings of 484 products and convolutions of 14 training steps in bf16 and tf32 (H200, 2026-11-29): the first guess takes
 * 3.4 % longer than the best, as a mean.
 */
export const WARPGROUP_TIMES = {
  /** Multiply-adds of a multiprocessor per cycle, times the bytes of an operand; and what share of it lasts. */
  rate: 4096,
  sustained: 0.84,
  /** For the copy engine to bring a row of 128 bytes of an operand while those of all multiprocessors do: others need the same of B. */
  row: { a: 2.75, b: 2.16 },
  /** For threads to turn a column of a stage. */
  turned: 5.2,
  /** For a tile of C after its products, for a byte that it stores, and for one that the epilogue takes beside: brought, or read. */
  tile: 1480,
  store: 0.044,
  beside: { brought: 0.018, read: 0.175 },
  /** For an instruction of the epilogue, and for each sum of columns that an element is added to. */
  instruction: 0.0125,
  sum: 0.0058,
  /** By turns: how much longer the products of a tile take, and how many times as fast these and what follows them are together. */
  byTurns: { product: 1.06, overlap: 1.31 },
  /** Bytes of operands and results that memory and its cache move for a multiprocessor per cycle, and of those that another kernel reads. */
  memory: 26,
  again: 23.5,
} as const;
