/** What a row of the case list is, and how its inputs are made. */
import { type DType, f32 } from '../../src/core/dtype.js';
import { PhiloxStream } from '../../src/core/philox.js';
import type { AnyTensor, Tensor } from '../../src/tensor/tensor.js';
import { count, type NdArray } from '../ndarray.js';

export interface Input {
  readonly shape: readonly number[];
  /** Default f32. */
  readonly dtype?: DType;
  /** Floats are spread over [low, high] (default −2 … 2), no two alike; integers are drawn from it, both included. */
  readonly low?: number;
  readonly high?: number;
  /** The values themselves. */
  readonly values?: readonly number[];
}

export interface Case {
  /** Rows of one op are one test. */
  readonly op: string;
  readonly inputs: readonly Input[];
  readonly run: (...inputs: Tensor[]) => AnyTensor;
  /** What it should be, from the same inputs in f64. */
  readonly reference: (...inputs: NdArray[]) => NdArray;
  /** Of the expected number (default 1e-5) and absolute (default 1e-6). Integers and bools are always exact. */
  readonly relative?: number;
  readonly absolute?: number;
  /** Why there is no gradient check, or its tolerance. Cases whose inputs or result are not floats have none. */
  readonly gradient?: { readonly skip: string } | { readonly tolerance: number };
  /** Devices that do not run it, and why. */
  readonly skip?: Readonly<Record<string, string>>;
}

/** A case with one input. */
export const one = (
  op: string,
  shape: readonly number[],
  run: (x: Tensor) => AnyTensor,
  reference: (x: NdArray) => NdArray,
  input: Omit<Input, 'shape'> = {},
): Case => ({ op, inputs: [{ shape, ...input }], run, reference });

/** Values for an input: the same for the same place in the list. Floats are distinct and exact in f32. */
export function valuesFor(input: Input, seed: number): NdArray {
  const { shape, dtype = f32, low = -2, high = 2, values } = input;
  if (values) return { shape, data: values };
  const random = new PhiloxStream(seed);
  const n = count(shape);
  if (dtype.kind !== 'float') {
    const [from, to] = dtype.kind === 'bool' ? [0, 1] : [Math.ceil(low), Math.floor(high)];
    return { shape, data: Array.from({ length: n }, () => from + random.below(to - from + 1)) };
  }
  const places = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [places[i], places[j]] = [places[j]!, places[i]!];
  }
  // The middles of n equal parts, each moved by up to a fifth of a part
  const data = places.map((p) =>
    Math.fround(low + ((high - low) * (p + 0.5 + 0.4 * (random.uniform() - 0.5))) / n),
  );
  return { shape, data };
}

/** The shapes every elementwise op meets: odd, one element, scalar, empty, and long enough for vectors and a tail. */
export const SHAPES: readonly (readonly number[])[] = [[2, 3], [1], [], [0, 3], [3, 1, 7], [19]];
