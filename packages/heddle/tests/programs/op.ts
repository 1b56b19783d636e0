/** What a row of the table of ops is. */
import type { DTypeName } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import type { Entries, Tape } from './tape.js';

/** What is in the values of an input. */
export type Kind = 'any' | 'positive' | 'unit' | 'whole' | 'special' | 'bits' | { readonly below: number };

/** What the generator has so far, and its dice. */
export interface Picker {
  below(n: number): number;
  chance(share: number): boolean;
  one<T>(list: readonly T[]): T;
  /** A value made so far, by its number; undefined if none suits. */
  value(suits?: (shape: readonly number[], dtype: DTypeName) => boolean): number | undefined;
  /** A value of floats. */
  floats(suits?: (shape: readonly number[]) => boolean): number | undefined;
  shape(value: number): readonly number[];
  dtype(value: number): DTypeName;
  /** A value of this shape and dtype: one that there is, or a new input. */
  fitting(shape: readonly number[], dtype: DTypeName, kind?: Kind): number;
  /** A new input, which no gradient is asked for. */
  constant(shape: readonly number[], dtype: DTypeName, kind: Kind): number;
}

export interface Choice<A> {
  readonly src: readonly number[];
  readonly arg: A;
}

export interface Op<A> {
  /** Legal operands and arguments; undefined if there are none among the values so far. */
  readonly choose: (p: Picker) => Choice<A> | undefined;
  readonly run: (t: readonly Tensor[], arg: A) => Tensor;
  readonly exact: (tape: Tape, x: readonly Entries[], arg: A) => Entries;
}

/** A row of the table: only its own functions know what its argument is. */
export const op = <A>(row: Op<A>): Op<unknown> => row as unknown as Op<unknown>;

/** New entries, one for each of those of x. */
export const each = (
  x: Entries,
  f: (id: number, i: number) => number,
  dtype: DTypeName = x.dtype,
): Entries => ({
  shape: x.shape,
  dtype,
  data: x.data.map(f),
});

/** Numbers to multiply, add… with: few digits, some not representable. */
export const constantFor = (p: Picker): number => p.one([0.5, 2, -1, 0.1, 3, 1.5, -0.3, 1, 0.7]);
