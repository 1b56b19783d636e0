/** Inference: what it takes. */
import { f32, inference, nn, ones } from '../../src/index.js';
import {
  flag,
  list,
  model,
  number,
  oneOf,
  optional,
  options,
  path,
  type Spec,
  slow,
  tensor,
  text,
} from './spec.js';

export const INFERENCE_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  'inference.compile': [
    model,
    options(
      {
        shapes: list(() => [[2]]),
        dtypes: optional(list(() => [f32])),
        inputNames: optional(list(() => ['x'])),
        batchSizes: slow(optional(list(() => [1]))),
        precision: optional(oneOf('f32', 'tf32', 'bf16', 'f16', 'int8')),
        calibration: optional(list(() => [])),
        device: optional(text('cpu')),
      },
      () => ({ shapes: [[2]] }),
    ),
  ],
  'inference.loadEngine': [path, options({ device: optional(text('cpu')) })],
};

const engine = await inference.compile(new nn.Linear(2, 2), { shapes: [[2]], device: 'cpu' });

export const INFERENCE_RECEIVERS: Readonly<Record<string, () => object>> = { Engine: () => engine };

export const INFERENCE_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  Engine: {
    run: [tensor(() => ones([1, 2]))],
    runArrays: [list(() => [new Float32Array(2)]), number()],
    profile: [
      number(),
      options({ each: optional(flag), rounds: slow(optional(number())), roundUs: optional(number()) }),
    ],
    save: [path],
    dispose: [],
  },
};
