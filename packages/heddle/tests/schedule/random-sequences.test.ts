/** Random networks of sequences: their gradients in the simulator beside those of the CPU. */
import { after } from 'node:test';
import fc from 'fast-check';
import {
  type AnyTensor,
  arange,
  crossEntropy,
  dropout,
  linear,
  manualSeed,
  nn,
  randint,
  type Tensor,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';
import { ACTIVATIONS, arithmetic, requireNearCpu, SMOOTH, type Training } from './random-networks.js';

after(closeDevices);

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
    await requireNearCpu(make, of.arithmetic, SMOOTH[of.arithmetic]);
  },
  { runs: 5, share: 5, found: [[WAITING], [UPDATED]] },
);
