/** Random convolutional networks: their gradients in the simulator beside those of the CPU. */
import { after } from 'node:test';
import fc from 'fast-check';
import {
  avgPool2d,
  cat,
  crossEntropy,
  manualSeed,
  maxPool2d,
  nn,
  noGrad,
  randint,
  randn,
  type Shape,
  type Tensor,
  zeros,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';
import {
  ACTIVATIONS,
  arithmetic,
  DECIDED,
  requireNearCpu,
  SMOOTH,
  type Training,
} from './random-networks.js';

after(closeDevices);

const layer = fc.record({
  kind: fc.constantFrom('convolution', 'convolution', 'convolution', 'transposed'),
  channels: fc.constantFrom(3, 8, 16, 24, 32, 64, 72),
  kernel: fc.constantFrom(1, 3, 3, 5),
  stride: fc.constantFrom(1, 1, 2),
  dilation: fc.constantFrom(1, 1, 1, 2),
  groups: fc.constantFrom('one', 'one', 'two', 'each'),
  norm: fc.constantFrom('batch', 'batch', 'group', 'none'),
  activation: fc.constantFrom('relu', 'gelu', 'silu', 'none'),
  /** What it gets is added to what it gives, where both have the same shape, or put beside it, where images have the same size. */
  joined: fc.constantFrom('no', 'added', 'beside'),
  pooled: fc.constantFrom('no', 'no', 'largest', 'mean'),
});
type Layer = typeof layer extends fc.Arbitrary<infer T> ? T : never;

const network = fc.record({
  batch: fc.integer({ min: 2, max: 4 }),
  size: fc.integer({ min: 5, max: 12 }),
  colours: fc.constantFrom(1, 3, 16),
  layers: fc.array(layer, { minLength: 1, maxLength: 4 }),
  arithmetic,
  seed: fc.nat(1000),
});
type Network = typeof network extends fc.Arbitrary<infer T> ? T : never;

/** Large, so that the variance of a few numbers, which may be near 0, does not multiply rounding errors. */
const EPS = 0.5;

/** Most pixels along an image: those of transposed convolutions stay small. */
const MOST = 16;

class RandomLayer extends nn.Module {
  readonly conv: nn.Conv2d | nn.ConvTranspose2d;
  readonly norm: nn.BatchNorm2d | nn.GroupNorm | nn.Identity;
  readonly #of: Layer;
  readonly #joined: Layer['joined'];

  /** @param size of an image, of this many channels */
  constructor(of: Layer, from: number, size: number) {
    super();
    const { channels, kernel, stride, dilation, norm } = of;
    this.#of = of;
    const divides = (n: number): boolean => from % n === 0 && channels % n === 0;
    const wanted = { one: 1, two: 2, each: from }[of.groups];
    const options = { stride, groups: divides(wanted) ? wanted : 1, bias: norm === 'none' };
    const isTransposed = of.kind === 'transposed' && 2 * size <= MOST;
    this.conv = isTransposed
      ? new nn.ConvTranspose2d(from, channels, 2, { ...options, stride: 2 })
      : new nn.Conv2d(from, channels, kernel, {
          ...{ ...options, dilation, padding: (dilation * (kernel - 1)) / 2 },
        });
    this.norm = {
      batch: () => new nn.BatchNorm2d(channels, { eps: EPS }),
      group: () => new nn.GroupNorm(channels % 8 === 0 ? 4 : 1, channels, { eps: EPS }),
      none: () => new nn.Identity(),
    }[norm]();
    const keepsSize = !isTransposed && (stride === 1 || size === 1);
    const fits = keepsSize && (of.joined === 'beside' || from === channels);
    this.#joined = fits ? of.joined : 'no';
  }

  forward(x: Tensor): Tensor {
    const { activation, pooled } = this.#of;
    let y = this.norm.forward(this.conv.forward(x)) as Tensor;
    if (this.#joined === 'added') y = y.add(x);
    y = ACTIVATIONS[activation](y);
    if (this.#joined === 'beside') y = cat([x, y], 1) as Tensor;
    const fits = y.shape[2]! >= 2 && y.shape[3]! >= 2;
    if (pooled === 'largest' && fits) y = maxPool2d(y, 2);
    if (pooled === 'mean' && fits) y = avgPool2d(y, 2);
    return y;
  }
}

class RandomNetwork extends nn.Module {
  readonly layers: RandomLayer[] = [];
  readonly head: nn.Linear;

  constructor({ colours, size, layers }: Network) {
    super();
    let shape: Shape = [2, colours, size, size];
    for (const of of layers) {
      const made = new RandomLayer(of, shape[1]!, shape[2]!);
      this.layers.push(made);
      ({ shape } = noGrad(() => made.forward(zeros(shape) as Tensor)));
    }
    this.head = new nn.Linear(shape[1]!, 5);
  }

  forward(x: Tensor): Tensor {
    const y = this.layers.reduce((x, layer) => layer.forward(x), x);
    return this.head.forward(y.mean([2, 3]));
  }
}

property(
  'sim: gradients of convolutional networks in tf32 and bf16 are near those in f32 on the CPU',
  [network],
  async (of) => {
    const make = (): Training => {
      manualSeed(of.seed);
      const model = new RandomNetwork(of);
      const x = randn([of.batch, of.colours, of.size, of.size]).realize();
      const labels = randint(0, 5, [of.batch]).realize();
      return { model, loss: () => crossEntropy(model.forward(x), labels) };
    };
    const decides = of.layers.some((l) => l.activation === 'relu' || l.pooled === 'largest');
    await requireNearCpu(make, of.arithmetic, decides ? DECIDED : SMOOTH[of.arithmetic]);
  },
  { runs: 5, share: 5 },
);
