/** The kernels that the scheduler makes for a GPU: those of whole training steps and of layers, forward and backward. */
import { bf16, bool, f32, f64, i32 } from '../../src/core/dtype.js';
import { leaf } from '../../src/graph/build.js';
import { vjp } from '../../src/graph/grad.js';
import {
  ctcLoss,
  nn,
  ones,
  rand,
  randn,
  type Shape,
  scaledDotProductAttention,
  tensor,
  zeros,
} from '../../src/index.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { keyValueGradientGroups } from '../../src/ops/attention/warpgroup-key-gradient.js';
import type { GridKernel } from '../../src/ops/tiled.js';
import { schedule } from '../../src/schedule/schedule.js';
import { crossEntropy } from '../../src/tensor/functional-losses.js';
import { batchNorm } from '../../src/tensor/functional-normalization.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { PROGRAMS } from '../../src/train/programs.js';

const kernelsOf = (name: string, roots: readonly Tensor[], target: Target): KernelIr[] => {
  const { launches } = schedule(
    roots.map((t) => t.node),
    target,
  );
  const kernels = new Set(launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel] : [])));
  return [...kernels].map((kernel, i) => ({ ...kernel, name: `${name}_${i}_${kernel.name}` }));
};

/** Every launch's kernel of one step of lenet5 and cnn: the loss and all gradients. */
const ofPrograms = (target: Target): KernelIr[] =>
  (['lenet5', 'cnn'] as const).flatMap((name) => {
    const model = PROGRAMS[name].build();
    const images = new Tensor(leaf([64, 1, 28, 28], model.parameters()[0]!.dtype));
    const loss = crossEntropy(model.forward(images), new Tensor(leaf([64], i32)));
    loss.backward();
    return kernelsOf(name, [loss, ...model.parameters().map((p) => p.grad!)], target);
  });

/** An embedding and batch norm in training, with their gradients; sorted and scattered rows; random numbers. */
function ofLayers(target: Target): KernelIr[] {
  const of = (...shape: number[]): Tensor =>
    tensor(new Float32Array(shape.reduce((n, d) => n * d)), { shape, requiresGrad: true });
  const rows = of(1000, 32);
  const images = of(32, 16, 64, 64);
  const [weight, bias] = [of(16), of(16)];
  const running = [zeros([16]), ones([16])] as const;
  const y = batchNorm(images, ...running, { weight, bias, training: true });
  const picked = rows.at(new Tensor(leaf([3000], i32)));
  picked.square().sum().add(y.square().sum()).backward();
  const gradients = [rows, images, weight, bias].map((p) => p.grad!);
  const index = new Tensor(leaf([300], i32));
  const scattered = (['scatter', 'scatterAdd'] as const).map((op) => of(300)[op](0, index, of(300)));
  const sorted = [of(3, 5000).topk(4).values, rows.sort(0).indices, of(9, 300).cast(f64).argsort()];
  return kernelsOf(
    'layers',
    [y, ...running, ...gradients, ...sorted, ...scattered, randn([2 ** 20]), rand([999])],
    target,
  );
}

/** Recurrent networks, causal attention and CTC, with their gradients. */
function ofSequences(target: Target): KernelIr[] {
  const x = new Tensor<Shape, 'f32'>(leaf([5, 3, 4], ones([1]).dtype));
  // All steps in one launch, weights one by one and in vectors; and a launch for each step.
  const models = [new nn.RNN(4, 6), new nn.GRU(4, 64), new nn.LSTM(4, 256)];
  const attention = new nn.MultiheadAttention(4, 2);
  const outputs = [
    ...models.map((model) => model.forward(x)[0].sum()),
    attention.forward(x, x, x, { isCausal: true }).sum(),
  ];
  const [targets, lengths, most] = [[3, 2], [3], [3]].map((shape) => new Tensor(leaf(shape, i32)));
  outputs.push(ctcLoss(models[0]!.forward(x)[0].logSoftmax(), targets!, lengths!, most!).sum());
  outputs.reduce((sum, y) => sum.add(y)).backward();
  const gradients = [...models, attention].flatMap((model) => model.parameters().map((p) => p.grad!));
  return kernelsOf('sequences', [...outputs, ...gradients], target);
}

/** Attention of 16-bit floats and its gradients: their kernels, and the threads of a block. */
export function attentionKernels(
  target: Target,
  width: number,
  { isMasked = false, dropout = 0 } = {},
): readonly { readonly ir: KernelIr; readonly threads: number }[] {
  const leaves = [1, 2, 3].map(() => leaf([2, 4, 256, width], bf16, true));
  const [q, k, v] = leaves.map((x) => new Tensor(x));
  const mask = isMasked ? new Tensor(leaf([256, 256], bool)) : undefined;
  const y = scaledDotProductAttention(q!, k!, v!, { mask, isCausal: true, dropout }).node;
  const gradients = vjp([y], [leaf(y.shape, bf16)], leaves);
  const { launches } = schedule([y, ...gradients.map((node) => node!)], target);
  return launches.flatMap(({ work }) =>
    'kernel' in work && work.kernel.name.startsWith('attention')
      ? [
          {
            ir: { ...work.kernel, name: `${work.kernel.name}_${width}${dropout > 0 ? '_dropout' : ''}` },
            threads: work.block[0],
          },
        ]
      : [],
  );
}

/** The gradients of keys and values of causal attention by tiles that are multiplied one product after the other. */
export function keyGradientInTurn(): GridKernel {
  const rows = { offset: 0, batch: 8 * 512 * 128, head: 512 * 128, row: 128, column: 1 };
  const problem = {
    ...{ dtype: bf16, batch: 2, heads: 8, keyHeads: 8, queries: 512, keys: 512, width: 128 },
    ...{ isCausal: true, scale: 0.1, mask: undefined, dropout: undefined },
    ...{ q: rows, k: rows, v: rows, g: rows },
  };
  const tile = { groups: 2, across: 64, stages: 4, inTurn: true } as const;
  return keyValueGradientGroups(problem, tile, H200.units, { toK: rows, toV: rows });
}

/** Lines that a cluster keeps: columns, in registers and partly in shared memory, and rows with a loss and its gradient. */
export function longLineKernels(
  target: Target,
): readonly { readonly ir: KernelIr; readonly threads: number }[] {
  const logits = new Tensor(leaf([8192, 50304], bf16, true));
  const loss = crossEntropy(logits, new Tensor(leaf([8192], i32)));
  const [gradient] = vjp([loss.node], [leaf(loss.shape, bf16)], [logits.node]);
  const square = [bf16, f32].map((dtype) => leaf([8192, 8192], dtype));
  const columns = [...square, leaf([20000, 2048], f32)].map((x) => new Tensor(x).softmax(0).node);
  const { launches } = schedule([loss.node, gradient!, ...columns], target);
  return launches.flatMap(({ work }, i) =>
    'kernel' in work && work.cluster !== undefined
      ? [{ ir: { ...work.kernel, name: `${work.kernel.name}_lines_${i}` }, threads: work.block[0] }]
      : [],
  );
}

export const generatedKernels = (target: Target): KernelIr[] => [
  ...ofPrograms(target),
  ...ofLayers(target),
  ...ofSequences(target),
  ...attentionKernels(target, 64, { isMasked: true }).map(({ ir }) => ir),
  ...attentionKernels(target, 64, { isMasked: true, dropout: 0.1 }).map(({ ir }) => ir),
  ...attentionKernels(target, 128).map(({ ir }) => ir),
];
