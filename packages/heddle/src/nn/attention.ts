/** Attention with several heads, as a layer. */
import { aBoolean, instance, integerFrom, type Rules, requireOptions, within } from '../core/arguments.js';
import { bool } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape, sameShape } from '../core/shape.js';
import { aTensor, requireTensor } from '../tensor/checks.js';
import { type Attention, attend, scaledDotProductAttention } from '../tensor/functional-attention.js';
import { linear } from '../tensor/functional-layers.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { KeyValueCache } from './key-value-cache.js';
import { Linear } from './linear.js';
import { Module } from './module.js';
import { boundedParameter, constantParameter, requireSize } from './parameter.js';

/** Options of the layer `MultiheadAttention`. */
export interface MultiheadAttentionOptions {
  /** The probability that a weight becomes 0 in training; default 0. */
  readonly dropout?: number;
  /** Whether the projections have biases; default true. */
  readonly bias?: boolean;
  /** The features of keys; default embedDim. */
  readonly kdim?: number;
  /** The features of values; default embedDim. */
  readonly vdim?: number;
  /** Whether tensors are (N, L, E) instead of (L, N, E), L being the length; default false. */
  readonly batchFirst?: boolean;
}

/** Masks for a call of `MultiheadAttention`. As in PyTorch, true in a bool mask hides a key. */
export interface AttendOptions {
  /** (N, S): of bools, which keys no query attends to; of floats, added to the scores. */
  readonly keyPaddingMask?: AnyTensor | undefined;
  /** (L, S), (N, 1, L, S) or (N·heads, L, S): of bools, which keys a query does not attend to; of floats, added to the scores. */
  readonly attnMask?: AnyTensor | undefined;
  /** Whether query i attends to keys 0 … i only, beside what the masks say; default false. */
  readonly isCausal?: boolean;
  /**
   * The keys and values of earlier positions: those given are appended, and each query attends to all up to its own
   * position. Masks are then of all `maxLength` keys. Beyond `maxLength` the output is NaN.
   */
  readonly cache?: KeyValueCache | undefined;
}

const LAYER: Rules<MultiheadAttentionOptions> = {
  dropout: within(0, 1),
  bias: aBoolean,
  kdim: integerFrom(1),
  vdim: integerFrom(1),
  batchFirst: aBoolean,
};

/** @internal */
export const ATTEND: Rules<AttendOptions> = {
  keyPaddingMask: aTensor,
  attnMask: aTensor,
  isCausal: aBoolean,
  cache: instance(KeyValueCache, 'a KeyValueCache'),
};

/** Attention of the heads side by side, perhaps with its weights. */
type Attending = (
  ...args: Parameters<typeof attend>
) => Pick<Attention, 'output'> & { readonly weights?: AnyTensor | undefined };

/** As `attend` takes it: of bools true where a query may attend, else added to the scores. */
const opened = (mask: AnyTensor): AnyTensor => (mask.dtype === bool ? mask.not() : mask);

/** Both masks as one. */
function both(a: AnyTensor | undefined, b: AnyTensor | undefined): AnyTensor | undefined {
  if (!a || !b) return a ?? b;
  if (a.dtype === bool && b.dtype === bool) return a.and(b);
  const added = (mask: AnyTensor): AnyTensor =>
    mask.dtype === bool ? (mask as Tensor<Shape, 'bool'>).where(0, -Infinity) : mask;
  return added(a).add(added(b));
}

/**
 * Attention of several heads side by side: each works on embedDim / numHeads features of projections of the queries,
 * keys and values, and their outputs are projected together (Vaswani and others, 2017). The packed projection is drawn
 * as by `init.xavierUniform`, that of the output as a `Linear`'s; biases are 0.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const layer = new nn.MultiheadAttention(64, 4);
 * console.log(layer.forward(randn([2, 10, 64])).shape); // → [ 2, 10, 64 ]
 * ```
 */
export class MultiheadAttention extends Module {
  /** (3·embedDim, embedDim): of queries, keys and values, in this order; undefined if their features differ. */
  readonly inProjWeight: Tensor<Shape, 'f32'> | undefined;
  /** (embedDim, embedDim), if features differ. */
  readonly qProjWeight: Tensor<Shape, 'f32'> | undefined;
  /** (embedDim, kdim), if features differ. */
  readonly kProjWeight: Tensor<Shape, 'f32'> | undefined;
  /** (embedDim, vdim), if features differ. */
  readonly vProjWeight: Tensor<Shape, 'f32'> | undefined;
  /** (3·embedDim); undefined with `bias: false`. */
  readonly inProjBias: Tensor<Shape, 'f32'> | undefined;
  /** The projection of all heads' outputs. */
  readonly outProj: Linear;
  /** The features of queries and of the output. */
  readonly embedDim: number;
  /** How many heads there are. */
  readonly numHeads: number;
  /** The probability that a weight becomes 0 in training. */
  readonly dropout: number;
  /** Whether tensors are (N, L, E) instead of (L, N, E). */
  readonly batchFirst: boolean;

  /** @param numHeads divides `embedDim` · @throws ArgumentError */
  constructor(embedDim: number, numHeads: number, options: MultiheadAttentionOptions = {}) {
    super();
    requireSize('MultiheadAttention', 'embedDim', embedDim);
    requireSize('MultiheadAttention', 'numHeads', numHeads);
    requireOptions('MultiheadAttention', options, LAYER);
    const { dropout = 0, bias = true, kdim = embedDim, vdim = embedDim, batchFirst = false } = options;
    if (embedDim % numHeads !== 0)
      throw new ArgumentError(
        `[MultiheadAttention] ${numHeads} heads do not divide embedDim ${embedDim}. Choose a divisor.`,
      );
    // As by `init.xavierUniform`.
    const drawn = (rows: number, columns: number): Tensor<Shape, 'f32'> =>
      boundedParameter([rows, columns], Math.sqrt(6 / (rows + columns)));
    const isPacked = kdim === embedDim && vdim === embedDim;
    this.inProjWeight = isPacked ? drawn(3 * embedDim, embedDim) : undefined;
    this.qProjWeight = isPacked ? undefined : drawn(embedDim, embedDim);
    this.kProjWeight = isPacked ? undefined : drawn(embedDim, kdim);
    this.vProjWeight = isPacked ? undefined : drawn(embedDim, vdim);
    this.inProjBias = bias ? constantParameter([3 * embedDim], 0) : undefined;
    this.outProj = new Linear(embedDim, embedDim, { bias });
    if (this.outProj.bias) init.zeros(this.outProj.bias);
    this.embedDim = embedDim;
    this.numHeads = numHeads;
    this.dropout = dropout;
    this.batchFirst = batchFirst;
  }

  /**
   * @param query (L, N, embedDim), with `batchFirst` (N, L, embedDim); without a batch (L, embedDim)
   * @param key (S, N, kdim), likewise; default: the queries
   * @param value (S, N, vdim), likewise; default: the keys
   * @returns the shape of `query`
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(query: Tensor, key: Tensor = query, value: Tensor = key, options: AttendOptions = {}): Tensor {
    const outputOf: Attending = (q, k, v, given) => ({ output: scaledDotProductAttention(q, k, v, given) });
    return this.#projectedBack(query, key, value, options, outputOf).output as Tensor;
  }

  /** The output of `forward`, together with the weights of every head, (N, numHeads, L, S); without a batch (numHeads, L, S). */
  attend(query: Tensor, key: Tensor = query, value: Tensor = key, options: AttendOptions = {}): Attention {
    const { output, weights } = this.#projectedBack(query, key, value, options, attend);
    return { output, weights: query.ndim === 3 ? weights! : weights!.squeeze(0) };
  }

  /** The attention of the projected queries, keys and values by `attending`, its output projected. */
  #projectedBack(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: AttendOptions,
    attending: Attending,
  ): ReturnType<Attending> {
    requireOptions('MultiheadAttention', options, ATTEND);
    this.#check(query, key, value);
    const hasBatch = query.ndim === 3;
    const [q, k, v] = this.#projected(query, key, value).map((y) => this.#heads(y)) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    const { isCausal = false, cache } = options;
    const seen = cache?.append(k, v);
    const shape = [
      q.shape[0]!,
      this.numHeads,
      q.shape[2]!,
      seen ? seen.keys.shape[2]! : k.shape[2]!,
    ] as const;
    const { output, weights } = attending(q, seen?.keys ?? k, seen?.values ?? v, {
      mask: both(this.#mask(options, shape), seen?.mask),
      isCausal: isCausal && !seen,
      dropout: this.training ? this.dropout : 0,
    });
    const rows = output.permute(this.batchFirst || !hasBatch ? [0, 2, 1, 3] : [2, 0, 1, 3]);
    const y = this.outProj.forward(rows.reshape(query.shape) as Tensor);
    return { output: seen ? seen.fits.where(y, Number.NaN) : y, weights };
  }

  /** An empty cache for `batch` sequences of up to `maxLength` positions: pass it with every call. @throws ArgumentError */
  cache(batch: number, maxLength: number): KeyValueCache {
    return new KeyValueCache(batch, this.numHeads, maxLength, this.embedDim / this.numHeads);
  }

  #check(query: Tensor, key: Tensor, value: Tensor): void {
    const sizes = [
      this.embedDim,
      this.kProjWeight?.shape[1] ?? this.embedDim,
      this.vProjWeight?.shape[1] ?? this.embedDim,
    ];
    const [n, l] = this.batchFirst ? ['N,L', 'N,S'] : ['L,N', 'S,N'];
    for (const [i, [name, x]] of Object.entries({ query, key, value }).entries()) {
      requireTensor('MultiheadAttention', name, x);
      if ((x.ndim !== 3 && x.ndim !== 2) || x.ndim !== query.ndim || x.shape.at(-1) !== sizes[i])
        throw new ShapeError(
          `[MultiheadAttention] ${name} is ${formatShape(x.shape)}, must be (${i === 0 ? n : l},${sizes[i]}), or all three without the batch N.` +
            (this.batchFirst ? '' : ' With { batchFirst: true } the batch is the first dimension.'),
        );
    }
    const batch = (x: Tensor): number => (x.ndim === 2 ? 1 : x.shape[this.batchFirst ? 0 : 1]!);
    const length = (x: Tensor): number => x.shape[x.ndim === 3 && this.batchFirst ? 1 : 0]!;
    if (batch(key) !== batch(query) || batch(value) !== batch(query) || length(key) !== length(value))
      throw new ShapeError(
        `[MultiheadAttention] sizes differ: query is ${formatShape(query.shape)}, key ${formatShape(key.shape)}, ` +
          `value ${formatShape(value.shape)}. The batch must be the same, and keys and values as long.`,
      );
  }

  /** Queries, keys and values in the features that heads work on. One product makes what comes of one tensor. */
  #projected(query: Tensor, key: Tensor, value: Tensor): Tensor[] {
    const { embedDim, inProjWeight, inProjBias } = this;
    const rows = <T extends Tensor<Shape, 'f32'>>(t: T | undefined, from: number, to: number) =>
      t?.at(`${from * embedDim}:${to * embedDim}`);
    const weight = (part: number): Tensor =>
      rows(inProjWeight, part, part + 1) ?? [this.qProjWeight, this.kProjWeight, this.vProjWeight][part]!;
    const one = (x: Tensor, part: number): Tensor =>
      linear(x, weight(part), rows(inProjBias, part, part + 1));
    const several = (x: Tensor, from: number): Tensor[] =>
      linear(x, rows(inProjWeight, from, 3)!, rows(inProjBias, from, 3)).split(embedDim, -1) as Tensor[];
    if (inProjWeight && query === key && key === value) return several(query, 0);
    if (inProjWeight && key === value) return [one(query, 0), ...several(key, 1)];
    return [one(query, 0), one(key, 1), one(value, 2)];
  }

  /** (N, numHeads, L, E) */
  #heads(x: Tensor): Tensor {
    const [batched, first] = x.ndim === 3 ? [x, this.batchFirst] : [x.unsqueeze(0), true];
    const [a, b] = batched.shape as [number, number];
    const split = batched.reshape([a, b, this.numHeads, this.embedDim / this.numHeads]);
    return split.permute(first ? [0, 2, 1, 3] : [1, 2, 0, 3]);
  }

  /** Both masks of a call, laid out over the scores (N, numHeads, L, S). */
  #mask(
    { keyPaddingMask, attnMask }: AttendOptions,
    shape: readonly [n: number, heads: number, l: number, s: number],
  ): AnyTensor | undefined {
    const [n, heads, l, s] = shape;
    const laidOut = (name: string, mask: AnyTensor | undefined, allowed: readonly (readonly number[])[]) => {
      if (!mask) return undefined;
      if (mask.dtype !== bool && mask.dtype.kind !== 'float')
        throw new DTypeError(
          `[MultiheadAttention] ${name} must be bool, true where keys are hidden, or floats that are added to the scores, got ${mask.dtype.name}.`,
        );
      if (!allowed.some((a) => sameShape(a, mask.shape)))
        throw new ShapeError(
          `[MultiheadAttention] ${name} is ${formatShape(mask.shape)}, must be ${allowed.map(formatShape).join(' or ')}.`,
        );
      return opened(mask);
    };
    const padding = laidOut('keyPaddingMask', keyPaddingMask, n === 1 ? [[n, s], [s]] : [[n, s]]);
    const each = laidOut('attnMask', attnMask, [
      [l, s],
      [n, 1, l, s],
      [n * heads, l, s],
    ]);
    return both(padding?.reshape([n, 1, 1, s]), each?.ndim === 3 ? each.reshape(shape) : each);
  }
}
