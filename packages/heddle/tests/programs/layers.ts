/** Products, convolutions, pooling, normalisation: rows of the table. Most have kernels written by hand. */
import * as H from '../../src/index.js';
import { f32, f64, ones, zeros } from '../../src/index.js';
import * as nd from '../ndarray.js';
import { each, type Op, op, type Picker } from './op.js';
import { less, mean } from './reductions.js';
import type { Entries, Tape } from './tape.js';

/** (…, M, K) × (…, K, N), leading dimensions broadcast. */
function product(tape: Tape, a: Entries, b: Entries): Entries {
  const [m, k, n] = [a.shape.at(-2)!, a.shape.at(-1)!, b.shape.at(-1)!];
  const lead = nd.broadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const left = nd.broadcastTo(a, [...lead, m, k]).data;
  const right = nd.broadcastTo(b, [...lead, k, n]).data;
  const data: number[] = [];
  for (let batch = 0; batch < nd.count(lead); batch++)
    for (let i = 0; i < m; i++) {
      const row = left.slice((batch * m + i) * k, (batch * m + i + 1) * k);
      for (let j = 0; j < n; j++)
        data.push(
          tape.dot(
            a.dtype,
            row,
            row.map((_, q) => right[(batch * k + q) * n + j]!),
          ),
        );
    }
  return { shape: [...lead, m, n], dtype: a.dtype, data };
}

const transposed = (x: Entries): Entries => {
  const order = x.shape.map((_, d) => d);
  order.push(order.splice(-2, 1)[0]!);
  return { ...nd.permute(x, order), dtype: x.dtype };
};

/** x plus a bias that broadcasts. */
function plus(tape: Tape, x: Entries, bias: nd.NdArray): Entries {
  const wide = nd.broadcastTo(bias, x.shape).data;
  return each(x, (id, i) => tape.combination(x.dtype, [id, wide[i]!]));
}

/** An image (N, C, H, W) with sides of at least 2 and few elements; the shape of a value that can be one, if there is one. */
function image(p: Picker): { x: number; shape: number[] } | undefined {
  const x = p.floats((s) => s.length >= 2 && s.at(-1)! >= 2 && s.at(-2)! >= 2 && nd.count(s) <= 400);
  if (x === undefined) {
    if (p.chance(0.5)) return undefined;
    const shape = [1 + p.below(2), 1 + p.below(3), 3 + p.below(4), 3 + p.below(4)];
    return { x: p.fitting(shape, 'f32'), shape };
  }
  const s = p.shape(x);
  if (s.length === 4) return { x, shape: [...s] };
  return {
    x,
    shape:
      s.length === 3
        ? [1, ...s]
        : [nd.count(s.slice(0, -3)), s.length > 3 ? s.at(-3)! : 1, s.at(-2)!, s.at(-1)!],
  };
}

interface Windows {
  readonly image: readonly number[];
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
}

function windows(shape: readonly number[], p: Picker): Windows | undefined {
  const kernel = p.one([
    [2, 2],
    [3, 3],
    [2, 1],
    [1, 3],
    [1, 1],
  ] as const);
  const padding = kernel.map((k) => (p.chance(0.6) ? 0 : p.below(Math.floor(k / 2) + 1))) as [number, number];
  if (kernel.some((k, i) => k > shape[2 + i]! + 2 * padding[i]!)) return undefined;
  const stride = p.chance(0.5)
    ? kernel
    : p.one([
        [1, 1],
        [2, 1],
        [2, 2],
      ] as const);
  return { image: shape, kernel, stride, padding };
}

/** Of each window of an image: the entries in it, undefined in the padding. */
function pooled(
  x: Entries,
  { image, kernel, stride, padding }: Windows,
  f: (ids: (number | undefined)[]) => number,
): Entries {
  const at = nd.reshape(x, image);
  return { ...nd.pool(f, at, kernel, { stride, padding }), dtype: x.dtype };
}

const inside = (ids: readonly (number | undefined)[]): number[] => ids.filter((id) => id !== undefined);
const each2 = (image: readonly number[]): readonly number[] => [1, image[1]!, 1, 1];

interface Normalisation {
  readonly image: readonly number[];
  readonly training: boolean;
  readonly affine: boolean;
}

export const LAYERS: Readonly<Record<string, Op<unknown>>> = {
  matmul: op<{ transposed: boolean }>({
    choose: (p) => {
      const x = p.floats((s) => s.length >= 2);
      if (x === undefined) return undefined;
      const shape = p.shape(x);
      const [k, dtype] = [shape.at(-1)!, p.dtype(x)];
      if (p.chance(0.25)) return { src: [x, x], arg: { transposed: true } };
      const other = p.value(
        (s, t) => t === dtype && s.length >= 2 && s.at(-2) === k && (s.length === 2 || shape.length === 2),
      );
      const lead = p.chance(0.3) ? shape.slice(0, -2).map((n) => (p.chance(0.3) ? 1 : n)) : [];
      const y =
        other !== undefined && p.chance(0.5)
          ? other
          : p.fitting([...lead, k, p.one([1, 1, 2, 3, 5, 8])], dtype);
      return { src: [x, y], arg: { transposed: false } };
    },
    run: ([a, b], { transposed }) => a!.matmul(transposed ? b!.transpose() : b!),
    exact: (tape, [a, b], o) => product(tape, a!, o.transposed ? transposed(b!) : b!),
  }),
  linear: op<null>({
    choose: (p) => {
      const x = p.floats((s) => s.length >= 1 && s.at(-1)! <= 40);
      if (x === undefined) return undefined;
      const [k, dtype] = [p.shape(x).at(-1)!, p.dtype(x)];
      const outputs = p.one([1, 1, 2, 3, 4, 7]);
      const weight = p.fitting([outputs, k], dtype);
      return { src: [x, weight, ...(p.chance(0.7) ? [p.fitting([outputs], dtype)] : [])], arg: null };
    },
    run: ([x, weight, bias]) => H.linear(x!, weight!, bias),
    exact: (tape, [x, weight, bias]) => {
      const rows = x!.shape.length === 1 ? { ...x!, shape: [1, ...x!.shape] } : x!;
      const y = product(tape, rows, transposed(weight!));
      const sum = bias ? plus(tape, y, bias) : y;
      return x!.shape.length === 1 ? { ...sum, shape: sum.shape.slice(1) } : sum;
    },
  }),
  conv2d: op<Windows & { readonly groups: number }>({
    choose: (p) => {
      const found = image(p);
      const slides = found && windows(found.shape, p);
      if (!slides) return undefined;
      const channels = found.shape[1]!;
      const groups = p.chance(0.2) ? channels : 1;
      const outputs = groups * (1 + p.below(3));
      const dtype = p.dtype(found.x);
      const weight = p.fitting([outputs, channels / groups, ...slides.kernel], dtype);
      return {
        src: [found.x, weight, ...(p.chance(0.5) ? [p.fitting([outputs], dtype)] : [])],
        arg: { ...slides, groups },
      };
    },
    run: ([x, weight, bias], { image, groups, stride, padding }) =>
      H.conv2d(x!.reshape(image), weight!, bias, { groups, stride, padding }),
    exact: (tape, [x, weight, bias], { image, groups, stride, padding }) => {
      const zero = tape.constant(x!.dtype, 0);
      const w = weight!;
      const { dtype } = x!;
      const taps = nd.count(w.shape.slice(1));
      const [perGroup, kh, kw] = w.shape.slice(1) as [number, number, number];
      // Every channel's windows first, then their products with the weights of each output.
      const seen = new Map<string, (number | undefined)[]>();
      const size: number[] = [];
      for (let n = 0; n < image[0]!; n++)
        for (let c = 0; c < image[1]!; c++) {
          const one = nd.pick(nd.reshape(x!, image), [
            [n],
            [c],
            nd.range(0, image[2]!),
            nd.range(0, image[3]!),
          ]);
          let i = 0;
          const out = nd.pool(
            (ids) => {
              seen.set(`${n} ${c} ${i++}`, [...ids]);
              return 0;
            },
            one,
            [kh, kw],
            { stride, padding },
          );
          size.splice(0, 2, ...out.shape.slice(2));
        }
      const y = nd.make([image[0]!, w.shape[0]!, ...size], ([n, o, oy, ox]) => {
        const first = Math.floor(o! / (w.shape[0]! / groups)) * perGroup;
        const ids = nd
          .range(first, first + perGroup)
          .flatMap((c) => seen.get(`${n} ${c} ${oy! * size[1]! + ox!}`)!);
        const weights = w.data.slice(o! * taps, (o! + 1) * taps);
        // Some kernels multiply the zeros around the image, others leave them out: by infinite weights that differs.
        if (weights.some((v, i) => ids[i] === undefined && !Number.isFinite(tape.value[v]!)))
          return tape.open(dtype, Number.NaN, [...ids.flatMap((id) => id ?? []), ...weights]);
        return tape.dot(
          dtype,
          ids.map((id) => id ?? zero),
          weights,
        );
      });
      const made = { ...y, dtype };
      return bias ? plus(tape, made, nd.reshape(bias, [w.shape[0]!, 1, 1])) : made;
    },
  }),
  maxPool2d: op<Windows>({
    choose: (p) => {
      const found = image(p);
      const slides = found && windows(found.shape, p);
      return slides && { src: [found.x], arg: slides };
    },
    run: ([x], { image, kernel, stride, padding }) =>
      H.maxPool2d(x!.reshape(image), [...kernel], { stride: [...stride], padding: [...padding] }),
    exact: (tape, [x], arg) => pooled(x!, arg, (ids) => tape.extreme(x!.dtype, inside(ids), 1, false)),
  }),
  avgPool2d: op<Windows & { readonly countIncludePad: boolean }>({
    choose: (p) => {
      const found = image(p);
      const slides = found && windows(found.shape, p);
      return slides && { src: [found.x], arg: { ...slides, countIncludePad: p.chance(0.5) } };
    },
    run: ([x], { image, kernel, stride, padding, countIncludePad }) =>
      H.avgPool2d(x!.reshape(image), [...kernel], {
        stride: [...stride],
        padding: [...padding],
        countIncludePad,
      }),
    exact: (tape, [x], arg) =>
      pooled(x!, arg, (ids) => {
        const used = inside(ids);
        const n = arg.countIncludePad ? ids.length : used.length;
        return tape.combination(
          x!.dtype,
          used,
          used.map(() => 1 / n),
        );
      }),
  }),
  batchNorm: op<Normalisation>({
    choose: (p) => {
      const found = image(p);
      if (!found || found.shape[0]! * found.shape[2]! * found.shape[3]! < 2) return undefined;
      const affine = p.chance(0.7);
      const dtype = p.dtype(found.x);
      const channel = [found.shape[1]!];
      return {
        src: [found.x, ...(affine ? [p.fitting(channel, dtype), p.fitting(channel, dtype)] : [])],
        arg: { image: found.shape, training: p.chance(0.7), affine },
      };
    },
    run: ([x, weight, bias], { image, training }) => {
      const options = { dtype: x!.dtype };
      const [mean, variance] = [zeros([image[1]!], options), ones([image[1]!], options)];
      return H.batchNorm(x!.reshape(image), mean, variance, { weight, bias, training });
    },
    exact: (tape, [x, weight, bias], { image, training }) => {
      const { dtype } = x!;
      const at: Entries = { ...nd.reshape(x!, image), dtype };
      const o = { axes: [0, 2, 3], keepdim: true };
      let y: Entries;
      const root = (variance: number): number =>
        tape.curve(dtype, tape.combination(dtype, [variance, tape.constant(dtype, 1e-5)]), {
          f: (v) => 1 / Math.sqrt(v),
          slope: (v) => -0.5 * v ** -1.5,
        });
      if (training) {
        const apart = less(tape, at, mean(tape, at, o));
        const squares = each(apart, (id) => tape.dot(dtype, [id], [id]));
        const scale = nd.broadcastTo(each(mean(tape, squares, o), root), image).data;
        y = each(apart, (id, i) => tape.dot(dtype, [id], [scale[i]!]));
      } else {
        const scale = root(tape.constant(dtype, 1));
        y = each(at, (id) => tape.dot(dtype, [id], [scale]));
      }
      if (!weight) return y;
      const factors = nd.broadcastTo(nd.reshape(weight, each2(image)), image).data;
      return plus(
        tape,
        each(y, (id, i) => tape.dot(dtype, [id], [factors[i]!])),
        nd.reshape(bias!, each2(image)),
      );
    },
  }),
  oneHot: op<number>({
    choose: (p) => {
      const x = p.value((s, t) => t === 'i32' && nd.count(s) <= 60 && s.length < 4);
      return x === undefined ? undefined : { src: [x], arg: 1 + p.below(4) };
    },
    run: ([t], classes) => H.oneHot(t!, classes),
    exact: (tape, [x], classes) => ({
      shape: [...x!.shape, classes],
      dtype: 'f32',
      data: x!.data.flatMap((id) =>
        nd.range(0, classes).map((c) => tape.plain('f32', tape.value[id] === c ? 1 : 0, tape.isExact(id))),
      ),
    }),
  }),
  /** Made on the device, from nothing. */
  arange: op<{ n: number; float: boolean }>({
    choose: (p) => ({ src: [], arg: { n: 1 + p.below(6), float: p.chance(0.6) } }),
    run: (_, { n, float }) => (float ? H.arange(0.5, n, { dtype: f32 }) : H.arange(n)),
    exact: (tape, _, { n, float }) => {
      const dtype = float ? 'f32' : 'i32';
      return {
        shape: [n],
        dtype,
        data: nd.range(0, n).map((i) => tape.constant(dtype, float ? i + 0.5 : i)),
      };
    },
  }),
  full: op<{ shape: number[]; value: number; wide: boolean }>({
    choose: (p) => ({
      src: [],
      arg: {
        shape: nd.range(0, p.below(3)).map(() => 1 + p.below(4)),
        value: p.one([0, 1, 0.1, -2]),
        wide: p.chance(0.2),
      },
    }),
    run: (_, { shape, value, wide }) => H.full(shape, value, { dtype: wide ? f64 : f32 }),
    exact: (tape, _, { shape, value, wide }) => {
      const dtype = wide ? 'f64' : 'f32';
      return { ...nd.make(shape, () => tape.constant(dtype, value)), dtype };
    },
  }),
};
