/**
 * The gradients of random convolutional networks in the simulator, a small Hopper GPU, in the arithmetics of its tensor cores, beside
 * those of the CPU in f32: what kernels of several layers share, and how they follow each other in memory.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import fc from 'fast-check';
import {
  autocast,
  avgPool2d,
  bf16,
  crossEntropy,
  gelu,
  getPrecision,
  manualSeed,
  maxPool2d,
  nn,
  randint,
  randn,
  realize,
  relu,
  setPrecision,
  silu,
  type Tensor,
  useDevice,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';

after(closeDevices);

const layer = fc.record({
  channels: fc.constantFrom(3, 8, 16, 24, 32, 64, 72),
  kernel: fc.constantFrom(1, 3, 3, 5),
  stride: fc.constantFrom(1, 1, 2),
  groups: fc.constantFrom('one', 'one', 'two', 'each'),
  norm: fc.constantFrom('batch', 'batch', 'none'),
  activation: fc.constantFrom('relu', 'gelu', 'silu', 'none'),
  /** What it gets is added to what it gives, where both have the same shape. */
  residual: fc.boolean(),
  pooled: fc.constantFrom('no', 'no', 'largest', 'mean'),
});
type Layer = typeof layer extends fc.Arbitrary<infer T> ? T : never;

const network = fc.record({
  batch: fc.integer({ min: 2, max: 4 }),
  size: fc.integer({ min: 5, max: 12 }),
  colours: fc.constantFrom(1, 3, 16),
  layers: fc.array(layer, { minLength: 1, maxLength: 4 }),
  arithmetic: fc.constantFrom('tf32', 'bf16'),
  seed: fc.nat(1000),
});
type Network = typeof network extends fc.Arbitrary<infer T> ? T : never;

/** Large, so that the variance of a few numbers, which may be near 0, does not multiply rounding errors. */
const EPS = 0.5;

const ACTIVATIONS = { relu, gelu, silu, none: (x: Tensor): Tensor => x } as const;

class RandomNetwork extends nn.Module {
  readonly convs: nn.Conv2d[] = [];
  readonly norms: (nn.BatchNorm2d | nn.Identity)[] = [];
  readonly head: nn.Linear;
  readonly #layers: readonly Layer[];

  constructor({ colours, layers }: Network) {
    super();
    let from: number = colours;
    for (const { channels, kernel, stride, groups, norm } of layers) {
      const divides = (n: number): boolean => from % n === 0 && channels % n === 0;
      const wanted = { one: 1, two: 2, each: from }[groups];
      const options = { stride, padding: (kernel - 1) / 2, bias: norm === 'none' };
      this.convs.push(
        new nn.Conv2d(from, channels, kernel, { ...options, groups: divides(wanted) ? wanted : 1 }),
      );
      this.norms.push(norm === 'batch' ? new nn.BatchNorm2d(channels, { eps: EPS }) : new nn.Identity());
      from = channels;
    }
    this.#layers = layers;
    this.head = new nn.Linear(from, 5);
  }

  forward(x: Tensor): Tensor {
    let y = x;
    this.#layers.forEach(({ activation, residual, pooled }, i) => {
      const before = y;
      y = this.norms[i]!.forward(this.convs[i]!.forward(y)) as Tensor;
      if (residual && String(before.shape) === String(y.shape)) y = y.add(before);
      y = ACTIVATIONS[activation](y);
      const fits = y.shape[2]! >= 2 && y.shape[3]! >= 2;
      if (pooled === 'largest' && fits) y = maxPool2d(y, 2);
      if (pooled === 'mean' && fits) y = avgPool2d(y, 2);
    });
    return this.head.forward(y.mean([2, 3]));
  }
}

/** The loss and the gradients of all parameters. */
async function gradients(of: Network, device: 'cpu' | 'sim'): Promise<Float32Array[]> {
  useDevice(device);
  manualSeed(of.seed);
  const model = new RandomNetwork(of);
  const x = randn([of.batch, of.colours, of.size, of.size]).realize();
  const labels = randint(0, 5, [of.batch]).realize();
  const before = getPrecision();
  const precision = device === 'sim' && of.arithmetic === 'tf32' ? 'tf32' : 'f32';
  setPrecision({ conv: precision, matmul: precision });
  try {
    const forward = (): Tensor => crossEntropy(model.forward(x), labels);
    const loss = device === 'sim' && of.arithmetic === 'bf16' ? autocast(bf16, forward) : forward();
    loss.backward();
    const all = [loss, ...model.parameters().map((p) => p.grad!)];
    realize(...all);
    return await Promise.all(all.map(async (t) => Float32Array.from(await t.data(), Number)));
  } finally {
    setPrecision(before);
  }
}

/** What the norm of an error may be, as a part of the norm of a gradient. */
function mostOff({ layers, arithmetic }: Network): number {
  // A rounding error may decide whether a number is positive, or which one is the largest of a window.
  const decides = layers.some((l) => l.activation === 'relu' || l.pooled === 'largest');
  if (decides) return 0.5;
  return arithmetic === 'tf32' ? 0.03 : 0.2;
}

function norm(values: Float32Array): number {
  let squares = 0;
  for (const v of values) squares += v * v;
  return Math.sqrt(squares);
}

property(
  'sim: gradients of a network in tf32 and bf16 are near those in f32 on the CPU',
  [network],
  async (of) => {
    const [wanted, got] = [await gradients(of, 'cpu'), await gradients(of, 'sim')];
    const most = Math.max(...wanted.slice(1).map(norm));
    wanted.forEach((values, i) => {
      const off = norm(values.map((v, k) => v - got[i]![k]!));
      const bound = mostOff(of) * Math.max(norm(values), 0.1 * most);
      assert.ok(off <= bound, `${i === 0 ? 'the loss' : `gradient ${i}`}: off by ${off} of ${norm(values)}`);
    });
  },
  { runs: 5, share: 5 },
);
