/** Models quantized after training and by training: their numbers, their state, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  crossEntropy,
  f32,
  i8,
  jit,
  manualSeed,
  nn,
  optim,
  randn,
  relu,
  type Tensor,
  tensor,
  zeros,
} from '../../src/index.js';
import {
  type CalibrationMethod,
  dequantizeLinear,
  prepareQat,
  QuantizationReport,
  type QuantizedLayer,
  quantizationReport,
  quantize,
  quantizeLinear,
} from '../../src/quantization/index.js';

/** Convolutions with batch norms, one of them depthwise, a skip connection, and a linear layer. */
class Net extends nn.Module {
  conv = new nn.Conv2d(1, 4, 3, { padding: 1 });
  norm = new nn.BatchNorm2d(4);
  depthwise = new nn.Conv2d(4, 4, 3, { padding: 1, groups: 4, bias: false });
  norm2 = new nn.BatchNorm2d(4);
  drop = new nn.Dropout();
  fc = new nn.Linear(4 * 36, 3);
  forward(x: Tensor): Tensor {
    const first = relu(this.norm.forward(this.conv.forward(x)));
    const second = relu(this.norm2.forward(this.depthwise.forward(first)).add(first));
    return this.fc.forward(this.drop.forward(second).flatten(1));
  }
}

/** Three kinds of images: bright at the top, at the bottom, nowhere. */
function examples(count: number): { readonly inputs: Tensor; readonly labels: Tensor } {
  const labels = Int32Array.from({ length: count }, (_, i) => i % 3);
  const bright = Float32Array.from({ length: count * 36 }, (_, i) => {
    const row = Math.floor((i % 36) / 6);
    const kind = labels[Math.floor(i / 36)];
    return (kind === 0 && row < 3) || (kind === 1 && row >= 3) ? 1 : 0;
  });
  const inputs = tensor(bright, { shape: [count, 1, 6, 6] }).add(randn([count, 1, 6, 6]).mul(0.5));
  return { inputs, labels: tensor(labels) };
}

async function train(model: nn.Module & { forward(x: Tensor): Tensor }, steps: number): Promise<void> {
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const step = jit((x: Tensor, y: Tensor) => {
    const loss = crossEntropy(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (let i = 0; i < steps; i++) {
    const { inputs, labels } = examples(48);
    await step(inputs, labels).item();
  }
}

manualSeed(1);
const net = new Net();
await train(net, 40);
const calibration = [examples(96), examples(96).inputs];
const known = examples(300);

for (const method of ['minmax', 'percentile', 'entropy'] satisfies CalibrationMethod[])
  test(`${method}: the quantized model answers as the model does`, async () => {
    const quantized = await quantize(net, calibration, { method });
    const report = await quantizationReport(net, quantized, [known]);
    assert.ok(report.accuracy!.float > 0.9, `accuracy ${report.accuracy!.float}`);
    assert.ok(report.accuracy!.quantized >= report.accuracy!.float - 0.01, String(report));
    assert.deepEqual(
      report.layers.map(({ name, kind }) => [name, kind]),
      [
        ['conv', 'Conv2d'],
        ['depthwise', 'Conv2d'],
        ['fc', 'Linear'],
      ],
    );
    for (const { output, alone } of report.layers) {
      assert.ok(output.sqnr > 20 && output.sqnr < 70, String(report));
      assert.ok(alone.sqnr >= report.output.sqnr - 6, String(report));
    }
  });

test('weights are bytes with a scale for each output, and values are those of the dequantized model', async () => {
  const quantized = await quantize(net, calibration, { method: 'minmax' });
  const { conv } = Object.fromEntries(quantized.layers);
  assert.equal(conv!.weight.dtype, i8);
  assert.deepEqual(conv!.weightScale.shape, [4]);
  const levels = await conv!.weight.abs().flatten(1).cast(f32).max(1).array();
  assert.deepEqual(levels, [127, 127, 127, 127]);
  const state = Object.keys(quantized.stateDict());
  assert.deepEqual(state.filter((name) => name.startsWith('conv')).sort(), [
    'conv.bias',
    'conv.inputScale',
    'conv.weight',
    'conv.weightScale',
  ]);
  assert.ok(!state.some((name) => name.startsWith('norm')), 'batch norms are folded');
  assert.equal(quantized.parameters().length, 0);
  const first = Float32Array.from(await net.eval().forward(known.inputs).data());
  net.train();
  const again = Float32Array.from(await quantized.forward(known.inputs).data());
  assert.notDeepEqual(first, again);
  assert.equal(net.training, true, 'the model keeps its mode');
  const after = await net.eval().forward(known.inputs).data();
  assert.deepEqual(after, first, 'and its forward');
});

test('what is added to the result of layers is added as the bytes that they took', async () => {
  class Block extends nn.Module {
    conv = new nn.Conv2d(2, 2, 3, { padding: 1 });
    shortcut = new nn.Conv2d(2, 2, 1);
    forward(x: Tensor): { readonly sum: Tensor; readonly scaled: Tensor } {
      const sum = relu(this.conv.forward(x).add(x));
      return { sum, scaled: this.shortcut.forward(sum).add(sum.mul(2)).add(sum) };
    }
  }
  const model = new Block();
  const x = randn([4, 2, 5, 5]);
  const quantized = await quantize(model, [x], { method: 'minmax' });
  const { conv, shortcut } = Object.fromEntries(quantized.layers);
  const rounded = (v: Tensor, { inputScale }: QuantizedLayer): Tensor =>
    dequantizeLinear(quantizeLinear(v, inputScale), inputScale);
  const sum = relu(conv!.forward(x).add(rounded(x, conv!)));
  // What is multiplied is not: the product is a value of its own.
  const scaled = shortcut!.forward(sum).add(sum.mul(2)).add(rounded(sum, shortcut!));
  const made = quantized.forward(x) as unknown as { readonly sum: Tensor; readonly scaled: Tensor };
  assert.deepEqual(await made.sum.data(), await sum.data());
  assert.deepEqual(await made.scaled.data(), await scaled.data());
  const exact = relu(conv!.forward(x).add(x));
  assert.notDeepEqual(await made.sum.data(), await exact.data(), 'the rounding is seen');
});

test('of two layers whose results are added the later one rounds its result, unless others read it', async () => {
  class Sums extends nn.Module {
    inner = new nn.Conv2d(2, 3, 3, { padding: 1 });
    beside = new nn.Conv2d(2, 3, 1, { bias: false });
    norm = new nn.BatchNorm2d(3);
    one = new nn.Conv2d(3, 3, 1);
    other = new nn.Conv2d(3, 3, 1);
    forward(x: Tensor): { readonly sum: Tensor; readonly shown: Tensor; readonly other: Tensor } {
      const sum = relu(this.inner.forward(x).add(this.norm.forward(this.beside.forward(x))));
      const other = this.other.forward(sum);
      return { sum, shown: this.one.forward(sum).add(other), other };
    }
  }
  const model = new Sums();
  model.norm.runningVar.assign(tensor([4, 1, 0.25]));
  const x = randn([4, 2, 5, 5]);
  const quantized = await quantize(model, [x, x.mul(2)], { method: 'minmax' });
  const rounding = [...quantized.layers].filter(([, { outputScale }]) => outputScale).map(([name]) => name);
  assert.deepEqual(rounding, ['beside']);
  assert.ok(Object.hasOwn(quantized.stateDict(), 'beside.outputScale'));
  const { inner, beside } = Object.fromEntries(quantized.layers);
  const scale = beside!.outputScale!;
  // The range is that of the batch norm's result, over all batches.
  const seen = model
    .eval()
    .norm.forward(model.beside.forward(x.mul(2)))
    .abs()
    .max();
  assert.ok(Math.abs((await seen.item()) / (127 * (await scale.item())) - 1) < 1e-5);
  const y = beside!.forward(x);
  assert.deepEqual(await y.data(), await dequantizeLinear(quantizeLinear(y, scale), scale).data());
  const made = quantized.forward(x) as unknown as { readonly sum: Tensor };
  assert.deepEqual(await made.sum.data(), await relu(inner!.forward(x).add(y)).data());
});

test('layers in keep stay in floating point, those of a module with it', async () => {
  const model = new nn.Sequential(new nn.Linear(4, 8), new nn.Sequential(new nn.ReLU(), new nn.Linear(8, 2)));
  const x = randn([32, 4]);
  const quantized = await quantize(model, [x], { keep: ['1'] });
  assert.deepEqual([...quantized.layers.keys()], ['0']);
  assert.deepEqual(
    Object.keys(quantized.stateDict()).filter((name) => name.startsWith('1')),
    ['1.1.weight', '1.1.bias'],
  );
  const none = quantized.keeping(['0']);
  assert.deepEqual(await none.forward(x).data(), await model.forward(x).data());
});

test('a report without labels judges by agreement, and says what to keep', async () => {
  const model = new nn.Sequential(new nn.Linear(6, 16), new nn.ReLU(), new nn.Linear(16, 4));
  const x = randn([400, 6]);
  // Ranges of a tenth of the inputs: much is cut off.
  const quantized = await quantize(model, [x.mul(0.1)], { method: 'minmax' });
  const report = await quantizationReport(model, quantized, [x], { maxLoss: 1 });
  assert.equal(report.accuracy, undefined);
  assert.ok(report.agreement < 0.9);
  assert.equal(report.keep[0], '0');
  assert.ok(report.kept >= 0.99);
  assert.match(String(report), /^layer {2}kind {4}SQNR dB/);
  assert.match(String(report), /keep 0/);
  assert.ok(report instanceof QuantizationReport);
});

test('quantization-aware training: gradients flow, ranges follow the inputs, and the module converts', async () => {
  manualSeed(2);
  const model = new Net();
  const qat = prepareQat(model, { momentum: 0.9 });
  assert.deepEqual(
    qat.parameters().map((p) => p.shape),
    model.parameters().map((p) => p.shape),
  );
  await assert.rejects(qat.quantize(known.inputs), /the range of the inputs of 'conv' is not known/);
  await train(qat, 40);
  const range = await qat.ranges.conv!.item();
  assert.ok(range > 1 && range < 4, `range ${range}`);
  const quantized = await qat.quantize(known.inputs);
  const report = await quantizationReport(model, quantized, [known]);
  assert.ok(report.accuracy!.quantized > 0.9, String(report));
  // What the training saw is what the quantized model computes, but for the batch norms, which round otherwise once folded.
  const seen = await qat.eval().forward(known.inputs).data();
  const made = await quantized.forward(known.inputs).data();
  const worst = Math.max(...made.map((v, i) => Math.abs(v - seen[i]!)));
  assert.ok(worst < 0.1, `differs by ${worst}`);
});

test('what does not fit is refused', async () => {
  const model = new nn.Sequential(new nn.Linear(2, 2), new nn.ReLU());
  const x = zeros([1, 2]);
  await assert.rejects(quantize(model, []), /batches is empty/);
  await assert.rejects(quantize(model, [{}] as never), /batch 0 is .*must be a tensor/);
  await assert.rejects(quantize(model, x as never), /batches is .*must be a list/);
  await assert.rejects(quantize(model, [x], { keep: ['2'] }), /keep names '2', which is no layer/);
  await assert.rejects(quantize(model, [x], { keep: ['0'] }), /no Linear or Conv2d to quantize besides/);
  await assert.rejects(quantize(new nn.ReLU(), [x]), /no Linear or Conv2d/);
  await assert.rejects(quantize(model, [tensor([[Number.NaN, 1]])]), /an input of layer '0' is NaN/);
  await assert.rejects(quantize(model, [x], { method: 'best' as never }), /method is 'best'/);
  const quantized = await quantize(model, [x]);
  assert.throws(() => quantized.keeping(['1']), /names is .*must be/);
  const other = new nn.Sequential(new nn.Linear(2, 2));
  await assert.rejects(quantizationReport(other, quantized, [x]), /was made of another model/);
  await assert.rejects(quantizationReport(model, quantized, []), /batches is empty/);
});
