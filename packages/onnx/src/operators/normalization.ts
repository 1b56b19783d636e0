/** Normalization: by batches, layers, groups, channels and norms. */
import { type AnyTensor, batchNorm, f32, instanceNorm, layerNorm, rmsNorm, type Tensor } from 'heddle';
import { sameShape, sizeOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { listOf, requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, int, ints } from './attributes.js';
import { operator } from './operator.js';

const last = (from: number, rank: number): number[] => listOf(rank - from, (_, i) => from + i);
const KEEP = { keepdim: true } as const;

/** A value of each channel, to be broadcast with (N, C, …). */
const perChannel = (v: AnyTensor, rank: number): AnyTensor =>
  v.reshape([-1, ...new Array<number>(rank - 2).fill(1)]);

const BatchNormalization = operator({
  since: [7, 9, 14, 15],
  inputs: [5],
  fixed: [3, 4],
  attributes: {
    epsilon: float(1e-5),
    momentum: float(0.9),
    spatial: int(1, { until: 8 }),
    training_mode: int(0, { from: 14 }),
  },
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const [weight, bias, mean, variance] = [1, 2, 3, 4].map((i) => call.tensor(i)) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor,
    ];
    const { epsilon: eps, momentum, training_mode, spatial } = call.attributes;
    if (spatial === 0) throw call.shapeError('spatial = 0 is not supported.');
    if (!training_mode) {
      if (x.ndim >= 2 && [weight, bias, mean, variance].every((v) => v.dtype === x.dtype))
        return Value.of(batchNorm(x, mean, variance, { weight, bias, eps }));
      const [m, v, w, b] = [mean, variance, weight, bias].map((t) => perChannel(t.cast(f32), x.ndim)) as [
        Tensor,
        Tensor,
        Tensor,
        Tensor,
      ];
      return Value.of(x.cast(f32).sub(m).mul(v.add(eps).rsqrt()).mul(w).add(b).cast(x.dtype));
    }
    const axes = [0, ...last(2, x.ndim)];
    const batchMean = x.mean(axes);
    const batchVariance = x.variance(axes, { correction: 0 });
    const centred = x.sub(perChannel(batchMean, x.ndim));
    const scaled = centred.mul(perChannel(batchVariance.add(eps).rsqrt().mul(weight), x.ndim));
    const mixed = (old: Tensor, now: AnyTensor): Value =>
      Value.of(old.mul(momentum).add(now.mul(1 - momentum)));
    return [
      Value.of(scaled.add(perChannel(bias, x.ndim))),
      mixed(mean, batchMean),
      mixed(variance, batchVariance),
    ];
  },
});

const InstanceNormalization = operator({
  since: [6, 22],
  inputs: [3],
  attributes: { epsilon: float(1e-5) },
  compute: (call) => {
    const [x, weight, bias] = [0, 1, 2].map((i) => call.tensor(i)) as [Tensor, Tensor, Tensor];
    return Value.of(instanceNorm(x, { weight, bias, eps: call.attributes.epsilon }));
  },
});

/** A scale or bias as long as what is normalized, or undefined if it must be broadcast. */
const fits = (v: AnyTensor | undefined, shape: readonly number[]): boolean => !v || sameShape(v.shape, shape);

const LayerNormalization = operator({
  since: [17],
  inputs: [2, 3],
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.axis(call.attributes.axis, x.rank);
    const shape = x.shape.slice(axis);
    const [weight, bias] = [call.tensor(1), call.optional(2)?.tensor];
    const eps = call.attributes.epsilon;
    if (!call.outputs[1] && !call.outputs[2] && fits(weight, shape) && fits(bias, shape))
      return Value.of(layerNorm(x.tensor, shape, { weight, bias, eps }));
    const wide = x.type.bits < 32 ? (x.tensor.cast(f32) as Tensor) : (x.tensor as Tensor);
    const axes = last(axis, x.rank);
    const mean = wide.mean(axes, KEEP);
    const scale = wide
      .variance(axes, { ...KEEP, correction: 0 })
      .add(eps)
      .rsqrt();
    const scaled = wide.sub(mean).mul(scale).cast(x.tensor.dtype).mul(weight);
    return [Value.of(bias ? scaled.add(bias) : scaled), Value.of(mean), Value.of(scale)];
  },
});

const RMSNormalization = operator({
  since: [23],
  inputs: [2],
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.axis(call.attributes.axis, x.rank);
    const shape = x.shape.slice(axis);
    const weight = call.tensor(1);
    const eps = call.attributes.epsilon;
    if (fits(weight, shape)) return Value.of(rmsNorm(x.tensor, shape, { weight, eps }));
    const wide = x.type.bits < 32 ? (x.tensor.cast(f32) as Tensor) : (x.tensor as Tensor);
    const scale = wide.square().mean(last(axis, x.rank), KEEP).add(eps).rsqrt();
    return Value.of(wide.mul(scale).cast(x.tensor.dtype).mul(weight));
  },
});

const GroupNormalization = operator({
  since: [18, 21],
  inputs: [3],
  attributes: { epsilon: float(1e-5), num_groups: int(1), stash_type: int(1, { from: 21 }) },
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const groups = call.attributes.num_groups;
    const [n, c, ...spatial] = x.shape as [number, number, ...number[]];
    if (groups < 1 || c % groups !== 0)
      throw call.shapeError(`${c} channels cannot be divided in ${groups} groups.`);
    const grouped = x
      .reshape([n, groups, c / groups, ...spatial])
      .cast(x.dtype.bytes < 4 ? f32 : x.dtype) as Tensor;
    const axes = last(2, grouped.ndim);
    const centred = grouped.sub(grouped.mean(axes, KEEP));
    const scale = grouped
      .variance(axes, { ...KEEP, correction: 0 })
      .add(call.attributes.epsilon)
      .rsqrt();
    const made = centred.mul(scale).cast(x.dtype);
    // Up to version 18 a group has one scale, since then a channel.
    const [weight, bias] = [call.tensor(1), call.tensor(2)];
    if (call.version < 21) {
      const each = (v: AnyTensor): AnyTensor =>
        v.reshape([groups, ...new Array<number>(made.ndim - 2).fill(1)]);
      return Value.of(
        made
          .mul(each(weight))
          .add(each(bias))
          .reshape(x.shape as number[]),
      );
    }
    return Value.of(
      made
        .reshape(x.shape as number[])
        .mul(perChannel(weight, x.ndim))
        .add(perChannel(bias, x.ndim)),
    );
  },
});

/** Across channels: x / (bias + alpha/size · Σ x²)^beta. Krizhevsky et al. 2012. */
const LRN = operator({
  since: [1, 13],
  inputs: [1],
  attributes: { alpha: float(1e-4), beta: float(0.75), bias: float(1), size: int(undefined) },
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const { alpha, beta, bias, size = 1 } = call.attributes;
    requireParts(size, 'channels');
    const before = Math.floor((size - 1) / 2);
    const padded = x.square().pad(x.shape.map((_, i) => (i === 1 ? [before, size - 1 - before] : [0, 0])));
    const c = x.shape[1]!;
    let sum: AnyTensor | undefined;
    for (let i = 0; i < size; i++) {
      const part = padded.at(':', `${i}:${i + c}`);
      sum = sum ? sum.add(part) : part;
    }
    if (!sum) throw call.shapeError(`size is ${size}, must be at least 1.`);
    return Value.of(
      x.div(
        sum
          .mul(alpha / size)
          .add(bias)
          .pow(beta),
      ),
    );
  },
});

const MeanVarianceNormalization = operator({
  since: [9, 13],
  inputs: [1],
  attributes: { axes: ints([0, 2, 3]) },
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const axes = call.axes(call.attributes.axes, x.ndim);
    const deviation = x.variance(axes, { ...KEEP, correction: 0 }).sqrt();
    return Value.of(x.sub(x.mean(axes, KEEP)).div(deviation.add(1e-9)));
  },
});

const LpNormalization = operator({
  since: [1, 22],
  inputs: [1],
  attributes: { axis: int(-1), p: int(2) },
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const axis = call.axis(call.attributes.axis, x.ndim);
    const length = call.attributes.p === 1 ? x.abs().sum(axis, KEEP) : x.square().sum(axis, KEEP).sqrt();
    // A vector of zeros stays one.
    return Value.of(length.eq(0).where(length, x.div(length)));
  },
});

/** Softmax and its like; up to version 12 over all dimensions from an axis on. */
const normalized = (f: (x: Tensor, axis: number) => AnyTensor) =>
  operator({
    since: [1, 11, 13],
    inputs: [1],
    attributes: { axis: int(undefined) },
    compute: (call) => {
      const x = call.tensor(0) as Tensor;
      const given = call.attributes.axis ?? (call.version < 13 ? 1 : -1);
      if (call.version >= 13) return Value.of(f(x, call.axis(given, x.ndim)));
      const axis = given === x.ndim ? given : call.axis(given, x.ndim);
      const flat = x.reshape([sizeOf(x.shape.slice(0, axis)), sizeOf(x.shape.slice(axis))]) as Tensor;
      return Value.of(f(flat, 1).reshape(x.shape as number[]));
    },
  });

const Softmax = normalized((x, axis) => x.softmax(axis));
const LogSoftmax = normalized((x, axis) => x.logSoftmax(axis));
/** 1 for the first of the largest elements, else 0. */
const Hardmax = normalized((x, axis) => {
  const size = x.shape[axis]!;
  const line = Value.int64s(listOf(size, (_, i) => i)).cast(ELEMENT_TYPES.i32).tensor;
  const along = line.reshape(x.shape.map((_, i) => (i === axis ? size : 1)));
  return x.argmax(axis, KEEP).eq(along).cast(x.dtype);
});

export const NORMALIZATION = {
  ...{ BatchNormalization, InstanceNormalization, LayerNormalization, RMSNormalization, GroupNormalization },
  ...{ LRN, MeanVarianceNormalization, LpNormalization, Softmax, LogSoftmax, Hardmax },
};
