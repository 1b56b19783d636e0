/** Engines for one image, as an H200 would run them: in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inference, manualSeed, nn, noGrad, randn, relu, type Tensor, useDevice } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { quantize } from '../../src/quantization/index.js';
import { openDevice } from '../../src/runtime/registry.js';

const sim = openDevice('sim');
Object.defineProperty(sim, 'target', { value: { ...H200, libraries: new Set<string>() } });
useDevice('cpu');

/** The layers of a ResNet: 7×7 of colours with stride, 1×1, 3×3 with and without stride, a residual and a linear layer. */
class Network extends nn.Module {
  readonly stem = new nn.Conv2d(3, 64, 7, { stride: 2, padding: 3 });
  readonly narrow = new nn.Conv2d(64, 32, 1);
  readonly square = new nn.Conv2d(32, 32, 3, { padding: 1 });
  readonly wide = new nn.Conv2d(32, 64, 1);
  readonly down = new nn.Conv2d(64, 72, 3, { stride: 2, padding: 1 });
  readonly fc = new nn.Linear(72, 10);

  forward(x: Tensor): Tensor {
    const stem = relu(this.stem.forward(x));
    const inner = relu(this.square.forward(relu(this.narrow.forward(stem))));
    const block = relu(this.wide.forward(inner).add(stem));
    return this.fc.forward(relu(this.down.forward(block)).mean([2, 3]));
  }
}

/** What an engine on the simulated GPU gives for an image, and the kernels that it runs. */
async function runOnGpu(model: nn.Module, precision: 'bf16' | 'int8', x: Tensor) {
  let kernels: string[] = [];
  const { compile } = sim;
  sim.compile = (launches) => {
    kernels = launches.flatMap((launch) => ('kernel' in launch ? [launch.kernel.name] : []));
    return compile.call(sim, launches);
  };
  try {
    const shapes = [x.shape.slice(1)];
    using engine = await inference.compile(model, { shapes, precision, device: 'sim' });
    const [values] = await engine.runArrays([await x.data()], 1);
    return { kernels, values: values as Float32Array };
  } finally {
    sim.compile = compile;
  }
}

const farthest = (got: ArrayLike<number>, wanted: ArrayLike<number>): number =>
  Array.from(wanted).reduce((most, v, i) => Math.max(most, Math.abs(got[i]! - v)), 0);

test('one image in bf16: every convolution is by warpgroups, with channels last', async () => {
  manualSeed(1);
  const model = new Network().eval();
  const x = randn([1, 3, 30, 30]) as Tensor;
  const { kernels, values } = await runOnGpu(model, 'bf16', x);
  const convolutions = kernels.filter((name) => name.startsWith('conv2d'));
  assert.equal(convolutions.length, 5, kernels.join());
  assert.ok(
    convolutions.every((name) => name.startsWith('conv2dWarpgroups')),
    kernels.join(),
  );
  const wanted = await noGrad(() => model.forward(x)).data();
  assert.ok(farthest(values, wanted) < 2 ** -6, `${values} not ${wanted}`);
});

test('one image in int8: every product is of bytes, and its sums are those of the CPU', async () => {
  manualSeed(2);
  const x = randn([1, 3, 30, 30]) as Tensor;
  const model = await quantize(new Network(), [x]);
  const { kernels, values } = await runOnGpu(model, 'int8', x);
  const ofBytes = /^conv2d(BytesLast|Warpgroups(Parts)?)$/;
  assert.equal(kernels.filter((name) => ofBytes.test(name)).length, 5, kernels.join());
  assert.equal(kernels.filter((name) => name === 'matmulI8').length, 1, kernels.join());
  const wanted = await noGrad(() => model.forward(x) as Tensor).data();
  assert.ok(farthest(values, wanted) < 1e-5, `${values} not ${wanted}`);
});
