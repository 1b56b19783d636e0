/** Loading models: parameters, inputs, control flow, and the errors of files that are wrong. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { i32, i64, jit, manualSeed, mse, optim, type Tensor, tensor, zeros } from 'heddle';
import { loadOnnx } from '../src/index.js';
import {
  type FunctionProto,
  FunctionProtoSchema,
  ModelProtoSchema,
  type NodeProto,
} from '../src/protobuf/onnx_pb.js';
import { externalTensor, floatTensor, graph, info, intTensor, modelOf, node } from './make-model.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-onnx-'));
after(() => rmSync(folder, { recursive: true }));

const BATCH = info('x', ['batch', 3]);
const LINEAR = {
  inputs: [BATCH],
  outputs: [info('y', ['batch', 2])],
  nodes: [node('Gemm', ['x', 'fc.weight', 'fc.bias'], ['y'], { transB: 1 })],
  initializers: [floatTensor('fc.weight', [2, 3], [1, 2, 3, 4, 5, 6]), floatTensor('fc.bias', [2], [10, 20])],
};

test('weights are parameters under their names, inputs and outputs are described', async () => {
  const model = await loadOnnx(modelOf(LINEAR));
  assert.deepEqual(model.inputs, [{ name: 'x', dtype: 'f32', shape: ['batch', 3] }]);
  assert.deepEqual(model.outputs, [{ name: 'y', dtype: 'f32', shape: ['batch', 2] }]);
  assert.deepEqual(
    [...model.namedParameters()].map(([name]) => name),
    ['fc.weight', 'fc.bias'],
  );
  assert.deepEqual(await (await model.run(tensor([[1, 1, 1]]))).array(), [[16, 35]]);
  assert.deepEqual(
    await model
      .forward(
        tensor([
          [1, 0, 0],
          [0, 1, 0],
        ]),
      )
      .array(),
    [
      [11, 24],
      [12, 25],
    ],
  );
});

test('an imported model is trained on', async () => {
  const model = await loadOnnx(modelOf(LINEAR), { trainable: (name) => name === 'fc.weight' });
  assert.deepEqual(
    [...model.namedBuffers()].map(([name]) => name),
    ['fc.bias'],
  );
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05 });
  const [x, y] = [
    tensor([
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ]),
    tensor([
      [11, 22],
      [12, 23],
      [13, 24],
    ]),
  ];
  const step = jit((inputs: Tensor, targets: Tensor) => {
    const loss = mse(model.forward(inputs), targets);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const first = await step(x, y).item();
  for (let i = 0; i < 200; i++) step(x, y);
  assert.ok(first > 1 && (await step(x, y).item()) < 1e-2);
});

test('inputs must fit, and names of sizes agree', async () => {
  const model = await loadOnnx(
    modelOf({ inputs: [BATCH, info('z', ['batch', 'n'])], nodes: [node('MatMul', ['x', 'z'], ['y'])] }),
  );
  const x = zeros([2, 3]);
  assert.throws(() => model.forward(x), /takes 2 inputs \(x, z\), got 1/);
  assert.throws(
    () => model.forward(zeros([2, 4]), x),
    /'x' is \(2,4\), must be \(batch,3\): dimension 1 has 4 elements/,
  );
  assert.throws(
    () => model.forward(x, zeros([3, 5])),
    /'z' is \(3,5\).*dimension 0 has 3 elements, 'batch' of another input has 2/,
  );
  assert.throws(() => model.forward(x.cast(i32), x), /'x' is i32, must be f32\. Convert with \.cast\(f32\)/);
});

test('token ids of i64 may be given as i32', async () => {
  const table = floatTensor('table', [2, 2], [1, 2, 3, 4]);
  const model = await loadOnnx(
    modelOf({
      inputs: [info('x', ['n'], 7)],
      nodes: [node('Gather', ['table', 'x'], ['y'])],
      initializers: [table],
    }),
  );
  const ids = Int32Array.of(1, 0, -1);
  const expected = [
    [3, 4],
    [1, 2],
    [3, 4],
  ];
  assert.deepEqual(await model.forward(tensor(ids)).array(), expected);
  assert.deepEqual(await model.forward(tensor(ids, { dtype: i64 })).array(), expected);
});

test('shapes are computed while the graph is recorded', async () => {
  // x (batch, 3) → (3, batch) by a shape that is computed of x's.
  const model = await loadOnnx(
    modelOf({
      inputs: [BATCH],
      nodes: [
        node('Shape', ['x'], ['shape']),
        node('Gather', ['shape', 'order'], ['swapped']),
        node('Reshape', ['x', 'swapped'], ['y']),
      ],
      initializers: [intTensor('order', [1, 0])],
    }),
  );
  assert.deepEqual(model.forward(zeros([5, 3])).shape, [3, 5]);
});

test('what depends on values is read by run, and refused by forward', async () => {
  const model = await loadOnnx(modelOf({ inputs: [BATCH], nodes: [node('NonZero', ['x'], ['y'])] }));
  const x = tensor([
    [0, 1, 0],
    [2, 0, 0],
  ]);
  assert.throws(() => model.forward(x), /depends on values of a tensor.*Call run\(\)/);
  assert.deepEqual(await (await model.run(x)).array(), [
    [0, 1],
    [1, 0],
  ]);
});

const branch = (value: number) =>
  graph({ nodes: [node('Add', ['x', 'c'], ['y'])], initializers: [floatTensor('c', [], [value])] });

test('branches and loops see the names around them', async () => {
  const body = graph({
    inputs: [info('i', [], 7), info('going', [], 9), info('sum', [])],
    outputs: [info('still', [], 9), info('next', []), info('row', [])],
    nodes: [
      node('Identity', ['going'], ['still']),
      node('Add', ['sum', 'x'], ['next']),
      node('Identity', ['next'], ['row']),
    ],
  });
  const model = await loadOnnx<readonly Tensor[]>(
    modelOf({
      inputs: [info('x', []), info('flag', [], 9)],
      outputs: [info('y', []), info('last', []), info('rows', [])],
      nodes: [
        node('If', ['flag'], ['y'], { then_branch: branch(1), else_branch: branch(2) }),
        node('Loop', ['three', '', 'x'], ['last', 'rows'], { body }),
      ],
      initializers: [intTensor('three', [3], [])],
    }),
  );
  const [y, last, rows] = await model.run(tensor(5), tensor(false));
  assert.deepEqual([await y!.item(), await last!.item(), await rows!.array()], [7, 20, [10, 15, 20]]);
});

test('functions of a model are written out', async () => {
  const functionOf = (inner: NodeProto): FunctionProto =>
    create(FunctionProtoSchema, {
      ...{ name: 'Scale', domain: 'mine', input: ['a'], output: ['b'], node: [inner] },
      opsetImport: [
        { domain: '', version: 21n },
        { domain: 'mine', version: 1n },
      ],
    });
  const scale = functionOf(node('Softmax', ['a'], ['b']));
  const parts = graph({ inputs: [BATCH], nodes: [node('Scale', ['x'], ['y'], {}, 'mine')] });
  const opsetImport = [
    { domain: '', version: 21n },
    { domain: 'mine', version: 1n },
  ];
  const bytes = (functions: FunctionProto[]) =>
    toBinary(
      ModelProtoSchema,
      create(ModelProtoSchema, { irVersion: 10n, opsetImport, graph: parts, functions }),
    );
  const y = (await loadOnnx(bytes([scale]))).forward(zeros([1, 3]));
  assert.ok(await y.allclose(tensor([[1, 1, 1]]).div(3)));
  const circular = functionOf(node('Scale', ['a'], ['b'], {}, 'mine'));
  await assert.rejects(loadOnnx(bytes([circular])), /the function 'Scale' calls itself/);
  await assert.rejects(loadOnnx(bytes([scale, scale])), /has the function 'Scale' twice/);
});

test('operators that are not supported are all named, with those of branches', async () => {
  const then_branch = graph({ nodes: [node('Strange', ['x'], ['y'], {}, 'com.example')] });
  const model = modelOf({
    inputs: [info('x', []), info('flag', [], 9)],
    nodes: [
      node('Unheard', ['x'], ['a']),
      node('Unheard', ['a'], ['b']),
      node('If', ['flag'], ['y'], { then_branch, else_branch: branch(1) }),
    ],
  });
  await assert.rejects(
    loadOnnx(model),
    /not supported: Unheard \(version 21\) × 2, com\.example\.Strange \(version unknown\) × 1/,
  );
});

const relu = node('Relu', ['x'], ['y']);
/** Graphs that are wrong, and what is said of them. */
const WRONG: Readonly<Record<string, readonly [Uint8Array, RegExp]>> = {
  'an empty file': [new Uint8Array(), /is empty/],
  'no protobuf': [new Uint8Array(100).fill(255), /no ONNX model, or damaged/],
  'no graph': [toBinary(ModelProtoSchema, create(ModelProtoSchema, { irVersion: 10n })), /has no graph/],
  'an opset before the oldest': [
    modelOf({ inputs: [BATCH], nodes: [relu] }, 6),
    /is of opset 6, opsets 7 to 28 are read/,
  ],
  'an opset after the newest': [
    modelOf({ inputs: [BATCH], nodes: [relu] }, 29),
    /is of opset 29, opsets 7 to 28/,
  ],
  'a circle': [
    modelOf({ inputs: [BATCH], nodes: [node('Add', ['x', 'b'], ['a']), node('Relu', ['a'], ['b']), relu] }),
    /node 0 \(Add\) uses 'b', which nothing before it gives/,
  ],
  'a missing input': [modelOf({ nodes: [relu] }), /uses 'x', which nothing before it gives/],
  'a missing output': [
    modelOf({ inputs: [BATCH], nodes: [node('Relu', ['x'], ['z'])] }),
    /the output uses 'y'/,
  ],
  'a name given twice': [
    modelOf({ inputs: [BATCH], nodes: [relu, relu] }),
    /gives 'y', which is given before/,
  ],
  'too many inputs': [
    modelOf({ inputs: [BATCH], nodes: [node('Relu', ['x', 'x'], ['y'])] }),
    /has 2 inputs, must have 1/,
  ],
  'an attribute that is not known': [
    modelOf({ inputs: [BATCH], nodes: [node('Relu', ['x'], ['y'], { axis: 1 })] }),
    /has the attribute 'axis', which version 14 of the operator does not have/,
  ],
  'an attribute of another kind': [
    modelOf({ inputs: [BATCH], nodes: [node('Softmax', ['x'], ['y'], { axis: [1] })] }),
    /the attribute 'axis' of type 7, must be an int/,
  ],
  'an attribute of a later version': [
    modelOf({ inputs: [BATCH], nodes: [node('Unsqueeze', ['x'], ['y'], { axes: [0] })] }),
    /has the attribute 'axes', which version 21/,
  ],
  'too few values': [
    modelOf({ inputs: [BATCH], nodes: [relu], initializers: [floatTensor('w', [2, 3], [1, 2])] }),
    /the tensor 'w' has 2 values, f32 \(2,3\) asks for 6/,
  ],
  'a negative size': [
    modelOf({ inputs: [BATCH], nodes: [relu], initializers: [floatTensor('w', [-2], [])] }),
    /sizes must be at least 0/,
  ],
  'sizes beyond all memory': [
    modelOf({ inputs: [BATCH], nodes: [relu], initializers: [floatTensor('w', [2 ** 40, 2 ** 10], [])] }),
    /a tensor has at most/,
  ],
};

for (const [what, [bytes, message]] of Object.entries(WRONG))
  test(`${what} is an error`, () => assert.rejects(loadOnnx(bytes), message));

test('a loop without an end is an error', async () => {
  const body = graph({
    inputs: [info('i', [], 7), info('going', [], 9)],
    outputs: [info('still', [], 9), info('row', [])],
    nodes: [node('Identity', ['going'], ['still']), node('Identity', ['x'], ['row'])],
  });
  const model = await loadOnnx(
    modelOf({ inputs: [info('x', [])], nodes: [node('Loop', ['', ''], ['y'], { body })] }),
  );
  assert.throws(() => model.forward(tensor(1)), /more than 100000 nodes are to be computed/);
});

/** A model whose one weight is in another file. */
const withData = (entries: Readonly<Record<string, string>>, dims = [2]): Uint8Array =>
  modelOf({
    inputs: [info('x', ['n'])],
    nodes: [node('Add', ['x', 'w'], ['y'])],
    initializers: [externalTensor('w', dims, entries)],
  });

test('external data are read from the folder of the model', async () => {
  writeFileSync(join(folder, 'weights.bin'), Buffer.from(Float32Array.of(9, 1, 2).buffer));
  const path = join(folder, 'model.onnx');
  writeFileSync(path, withData({ location: 'weights.bin', offset: '4', length: '8' }));
  assert.deepEqual(await (await loadOnnx(path)).forward(tensor([0, 0])).array(), [1, 2]);
  const bytes = withData({ location: 'weights.bin', offset: '4' });
  assert.deepEqual(await (await loadOnnx(bytes, { folder })).forward(tensor([0, 0])).array(), [1, 2]);
  await assert.rejects(loadOnnx(bytes), /Load the model by its path instead/);
});

test('no path leaves the folder of the model', async () => {
  const inner = join(folder, 'inner');
  mkdirSync(inner);
  writeFileSync(join(folder, 'outside.bin'), new Uint8Array(8));
  symlinkSync(join(folder, 'outside.bin'), join(inner, 'link.bin'));
  symlinkSync(folder, join(inner, 'up'));
  const refused: Readonly<Record<string, RegExp>> = {
    '../outside.bin': /leave the folder/,
    'a/../../outside.bin': /leave the folder/,
    '..\\outside.bin': /leave the folder/,
    '/etc/passwd': /must be a relative path/,
    'C:\\weights.bin': /must be a relative path/,
    'link.bin': /a link that leaves the folder/,
    'up/outside.bin': /a link that leaves the folder/,
    '': /must be a relative path/,
    '.': /a link that leaves the folder/,
    'missing.bin': /cannot be read: ENOENT/,
  };
  for (const [location, message] of Object.entries(refused))
    await assert.rejects(loadOnnx(withData({ location }), { folder: inner }), message, location);
});

test('external data that lie about their size are errors', async () => {
  writeFileSync(join(folder, 'short.bin'), new Uint8Array(8));
  const load = (entries: Readonly<Record<string, string>>, dims?: number[]) =>
    loadOnnx(withData({ location: 'short.bin', ...entries }, dims), { folder });
  await assert.rejects(load({}, [1_000_000_000]), /is at bytes 0 to 4000000000 of 'short\.bin', which has 8/);
  await assert.rejects(load({ offset: '4' }), /is at bytes 4 to 12 of 'short\.bin', which has 8/);
  await assert.rejects(load({ length: '4' }), /has 4 bytes of external data, its type and shape ask for 8/);
  await assert.rejects(load({ offset: '-4' }), /offset '-4', must be a whole number/);
  await assert.rejects(load({ offset: '99999999999999999999' }), /must be a whole number/);
});

test('a path that leads nowhere is an error', async () => {
  await assert.rejects(loadOnnx(join(folder, 'nothing.onnx')), /no such file/);
  await assert.rejects(loadOnnx(folder), /is a folder/);
});

test('random numbers are of the distribution asked for, and others at every run', async () => {
  const size = 20_000;
  const model = await loadOnnx<readonly Tensor[]>(
    modelOf({
      inputs: [info('p', [size])],
      outputs: ['b', 'n', 'u'].map((name) => info(name, [size])),
      nodes: [
        node('Bernoulli', ['p'], ['b']),
        node('RandomNormalLike', ['p'], ['n']),
        node('RandomUniform', [], ['u'], { shape: [size] }),
      ],
    }),
  );
  manualSeed(1);
  const p = zeros([size]).add(0.3) as Tensor;
  const [first, second] = [await model.run(p), await model.run(p)];
  const moments = async (x: Tensor): Promise<number[]> => [
    await x.mean().item(),
    await x.std().item(),
    await x.min().item(),
    await x.max().item(),
  ];
  const expected = [
    [0.3, Math.sqrt(0.21), 0, 1],
    [0, 1, -4, 4],
    [0.5, Math.sqrt(1 / 12), 0, 1],
  ];
  for (const [i, of] of expected.entries()) {
    const found = await moments(first[i]!);
    for (const [k, value] of of.entries())
      assert.ok(Math.abs(found[k]! - value) < (i === 1 && k > 1 ? 0.7 : 0.02), `${i}: ${found}`);
    assert.notDeepEqual(await first[i]!.array(), await second[i]!.array());
  }
});
