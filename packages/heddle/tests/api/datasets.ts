/** Data sets and loaders: what they take. */

import { PhiloxStream } from '../../src/core/philox.js';
import * as H from '../../src/index.js';
import { ones } from '../../src/index.js';
import {
  batched,
  dataset,
  flag,
  fn,
  indices,
  list,
  loader,
  normalize,
  number,
  oneOf,
  only,
  optional,
  options,
  orElse,
  path,
  type Spec,
  slow,
  spec,
  text,
  toy,
} from './spec.js';

const isIterable = (v: unknown): boolean => typeof v === 'function' || (typeof v === 'object' && v !== null);
const sequential = (): H.data.SequentialSampler => new H.data.SequentialSampler(4);
const drawn = only(() => new PhiloxStream(0), PhiloxStream);
const weights = indices;
const splitting = options({ seed: optional(number()), stratify: optional(indices) });

const batchInto = [
  indices,
  only(() => new Float32Array(2), Float32Array),
  only(() => new Int32Array(1), Int32Array),
];

export const DATA_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  ArrayDataset: [
    options(
      {
        inputs: only(() => new Float32Array(2), Float32Array),
        inputShape: list(() => [2]),
        labels: only(() => new Int32Array(1), Int32Array),
        classes: number(2),
        normalize,
      },
      () => ({ inputs: new Float32Array(2), inputShape: [2], labels: new Int32Array(1), classes: 2 }),
    ),
  ],
  TensorDataset: [batched, batched],
  'data.EpochRandom': [number(0), number(0)],
  'data.randomSplit': [only(dataset, H.ArrayDataset), list(() => [0.5, 0.5]), splitting],
  'data.kFold': [only(dataset, H.ArrayDataset), number(2), splitting],
  'data.Subset': [only(dataset, H.ArrayDataset), indices],
  'data.ConcatDataset': [list(() => [dataset()])],
  'data.mapExamples': [
    only(dataset, H.ArrayDataset),
    fn(),
    options({ inputShape: optional(list(() => [2])), module: optional(text('x')) }),
  ],
  'data.filterExamples': [only(dataset, H.ArrayDataset), fn()],
  Loader: [
    only(dataset, H.ArrayDataset),
    options(
      {
        batchSize: number(2),
        shuffle: optional(flag),
        sampler: optional(only(sequential, H.data.SequentialSampler)),
        seed: optional(number()),
        dropLast: optional(flag),
        workers: slow(optional(number(0))),
        prefetch: optional(number(1)),
        onError: optional(oneOf('throw', 'skip')),
      },
      () => ({ batchSize: 2 }),
    ),
  ],
  'data.DataStream': [
    orElse(
      list(() => [1, 2]),
      isIterable,
    ),
  ],
  'data.collectExamples': [
    spec(() => [{ input: [1, 2], label: 0 }], isIterable),
    options({ inputShape: list(() => [2]), classes: slow(number(2)), normalize }, () => ({
      ...{ inputShape: [2], classes: 2 },
    })),
  ],
  'data.StreamDataset': [
    only(() => new H.data.DataStream([{ input: [1, 2], label: 0 }]), H.data.DataStream),
    options({ length: slow(number(1)), inputShape: list(() => [2]), classes: slow(number(2)) }, () => ({
      length: 1,
      inputShape: [2],
      classes: 2,
    })),
  ],
  'data.SequentialSampler': [slow(number(4))],
  'data.RandomSampler': [slow(number(4))],
  'data.WeightedRandomSampler': [weights, slow(number(4)), options({ replacement: optional(flag) })],
  'data.StratifiedSampler': [indices],
  TextDataset: [only(() => new Int32Array(9), Int32Array), number(4)],
  Vocabulary: [text('abc')],
  'data.loadText': [
    ...[path, number(4)],
    options({
      heldOut: optional(number(0.1)),
      vocabulary: optional(only(() => new H.Vocabulary('abc'), H.Vocabulary)),
    }),
  ],
  'data.loadImages': [path, options({ normalize, classes: optional(list(() => ['a'])) })],
  'data.findImages': [oneOf('mnist', 'fashion-mnist')],
  'data.quadrantPoints': [options(toy)],
  'data.separablePoints': [options({ ...toy, margin: optional(number(0.1)) })],
};

export const DATA_RECEIVERS: Readonly<Record<string, () => object>> = {
  ArrayDataset: dataset,
  EpochRandom: () => new H.data.EpochRandom(0, 0),
  Loader: loader,
  DataStream: () => new H.data.DataStream([1, 2]),
  StreamDataset: () =>
    new H.data.StreamDataset(new H.data.DataStream([{ input: [1, 2], label: 0 }]), {
      ...{ length: 1, inputShape: [2], classes: 2 },
    }),
  Subset: () => new H.data.Subset(dataset(), [0]),
  ConcatDataset: () => new H.data.ConcatDataset([dataset()]),
  SequentialSampler: sequential,
  RandomSampler: () => new H.data.RandomSampler(4),
  WeightedRandomSampler: () => new H.data.WeightedRandomSampler([1, 2], 4),
  StratifiedSampler: () => new H.data.StratifiedSampler([0, 1, 1]),
  TensorDataset: () => new H.TensorDataset(ones([3, 2]), ones([3])),
  TextDataset: () => new H.TextDataset(new Int32Array(9), 4),
  Vocabulary: () => new H.Vocabulary('abc'),
};

export const DATA_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  ArrayDataset: {
    batchInto,
    slice: [number(0), optional(number(1))],
    select: [indices],
    remote: [],
  },
  EpochRandom: { of: [number(0)], from: [number(0)] },
  StreamDataset: { batchInto },
  Subset: { batchInto },
  ConcatDataset: { batchInto },
  TensorDataset: { select: [indices], slice: [number(0), optional(number(1))] },
  TextDataset: {},
  Vocabulary: { encode: [text('abc')], decode: [indices] },
  Loader: {
    ...{
      order: [number(0)],
      ownOrder: [number(0)],
      makeOrder: [number(0)],
      batches: [optional(number(0))],
      spans: [],
      dispose: [],
    },
    shard: [number(0), number(2)],
  },
  DataStream: {
    epoch: [number(0)],
    map: [fn(), options({ concurrency: optional(number(1)) })],
    filter: [fn()],
    shuffle: [number(2), options({ seed: optional(number()) })],
    batch: [number(2), options({ dropLast: optional(flag) })],
    take: [number(1)],
    skip: [number(1)],
    concat: [
      orElse(
        list(() => [1]),
        isIterable,
      ),
    ],
  },
  SequentialSampler: { order: [] },
  RandomSampler: { order: [drawn] },
  WeightedRandomSampler: { order: [drawn] },
  StratifiedSampler: { order: [drawn] },
};
