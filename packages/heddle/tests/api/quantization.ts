/** Quantization: what it takes. */
import * as H from '../../src/index.js';
import { number, optional, options, orElse, type Spec, spec, tensor } from './spec.js';

const scale = orElse(number(0.5), (v) => v instanceof H.Tensor);
const zeroPoint = optional(orElse(number(0), (v) => v instanceof H.Tensor));
const axis = optional(number(0));
const dtype = optional(
  spec(
    () => H.i8,
    () => false,
  ),
);

export const QUANTIZATION_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  'quantization.quantizeLinear': [tensor(), scale, zeroPoint, options({ axis, dtype })],
  'quantization.dequantizeLinear': [
    tensor(() => H.zeros([2, 2], { dtype: H.i8 })),
    scale,
    zeroPoint,
    options({ axis }),
  ],
  'quantization.fakeQuantize': [tensor(), scale, zeroPoint, options({ axis, dtype })],
};
