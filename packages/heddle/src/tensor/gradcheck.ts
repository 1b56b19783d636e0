/** Gradients against differences. */

import { above, aFunction, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { f64 } from '../core/dtype.js';
import { ArgumentError, NumericError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import { type AnyTensor, requireTensor, requireTensors } from './checks.js';
import { tensor } from './create.js';
import { realize } from './modes.js';
import type { Tensor } from './tensor.js';

/** Options of `gradcheck`. */
export interface GradcheckOptions {
  /** Step of the central difference (default 1e-5; inputs are taken in f64). */
  readonly step?: number;
  /** Largest |analytic − numeric| allowed, absolute and relative to the numeric gradient (default 1e-6). */
  readonly tolerance?: number;
}

const GRADCHECK: Rules<GradcheckOptions> = { step: above(0), tolerance: above(0) };

/**
 * Compare the gradient of `fn` (a scalar of its inputs) with central differences, element by element, in f64.
 * @example
 * ```ts
 * import { f64, gradcheck, tensor } from 'heddle';
 *
 * await gradcheck((x) => x.sin().mul(x), [tensor([0.5, 1, 2], { dtype: f64 })]); // throws where the gradient is wrong
 * ```
 * @throws NumericError naming the first element that differs
 */
export async function gradcheck(
  fn: (...inputs: Tensor<Shape, 'f64'>[]) => AnyTensor,
  inputs: readonly AnyTensor[],
  options: GradcheckOptions = {},
): Promise<void> {
  requireArgument('gradcheck', 'fn', fn, aFunction);
  requireTensors('gradcheck', 'inputs', inputs);
  if (inputs.length === 0) throw new ArgumentError('[gradcheck] takes at least one input.');
  requireOptions('gradcheck', options, GRADCHECK);
  const { step = 1e-5, tolerance = 1e-6 } = options;
  const values = await Promise.all(inputs.map(async (t) => Float64Array.from(await t.data(), Number)));
  const at = (): Tensor<Shape, 'f64'>[] =>
    values.map((v, i) => tensor(v.slice(), { shape: inputs[i]!.shape, dtype: f64 }));
  const leaves = values.map((v, i) =>
    tensor(v.slice(), { shape: inputs[i]!.shape, dtype: f64, requiresGrad: true }),
  );
  const value = fn(...leaves);
  requireTensor('gradcheck', 'the result of fn', value);
  value.sum().backward();
  realize(...leaves.flatMap((t) => t.grad ?? []));
  for (const [i, v] of values.entries()) {
    const analytic = leaves[i]!.grad ? await leaves[i]!.grad!.data() : new Float64Array(v.length);
    for (let k = 0; k < v.length; k++) {
      const x = v[k]!;
      v[k] = x + step;
      const above = await fn(...at())
        .sum()
        .item();
      v[k] = x - step;
      const below = await fn(...at())
        .sum()
        .item();
      v[k] = x;
      const numeric = (above - below) / (2 * step);
      const got = Number(analytic[k]);
      if (!(Math.abs(got - numeric) <= tolerance * (1 + Math.abs(numeric)))) {
        throw new NumericError(
          `[gradcheck] input ${i}, element ${k}: the gradient is ${got}, differences give ${numeric}.`,
        );
      }
    }
  }
}
