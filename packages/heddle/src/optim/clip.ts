/** Limits to gradients, between `backward` and `step`: in `jit` a part of the program, without the host. */
import { above, atLeast, type Rules, requireArgument, requireOptions, shown } from '../core/arguments.js';
import { f32, f64 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { requireTensor } from '../tensor/checks.js';
import { stack, zeros } from '../tensor/create.js';
import { isFromBefore, noGrad } from '../tensor/modes.js';
import { labelOf } from '../tensor/names.js';
import type { Tensor } from '../tensor/tensor.js';

/** Options of `clipGradNorm`. */
export interface ClipGradNormOptions {
  /** The order of the norm; Infinity is the largest magnitude (default 2). */
  readonly normType?: number;
}

const CLIP_NORM: Rules<ClipGradNormOptions> = { normType: above(0) };

/**
 * Scale the gradients of all parameters so that their norm as one vector is at most `maxNorm`: each times
 * min(1, maxNorm / (norm + 1e-6)). R. Pascanu et al., On the difficulty of training recurrent neural networks (2013).
 * @example
 * ```ts
 * import { nn, optim, randn } from 'heddle';
 *
 * const model = new nn.Linear(4, 1);
 * model.forward(randn([8, 4])).square().sum().backward();
 * const norm = optim.clipGradNorm(model.parameters(), 1);
 * console.log((await norm.item()) > 0); // → true
 * ```
 * @param parameters those without a gradient are left out
 * @returns the norm before, a scalar
 * @throws ArgumentError for what is not a list of tensors, or gradients from outside of the jitted function
 */
export function clipGradNorm(
  parameters: Iterable<Tensor>,
  maxNorm: number,
  options: ClipGradNormOptions = {},
): Tensor {
  requireArgument('clipGradNorm', 'maxNorm', maxNorm, atLeast(0));
  requireOptions('clipGradNorm', options, CLIP_NORM);
  const { normType: ord = 2 } = options;
  const moving = withGradients('clipGradNorm', parameters);
  requireAveraged('clipGradNorm', moving);
  if (moving.length === 0) return zeros([]);
  return noGrad(() => {
    const dtype = moving.some((p) => p.dtype === f64) ? f64 : f32;
    const norms = moving.map((p) => p.grad!.cast(dtype).norm(undefined, { ord }));
    const norm: Tensor = stack(norms).norm(undefined, { ord });
    const factor = norm.add(1e-6).reciprocal().mul(maxNorm).minimum(1);
    for (const p of moving) p.grad = p.grad!.mul(factor.cast(p.dtype));
    return norm;
  });
}

import { requireAveraged } from './own-gradients.js';

/** Limit every element of the gradients to ±`clipValue`. @param parameters those without a gradient are left out */
export function clipGradValue(parameters: Iterable<Tensor>, clipValue: number): void {
  requireArgument('clipGradValue', 'clipValue', clipValue, atLeast(0));
  const moving = withGradients('clipGradValue', parameters);
  requireAveraged('clipGradValue', moving);
  noGrad(() => {
    for (const p of moving) p.grad = p.grad!.clamp(-clipValue, clipValue);
  });
}

/** The parameters that have gradients. @throws ArgumentError */
export function withGradients(op: string, parameters: Iterable<Tensor>): Tensor[] {
  const moving = listOfTensors(op, parameters).filter((p) => p.grad);
  const stale = moving.find((p) => isFromBefore(p.grad!));
  if (stale)
    throw new ArgumentError(
      `[${op}] within jit: the gradient of ${labelOf(stale)} is from outside, and every call would use it again. Call backward() in the jitted function, too.`,
    );
  return moving;
}

/** @throws ArgumentError unless they are tensors, at least one */
export function listOfTensors(op: string, parameters: Iterable<Tensor>): Tensor[] {
  if (typeof parameters !== 'object' || parameters === null || !(Symbol.iterator in parameters))
    throw new ArgumentError(
      `[${op}] parameters is ${shown(parameters)}, must be a list of tensors. Pass model.parameters().`,
    );
  const list = [...parameters];
  list.forEach((p, i) => {
    requireTensor(op, `parameter ${i}`, p);
  });
  if (list.length === 0)
    throw new ArgumentError(
      `[${op}] there are no parameters. Pass model.parameters(), or an array: a generator gives its values only once.`,
    );
  return list;
}
