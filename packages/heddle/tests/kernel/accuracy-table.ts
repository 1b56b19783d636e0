/** Functions of tensors that are made of several: what they are, and how far they may be from it. */

import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import { normcdf } from '../../src/kernel/math/numbers.js';

export interface Activation {
  readonly run: (x: Tensor) => Tensor;
  /** In f64. */
  readonly exact: (x: number) => number;
  /** In units of the last place, on every device. */
  readonly bound: { readonly f32: number; readonly f64: number };
}

const sigmoid = (x: number): number => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)));

export const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  tan: { run: (x) => x.tan(), exact: Math.tan, bound: { f32: 6, f64: 6 } },
  asin: { run: (x) => x.asin(), exact: Math.asin, bound: { f32: 5, f64: 5 } },
  acos: { run: (x) => x.acos(), exact: Math.acos, bound: { f32: 4, f64: 4 } },
  sinh: { run: (x) => x.sinh(), exact: Math.sinh, bound: { f32: 4.5, f64: 4.5 } },
  cosh: { run: (x) => x.cosh(), exact: Math.cosh, bound: { f32: 4.5, f64: 4.5 } },
  rsqrt: { run: (x) => x.rsqrt(), exact: (x) => 1 / Math.sqrt(x), bound: { f32: 2.5, f64: 2.5 } },
  sigmoid: { run: H.sigmoid, exact: sigmoid, bound: { f32: 3, f64: 3 } },
  silu: { run: H.silu, exact: (x) => x * sigmoid(x), bound: { f32: 6, f64: 6 } },
  softplus: {
    run: H.softplus,
    exact: (x) => (x > 20 ? x : Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
    bound: { f32: 3, f64: 3 },
  },
  elu: { run: H.elu, exact: (x) => (x > 0 ? x : Math.expm1(x)), bound: { f32: 2, f64: 2 } },
  logSigmoid: {
    run: H.logSigmoid,
    exact: (x) => -(Math.max(-x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
    bound: { f32: 3, f64: 3 },
  },
  mish: {
    run: H.mish,
    exact: (x) => x * Math.tanh(Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
    bound: { f32: 60, f64: 400 },
  },
  softsign: { run: H.softsign, exact: (x) => x / (1 + Math.abs(x)), bound: { f32: 1.5, f64: 1.5 } },
  selu: {
    run: H.selu,
    exact: (x) => 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * Math.expm1(x)),
    bound: { f32: 4, f64: 4 },
  },
  celu: { run: H.celu, exact: (x) => (x > 0 ? x : Math.expm1(x)), bound: { f32: 2, f64: 2 } },
  gelu: { run: H.gelu, exact: (x) => x * normcdf(x), bound: { f32: 12, f64: 24 } },
  geluTanh: {
    run: (x) => H.gelu(x, { approximate: 'tanh' }),
    exact: (x) => x * sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)),
    bound: { f32: 200, f64: 200 },
  },
};
