/** Functions and layers of sequences: what they take. */
import { i32, nn, ones, zeros } from '../../src/index.js';
import type { Module } from '../../src/nn/index.js';
import { number, optional, options, type Spec, tensor } from './spec.js';

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

export const SEQUENCE_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  embedding: [indices, tensor(() => ones([2, 2])), embedding],
};

export const SEQUENCE_LAYERS: Readonly<Record<string, LayerRow>> = {
  Embedding: {
    takes: [number(2), number(2), embedding],
    make: () => new nn.Embedding(2, 2),
    input: indices,
  },
};
