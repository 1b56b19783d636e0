/** Transformers: blocks of attention and a network applied to each position, and stacks of them. */
import {
  aBoolean,
  aFunction,
  aList,
  atLeast,
  instance,
  integerFrom,
  oneOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { aTensor, requireTensor } from '../tensor/checks.js';
import { gelu, relu } from '../tensor/functional-activations.js';
import { dropout } from '../tensor/functional-layers.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { ATTEND, type AttendOptions, MultiheadAttention } from './attention.js';
import type { KeyValueCache } from './key-value-cache.js';
import { Linear } from './linear.js';
import { Module } from './module.js';
import { LayerNorm } from './normalization.js';
import { requireSize } from './parameter.js';

/** Options of the layers `TransformerEncoderLayer` and `TransformerDecoderLayer`. */
export interface TransformerLayerOptions {
  /** The features between the two linear layers; default 2048. */
  readonly dimFeedforward?: number;
  /** The probability that an element becomes 0 in training, of weights of attention too; default 0.1. */
  readonly dropout?: number;
  /** The function between the two linear layers; default 'relu'. */
  readonly activation?: 'relu' | 'gelu' | ((x: Tensor) => Tensor);
  /** Added to the variance by the normalizations; default 1e-5. */
  readonly layerNormEps?: number;
  /** Whether tensors are (N, L, E) instead of (L, N, E), L being the length; default false. */
  readonly batchFirst?: boolean;
  /** Whether each part normalizes what it takes instead of what is added to; default false. */
  readonly normFirst?: boolean;
  /** Whether linear layers and normalizations have biases; default true. */
  readonly bias?: boolean;
}

/** Masks of an encoder: which positions each position may attend to. As in PyTorch, true in a bool mask hides a position. */
export interface EncodeOptions<Cache = KeyValueCache> {
  /** (L, L) or (N·heads, L, L), see `attnMask` of `MultiheadAttention`. */
  readonly srcMask?: AnyTensor | undefined;
  /** (N, L), see `keyPaddingMask` of `MultiheadAttention`. */
  readonly srcKeyPaddingMask?: AnyTensor | undefined;
  /** Whether position i attends to positions 0 … i only; default false. */
  readonly isCausal?: boolean;
  /** The keys and values of earlier positions, see `cache` of `MultiheadAttention`. */
  readonly cache?: Cache | undefined;
}

/** Masks of a decoder: which positions each position may attend to. As in PyTorch, true in a bool mask hides a position. */
export interface DecodeOptions<Cache = KeyValueCache> {
  /** (L, L) or (N·heads, L, L): of the target's positions. */
  readonly tgtMask?: AnyTensor | undefined;
  /** (L, S) or (N·heads, L, S): of the memory's. */
  readonly memoryMask?: AnyTensor | undefined;
  /** (N, L): of the target's. */
  readonly tgtKeyPaddingMask?: AnyTensor | undefined;
  /** (N, S): of the memory's. */
  readonly memoryKeyPaddingMask?: AnyTensor | undefined;
  /** Whether position i attends to positions 0 … i of the target only; default false. */
  readonly tgtIsCausal?: boolean;
  /** Whether position i attends to positions 0 … i of the memory only; default false. */
  readonly memoryIsCausal?: boolean;
  /** The target's keys and values of earlier positions, see `cache` of `MultiheadAttention`. */
  readonly cache?: Cache | undefined;
}

const anActivation: Rule = {
  must: "'relu', 'gelu' or a function",
  holds: (v) => oneOf('relu', 'gelu').holds(v) || aFunction.holds(v),
};
const LAYER: Rules<TransformerLayerOptions> = {
  dimFeedforward: integerFrom(1),
  dropout: within(0, 1),
  activation: anActivation,
  layerNormEps: atLeast(0),
  batchFirst: aBoolean,
  normFirst: aBoolean,
  bias: aBoolean,
};
const ENCODE: Rules<EncodeOptions> = {
  srcMask: aTensor,
  srcKeyPaddingMask: aTensor,
  isCausal: aBoolean,
  cache: ATTEND.cache,
};
const DECODE: Rules<DecodeOptions> = {
  tgtMask: aTensor,
  memoryMask: aTensor,
  tgtKeyPaddingMask: aTensor,
  memoryKeyPaddingMask: aTensor,
  tgtIsCausal: aBoolean,
  memoryIsCausal: aBoolean,
  cache: ATTEND.cache,
};

/** The base of encoder and decoder layers. */
export abstract class TransformerLayer extends Module {
  /** Among the positions. */
  readonly selfAttn: MultiheadAttention;
  /** dModel → dimFeedforward */
  readonly linear1: Linear;
  /** dimFeedforward → dModel */
  readonly linear2: Linear;
  /** Of the attention among the positions. */
  readonly norm1: LayerNorm;
  /** Of the part that follows it. */
  readonly norm2: LayerNorm;
  /** Whether each part normalizes what it takes instead of what is added to. */
  readonly normFirst: boolean;
  /** The probability that an element becomes 0 in training. */
  readonly dropout: number;
  /** Between the two linear layers. */
  readonly activation: 'relu' | 'gelu' | ((x: Tensor) => Tensor);

  constructor(name: string, dModel: number, nhead: number, options: TransformerLayerOptions) {
    super();
    requireSize(name, 'dModel', dModel);
    requireSize(name, 'nhead', nhead);
    requireOptions(name, options, LAYER);
    const { dimFeedforward = 2048, bias = true, normFirst = false, dropout = 0.1 } = options;
    this.selfAttn = this.attention(dModel, nhead, options);
    this.linear1 = new Linear(dModel, dimFeedforward, { bias });
    this.linear2 = new Linear(dimFeedforward, dModel, { bias });
    this.norm1 = this.norm(dModel, options);
    this.norm2 = this.norm(dModel, options);
    this.normFirst = normFirst;
    this.dropout = dropout;
    this.activation = options.activation ?? 'relu';
  }

  /** @internal */
  protected attention(dModel: number, nhead: number, options: TransformerLayerOptions): MultiheadAttention {
    const { dropout = 0.1, bias = true, batchFirst = false } = options;
    return new MultiheadAttention(dModel, nhead, { dropout, bias, batchFirst });
  }

  /** @internal */
  protected norm(dModel: number, { layerNormEps = 1e-5, bias = true }: TransformerLayerOptions): LayerNorm {
    return new LayerNorm(dModel, { eps: layerNormEps, bias });
  }

  /** @internal x + part(norm(x)), or norm(x + part(x)). */
  protected residual(x: Tensor, norm: LayerNorm, part: (x: Tensor) => Tensor): Tensor {
    if (this.normFirst) return x.add(this.#dropped(part(norm.forward(x))));
    return norm.forward(x.add(this.#dropped(part(x))));
  }

  /** @internal The network that is applied to each position. */
  protected feedForward(x: Tensor): Tensor {
    const { activation } = this;
    const f = activation === 'relu' ? relu : activation === 'gelu' ? (v: Tensor) => gelu(v) : activation;
    return this.linear2.forward(this.#dropped(f(this.linear1.forward(x))));
  }

  #dropped(x: Tensor): Tensor {
    return dropout(x, { p: this.dropout, training: this.training });
  }
}

/** Attention among the positions, then a network applied to each, both with residuals and normalized. */
export class TransformerEncoderLayer extends TransformerLayer {
  /** @param nhead divides `dModel` · @throws ArgumentError */
  constructor(dModel: number, nhead: number, options: TransformerLayerOptions = {}) {
    super('TransformerEncoderLayer', dModel, nhead, options);
  }

  /**
   * @param src (L, N, dModel), with `batchFirst` (N, L, dModel); without a batch (L, dModel)
   * @returns the same shape
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(src: Tensor, options: EncodeOptions = {}): Tensor {
    requireTensor('TransformerEncoderLayer', 'src', src);
    requireOptions('TransformerEncoderLayer', options, ENCODE);
    const { srcMask, srcKeyPaddingMask, isCausal = false, cache } = options;
    const masks: AttendOptions = { attnMask: srcMask, keyPaddingMask: srcKeyPaddingMask, isCausal, cache };
    const x = this.residual(src, this.norm1, (x) => this.selfAttn.forward(x, x, x, masks));
    return this.residual(x, this.norm2, (x) => this.feedForward(x));
  }
}

/** Attention among the positions, then to a memory, then a network applied to each position. */
export class TransformerDecoderLayer extends TransformerLayer {
  /** To the memory. */
  readonly multiheadAttn: MultiheadAttention;
  /** Of the network that is applied to each position. */
  readonly norm3: LayerNorm;

  /** @param nhead divides `dModel` · @throws ArgumentError */
  constructor(dModel: number, nhead: number, options: TransformerLayerOptions = {}) {
    super('TransformerDecoderLayer', dModel, nhead, options);
    this.multiheadAttn = this.attention(dModel, nhead, options);
    this.norm3 = this.norm(dModel, options);
  }

  /**
   * @param tgt (L, N, dModel), with `batchFirst` (N, L, dModel); without a batch (L, dModel)
   * @param memory (S, N, dModel), likewise: what an encoder made of the source
   * @returns the shape of `tgt`
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(tgt: Tensor, memory: Tensor, options: DecodeOptions = {}): Tensor {
    requireTensor('TransformerDecoderLayer', 'tgt', tgt);
    requireTensor('TransformerDecoderLayer', 'memory', memory);
    requireOptions('TransformerDecoderLayer', options, DECODE);
    const { tgtMask, tgtKeyPaddingMask, tgtIsCausal = false, cache } = options;
    const own: AttendOptions = {
      attnMask: tgtMask,
      keyPaddingMask: tgtKeyPaddingMask,
      isCausal: tgtIsCausal,
      cache,
    };
    const given: AttendOptions = {
      attnMask: options.memoryMask,
      keyPaddingMask: options.memoryKeyPaddingMask,
      isCausal: options.memoryIsCausal ?? false,
    };
    const x = this.residual(tgt, this.norm1, (x) => this.selfAttn.forward(x, x, x, own));
    const y = this.residual(x, this.norm2, (x) => this.multiheadAttn.forward(x, memory, memory, given));
    return this.residual(y, this.norm3, (x) => this.feedForward(x));
  }
}

/** Options of `TransformerEncoder` and `TransformerDecoder`. */
export interface TransformerOptions {
  /** Applied to the last layer's result; default: nothing is. */
  readonly norm?: LayerNorm | undefined;
}

const STACK: Rules<TransformerOptions> = { norm: instance(LayerNorm, 'a LayerNorm') };

/** `count` layers, each made by `make`. @throws ArgumentError */
function madeBy<Layer extends TransformerLayer>(
  name: string,
  type: abstract new (...args: never[]) => Layer,
  make: (index: number) => Layer,
  count: number,
): Layer[] {
  requireArgument(
    name,
    'layer',
    make,
    aFunction,
    `Write () => new ${type.name}(…): each layer is made anew.`,
  );
  requireSize(name, 'numLayers', count);
  const layers = Array.from({ length: count }, (_, i) => make(i));
  for (const [i, layer] of layers.entries())
    requireArgument(name, `layer ${i}`, layer, instance(type, `a ${type.name}`));
  if (new Set(layers).size < count)
    throw new ArgumentError(`[${name}] layer gives the same layer again. Make a new one in each call.`);
  return layers;
}

/** A cache for each layer. */
const cachesOf = (layers: readonly TransformerLayer[], batch: number, maxLength: number): KeyValueCache[] =>
  layers.map(({ selfAttn }) => selfAttn.cache(batch, maxLength));

/** @throws ArgumentError unless there are as many as layers, or none */
function requireCaches(name: string, caches: readonly KeyValueCache[] | undefined, count: number): void {
  if (caches && caches.length !== count)
    throw new ArgumentError(
      `[${name}] cache has ${caches.length} elements, there are ${count} layers. Make it with .cache(batch, maxLength).`,
    );
}

/** A stack of encoder layers. With `isCausal` it is the decoder of a language model. */
export class TransformerEncoder extends Module {
  /** In their order. */
  readonly layers: readonly TransformerEncoderLayer[];
  /** Applied to the last layer's result. */
  readonly norm: LayerNorm | undefined;

  /** @param layer makes a layer, given its index · @throws ArgumentError */
  constructor(
    layer: (index: number) => TransformerEncoderLayer,
    numLayers: number,
    options: TransformerOptions = {},
  ) {
    super();
    requireOptions('TransformerEncoder', options, STACK);
    this.layers = madeBy('TransformerEncoder', TransformerEncoderLayer, layer, numLayers);
    this.norm = options.norm;
  }

  /**
   * @param src (L, N, dModel), with `batchFirst` (N, L, dModel); without a batch (L, dModel)
   * @returns the same shape
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(src: Tensor, options: EncodeOptions<readonly KeyValueCache[]> = {}): Tensor {
    requireOptions('TransformerEncoder', options, { ...ENCODE, cache: aList });
    const { cache, ...masks } = options;
    requireCaches('TransformerEncoder', cache, this.layers.length);
    const y = this.layers.reduce((x, layer, i) => layer.forward(x, { ...masks, cache: cache?.[i] }), src);
    return this.norm?.forward(y) ?? y;
  }

  /** An empty cache of each layer, for `batch` sequences of up to `maxLength` positions. @throws ArgumentError */
  cache(batch: number, maxLength: number): KeyValueCache[] {
    return cachesOf(this.layers, batch, maxLength);
  }
}

/** Decoder layers, one on the result of the other, all with the same memory. */
export class TransformerDecoder extends Module {
  /** In their order. */
  readonly layers: readonly TransformerDecoderLayer[];
  /** Applied to the last layer's result. */
  readonly norm: LayerNorm | undefined;

  /** @param layer makes a layer, given its index · @throws ArgumentError */
  constructor(
    layer: (index: number) => TransformerDecoderLayer,
    numLayers: number,
    options: TransformerOptions = {},
  ) {
    super();
    requireOptions('TransformerDecoder', options, STACK);
    this.layers = madeBy('TransformerDecoder', TransformerDecoderLayer, layer, numLayers);
    this.norm = options.norm;
  }

  /**
   * @param tgt (L, N, dModel), with `batchFirst` (N, L, dModel); without a batch (L, dModel)
   * @param memory (S, N, dModel), likewise: what an encoder made of the source
   * @returns the shape of `tgt`
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(tgt: Tensor, memory: Tensor, options: DecodeOptions<readonly KeyValueCache[]> = {}): Tensor {
    requireOptions('TransformerDecoder', options, { ...DECODE, cache: aList });
    const { cache, ...masks } = options;
    requireCaches('TransformerDecoder', cache, this.layers.length);
    const y = this.layers.reduce(
      (x, layer, i) => layer.forward(x, memory, { ...masks, cache: cache?.[i] }),
      tgt,
    );
    return this.norm?.forward(y) ?? y;
  }

  /** An empty cache of each layer, for `batch` sequences of up to `maxLength` positions. @throws ArgumentError */
  cache(batch: number, maxLength: number): KeyValueCache[] {
    return cachesOf(this.layers, batch, maxLength);
  }
}
