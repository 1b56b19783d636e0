/** Layers as functions of the model: which layers, which functions, and the weights of the model that reads it again. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { nn } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { exportOnnx } from '../../src/export/export-onnx.js';
import { readModel } from '../../src/file/model-file.js';
import { loadOnnx } from '../../src/model/onnx-model.js';
import { filled, values } from './cases.js';

after(closeDevices);

const encoder = () =>
  filled(
    new nn.TransformerEncoder(
      () => new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 16, batchFirst: true }),
      3,
    ),
  );
const x = values([2, 5, 8], 1);

test('layers of equal structure are calls of one function, whose inputs are their weights', async () => {
  const { bytes, functions, operators } = await exportOnnx(encoder(), [x], { functions: true });
  assert.deepEqual(functions, { Linear: 9, MultiheadAttention: 3, TransformerEncoderLayer: 3 });
  assert.equal(operators.Softmax, 3);
  const { model } = await readModel(bytes);
  assert.deepEqual(
    model.functions.map(({ domain, name }) => `${domain}.${name}`),
    ['heddle.Linear', 'heddle.MultiheadAttention', 'heddle.TransformerEncoderLayer'],
  );
  const graph = model.graph!;
  assert.deepEqual(
    graph.node.map(({ name, opType }) => `${name} ${opType}`),
    ['0', '1', '2'].map((i) => `/layers/${i} TransformerEncoderLayer`),
  );
  assert.deepEqual(graph.node[2]!.input.slice(0, 2), [
    '/layers/1/norm2/LayerNormalization',
    'layers.2.selfAttn.inProjWeight',
  ]);
  assert.deepEqual(model.functions[0]!.input, ['x', 'weight', 'bias']);
  // What only functions have is in them.
  assert.ok(graph.initializer.every(({ name }) => name.startsWith('layers.')));
});

test('layers of different structure are different functions, and a layer of one operator is that operator', async () => {
  const block = (width: number) =>
    new nn.Sequential(new nn.Linear(8, width), new nn.GELU(), new nn.Linear(width, 8));
  const model = new nn.Sequential(
    block(16),
    block(16),
    new nn.Sequential(new nn.Tanh()),
    block(24),
    new nn.PReLU(),
  );
  const { bytes, functions } = await exportOnnx(filled(model), [values([2, 8], 1)], { functions: true });
  // Widths are those of the weights, and no part of the structure.
  assert.deepEqual(functions, { Sequential: 3 });
  const { model: written } = await readModel(bytes);
  assert.deepEqual(
    written.graph!.node.map(({ opType }) => opType),
    ['Sequential', 'Sequential', 'Tanh', 'Sequential', 'PRelu'],
  );
  const other = new nn.Sequential(block(16), new nn.Sequential(new nn.Linear(8, 8), new nn.Tanh()));
  const two = await exportOnnx(filled(other), [values([2, 8], 1)], { functions: true });
  assert.deepEqual(two.functions, { Sequential: 1, Sequential_1: 1 });
});

test('a list of classes makes functions of those layers, single operators among them', async () => {
  const of = (functions: readonly (new (...args: never[]) => nn.Module)[]) =>
    exportOnnx(encoder(), [x], { functions });
  assert.deepEqual((await of([nn.MultiheadAttention])).functions, { MultiheadAttention: 3 });
  assert.deepEqual((await of([nn.LayerNorm])).functions, { LayerNorm: 6 });
  assert.deepEqual((await of([nn.Conv2d])).functions, {});
});

test('a model of functions has the same weights when it is read, and the answers of one without', async () => {
  const model = encoder();
  const [plain, grouped] = await Promise.all(
    [false, true].map(async (functions) =>
      loadOnnx((await exportOnnx(model, [x], { functions, dynamicAxes: 'batch' })).bytes),
    ),
  );
  assert.deepEqual(Object.keys(grouped!.stateDict()).sort(), Object.keys(plain!.stateDict()).sort());
  assert.deepEqual(
    new Set(grouped!.parameters().map(({ shape }) => shape.join())),
    new Set(plain!.parameters().map(({ shape }) => shape.join())),
  );
  const batch = values([3, 5, 8], 2);
  const answers = await Promise.all([plain!, grouped!].map(async (m) => (await m.run(batch)).data()));
  assert.deepEqual(answers[1], answers[0]);
});
