/**
 * Products of matrices that the copy engine does not take as they lie, such as the logits of GPT-2's 50,257 tokens: their rows do not
 * begin at multiples of 16 bytes (graph/rows.ts). Warpgroups multiply them where their rows are in wider matrices.
 */
import { type DType, f32, isHalf } from '../../core/dtype.js';
import type { Precision } from '../../core/precision.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import {
  asStored,
  firstColumns,
  inAlignedRows,
  isAligned,
  isTransposed,
  missing,
  pitchOf,
  withZeros,
} from '../../graph/rows.js';
import type { Target } from '../../kernel/ir/target.js';
import { FEW, SLIM } from './choose-cuda.js';
import { WARPGROUPS } from './warpgroup-tiles.js';

/**
 * Operations per microsecond by warps and by warpgroups, of large products on an H200 (2026-11-30): 8192 × 768 × 10,003 in f32 and tf32,
 * 8192 × 768 × 30,522 in bf16.
 */
const RATES = {
  f32: { warps: 52e6, warpgroups: 117e6 },
  tf32: { warps: 120e6, warpgroups: 340e6 },
  halves: { warps: 300e6, warpgroups: 680e6 },
} as const;

/** By warps, where rows do not begin at multiples of 4 bytes: 8192 × 768 × 50,257 in bf16. */
const UNALIGNED_HALVES = 80e6;

/** Undefined for what warpgroups do not multiply. */
function ratesOf(dtype: DType, precision: Precision): (typeof RATES)[keyof typeof RATES] | undefined {
  if (isHalf(dtype)) return RATES.halves;
  return dtype === f32 && precision !== 'bf16' ? RATES[precision] : undefined;
}

/** Microseconds to copy a matrix: to begin, and for a byte. */
const COPY = { start: 3, byte: 1 / 1.5e6 } as const;

/** Whether a matrix that is in memory anyway is copied: others are stored in the wider one when they are made. */
const isCopied = (x: GraphNode): boolean =>
  x.isLeaf || x.op === 'call' || ((x.op === 'reshape' || x.op === 'detach') && isCopied(x.src[0]!));

/** (…, K, N) with columns of zeros, until rows of so many columns are aligned. */
function withColumns(y: GraphNode): GraphNode {
  const more = missing(y.shape.at(-1)!, y.dtype);
  return isTransposed(y) ? b.transpose(withZeros(asStored(y), more, 0)) : withZeros(y, 0, more);
}

/** What warpgroups multiply instead, if that takes less time with the copies than by warps. */
function alignedSources(
  [x, y]: readonly GraphNode[],
  precision: Precision,
  { model, capability }: Target,
): readonly [GraphNode, GraphNode] | undefined {
  const { dtype } = x!;
  const rates = ratesOf(dtype, precision);
  if (model !== 'threads' || capability !== WARPGROUPS || !rates) return undefined;
  const [M, N] = [x!.shape.at(-2)!, y!.shape.at(-1)!];
  const operations = 2 * x!.size * N;
  // What repeats one matrix is not copied for each batch.
  if (Math.min(M, N) < SLIM || operations < FEW || [x!, y!].some(({ op }) => op === 'expand'))
    return undefined;
  const sources = [x!, missing(N, dtype) === 0 ? y! : withColumns(y!)].map(inAlignedRows);
  const copied = [x!, y!].filter((given, i) => given !== sources[i]);
  if (copied.length === 0) return undefined;
  const byWarps = [pitchOf(x!), pitchOf(y!), N].some((n) => (n * dtype.bytes) % 4 !== 0)
    ? UNALIGNED_HALVES
    : rates.warps;
  const bytesOf = (x: GraphNode): number => (isCopied(asStored(x)) ? x.size * dtype.bytes : 0);
  const copying = copied.reduce((us, x) => us + COPY.start + COPY.byte * bytesOf(x), 0);
  return operations / byWarps - operations / rates.warpgroups < copying
    ? undefined
    : (sources as [GraphNode, GraphNode]);
}

/** @param product makes one of these sources */
export function alignedProduct(
  src: readonly GraphNode[],
  precision: Precision,
  target: Target,
  product: (x: GraphNode, y: GraphNode) => GraphNode,
): GraphNode | undefined {
  const sources = alignedSources(src, precision, target);
  return sources && firstColumns(product(...sources), src[1]!.shape.at(-1)!);
}

/** The matrices, as they lie, that such a product reads from wider ones. */
export const unalignedSources = (
  src: readonly GraphNode[],
  precision: Precision,
  target: Target,
): readonly GraphNode[] =>
  alignedSources(src, precision, target) ? src.filter((x) => !isAligned(x)).map(asStored) : [];
