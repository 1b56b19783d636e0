/** What a warpgroup multiplies: the elements of an operand in a tile, or in registers. */
import { type DType, type DTypeName, viewAs } from '../../core/dtype.js';
import { fromBf16, fromF16 } from '../../core/float16.js';
import { WGMMA_ROWS, WGMMA_WORDS, wgmmaDepth, wordAt } from '../../kernel/ir/asynchronous.js';
import { cutToTf32 } from '../../kernel/ir/tensor-core.js';
import type { ClockedMemory } from './clocked-memory.js';
import type { Actor } from './clocks.js';
import type { At, SumsMemory } from './memory.js';
import type { Run } from './run.js';

const MULTIPLIED: Readonly<Partial<Record<DTypeName, (stored: number) => number>>> = {
  ...{ bf16: fromBf16, f16: fromF16, f32: cutToTf32 },
};

/** The number that tensor cores take for an element, as it is stored. */
const multiplied = ({ name }: DType, stored: number): number => MULTIPLIED[name]?.(stored) ?? stored;

/** A sum, and after it the products of a row of the left operand with a column of the right one. */
export function sumWith(
  sum: number,
  left: Float64Array,
  row: number,
  right: Float64Array,
  column: number,
  depth: number,
): number {
  let all = sum;
  for (let k = 0; k < depth; k++) all += left[row + k]! * right[column + k]!;
  return all;
}

/** The elements of a left operand in registers, as (row of the product, k). @param threads the words of each */
export function heldOperand(threads: readonly At<SumsMemory>[], dtype: DType): Float64Array {
  const depth = wgmmaDepth(dtype.bytes);
  const perWord = 4 / dtype.bytes;
  const out = new Float64Array(WGMMA_ROWS * depth);
  threads.forEach(([own, indices], thread) => {
    const base = indices.reduce((sum, index, d) => sum * own.decl.dims[d]! + index, 0) * WGMMA_WORDS;
    const { buffer, byteOffset } = (own.data as Uint32Array).slice(base, base + WGMMA_WORDS);
    const elements = viewAs(dtype, buffer, byteOffset, WGMMA_WORDS * perWord);
    for (let i = 0; i < WGMMA_WORDS; i++) {
      const [row, byte] = wordAt(thread, i);
      for (let j = 0; j < perWord; j++)
        out[row * depth + byte / dtype.bytes + j] = multiplied(dtype, elements[i * perWord + j] as number);
    }
  });
  return out;
}

/** The elements of an operand, as (row or column of the product, k). */
export function tileOperand(
  run: Run,
  actor: Actor,
  [tile, indices]: At<ClockedMemory>,
  along: number,
  depth: number,
  transposed: boolean,
): Float64Array {
  const { dims, dtype, name } = tile.decl;
  const rank = dims.length;
  const [rows, row] = [dims[rank - 2]!, dims[rank - 1]!];
  const out = new Float64Array(along * depth);
  const outside = (): never =>
    run.fail(
      'out-of-bounds',
      `wgmma reads ${along} × ${depth} elements from ${name}[${indices.join('][')}] on, beyond its sizes (${dims.join(',')}).`,
      actor.site,
    );
  const [i, j] = [indices[rank - 2]!, indices[rank - 1]!];
  if (i % 8 !== 0 || (transposed ? j % row !== 0 : (j * dtype.bytes) % 32 !== 0))
    run.fail(
      'misaligned',
      `wgmma: ${name}[${indices.join('][')}]: an operand begins at a multiple of 8 rows and ` +
        `${transposed ? 'with a panel' : 'of 32 bytes of them'}.`,
      actor.site,
    );
  /** Where a panel of the tile begins. */
  const startOf = (panel: number): number => {
    const lead = indices.slice(0, rank - 2);
    if (panel > 0) {
      if (rank < 3 || lead[rank - 3]! + panel >= dims[rank - 3]!) outside();
      lead[rank - 3]! += panel;
    }
    return lead.reduce((sum, index, d) => sum * dims[d]! + tile.dim(index, d, actor.site), 0) * rows * row;
  };
  for (let r = 0; r < along; r++) {
    // Transposed: panels of `row` columns of the product, each of (k, column).
    const start = startOf(transposed ? Math.floor((j + r) / row) : 0);
    for (let k = 0; k < depth; k++) {
      const y = transposed ? i + k : i + r;
      const x = transposed ? (j + r) % row : j + k;
      if (y >= rows || x >= row) outside();
      const element = start + tile.dim(y, rank - 2, actor.site) * row + tile.dim(x, rank - 1, actor.site);
      tile.readBy(actor, element);
      out[r * depth + k] = multiplied(dtype, tile.data[element] as number);
    }
  }
  return out;
}
