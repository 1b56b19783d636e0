/** Random computations on tensors, with what plain arrays make of them: for property tests. */
import fc from 'fast-check';
import type { DType } from '../src/core/dtype.js';
import { conv2d, maxPool2d, type Tensor, tensor } from '../src/index.js';
import type { NdArray } from './ndarray.js';
import * as nd from './ndarray.js';

/** A tensor and what it should hold. */
export interface Pair {
  readonly t: Tensor;
  readonly a: NdArray;
}

export type Choose = (below: number) => number;

/** A view of `p`: every kind of movement, with sizes chosen by `choose`. */
export function moved({ t, a }: Pair, choose: Choose): Pair {
  const rank = a.shape.length;
  switch (choose(7)) {
    case 0: {
      const order = a.shape.map((_, d) => d);
      for (let i = rank - 1; i > 0; i--) {
        const j = choose(i + 1);
        [order[i], order[j]] = [order[j]!, order[i]!];
      }
      return { t: t.permute(order), a: nd.permute(a, order) };
    }
    case 1: {
      const to = regrouped(a.shape, choose);
      return { t: t.reshape(to), a: nd.reshape(a, to) };
    }
    case 2: {
      if (rank === 0) return { t, a };
      const axis = choose(rank);
      return { t: t.flip(axis), a: nd.flip(a, axis) };
    }
    case 3: {
      const slices = a.shape.map((n) => {
        const from = choose(n + 1);
        const to = from + choose(n + 1 - from);
        const step = 1 + choose(3);
        const positions = nd.range(from, to, step);
        return choose(3) === 0
          ? {
              text: `${to - 1}:${from - 1 < 0 ? '' : from - 1}:${-step}`,
              positions: to > from ? nd.range(to - 1, from - 1, -step) : undefined,
            }
          : { text: `${from}:${to}:${step}`, positions };
      });
      if (slices.some((s) => s.positions === undefined)) return { t, a };
      return {
        t: t.at(...slices.map((s) => s.text)),
        a: nd.pick(
          a,
          slices.map((s) => s.positions!),
        ),
      };
    }
    case 4: {
      const amounts = a.shape.map((): [number, number] => [choose(3), choose(2)]);
      const value = choose(3) - 1;
      return { t: t.pad(amounts, value), a: nd.pad(a, amounts, value) };
    }
    case 5: {
      const at = choose(rank + 1);
      const wide = [...a.shape.slice(0, at), 1, ...a.shape.slice(at)];
      const to = wide.map((n, d) => (d === at ? 1 + choose(3) : n));
      return { t: t.unsqueeze(at).expand(to), a: nd.broadcastTo(nd.reshape(a, wide), to) };
    }
    default: {
      if (rank === 0) return { t: t.reshape([1]), a: nd.reshape(a, [1]) };
      const axis = choose(rank);
      const rows = Array.from({ length: choose(4) }, () => choose(Math.max(1, a.shape[axis]!)));
      if (a.shape[axis] === 0) return { t, a };
      const picked = nd.pick(
        a,
        a.shape.map((n, d) => (d === axis ? rows : nd.range(0, n))),
      );
      const positions = tensor(Int32Array.from(rows));
      return { t: t.at(...a.shape.map((_, d) => (d === axis ? positions : ':'))), a: picked };
    }
  }
}

/** Neighbouring dimensions joined, and sizes split in two. */
function regrouped(sizes: readonly number[], choose: Choose): number[] {
  const joined: number[] = [];
  for (const n of sizes) {
    if (joined.length > 0 && choose(2) === 0) joined.push(joined.pop()! * n);
    else joined.push(n);
  }
  return joined.flatMap((n) => {
    const divisors = nd.range(1, n + 1).filter((d) => n % d === 0);
    if (n < 2 || choose(2) === 0) return [n];
    const d = divisors[choose(divisors.length)]!;
    return [d, n / d];
  });
}

const unary: readonly (readonly [(t: Tensor) => Tensor, (v: number) => number])[] = [
  [(t) => t.neg(), (v) => -v],
  [(t) => t.tanh(), Math.tanh],
  [(t) => t.sin(), Math.sin],
  [(t) => t.mul(0.5).add(0.25), (v) => 0.5 * v + 0.25],
  [(t) => t.square().mul(0.1).tanh(), (v) => Math.tanh(0.1 * v * v)],
  [(t) => t.sigmoid(), (v) => 1 / (1 + Math.exp(-v))],
];
const binary: readonly (readonly [(s: Tensor, t: Tensor) => Tensor, (v: number, w: number) => number])[] = [
  [(s, t) => s.add(t).mul(0.5), (v, w) => (v + w) / 2],
  [(s, t) => s.sub(t), (v, w) => v - w],
  [(s, t) => s.mul(t).tanh(), (v, w) => Math.tanh(v * w)],
  [(s, t) => s.maximum(t), Math.max],
  // No jump where the two meet: rounding may choose the other side there.
  [(s, t) => s.lt(t).where(s, t.mul(2).sub(s)), (v, w) => (v < w ? v : 2 * w - v)],
];
const folds: readonly (readonly ['mean' | 'sum' | 'max' | 'min', (v: number[]) => number])[] = [
  ['mean', nd.mean],
  ['sum', nd.total],
  ['max', (v) => Math.max(...v)],
  ['min', (v) => Math.min(...v)],
];

/** A new node made from what there is. */
export function grown(pool: readonly Pair[], choose: Choose, moves: number): Pair {
  const p = pool[choose(pool.length)]!;
  const kind = choose(3 + moves);
  if (kind === 0) {
    const [run, f] = unary[choose(unary.length)]!;
    return { t: run(p.t), a: nd.map(f, p.a) };
  }
  if (kind === 1) {
    let q = pool[choose(pool.length)]!;
    const fits = p.a.shape.every((n, d) => {
      const m = q.a.shape[d - p.a.shape.length + q.a.shape.length] ?? 1;
      return n === m || n === 1 || m === 1;
    });
    if (!fits) q = { t: q.t.sum(), a: nd.reduce(nd.total, q.a) };
    const [run, f] = binary[choose(binary.length)]!;
    return { t: run(p.t, q.t), a: nd.map(f as (...v: number[]) => number, p.a, q.a) };
  }
  if (kind === 3 && p.a.shape.length >= 2 && choose(2) === 0) {
    const order = p.a.shape.map((_, d) => d);
    order.push(order.splice(-2, 1)[0]!);
    const product = nd.matmul(p.a, nd.permute(p.a, order));
    return { t: p.t.matmul(p.t.transpose()).tanh(), a: nd.map(Math.tanh, product) };
  }
  const [height = 0, width = 0] = p.a.shape.slice(-2);
  if (
    kind === 3 &&
    p.a.shape.length >= 2 &&
    height > 1 &&
    width > 1 &&
    nd.count(p.a.shape) > 0 &&
    choose(2) === 0
  ) {
    // As an image whose leading dimensions are channels: pooled, or convolved with a corner of its own
    const image = [1, nd.count(p.a.shape.slice(0, -2)), height, width];
    const [t, a] = [p.t.reshape(image), nd.reshape(p.a, image)];
    const padding = [choose(2), choose(2)] as const;
    const stride = [1, 1 + choose(2)] as const;
    if (choose(2) === 0) {
      const most = (v: readonly (number | undefined)[]): number =>
        Math.max(...v.filter((e) => e !== undefined));
      return { t: maxPool2d(t, 2, { padding, stride }), a: nd.pool(most, a, [2, 2], { padding, stride }) };
    }
    const groups = image[1]!;
    const corner = nd.pick(a, [[0], nd.range(0, groups), [0, 1], [0, 1]]);
    return {
      t: conv2d(t, t.at(0, ':', '0:2', '0:2').unsqueeze(1), undefined, { groups, padding, stride }).tanh(),
      a: nd.map(Math.tanh, nd.conv2d(a, nd.reshape(corner, [groups, 1, 2, 2]), { groups, padding, stride })),
    };
  }
  if (kind === 3 && p.a.shape.length >= 1 && choose(2) === 0) {
    const axis = choose(p.a.shape.length);
    return { t: p.t.softmax(axis), a: nd.alongAxis(nd.softmax, p.a, axis) };
  }
  if (kind === 2) {
    const axes = p.a.shape.map((_, d) => d).filter(() => choose(2) === 0);
    const [name, f] = folds[axes.some((d) => p.a.shape[d] === 0) ? 1 : choose(folds.length)]!;
    const keepdim = choose(2) === 0;
    return { t: p.t[name](axes, { keepdim }), a: nd.reduce(f, p.a, axes, keepdim) };
  }
  return moved(p, choose);
}

/** A leaf of these numbers, repeated as often as needed with small changes, and exact in f32. */
export const leaf = (
  data: readonly number[],
  sizes: readonly number[],
  dtype: DType,
  requiresGrad = false,
): Pair => {
  const values = Array.from({ length: nd.count(sizes) }, (_, i) =>
    Math.fround(data[i % data.length]! + 0.01 * (i % 7)),
  );
  return {
    t: tensor(Float64Array.from(values), { shape: sizes, dtype, requiresGrad }) as Tensor,
    a: { shape: sizes, data: values },
  };
};

const number = fc.double({ min: -2, max: 2, noNaN: true });
export const data = fc.array(number, { minLength: 3, maxLength: 9 });
const size = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 9, 18) },
);
export const sizes = fc.array(size, { maxLength: 3 });
/** Numbers that choices are read off. */
export const script = fc.array(fc.nat({ max: 1 << 20 }), { minLength: 64, maxLength: 64 });

/** Choices read off a script, again and again. */
export const chooser = (list: readonly number[]): Choose => {
  let at = 0;
  return (below) => (below < 1 ? 0 : (list[at++ % list.length]! + at) % below);
};
