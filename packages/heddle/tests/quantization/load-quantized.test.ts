/** Quantized models in files, and engines with precision int8. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type AnyTensor, manualSeed, nn, randn, relu, saveWeights, type Tensor } from '../../src/index.js';
import { compile, loadEngine } from '../../src/inference/index.js';
import { loadTensors, saveTensors } from '../../src/io/index.js';
import { loadQuantized, quantizationReport, quantize } from '../../src/quantization/index.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-quantized-'));
after(() => rmSync(folder, { recursive: true }));

/** Two batch norms, of which one can be folded, a layer without bias, and one that is kept. */
class Net extends nn.Module {
  norm = new nn.BatchNorm2d(1);
  conv = new nn.Conv2d(1, 8, 3, { padding: 1, bias: false });
  norm2 = new nn.BatchNorm2d(8);
  conv2 = new nn.Conv2d(8, 4, 3, { bias: false });
  fc = new nn.Linear(4 * 36, 8);
  head = new nn.Linear(8, 3);
  forward(x: Tensor): Tensor {
    const first = relu(this.norm2.forward(this.conv.forward(this.norm.forward(x))));
    return this.head.forward(relu(this.fc.forward(relu(this.conv2.forward(first)).flatten(1))));
  }
}

function trained(seed: number): Net {
  manualSeed(seed);
  const net = new Net();
  for (const norm of [net.norm, net.norm2]) norm.runningMean.assign(randn(norm.runningMean.shape));
  return net;
}

const x = randn([32, 1, 8, 8]);
const file = join(folder, 'quantized.safetensors');
const net = trained(1);
const quantized = await quantize(net, [x], { keep: ['head'] });
await quantized.save(file);

test('a file gives another model of the architecture what the quantized one computes', async () => {
  const other = trained(2);
  const loaded = await loadQuantized(other, file);
  assert.deepEqual([...loaded.layers.keys()], ['conv', 'conv2', 'fc']);
  assert.deepEqual(Object.keys(loaded.stateDict()), Object.keys(quantized.stateDict()));
  assert.deepEqual(await loaded.forward(x).data(), await quantized.forward(x).data());
  // The folds are known again: the layer in floating point has its batch norm.
  const [own, others] = [quantized.keeping(['conv']), loaded.keeping(['conv'])];
  assert.deepEqual(Object.keys(others.stateDict()), Object.keys(own.stateDict()));
  const report = await quantizationReport(other, loaded, [x]);
  assert.ok(report.layers.every(({ name }) => ['conv', 'conv2', 'fc'].includes(name)));
});

test('a layer that rounds its result does so from a file', async () => {
  class Sum extends nn.Module {
    inner = new nn.Conv2d(1, 4, 3, { padding: 1 });
    beside = new nn.Conv2d(1, 4, 1);
    forward(x: Tensor): Tensor {
      return relu(this.inner.forward(x).add(this.beside.forward(x)));
    }
  }
  const made = await quantize(new Sum(), [x]);
  const path = join(folder, 'sum.safetensors');
  await made.save(path);
  const loaded = await loadQuantized(new Sum(), path);
  const scaleOf = async (model: typeof made): Promise<number> =>
    await model.layers.get('beside')!.outputScale!.item();
  assert.equal(await scaleOf(loaded), await scaleOf(made));
  assert.equal(loaded.layers.get('inner')!.outputScale, undefined);
  assert.deepEqual(await loaded.forward(x).data(), await made.forward(x).data());
});

test('it is compiled, saved as an engine and loaded', async () => {
  const expected = await quantized.forward(x).data();
  const options = { shapes: [[1, 8, 8]], batchSizes: [32], precision: 'int8' } as const;
  const loaded = await loadQuantized(trained(3), file);
  using engine = await compile(loaded, options);
  assert.equal(engine.precision, 'int8');
  await engine.save(join(folder, 'net.engine'));
  using saved = await loadEngine(join(folder, 'net.engine'));
  assert.equal(saved.precision, 'int8');
  for (const each of [engine, saved]) {
    const [y] = await each.run(x);
    const values = await y!.data();
    for (const [i, value] of expected.entries())
      assert.ok(Math.abs(Number(values[i]) - value) < 1e-4, `${i}: ${values[i]} is not ${value}`);
  }
});

test('precision int8 of compile quantizes by its calibration', async () => {
  const options = { shapes: [[1, 8, 8]], batchSizes: [32], precision: 'int8' } as const;
  using engine = await compile(net, { ...options, calibration: [x] });
  using same = await compile(await quantize(net, [x]), options);
  const [[y], [z]] = await Promise.all([engine.run(x), same.run(x)]);
  assert.deepEqual(await y!.data(), await z!.data());
  const [exact] = await (await compile(net, { shapes: [[1, 8, 8]], batchSizes: [32] })).run(x);
  assert.notDeepEqual(await exact!.data(), await y!.data());
});

test('what does not fit is refused', async () => {
  const shapes = [[1, 8, 8]];
  await assert.rejects(compile(net, { shapes, precision: 'int8' }), /calibration is undefined: give batches/);
  await assert.rejects(compile(net, { shapes, calibration: [x] }), /calibration is given for precision f32/);
  await assert.rejects(
    compile(quantized, { shapes, precision: 'int8', calibration: [x] }),
    /for a model that is quantized already/,
  );
  await assert.rejects(
    compile(net, { shapes, precision: 'int8', calibration: x as never }),
    /calibration is .*must be a list/,
  );
  const floats = join(folder, 'weights.safetensors');
  await saveWeights(net, floats);
  await assert.rejects(loadQuantized(net, floats), /is no quantized model of format heddle-quantized-1/);
  await assert.rejects(loadQuantized(new nn.Linear(2, 2), file), /quantizes 'conv', which is no layer/);
  const fewer = Object.assign(trained(1), { norm2: new nn.ReLU() });
  await assert.rejects(loadQuantized(fewer, file), /'norm2' folded into 'conv', which is no batch norm/);
  Object.assign(fewer, { conv: new nn.ReLU() });
  await assert.rejects(loadQuantized(fewer, file), /quantizes 'conv', which is ReLU in the model/);
  const wider = Object.assign(trained(1), { fc: new nn.Linear(4 * 36, 9) });
  await assert.rejects(loadQuantized(wider, file), /shapes of fc\.weight differ/);
  const { tensors, metadata } = await loadTensors(file);
  const damaged = join(folder, 'damaged.safetensors');
  const write = (folds: string, some: Record<string, AnyTensor> = tensors): Promise<void> =>
    saveTensors(damaged, some, { metadata: { ...metadata, folds } });
  await write('{"conv": ');
  await assert.rejects(loadQuantized(net, damaged), /its metadata are damaged/);
  const { 'fc.inputScale': _, ...some } = tensors;
  await write(metadata.folds!, some);
  await assert.rejects(loadQuantized(net, damaged), /Missing: fc\.inputScale/);
});
