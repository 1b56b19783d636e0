/**
 * The gradients of random networks of convolutions, and of sequences, in the simulator, a small Hopper GPU, in the arithmetics of its
 * tensor cores, beside those of the CPU in f32: what kernels of several layers share, and how they follow each other in memory.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import fc from 'fast-check';
import {
  type AnyTensor,
  arange,
  autocast,
  avgPool2d,
  bf16,
  cat,
  crossEntropy,
  dropout,
  gelu,
  getPrecision,
  jit,
  linear,
  manualSeed,
  maxPool2d,
  nn,
  noGrad,
  optim,
  randint,
  randn,
  realize,
  relu,
  type Shape,
  setPrecision,
  silu,
  type Tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';

after(closeDevices);

/** How products are computed on the GPU. */
const arithmetic = fc.constantFrom('tf32', 'bf16');
type Arithmetic = 'tf32' | 'bf16';

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

const ACTIVATIONS = { relu, gelu, silu, none: (x: Tensor): Tensor => x } as const;

/** Most pixels along an image: those of transposed convolutions stay small. */
const MOST = 16;

class RandomLayer extends nn.Module {
  readonly conv: nn.Conv2d | nn.ConvTranspose2d;
  readonly norm: nn.BatchNorm2d | nn.GroupNorm | nn.Identity;
  /** Of its result. */
  readonly channels: number;
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
    this.channels = this.#joined === 'beside' ? from + channels : channels;
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

/** A network, and its loss. */
interface Training {
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

/** @param mostOff what the norm of an error may be, as a part of the norm of a gradient */
async function check(make: () => Training, arithmetic: Arithmetic, mostOff: number): Promise<void> {
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

const SMOOTH = { tf32: 0.03, bf16: 0.2 } as const;
/** Where a rounding error may decide whether a number is positive, or which one is the largest of a window. */
const DECIDED = 0.5;

function norm(values: Float32Array): number {
  let squares = 0;
  for (const v of values) squares += v * v;
  return Math.sqrt(squares);
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
    await check(make, of.arithmetic, decides ? DECIDED : SMOOTH[of.arithmetic]);
  },
  { runs: 5, share: 5 },
);

const part = fc.record({
  kind: fc.constantFrom('attention', 'attention', 'feedforward', 'feedforward', 'recurrent'),
  heads: fc.constantFrom(1, 2, 4),
  isCausal: fc.boolean(),
  isPadded: fc.boolean(),
  hidden: fc.constantFrom(24, 64, 128),
  activation: fc.constantFrom('gelu', 'silu', 'none'),
  norm: fc.constantFrom('layer', 'rms', 'none'),
  normFirst: fc.boolean(),
  dropout: fc.constantFrom(0, 0, 0.2),
});
type Part = typeof part extends fc.Arbitrary<infer T> ? T : never;

const sequences = fc.record({
  batch: fc.integer({ min: 1, max: 4 }),
  length: fc.integer({ min: 2, max: 40 }),
  width: fc.constantFrom(16, 32, 64, 96, 128),
  vocabulary: fc.constantFrom(7, 50, 130),
  parts: fc.array(part, { minLength: 1, maxLength: 4 }),
  /** The embedding's table is the last layer's, too. */
  isTied: fc.boolean(),
  arithmetic,
  seed: fc.nat(1000),
});
type Sequences = typeof sequences extends fc.Arbitrary<infer T> ? T : never;

const NORMS = {
  layer: (width: number) => new nn.LayerNorm(width),
  rms: (width: number) => new nn.RMSNorm(width),
  none: () => new nn.Identity(),
} as const;

/** What is added to its input, of (N, T, features). */
class RandomPart extends nn.Module {
  readonly norm: nn.LayerNorm | nn.RMSNorm | nn.Identity;
  readonly attention: nn.MultiheadAttention | undefined;
  readonly recurrent: nn.LSTM | undefined;
  readonly widen: nn.Linear | undefined;
  readonly narrow: nn.Linear | undefined;
  readonly #of: Part;

  constructor(of: Part, width: number) {
    super();
    this.#of = of;
    this.norm = NORMS[of.norm](width);
    const { kind, heads, dropout } = of;
    if (kind === 'attention')
      this.attention = new nn.MultiheadAttention(width, heads, { dropout, batchFirst: true });
    if (kind === 'recurrent') this.recurrent = new nn.LSTM(width, width, { batchFirst: true });
    if (kind === 'feedforward') {
      this.widen = new nn.Linear(width, of.hidden);
      this.narrow = new nn.Linear(of.hidden, width);
    }
  }

  /** @param padding (N, T): true where nothing is to be attended to */
  forward(x: Tensor, padding: AnyTensor): Tensor {
    const { normFirst } = this.#of;
    const y = x.add(this.#added(normFirst ? (this.norm.forward(x) as Tensor) : x, padding));
    return normFirst ? y : (this.norm.forward(y) as Tensor);
  }

  #added(x: Tensor, padding: AnyTensor): Tensor {
    const { isCausal, isPadded, activation, dropout: p } = this.#of;
    const keyPaddingMask = isPadded ? padding : undefined;
    if (this.attention) return this.attention.forward(x, x, x, { isCausal, keyPaddingMask });
    if (this.recurrent) return this.recurrent.forward(x)[0];
    const hidden = ACTIVATIONS[activation](this.widen!.forward(x)) as Tensor;
    const narrow = this.narrow!.forward(hidden);
    return dropout(narrow, { p });
  }
}

class RandomSequences extends nn.Module {
  readonly embedding: nn.Embedding;
  readonly parts: RandomPart[];
  readonly head: nn.Linear | undefined;

  constructor({ width, vocabulary, parts, isTied }: Sequences) {
    super();
    this.embedding = new nn.Embedding(vocabulary, width);
    this.parts = parts.map((of) => new RandomPart(of, width));
    this.head = isTied ? undefined : new nn.Linear(width, vocabulary);
  }

  /** @param tokens (N, T) */
  forward(tokens: AnyTensor, padding: AnyTensor): Tensor {
    const embedded = this.embedding.forward(tokens) as Tensor;
    const y = this.parts.reduce((x, part) => part.forward(x, padding), embedded);
    return (this.head?.forward(y) ?? linear(y, this.embedding.weight)) as Tensor;
  }
}

const SIMPLE: Part = {
  ...{ kind: 'attention', heads: 1, isCausal: false, isPadded: false, hidden: 24 },
  ...{ activation: 'gelu', norm: 'layer', normFirst: false, dropout: 0 },
};
/** The gradient of a projection is put together of parts: what is made of it once joined a chain that makes what they need. */
const WAITING: Sequences = {
  ...{ batch: 1, length: 2, width: 16, vocabulary: 7, parts: [SIMPLE, SIMPLE] },
  ...{ isTied: false, arithmetic: 'bf16', seed: 0 },
};
/** A weight is updated where its gradient is stored: threads without an element once read, early, another block's. */
const UPDATED: Sequences = {
  ...{ batch: 3, length: 14, width: 16, vocabulary: 7, parts: [SIMPLE] },
  ...{ isTied: false, arithmetic: 'tf32', seed: 0 },
};

property(
  'sim: gradients of networks of sequences in tf32 and bf16 are near those in f32 on the CPU',
  [sequences],
  async (of) => {
    const make = (): Training => {
      manualSeed(of.seed);
      const model = new RandomSequences(of);
      const drawn = (): AnyTensor => randint(0, of.vocabulary, [of.batch, of.length]).realize();
      const [tokens, labels] = [drawn(), drawn()];
      // The first can always be attended to.
      const padding = randint(0, 3, [of.batch, of.length]).eq(0).and(arange(of.length).gt(0)).realize();
      const loss = (): Tensor =>
        crossEntropy(model.forward(tokens, padding).reshape([-1, of.vocabulary]), labels.reshape([-1]));
      return { model, loss };
    };
    await check(make, of.arithmetic, SMOOTH[of.arithmetic]);
  },
  { runs: 5, share: 5, found: [[WAITING], [UPDATED]] },
);
