/** Functions and layers of sequences: what they take. */
import { i32, nn, ones, zeros } from '../../src/index.js';
import type { Module } from '../../src/nn/index.js';
import { flag, number, only, optional, options, precision, type Spec, tensor } from './spec.js';

/** A layer that users can make. */
export interface LayerRow {
  /** What its constructor takes. */
  readonly takes: readonly Spec[];
  /** One to call methods on. */
  readonly make: () => Module;
  /** What `forward` takes; default: any floats. */
  readonly input?: Spec;
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
  'nn.KeyValueCache': [number(1), number(1), number(2), number(2)],
  embedding: [indices, tensor(() => ones([2, 2])), embedding],
};

export const SEQUENCE_LAYERS: Readonly<Record<string, LayerRow>> = {
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

const attended = [
  rows,
  optional(rows),
  optional(rows),
  options({
    keyPaddingMask: optional(tensor(() => ones([3]))),
    attnMask: optional(tensor(() => ones([3, 3]))),
    isCausal: optional(flag),
    cache: optional(only(() => new nn.KeyValueCache(1, 1, 3, 2), nn.KeyValueCache)),
  }),
];

export const SEQUENCE_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  KeyValueCache: { reset: [] },
  MultiheadAttention: { forward: attended, attend: attended, cache: [number(1), number(2)] },
};
