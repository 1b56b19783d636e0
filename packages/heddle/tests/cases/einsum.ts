/** Sums of products by named dimensions. */
import { bf16, f64, i32 } from '../../src/core/dtype.js';
import { einsum } from '../../src/index.js';
import { get, make, type NdArray } from '../ndarray.js';
import type { Case, Input } from './case.js';

/** By enumeration of all that the letters may be; without dots. */
function reference(equation: string, arrays: readonly NdArray[]): NdArray {
  const [left, output] = equation.split('->') as [string, string];
  const terms = left.split(',');
  const sizes: Record<string, number> = {};
  terms.forEach((term, i) => {
    [...term].forEach((l, d) => {
      sizes[l] = Math.max(sizes[l] ?? 1, arrays[i]!.shape[d]!) * Math.min(1, arrays[i]!.shape[d]!);
    });
  });
  const inner = Object.keys(sizes).filter((l) => !output.includes(l));
  const sum = (at: Readonly<Record<string, number>>, depth: number): number => {
    const label = inner[depth];
    if (label === undefined)
      return terms.reduce((product, term, i) => {
        const { shape } = arrays[i]!;
        return (
          product *
          get(
            arrays[i]!,
            [...term].map((l, d) => (shape[d] === 1 ? 0 : at[l]!)),
          )
        );
      }, 1);
    let total = 0;
    for (let v = 0; v < sizes[label]!; v++) total += sum({ ...at, [label]: v }, depth + 1);
    return total;
  };
  const letters = [...output];
  return make(
    letters.map((l) => sizes[l]!),
    (at) => sum(Object.fromEntries(letters.map((l, d) => [l, at[d]!])), 0),
  );
}

const of = (
  equation: string,
  shapes: readonly (readonly number[])[],
  input: Partial<Input> = {},
  tolerance: Pick<Case, 'relative' | 'absolute'> = {},
): Case => ({
  op: 'einsum',
  inputs: shapes.map((shape) => ({ ...input, shape })),
  run: (...tensors) => einsum(equation, tensors),
  reference: (...arrays) => reference(equation, arrays),
  ...tolerance,
});

export const EINSUM: readonly Case[] = [
  of('bij,bjk->bki', [
    [2, 3, 4],
    [2, 4, 5],
  ]),
  of('ij,j,kj->ik', [[3, 4], [4], [2, 4]]),
  of('iji,k->jk', [[3, 2, 3], [5]]),
  of('ab,bc->ac', [
    [3, 1],
    [4, 2],
  ]),
  of('ij,jk->ik', [
    [2, 0],
    [0, 3],
  ]),
  of('ij,ij->i', [
    [0, 3],
    [0, 3],
  ]),
  of(
    'ij,kj->ki',
    [
      [3, 4],
      [2, 4],
    ],
    { dtype: i32, low: -9, high: 9 },
  ),
  of(
    'ij,jk->k',
    [
      [3, 4],
      [4, 2],
    ],
    { dtype: f64 },
  ),
  of(
    'ij,jk->ik',
    [
      [3, 4],
      [4, 2],
    ],
    { dtype: bf16 },
    { relative: 2 ** -7, absolute: 2 ** -7 },
  ),
];
