/**
 * The gradients of networks in the simulator, a small Hopper GPU, in the arithmetics of its tensor cores, beside those of the CPU in
 * f32: what kernels of several layers share, and how they follow each other in memory.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  autocast,
  bf16,
  gelu,
  getPrecision,
  jit,
  type nn,
  optim,
  realize,
  relu,
  setPrecision,
  silu,
  type Tensor,
  useDevice,
} from '../../src/index.js';

/** How products are computed on the GPU. */
export const arithmetic = fc.constantFrom('tf32', 'bf16');
export type Arithmetic = 'tf32' | 'bf16';

export const ACTIVATIONS = { relu, gelu, silu, none: (x: Tensor): Tensor => x } as const;

/** A network, and its loss. */
export interface Training {
  readonly model: nn.Module;
  readonly loss: () => Tensor;
}

const floats = async (t: Tensor): Promise<Float32Array> => Float32Array.from(await t.data(), Number);

/** The loss and the gradients of all parameters. */
type Gradients = (training: Training) => Promise<Float32Array[]>;

const apart: Gradients = async ({ model, loss: forward }) => {
  const loss = forward();
  loss.backward();
  const all = [loss, ...model.parameters().map((p) => p.grad!)];
  realize(...all);
  return Promise.all(all.map(floats));
};

/** By what a compiled step subtracts from the parameters, in whose memory it writes what they become. */
const inSteps: Gradients = async ({ model, loss: forward }) => {
  const parameters = model.parameters();
  const optimizer = new optim.SGD(parameters, { lr: 1 });
  const step = jit(() => {
    const loss = forward();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const before = await Promise.all(parameters.map(floats));
  const loss = await floats(step());
  const after = await Promise.all(parameters.map(floats));
  step.dispose();
  return [loss, ...before.map((values, i) => values.map((v, k) => v - after[i]![k]!))];
};

async function onCpu(make: () => Training): Promise<Float32Array[]> {
  useDevice('cpu');
  const before = getPrecision();
  setPrecision({ conv: 'f32', matmul: 'f32' });
  try {
    return await apart(make());
  } finally {
    setPrecision(before);
  }
}

async function inSimulator(
  make: () => Training,
  arithmetic: Arithmetic,
  gradients: Gradients,
): Promise<Float32Array[]> {
  useDevice('sim');
  const { model, loss } = make();
  if (arithmetic === 'bf16') return gradients({ model, loss: () => autocast(bf16, loss) });
  const before = getPrecision();
  setPrecision({ conv: 'tf32', matmul: 'tf32' });
  try {
    return await gradients({ model, loss });
  } finally {
    setPrecision(before);
  }
}

/**
 * Requires the loss, and the gradients apart and in compiled steps.
 * @param mostOff what the norm of an error may be, as a part of the norm of a gradient
 */
export async function requireNearCpu(
  make: () => Training,
  arithmetic: Arithmetic,
  mostOff: number,
): Promise<void> {
  const wanted = await onCpu(make);
  const most = Math.max(...wanted.slice(1).map(norm));
  for (const [how, gradients] of Object.entries({ apart, inSteps })) {
    const got = await inSimulator(make, arithmetic, gradients);
    wanted.forEach((values, i) => {
      const off = norm(values.map((v, k) => v - got[i]![k]!));
      const bound = mostOff * Math.max(norm(values), 0.1 * most);
      const what = i === 0 ? 'the loss' : `gradient ${i}`;
      assert.ok(off <= bound, `${how}: ${what}: off by ${off} of ${norm(values)}`);
    });
  }
}

/** Most that rounding does otherwise. */
export const SMOOTH = { tf32: 0.03, bf16: 0.2 } as const;
/** Where a rounding error may decide whether a number is positive, or which one is the largest of a window. */
export const DECIDED = 0.5;

function norm(values: Float32Array): number {
  let squares = 0;
  for (const v of values) squares += v * v;
  return Math.sqrt(squares);
}
