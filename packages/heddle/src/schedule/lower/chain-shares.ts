/** How the threads of a block share out a row of a chain (chain.ts). */
import type { Lanes } from '../../kernel/ir/types.js';
import type { RowLink } from '../group.js';
import { powerOfTwo } from './lowering.js';

/** Threads of a block at most: each warp takes its time to start. */
const MOST_THREADS = 512;
/** Terms of a sum of which a thread takes at least so many, where neighbouring sums lie side by side in memory. */
const LEAST_TERMS = 8;

/** Lanes of a thread along the terms of a sum, or along the sums; and the threads that share a sum. */
export interface ProductShares {
  readonly lanes: Lanes;
  readonly team: number;
}

/** @param inner sizes of the innermost loops along the sums and the terms */
export function sharesOf(
  { columns, terms }: { readonly columns: number; readonly terms: number },
  inner: { readonly columns: number; readonly terms: number },
  alongTerms: boolean,
  threads: number,
): ProductShares {
  const fits = (size: number): Lanes => (size % 4 === 0 ? 4 : size % 2 === 0 ? 2 : 1);
  const teamFor = (parts: number): number => {
    let team = 1;
    while (team < 32 && columns * team * 2 <= threads && team * 2 <= powerOfTwo(parts)) team *= 2;
    return team;
  };
  if (alongTerms) {
    const lanes = fits(inner.terms);
    return { lanes, team: teamFor(terms / lanes) };
  }
  const wide = fits(inner.columns);
  const lanes = columns / wide >= threads ? wide : 1;
  return { lanes, team: lanes > 1 ? 1 : teamFor(Math.floor(terms / LEAST_TERMS)) };
}

/** Threads of a block: as many as the product with the most work has use for, in whole warps. */
export function chainThreads(links: readonly RowLink[], rows: number): number {
  const useful = links.flatMap(({ product }) => {
    if (!product) return [];
    const columns = product.sum.size / rows;
    const terms = product.sum.src[0]!.size / product.sum.size;
    return [columns * Math.min(32, powerOfTwo(terms / LEAST_TERMS))];
  });
  return Math.min(MOST_THREADS, Math.ceil(Math.max(32, ...useful) / 32) * 32);
}
