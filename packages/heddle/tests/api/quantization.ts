/** Quantization: what it takes. */
import * as H from '../../src/index.js';
import { nn, ones, quantization } from '../../src/index.js';
import {
  flag,
  list,
  model,
  number,
  oneOf,
  only,
  optional,
  options,
  orElse,
  path,
  type Spec,
  spec,
  tensor,
} from './spec.js';

const scale = orElse(number(0.5), (v) => v instanceof H.Tensor);
const zeroPoint = optional(orElse(number(0), (v) => v instanceof H.Tensor));
const axis = optional(number(0));
const dtype = optional(
  spec(
    () => H.i8,
    () => false,
  ),
);

const keep = optional(list(() => []));
const batches = list(() => [ones([1, 2])]);

const linear = new nn.Linear(2, 2);
const quantized = await quantization.quantize(linear, [ones([1, 2])]);
const report = await quantization.quantizationReport(linear, quantized, [ones([1, 2])]);

export const QUANTIZATION_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  'quantization.quantizeLinear': [tensor(), scale, zeroPoint, options({ axis, dtype })],
  'quantization.dequantizeLinear': [
    tensor(() => H.zeros([2, 2], { dtype: H.i8 })),
    scale,
    zeroPoint,
    options({ axis }),
  ],
  'quantization.fakeQuantize': [tensor(), scale, zeroPoint, options({ axis, dtype })],
  'quantization.quantize': [
    model,
    batches,
    options({
      method: optional(oneOf('minmax', 'percentile', 'entropy')),
      percentile: optional(number(99)),
      perChannel: optional(flag),
      keep,
    }),
  ],
  'quantization.loadQuantized': [model, path],
  'quantization.prepareQat': [
    model,
    options({ momentum: optional(number(0.9)), perChannel: optional(flag), keep }),
  ],
  'quantization.quantizationReport': [
    only(() => linear, nn.Module),
    only(() => quantized, quantization.QuantizedModule),
    batches,
    options({ maxLoss: optional(number()) }),
  ],
};

export const QUANTIZATION_RECEIVERS: Readonly<Record<string, () => object>> = {
  QuantizedModule: () => quantized,
  QatModule: () => quantization.prepareQat(new nn.Linear(2, 2)),
  QuantizationReport: () => report,
};

export const QUANTIZATION_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  QuantizedModule: {
    keeping: [list(() => [])],
    save: [path],
    forward: [tensor(() => ones([1, 2]))],
    state: [],
    isOf: [model],
  },
  QatModule: { quantize: [tensor()], forward: [tensor(() => ones([1, 2]))] },
  QuantizationReport: { toString: [] },
};
