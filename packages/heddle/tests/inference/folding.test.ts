/** What is left to compute of a model: one launch for each convolution. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32 } from '../../src/core/dtype.js';
import { topological } from '../../src/core/node.js';
import { useDevice } from '../../src/engine/storage.js';
import { withoutGradients } from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import { argOf, type GraphNode } from '../../src/graph/node.js';
import { manualSeed, nn, noGrad, randn, type Tensor } from '../../src/index.js';
import { compile } from '../../src/inference/compile.js';
import { ConstantValues } from '../../src/inference/constants.js';
import { foldRoundings } from '../../src/inference/fold-roundings.js';
import { foldScales } from '../../src/inference/fold-scales.js';
import { type EnginePrecision, traceModel } from '../../src/inference/trace-model.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { quantize } from '../../src/quantization/index.js';
import { inIntegers } from '../../src/schedule/integers.js';
import { BasicBlock, ResNet18 } from '../../src/train/resnet.js';

useDevice('cpu');

/** What is computed of the inputs, by op. */
function counts(model: nn.Module, shape: readonly number[], precision: EnginePrecision = 'f32') {
  const traced = traceModel(model, [{ shape, dtype: f32 }], 1, precision);
  const outputs = traced.outputs.map(([, node]) => node);
  return countsOf(withoutGradients(() => foldScales(foldRoundings(inIntegers(outputs, H200)))));
}

function countsOf(roots: readonly GraphNode[]) {
  new ConstantValues().compute(roots);
  const found: Record<string, number> = {};
  const sources = (n: GraphNode): readonly GraphNode[] => (n.isLeaf ? [] : n.src);
  for (const node of topological(roots, sources)) {
    if (node.op !== 'map' && node.op !== 'call') continue;
    const name = node.op === 'call' ? callOf(node).op.name : argOf(node, 'map').op;
    found[name] = (found[name] ?? 0) + 1;
  }
  return found;
}

/** A batch norm that is not the identity. */
function norm<N extends nn.BatchNorm1d | nn.BatchNorm2d>(layer: N): N {
  noGrad(() => {
    const { weight, bias, runningMean, runningVar } = layer;
    weight!.assign(randn(weight!.shape).add(2));
    bias!.assign(randn(bias!.shape));
    runningMean!.assign(randn(bias!.shape));
    runningVar!.assign(randn(bias!.shape).abs().add(0.5));
  });
  return layer;
}

test('a batch norm after a convolution or a linear layer leaves one sum', () => {
  manualSeed(0);
  const conv = new nn.Sequential(
    new nn.Conv2d(3, 4, 3, { bias: true }),
    norm(new nn.BatchNorm2d(4)),
    new nn.ReLU(),
  );
  assert.deepEqual(counts(conv, [3, 6, 6]), { conv2d: 1, add: 1, relu: 1 });
  const linear = new nn.Sequential(new nn.Linear(3, 4), norm(new nn.BatchNorm1d(4)));
  assert.deepEqual(counts(linear, [3]), { matmul: 1, add: 1 });
  const transposed = new nn.Sequential(new nn.ConvTranspose2d(3, 4, 2), norm(new nn.BatchNorm2d(4)));
  assert.deepEqual(counts(transposed, [3, 6, 6]), { conv2dInput: 1, add: 1 });
  const along = new nn.Sequential(new nn.Conv1d(3, 4, 3), norm(new nn.BatchNorm1d(4)));
  assert.equal(counts(along, [3, 8]).mul, undefined);
});

/** The result of the convolution is wanted by itself, too. */
class Branch extends nn.Module {
  conv = new nn.Conv2d(2, 2, 1, { bias: false });
  bn = norm(new nn.BatchNorm2d(2));
  forward(x: Tensor): Tensor {
    const y = this.conv.forward(x);
    return this.bn.forward(y).mul(y);
  }
}

test('weights stay as they are where the result of the layer has other readers', () => {
  manualSeed(0);
  assert.deepEqual(counts(new Branch(), [2, 4, 4]), { conv2d: 1, sub: 1, mul: 2, add: 1 });
});

test('factors that are no constant, or differ along another axis, stay', () => {
  class Scaled extends nn.Module {
    linear = new nn.Linear(3, 4, { bias: false });
    rows = randn([2, 1]);
    forward(x: Tensor): Tensor {
      return this.linear.forward(x).mul(this.rows).mul(x.sum());
    }
  }
  manualSeed(0);
  assert.equal(counts(new Scaled(), [2, 3]).mul, 2);
});

test('weights of 16 bits are scaled before they are rounded', () => {
  manualSeed(0);
  const model = new nn.Sequential(new nn.Conv2d(3, 4, 3), norm(new nn.BatchNorm2d(4)));
  const { mul, sub } = counts(model, [3, 6, 6], 'bf16');
  assert.deepEqual([mul, sub], [undefined, undefined]);
  assert.equal(bf16.bytes, 2);
});

test('resnet18 on the CPU: a launch for each convolution, one for the mean and one for the last layer', async () => {
  manualSeed(0);
  const model = new ResNet18(3, 10);
  const convolutions = [...model.namedModules()].filter(([, m]) => m instanceof nn.Conv2d).length;
  using engine = await compile(model, { shapes: [[3, 16, 16]], device: 'cpu' });
  assert.deepEqual(engine.launches, [convolutions + 2]);
});

test('layers that take the same values round them once: equal scales are one constant', async () => {
  manualSeed(4);
  const block = new BasicBlock(3, 4, 2);
  const quantized = await quantize(block, [randn([8, 3, 8, 8])]);
  const { inputs, outputs } = traceModel(quantized, [{ shape: [3, 8, 8], dtype: f32 }], 1, 'int8');
  const scalesOf = (roots: readonly GraphNode[]): Set<GraphNode> =>
    new Set(
      topological(roots, (n) => (n.isLeaf ? [] : n.src))
        .filter((n) => n.op === 'call' && callOf(n).op.name === 'quantizeLinear' && n.src[0] === inputs[0])
        .map((n) => n.src[1]!),
    );
  const roots = outputs.map(([, node]) => node);
  assert.equal(scalesOf(roots).size, 2);
  assert.equal(scalesOf(await new ConstantValues().sharing(roots)).size, 1);
});

test('rounding to bytes divides by nothing: its scale is in the factors and sums before', async () => {
  manualSeed(5);
  const layers = [new nn.Conv2d(16, 16, 1), norm(new nn.BatchNorm2d(16)), new nn.ReLU()];
  const plain = new nn.Sequential(...layers, new nn.Flatten(), new nn.Linear(16 * 9, 4));
  const quantized = await quantize(plain, [randn([4, 16, 3, 3])], { perChannel: false });
  // The input is multiplied by itself; the sums of both layers by their scales.
  assert.deepEqual(counts(quantized, [16, 3, 3], 'int8'), {
    ...{ quantizeLinear: 2, convInteger: 1, matmulInteger: 1 },
    ...{ cast: 2, mul: 2, fma: 1, add: 1, max: 1 },
  });
  const block = new BasicBlock(16, 16, 1);
  const residual = new nn.Sequential(block, new nn.Conv2d(16, 16, 1, { bias: false }));
  const rounded = await quantize(residual, [randn([4, 16, 3, 3])]);
  // One more: what the block got, as the bytes that it is rounded to.
  assert.deepEqual(counts(rounded, [16, 3, 3], 'int8'), {
    ...{ quantizeLinear: 3, convInteger: 3 },
    ...{ cast: 4, mul: 2, fma: 3, max: 2 },
  });
});

test('a value that others read as it is keeps its scale, and is computed once', async () => {
  class Shown extends nn.Module {
    first = new nn.Conv2d(16, 16, 1, { bias: false });
    second = new nn.Conv2d(16, 16, 1, { bias: false });
    forward(x: Tensor): { readonly y: Tensor; readonly z: Tensor } {
      const y = this.first.forward(x).relu();
      return { y, z: this.second.forward(y) };
    }
  }
  manualSeed(6);
  const quantized = await quantize(new Shown(), [randn([4, 16, 3, 3])]);
  assert.deepEqual(counts(quantized, [16, 3, 3], 'int8'), {
    ...{ quantizeLinear: 2, convInteger: 2 },
    ...{ cast: 2, mul: 4, relu: 1 },
  });
});
