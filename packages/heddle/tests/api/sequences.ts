/** Functions and layers of sequences: what they take. */
import { i32, nn, ones, zeros } from '../../src/index.js';
import type { Module } from '../../src/nn/index.js';
import {
  flag,
  isFunction,
  list,
  number,
  oneOf,
  only,
  optional,
  options,
  orElse,
  precision,
  reduction,
  type Spec,
  spec,
  tensor,
} from './spec.js';

/** A layer that users can make. */
export interface LayerRow {
  /** What its constructor takes. */
  readonly takes: readonly Spec[];
  /** One to call methods on. */
  readonly make: () => Module;
  /** What `forward` takes; default: any floats. */
  readonly input?: Spec;
  /** Whether `forward` is that of a base class. */
  readonly inherits?: true;
}

const indices = tensor(() => zeros([2], { dtype: i32 }));
const embedding = options({
  paddingIndex: optional(number(0)),
  maxNorm: optional(number()),
  normType: optional(number(2)),
});

const mask = optional(tensor(() => ones([2, 2])));
const rows = tensor(() => ones([3, 2]));
const rate = optional(number(0));

export const SEQUENCE_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  scaledDotProductAttention: [
    tensor(),
    tensor(),
    tensor(),
    options({
      mask,
      precision,
      isCausal: optional(flag),
      dropout: rate,
      scale: optional(number()),
      enableGqa: optional(flag),
    }),
  ],
  ctcLoss: [
    tensor(() => zeros([2, 1, 2])),
    tensor(() => ones([1, 1], { dtype: i32 })),
    tensor(() => ones([1], { dtype: i32 })),
    tensor(() => ones([1], { dtype: i32 })),
    options({ ...reduction, blank: optional(number(0)), zeroInfinity: optional(flag) }),
  ],
  sinusoidalPositions: [number(3), number(4)],
  'nn.KeyValueCache': [number(1), number(1), number(2), number(2)],
  embedding: [indices, tensor(() => ones([2, 2])), embedding],
};

const transformerLayer = [
  number(2),
  number(1),
  options({
    dimFeedforward: optional(number(2)),
    dropout: rate,
    activation: optional(orElse(oneOf('relu', 'gelu'), isFunction)),
    layerNormEps: optional(number(1e-5)),
    batchFirst: optional(flag),
    normFirst: optional(flag),
    bias: optional(flag),
  }),
];
const small = { dimFeedforward: 2 };
const encoderLayer = () => new nn.TransformerEncoderLayer(2, 1, small);
const decoderLayer = () => new nn.TransformerDecoderLayer(2, 1, small);
const stack = (layer: () => nn.TransformerLayer): Spec[] => [
  spec(() => layer, isFunction),
  number(1),
  options({ norm: optional(only(() => new nn.LayerNorm(2), nn.LayerNorm)) }),
];

const recurrent = {
  numLayers: optional(number()),
  bias: optional(flag),
  batchFirst: optional(flag),
  dropout: rate,
  bidirectional: optional(flag),
};
const nonlinearity = optional(oneOf('tanh', 'relu'));

export const SEQUENCE_LAYERS: Readonly<Record<string, LayerRow>> = {
  TransformerEncoderLayer: { takes: transformerLayer, make: encoderLayer, input: rows },
  TransformerDecoderLayer: { takes: transformerLayer, make: decoderLayer, input: rows },
  TransformerEncoder: {
    takes: stack(encoderLayer),
    make: () => new nn.TransformerEncoder(encoderLayer, 1),
    input: rows,
  },
  TransformerDecoder: {
    takes: stack(decoderLayer),
    make: () => new nn.TransformerDecoder(decoderLayer, 1),
    input: rows,
  },
  RNN: {
    takes: [number(2), number(2), options({ ...recurrent, nonlinearity })],
    make: () => new nn.RNN(2, 2),
    input: rows,
  },
  GRU: { takes: [number(2), number(2), options(recurrent)], make: () => new nn.GRU(2, 2), input: rows },
  LSTM: { takes: [number(2), number(2), options(recurrent)], make: () => new nn.LSTM(2, 2), input: rows },
  RNNCell: {
    takes: [number(2), number(2), options({ bias: optional(flag), nonlinearity })],
    make: () => new nn.RNNCell(2, 2),
    input: rows,
  },
  GRUCell: {
    takes: [number(2), number(2), options({ bias: optional(flag) })],
    make: () => new nn.GRUCell(2, 2),
    input: rows,
  },
  LSTMCell: {
    takes: [number(2), number(2), options({ bias: optional(flag) })],
    make: () => new nn.LSTMCell(2, 2),
    input: rows,
  },
  MultiheadAttention: {
    takes: [
      number(2),
      number(1),
      options({
        dropout: rate,
        bias: optional(flag),
        kdim: optional(number(2)),
        vdim: optional(number(2)),
        batchFirst: optional(flag),
      }),
    ],
    make: () => new nn.MultiheadAttention(2, 1),
    input: rows,
  },
  Embedding: {
    takes: [number(2), number(2), embedding],
    make: () => new nn.Embedding(2, 2),
    input: indices,
  },
};

export const SEQUENCE_RECEIVERS: Readonly<Record<string, () => object>> = {
  KeyValueCache: () => new nn.KeyValueCache(1, 1, 2, 2),
};

const cache = only(() => new nn.KeyValueCache(1, 1, 3, 2), nn.KeyValueCache);
const caches = list(() => [new nn.KeyValueCache(1, 1, 3, 2)]);
const mask3 = optional(tensor(() => ones([3, 3])));
const padding = optional(tensor(() => ones([3])));
const encoding = (cache: Spec): Spec[] => [
  rows,
  options({ srcMask: mask3, srcKeyPaddingMask: padding, isCausal: optional(flag), cache: optional(cache) }),
];
const decoding = (cache: Spec): Spec[] => [
  rows,
  rows,
  options({
    tgtMask: mask3,
    memoryMask: mask3,
    tgtKeyPaddingMask: padding,
    memoryKeyPaddingMask: padding,
    tgtIsCausal: optional(flag),
    memoryIsCausal: optional(flag),
    cache: optional(cache),
  }),
];
/** The states of an LSTM. */
const pairOf = (shape: readonly number[]): Spec =>
  spec(
    () => [zeros(shape), zeros(shape)],
    () => false,
  );
const attended = [
  rows,
  optional(rows),
  optional(rows),
  options({
    keyPaddingMask: padding,
    attnMask: mask3,
    isCausal: optional(flag),
    cache: optional(cache),
  }),
];

export const SEQUENCE_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  KeyValueCache: { reset: [] },
  RNN: { forward: [rows, optional(tensor(() => zeros([1, 2])))] },
  GRU: { forward: [rows, optional(tensor(() => zeros([1, 2])))] },
  LSTM: { forward: [rows, optional(pairOf([1, 2]))] },
  RNNCell: { forward: [rows, optional(rows)] },
  GRUCell: { forward: [rows, optional(rows)] },
  LSTMCell: { forward: [rows, optional(pairOf([3, 2]))] },
  TransformerEncoderLayer: { forward: encoding(cache) },
  TransformerDecoderLayer: { forward: decoding(cache) },
  TransformerEncoder: { forward: encoding(caches), cache: [number(1), number(2)] },
  TransformerDecoder: { forward: decoding(caches), cache: [number(1), number(2)] },
  MultiheadAttention: { forward: attended, attend: attended, cache: [number(1), number(2)] },
};
