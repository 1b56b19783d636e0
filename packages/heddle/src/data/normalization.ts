/** How the numbers of inputs are made comparable. */
import { above, aFinite, isPlainObject, listOf, type Rule } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';

/** Inputs are used as (x − mean) / std. Bytes are first divided by 255. */
export interface Normalization {
  /** Subtracted from each value: one number, or one for each channel, which is the first size of an input. */
  readonly mean: number | readonly number[];
  /** Each value is divided by it, after the subtraction: one number, or one for each channel. */
  readonly std: number | readonly number[];
}

const oneOrEach = (rule: Rule, v: unknown): boolean =>
  rule.holds(v) || (listOf(rule).holds(v) && (v as unknown[]).length > 0);

export const aNormalization: Rule = {
  must: '{ mean, std }, finite numbers, each std greater than 0: one of each, or arrays with one for each channel',
  holds: (v) => {
    if (!isPlainObject(v)) return false;
    const { mean, std, ...rest } = v;
    return oneOrEach(aFinite, mean) && oneOrEach(above(0), std) && Object.keys(rest).length === 0;
  },
};

/**
 * The mean and the standard deviation of each channel, in one entry if all have the same.
 * @throws ArgumentError for arrays of another length than there are channels
 */
export function normalizationOf(
  op: string,
  { mean, std }: Normalization,
  inputShape: Shape,
): readonly { readonly mean: number; readonly std: number }[] {
  if (typeof mean === 'number' && typeof std === 'number') return [{ mean, std }];
  const channels = inputShape[0] ?? 1;
  for (const [name, values] of Object.entries({ mean, std }))
    if (typeof values !== 'number' && values.length !== channels)
      throw new ArgumentError(
        `[${op}] normalize.${name} has ${values.length} numbers, inputs of ${formatShape(inputShape)} have ${channels} channels.`,
      );
  const of = (values: number | readonly number[], i: number): number =>
    typeof values === 'number' ? values : values[i]!;
  return Array.from({ length: channels }, (_, i) => ({ mean: of(mean, i), std: of(std, i) }));
}

/** What bytes become as inputs, f32: a table of 256 for each entry of `normalizationOf`. */
export const byteTable = ({ mean, std }: { readonly mean: number; readonly std: number }): Float32Array =>
  Float32Array.from({ length: 256 }, (_, byte) => (byte / 255 - mean) / std);
