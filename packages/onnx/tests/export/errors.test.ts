/** What cannot be exported is refused, and the message says what, where and what to do. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  ArgumentError,
  buffer,
  ceilDiv,
  f32,
  i32,
  kernel,
  nn,
  ones,
  rand,
  type Tensor,
  tensor,
  zeros,
} from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { type ExportOptions, exportOnnx } from '../../src/export/export-onnx.js';
import { readModel } from '../../src/file/model-file.js';
import type { TypeProto_Tensor } from '../../src/protobuf/onnx_pb.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-export-'));
after(() => rmSync(folder, { recursive: true }));
after(closeDevices);

class Of extends nn.Module {
  readonly inner: nn.Module | undefined;
  readonly #body: (...inputs: Tensor[]) => unknown;
  constructor(body: (...inputs: Tensor[]) => unknown, inner?: nn.Module) {
    super();
    this.#body = body;
    this.inner = inner;
  }
  forward(...inputs: Tensor[]): unknown {
    return this.#body(...inputs);
  }
}

const x = (): Tensor => ones([4, 6]);
const refused = (body: (...inputs: Tensor[]) => unknown, message: RegExp, options: ExportOptions = {}) =>
  assert.rejects(exportOnnx(new Of(body), [x()], options), (error: Error) => {
    assert.ok(error instanceof ArgumentError, error.stack);
    assert.match(error.message, message);
    return true;
  });

test('wrong arguments', async () => {
  const model = new nn.ReLU();
  const wrong = (args: unknown[], message: RegExp) =>
    assert.rejects((exportOnnx as (...args: unknown[]) => Promise<unknown>)(...args), {
      name: 'ArgumentError',
      message,
    });
  await wrong([{}, [x()]], /module is \{\}, must be a module/);
  await wrong([model, x()], /exampleInputs is .*, must be an array\. Write exportOnnx\(model, \[x\]\)/);
  await wrong([model, []], /has no tensor/);
  await wrong([model, ['text']], /input is string/);
  await wrong(
    [model, [x()], { functions: [model] }],
    /functions is \[.*\], must be a boolean, or a list of classes/,
  );
  await wrong([model, [x()], { opset: 17 }], /opset is 17, must be an integer from 18 to 24/);
  await wrong(
    [model, [x()], { dynamicaxes: 'batch' }],
    /unknown option 'dynamicaxes'. Did you mean 'dynamicAxes'/,
  );
  await wrong([model, [x()], { dynamicAxes: 'all' }], /dynamicAxes is 'all', must be 'batch', or an object/);
  await wrong(
    [model, [x()], { dynamicAxes: { images: { 0: 'n' } } }],
    /names 'images', the inputs are input/,
  );
  await wrong(
    [model, [x()], { dynamicAxes: { input: { 2: 'n' } } }],
    /axis 2 of 'input'.*\(4,6\): give axes from 0 to 1/,
  );
  await wrong(
    [model, [x()], { dynamicAxes: { input: { 0: 'n', 1: 'n' } } }],
    /'n' is 4 and 6.*must be the same/,
  );
  await wrong(
    [model, [x()], { inputNames: ['a', 'b'] }],
    /inputNames has 2 names, there are 1 tensors: input/,
  );
  await wrong([model, [x()], { outputNames: ['input'] }], /an input and an output are both called 'input'/);
  await wrong([model, [x()], { externalData: true }], /external data need a path/);
});

test('a kernel of the user, by its name and the line that calls it', async () => {
  const double = kernel('double', { x: buffer(f32), y: buffer(f32), n: i32 }, ({ x, y, n }, { globalId }) => {
    if (globalId.x < n) y[globalId.x] = x[globalId.x]! * 2;
  });
  const inner = new Of((t) =>
    double.apply({ grid: ceilDiv(24, 32), block: 32 }, { x: t!, n: 24 }, { y: [4, 6] }),
  );
  const model = new Of((t) => inner.forward(t!), inner);
  await assert.rejects(exportOnnx(model, [x()]), {
    name: 'ArgumentError',
    message:
      /the kernel 'double', called in 'inner' at .*errors\.test\.\w+:\d+.*, has no counterpart in ONNX/,
  });
});

test('random numbers, state, and results that are no tensors', async () => {
  await refused((t) => t!.add(rand([4, 6])), /draws random numbers/);
  const state = ones([6]);
  await refused((t) => state.assign(state.add(t!.sum(0))), /assigns a tensor that it keeps/);
  await refused(() => 3, /output is number/);
  await refused(() => ({}), /forward returns no tensor/);
});

test('what depends on a dynamic size otherwise than by sums and products', async () => {
  const batch = { dynamicAxes: 'batch' } as const;
  await refused(
    (t) => t!.mul(Math.log(t!.shape[0]!)),
    /a number in the model depends on a dynamic dimension/,
    batch,
  );
  await refused(
    (t) => (t!.shape[0]! % 4 === 1 ? t!.relu() : t!.exp()),
    /depends on the sizes of its dynamic dimensions: in the model it is/,
    batch,
  );
  await refused(
    (t) => t!.reshape([24]),
    /'batch' cannot be dynamic: the model takes 4 there, but not other sizes: .*reshape/,
    batch,
  );
  await refused(
    (t) => t!.add(tensor(new Float32Array(t!.shape[0]!)).unsqueeze(1)),
    /whose shape depends on a dynamic dimension/,
    batch,
  );
  await refused(
    (t) => t!.add(tensor([t!.shape[0]!])),
    /values from outside that depend on a dynamic dimension/,
    batch,
  );
});

test('weights that f16 does not have, by their name', async () => {
  const layer = new nn.Linear(6, 2);
  layer.weight.write(new Float32Array(12).fill(70_000));
  await assert.rejects(exportOnnx(layer, [x()], { precision: 'f16' }), {
    name: 'ArgumentError',
    message: /weight has elements up to 70000, f16 has numbers up to 65504/,
  });
});

test('a hook of the user is part of the model', async () => {
  const layer = new nn.ReLU();
  layer.registerForwardHook((_, __, y) => (y as Tensor).mul(3));
  const { operators } = await exportOnnx(new nn.Sequential(layer), [x()]);
  assert.deepEqual(operators, { Relu: 1, Mul: 1 });
});

test('a subclass of a layer is exported by what its forward computes', async () => {
  class Doubled extends nn.Linear {
    override forward(t: Tensor): never {
      return super.forward(t).mul(2) as never;
    }
  }
  const { operators } = await exportOnnx(new Doubled(6, 2), [x()]);
  assert.equal(operators.Mul, 1);
});

test('the modes and hooks of layers stay as they were', async () => {
  const model = new nn.Sequential(new nn.Dropout(), new nn.BatchNorm1d(6));
  model.layers[1]!.eval();
  await exportOnnx(model, [x()], { dynamicAxes: 'batch' });
  assert.deepEqual(
    [...model.namedModules()].map(([, module]) => module.training),
    [true, true, false],
  );
  assert.ok(!Object.hasOwn(model, 'forward'));
});

test('external data lie beside the model, and replace those of the model before', async () => {
  const path = join(folder, 'model.onnx');
  const once = await exportOnnx(new nn.Linear(64, 64), [ones([1, 64])], { path, externalData: true });
  assert.deepEqual(
    once.files,
    readdirSync(folder)
      .sort()
      .map((name) => join(folder, name)),
  );
  const { files } = await exportOnnx(new nn.Linear(64, 64), [ones([1, 64])], { path, externalData: true });
  assert.equal(readdirSync(folder).length, 2);
  assert.notEqual(files[1], once.files[1]);
  const { model } = await readModel(path);
  const [weight, bias] = model.graph!.initializer;
  assert.deepEqual(
    weight!.externalData.map(({ key, value }) => [key, value]),
    [
      ['location', files[1]!.slice(folder.length + 1)],
      ['offset', '0'],
      ['length', '16384'],
    ],
  );
  // Small tensors stay in the model.
  assert.equal(bias!.rawData.length, 256);
  assert.equal(readFileSync(files[1]!).length, 16384);
});

test('2 GiB of weights need a file beside the model', async () => {
  // Nothing is computed before it is written.
  const weight = zeros([2 ** 15, 2 ** 14]);
  await refused(
    (x) => x.matmul(weight.at('0:6') as Tensor),
    /the tensors have 2147483\d{3} bytes, too many for one file/,
  );
});

test('names, metadata and dynamic dimensions are in the file', async () => {
  const { bytes } = await exportOnnx(new nn.Sequential(new nn.Linear(6, 2), new nn.Flatten(0)), [x()], {
    ...{ inputNames: ['features'], outputNames: ['scores'], metadata: { licence: 'MIT' } },
    dynamicAxes: { features: { 0: 'examples' } },
  });
  const { model } = await readModel(bytes);
  assert.deepEqual(
    model.metadataProps.map(({ key, value }) => [key, value]),
    [['licence', 'MIT']],
  );
  assert.deepEqual(
    model.graph!.initializer.slice(0, 2).map(({ name }) => name),
    ['0.weight', '0.bias'],
  );
  const { value: type } = model.graph!.output[0]!.type!.value as { value: TypeProto_Tensor };
  assert.deepEqual(
    type.shape!.dim.map(({ value }) => value.value),
    ['2*examples'],
  );
});
