/** How the values of a reduction are cut into blocks, which are exchanged and reduced one after the other. */
import { DTYPES } from '../core/dtype.js';
import type { CollectiveCall } from './call.js';

/** A range of bytes. */
export interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

export interface ReductionBlock {
  /** The parts of `from` that each rank reduces. */
  readonly parts: readonly ByteRange[];
  /** Where this rank's result stands in `to`. */
  readonly result: ByteRange;
}

/**
 * The blocks of an `allReduce` (which follow each other, and are divided evenly among the ranks) or a `reduceScatter` (which
 * have a part of each rank's share).
 * @param partBytes the most bytes of a part, a multiple of 8
 */
export function blocksOf(
  { kind, ranks, index, dtype, from }: CollectiveCall,
  partBytes: number,
): ReductionBlock[] {
  const n = ranks.length;
  const { bytes } = DTYPES[dtype];
  const blocks: ReductionBlock[] = [];
  if (kind === 'allReduce') {
    for (let begin = 0; begin < from.length; begin += n * partBytes) {
      const elements = Math.min(from.length - begin, n * partBytes) / bytes;
      const edge = (i: number): number => begin + bytes * Math.floor((elements * i) / n);
      const parts = ranks.map((_, i) => ({ begin: edge(i), end: edge(i + 1) }));
      blocks.push({ parts, result: parts[index]! });
    }
  } else {
    const share = from.length / n;
    for (let begin = 0; begin < share; begin += partBytes) {
      const end = Math.min(begin + partBytes, share);
      const parts = ranks.map((_, i) => ({ begin: i * share + begin, end: i * share + end }));
      blocks.push({ parts, result: { begin, end } });
    }
  }
  return blocks;
}

/** The pieces of a range of that many bytes. */
export function piecesOf(length: number, pieceBytes: number): ByteRange[] {
  const pieces: ByteRange[] = [];
  for (let begin = 0; begin < length; begin += pieceBytes)
    pieces.push({ begin, end: Math.min(begin + pieceBytes, length) });
  return pieces;
}

export const cut = (bytes: Uint8Array, { begin, end }: ByteRange): Uint8Array => bytes.subarray(begin, end);
