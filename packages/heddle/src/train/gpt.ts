/**
 * A language model: a transformer that predicts each token from those before it (Radford and others, Language models
 * are unsupervised multitask learners, 2019).
 */
import { i32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import * as nn from '../nn/index.js';
import { withoutDraws } from '../nn/parameter.js';
import { arange } from '../tensor/create.js';
import { dropout } from '../tensor/functional-layers.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';

/** The sizes of a GPT, all but that of its vocabulary. */
export interface GPTSizes {
  /** Tokens that it sees at most. */
  readonly context: number;
  /** Numbers that stand for a token; `heads` divides it. */
  readonly dim: number;
  /** Heads of each layer's attention. */
  readonly heads: number;
  /** How many layers there are. */
  readonly depth: number;
  /** The probability that an element becomes 0 in training, of embeddings, weights of attention and branches. */
  readonly dropout: number;
}

/** The standard deviation of weights before the training. */
const STD = 0.02;

/** Tokens and their positions as vectors, a causal transformer over them, and a logit for each token. */
export class GPT extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly decoder: nn.TransformerEncoder;
  readonly head: nn.Linear;
  /** Tokens that it sees at most. */
  readonly context: number;
  readonly #dropout: number;

  /** @param vocabulary how many tokens there are */
  constructor(vocabulary: number, { context, dim, heads, depth, dropout }: GPTSizes) {
    super();
    this.context = context;
    this.#dropout = dropout;
    const layer = (): nn.TransformerEncoderLayer =>
      new nn.TransformerEncoderLayer(dim, heads, {
        ...{ dimFeedforward: 4 * dim, activation: 'gelu', normFirst: true },
        ...{ batchFirst: true, dropout },
      });
    // All that is drawn is overwritten below.
    const made = withoutDraws(() => ({
      tokens: new nn.Embedding(vocabulary, dim),
      positions: new nn.Embedding(context, dim),
      decoder: new nn.TransformerEncoder(layer, depth, { norm: new nn.LayerNorm(dim) }),
      head: new nn.Linear(dim, vocabulary, { bias: false }),
    }));
    this.tokens = made.tokens;
    this.positions = made.positions;
    this.decoder = made.decoder;
    this.head = made.head;
    for (const [name, parameter] of this.namedParameters()) {
      // What is added to the sum of all branches before it is smaller the more of them there are.
      const isBranch = /(outProj|linear2)\.weight$/.test(name);
      if (parameter.ndim === 2)
        nn.init.normal(parameter, { std: isBranch ? STD / Math.sqrt(2 * depth) : STD });
      else if (name.endsWith('ias')) nn.init.zeros(parameter);
    }
  }

  /**
   * @param tokens i32 (N, L), L ≤ `context`
   * @param cache of earlier tokens: those given follow them
   * @returns logits of the token after each, (N, L, vocabulary)
   * @throws ShapeError
   */
  forward(tokens: AnyTensor, cache?: readonly nn.KeyValueCache[]): Tensor {
    const [, length] = tokens.shape;
    if (tokens.ndim !== 2 || length! > this.context)
      throw new ShapeError(
        `[GPT] tokens are ${formatShape(tokens.shape)}, must be (N,L) with L ≤ ${this.context}, the context.`,
      );
    const at = arange(length!, { dtype: i32 });
    const places = cache ? at.add(cache[0]!.length.detach()) : at;
    const x = this.tokens.forward(tokens).add(this.positions.forward(places));
    const dropped = dropout(x, { p: this.#dropout, training: this.training });
    return this.head.forward(this.decoder.forward(dropped, cache ? { cache } : { isCausal: true }));
  }

  /** An empty cache of one text. */
  cache(): nn.KeyValueCache[] {
    return this.decoder.cache(1, this.context);
  }
}
