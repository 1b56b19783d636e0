/** Random stacks of layers and ops compute the same after export and import, for another batch size and other images. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import fc from 'fast-check';
import { type AnyTensor, cat, nn, ShapeError, type Tensor } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { exportOnnx } from '../../src/export/export-onnx.js';
import { loadOnnx } from '../../src/model/onnx-model.js';
import { property } from '../property.js';
import { filled, values } from './cases.js';

after(closeDevices);

const CHANNELS = 4;

class Of extends nn.Module {
  readonly inner: nn.Layer | undefined;
  readonly #body: (x: Tensor, inner: nn.Layer | undefined) => AnyTensor;
  constructor(body: (x: Tensor, inner: nn.Layer | undefined) => AnyTensor, inner?: nn.Layer) {
    super();
    this.#body = body;
    this.inner = inner;
  }
  forward(x: Tensor): Tensor {
    return this.#body(x, this.inner) as Tensor;
  }
}

/** Layers and ops that keep (N, 4, H, W), with smaller, larger or equal H and W. */
const STEPS: Readonly<Record<string, () => nn.Layer>> = {
  conv: () => new nn.Conv2d(CHANNELS, CHANNELS, 3, { padding: 1 }),
  stridden: () => new nn.Conv2d(CHANNELS, CHANNELS, 3, { padding: 1, stride: 2 }),
  grouped: () => new nn.Conv2d(CHANNELS, CHANNELS, [1, 3], { padding: 'same', groups: 2, bias: false }),
  transposed: () => new nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, { stride: 2 }),
  batchNorm: () => new nn.BatchNorm2d(CHANNELS),
  groupNorm: () => new nn.GroupNorm(2, CHANNELS),
  instanceNorm: () => new nn.InstanceNorm2d(CHANNELS),
  relu: () => new nn.ReLU(),
  gelu: () => new nn.GELU(),
  silu: () => new nn.SiLU(),
  pool: () => new nn.MaxPool2d(3, { stride: 1, padding: 1 }),
  mean: () => new nn.AvgPool2d(2, { stride: 1, padding: 1 }),
  pad: () => new nn.ReflectionPad2d([1, 0, 0, 1]),
  upsample: () => new nn.Upsample({ scaleFactor: 2, mode: 'bilinear' }),
  softmax: () => new nn.Softmax(1),
  residual: () =>
    new Of((x, inner) => inner!.forward(x).add(x), new nn.Conv2d(CHANNELS, CHANNELS, 1)) as nn.Layer,
  gated: () => new Of((x) => x.mul(x.mean([2, 3], { keepdim: true }).sigmoid())) as nn.Layer,
  joined: () =>
    new Of(
      (x, inner) => inner!.forward(cat([x, x.relu()], 1) as Tensor),
      new nn.Conv2d(2 * CHANNELS, CHANNELS, 1),
    ) as nn.Layer,
  centred: () =>
    new Of((x) => x.sub(x.mean(1, { keepdim: true })).div(x.std(1, { keepdim: true }).add(1))) as nn.Layer,
  flipped: () => new Of((x) => x.flip(3).transpose(2, 3)) as nn.Layer,
  masked: () => new Of((x) => x.gt(0.1).where(x, x.abs().mul(0.5))) as nn.Layer,
};

/** Whether images of this size are not too small for some layer. */
function takes(model: nn.Layer, x: Tensor): boolean {
  try {
    model.forward(x);
    return true;
  } catch (error) {
    if (error instanceof ShapeError) return false;
    throw error;
  }
}

const steps = fc.array(fc.constantFrom(...Object.keys(STEPS)), { minLength: 1, maxLength: 6 });

property(
  'stacks of layers compute the same after export and import',
  [steps, fc.constantFrom(21, 23), fc.integer({ min: 4, max: 7 }), fc.boolean()],
  async (names, opset, side, functions) => {
    const model = filled(new nn.Sequential(...names.map((name) => STEPS[name]!())));
    const x = values([3, CHANNELS, side, 5], 2) as Tensor;
    if (!takes(model, x)) return;
    const { bytes } = await exportOnnx(model, [values([2, CHANNELS, 6, 6], 1)], {
      ...{ opset, functions, dynamicAxes: { input: { 0: 'batch', 2: 'height', 3: 'width' } } },
    });
    const again = await loadOnnx(bytes);
    const [own, theirs] = [model.forward(x), await again.run(x)];
    assert.deepEqual(theirs.shape, own.shape);
    const [a, b] = [await own.data(), await theirs.data()].map((data) => Array.from(data, Number)) as [
      number[],
      number[],
    ];
    const largest = a.reduce((most, v) => Math.max(most, Math.abs(v)), 1);
    const worst = a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i]!)), 0);
    assert.ok(worst <= 1e-5 * largest, `differs by ${worst} of ${largest}`);
  },
  { runs: 12 },
);
