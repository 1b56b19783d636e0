/** ONNX files over REST, with the answers of ONNX Runtime (tests/golden/models.py), and saved engines. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { nn, noGrad, type Tensor, tensor, useDevice } from 'heddle';
import { compile } from 'heddle/inference';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import sharp from 'sharp';
import { type RunningService, serve } from '../src/index.js';
import { temporaryFolder } from './models.js';

interface Values {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}
type Answers = Readonly<
  Record<
    string,
    readonly { readonly inputs: Readonly<Record<string, Values>>; readonly outputs: readonly Values[] }[]
  >
>;

const golden = (name: string): URL => new URL(`../../tests/golden/${name}`, import.meta.url);
const ANSWERS = JSON.parse(readFileSync(golden('answers.json'), 'utf8')) as Answers;

useDevice('cpu');
const linear = new nn.Linear(3, 2);
const folder = await temporaryFolder();
let service: RunningService;
before(async () => {
  for (const name of Object.keys(ANSWERS)) {
    await mkdir(join(folder, name, '1'), { recursive: true });
    await cp(golden(`${name}.onnx`), join(folder, name, '1', 'model.onnx'));
  }
  const image = { size: [8, 8], channels: 3, normalize: { mean: 0.5, std: 0.5 } };
  const settings = { maxBatchSize: 4, classes: ['a', 'b', 'c'], scores: 'probabilities', image };
  await writeFile(join(folder, 'classifier', 'settings.json'), JSON.stringify(settings));
  await mkdir(join(folder, 'damaged', '1'), { recursive: true });
  await writeFile(join(folder, 'damaged', '1', 'model.onnx'), 'no model');
  await mkdir(join(folder, 'engine', '1'), { recursive: true });
  const engine = await compile(linear, {
    shapes: [[3]],
    inputNames: ['x'],
    batchSizes: [1, 4],
    device: 'cpu',
  });
  await engine.save(join(folder, 'engine', '1', 'model.engine'));
  service = await serve(folder, { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' });
});
after(async () => {
  await service?.close();
  await closeDevices();
});

async function infer(model: string, inputs: Readonly<Record<string, Values>>): Promise<Values[]> {
  const tensors = Object.entries(inputs).map(([name, values]) => ({ name, datatype: 'FP32', ...values }));
  const response = await fetch(`${service.url}/v2/models/${model}/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs: tensors }),
  });
  const answer = (await response.json()) as { outputs: Values[]; error?: string };
  assert.equal(response.status, 200, answer.error);
  return answer.outputs;
}

for (const [model, examples] of Object.entries(ANSWERS))
  test(`${model}.onnx answers as ONNX Runtime does`, async () => {
    const found = await Promise.all(examples.map(({ inputs }) => infer(model, inputs)));
    for (const [i, { outputs }] of examples.entries())
      for (const [k, { shape, data }] of outputs.entries()) {
        assert.deepEqual(found[i]![k]!.shape, shape);
        for (const [at, value] of data.entries())
          assert.ok(Math.abs(found[i]![k]!.data[at]! - value) < 1e-5, `${found[i]![k]!.data[at]} ≠ ${value}`);
      }
  });

test('a saved engine answers as the network that it was compiled from', async () => {
  const data = [0.1, -0.2, 0.3, 1, 2, 3];
  const [output] = await infer('engine', { x: { shape: [2, 3], data } });
  const x = tensor(Float32Array.from(data), { shape: [2, 3] }) as Tensor;
  const expected = await noGrad(() => linear.forward(x)).data();
  assert.deepEqual(output!.shape, [2, 2]);
  for (const [i, value] of output!.data.entries()) assert.ok(Math.abs(value - Number(expected[i])) < 1e-6);
});

test('an ONNX classifier classifies images by its settings', async () => {
  const png = await sharp({ create: { width: 20, height: 10, channels: 3, background: '#804020' } })
    .png()
    .toBuffer();
  const response = await fetch(`${service.url}/v1/models/classifier/classify`, {
    method: 'POST',
    body: png as BodyInit,
  });
  const { classes } = (await response.json()) as { classes: { label: string; confidence: number }[] };
  const pixel = [0x80, 0x40, 0x20].map((byte) => (byte / 255 - 0.5) / 0.5);
  const data = Array.from({ length: 192 }, (_, i) => pixel[Math.floor(i / 64)]!);
  const [output] = await infer('classifier', { image: { shape: [1, 3, 8, 8], data } });
  for (const { label, confidence } of classes)
    assert.ok(Math.abs(confidence - output!.data['abc'.indexOf(label)]!) < 1e-5, `${label} ${confidence}`);
});

test('a file that is no ONNX model is named in the index', async () => {
  const response = await fetch(`${service.url}/v2/repository/index`, { method: 'POST' });
  const index = (await response.json()) as { name: string; state: string; reason: string }[];
  const damaged = index.find(({ name }) => name === 'damaged')!;
  assert.equal(damaged.state, 'UNAVAILABLE');
  assert.match(damaged.reason, /model\.onnx/);
});

test('Grad-CAM looks into an ONNX file, at its last convolution', async () => {
  const png = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#48f' } })
    .png()
    .toBuffer();
  const ask = (model: string): Promise<Response> =>
    fetch(`${service.url}/v1/models/${model}/classify?gradcam=true`, {
      method: 'POST',
      body: png as BodyInit,
    });
  const response = await ask('classifier');
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const { gradcam, classes } = JSON.parse(text) as {
    gradcam: { layer: string; target: number; image: string };
    classes: { index: number }[];
  };
  assert.deepEqual([gradcam.layer, gradcam.target], ['w1', classes[0]!.index]);
  const { format } = await sharp(Buffer.from(gradcam.image.split(',')[1]!, 'base64')).metadata();
  assert.equal(format, 'png');
  const models = (await (await fetch(`${service.url}/v1/models`)).json()) as {
    models: { name: string; classifies: boolean; explains: boolean }[];
  };
  const explaining = models.models.filter(({ explains }) => explains).map(({ name }) => name);
  assert.deepEqual(explaining, ['classifier']);
});
