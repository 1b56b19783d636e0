/** Plain arrays with a shape, and what tensor operations mean on them: slow, in f64, and written to be read. */

/** Elements in row-major order; bools are 0 and 1. */
export interface NdArray {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

export const count = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);

export function unravel(index: number, shape: readonly number[]): number[] {
  const at = new Array<number>(shape.length);
  let rest = index;
  for (let d = shape.length - 1; d >= 0; d--) {
    at[d] = rest % shape[d]!;
    rest = Math.floor(rest / shape[d]!);
  }
  return at;
}

export const ravel = (at: readonly number[], shape: readonly number[]): number =>
  at.reduce((n, k, d) => n * shape[d]! + k, 0);

/** The array whose element at each position is `f(position)`. */
export const make = (shape: readonly number[], f: (at: number[]) => number): NdArray => ({
  shape,
  data: Array.from({ length: count(shape) }, (_, i) => f(unravel(i, shape))),
});

export const get = (a: NdArray, at: readonly number[]): number => a.data[ravel(at, a.shape)]!;

/** The size of every dimension after broadcasting: the one that is not 1. */
export function broadcastShape(...shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  return Array.from({ length: rank }, (_, d) => {
    const sizes = shapes.map((s) => s[d - rank + s.length] ?? 1).filter((n) => n !== 1);
    return sizes[0] ?? 1;
  });
}

export const broadcastTo = (a: NdArray, shape: readonly number[]): NdArray =>
  a.shape.length === shape.length && a.shape.every((n, d) => n === shape[d])
    ? a
    : make(shape, (at) =>
        get(
          a,
          at.slice(shape.length - a.shape.length).map((k, d) => (a.shape[d] === 1 ? 0 : k)),
        ),
      );

/** `f` of the elements at each position, after broadcasting. */
export function map(f: (...values: number[]) => number, ...arrays: readonly NdArray[]): NdArray {
  const shape = broadcastShape(...arrays.map((a) => a.shape));
  const wide = arrays.map((a) => broadcastTo(a, shape));
  return { shape, data: Array.from({ length: count(shape) }, (_, i) => f(...wide.map((a) => a.data[i]!))) };
}

/** `f` of all elements that agree outside `axes` (default: of all). */
export function reduce(
  f: (values: number[]) => number,
  a: NdArray,
  axes: readonly number[] = a.shape.map((_, d) => d),
  keepdim = false,
): NdArray {
  const over = axes.map((d) => (d < 0 ? d + a.shape.length : d));
  const kept = a.shape.map((d, i) => (over.includes(i) ? 1 : d));
  const cells = Array.from({ length: count(kept) }, (): number[] => []);
  a.data.forEach((v, i) => {
    const at = unravel(i, a.shape).map((k, d) => (over.includes(d) ? 0 : k));
    cells[ravel(at, kept)]!.push(v);
  });
  const shape = keepdim ? kept : a.shape.filter((_, i) => !over.includes(i));
  return { shape, data: cells.map(f) };
}

export const total = (values: readonly number[]): number => values.reduce((s, v) => s + v, 0);
export const mean = (values: readonly number[]): number => total(values) / values.length;
export const product = (values: readonly number[]): number => values.reduce((s, v) => s * v, 1);
export const variance =
  (correction: number) =>
  (values: readonly number[]): number => {
    const middle = mean(values);
    return total(values.map((v) => (v - middle) ** 2)) / Math.max(0, values.length - correction);
  };

/** `f` of each line along `axis`, which gives as many numbers. */
export function alongAxis(f: (line: number[]) => number[], a: NdArray, axis: number): NdArray {
  const at = axis < 0 ? axis + a.shape.length : axis;
  const data = new Array<number>(a.data.length);
  const size = a.shape[at]!;
  for (let i = 0; i < a.data.length; i++) {
    const start = unravel(i, a.shape);
    if (start[at] !== 0) continue;
    const places = Array.from({ length: size }, (_, k) =>
      ravel(
        start.map((v, d) => (d === at ? k : v)),
        a.shape,
      ),
    );
    f(places.map((p) => a.data[p]!)).forEach((v, k) => {
      data[places[k]!] = v;
    });
  }
  return { shape: a.shape, data };
}

export const softmax = (line: readonly number[]): number[] => {
  const top = Math.max(...line);
  const e = line.map((v) => Math.exp(v - top));
  return e.map((v) => v / total(e));
};
export const logSoftmax = (line: readonly number[]): number[] => {
  const top = Math.max(...line);
  const log = top + Math.log(total(line.map((v) => Math.exp(v - top))));
  return line.map((v) => v - log);
};

export const reshape = (a: NdArray, shape: readonly number[]): NdArray => ({ shape, data: a.data });

export const permute = (a: NdArray, axes: readonly number[]): NdArray =>
  make(
    axes.map((d) => a.shape[d]!),
    (at) => {
      const from = new Array<number>(at.length);
      axes.forEach((d, i) => {
        from[d] = at[i]!;
      });
      return get(a, from);
    },
  );

/** Positions of each dimension to keep, in order. */
export const pick = (a: NdArray, positions: readonly (readonly number[])[]): NdArray =>
  make(
    positions.map((p) => p.length),
    (at) =>
      get(
        a,
        at.map((k, d) => positions[d]![k]!),
      ),
  );

/** start, start + step, … without `stop`. */
export function range(start: number, stop: number, step = 1): number[] {
  const out: number[] = [];
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) out.push(i);
  return out;
}

export const flip = (a: NdArray, axis: number): NdArray =>
  pick(
    a,
    a.shape.map((n, d) => (d === axis ? range(n - 1, -1, -1) : range(0, n))),
  );

export const pad = (a: NdArray, amounts: readonly (readonly [number, number])[], value = 0): NdArray =>
  make(
    a.shape.map((n, d) => n + amounts[d]![0] + amounts[d]![1]),
    (at) => {
      const from = at.map((k, d) => k - amounts[d]![0]);
      return from.every((k, d) => k >= 0 && k < a.shape[d]!) ? get(a, from) : value;
    },
  );

export function cat(arrays: readonly NdArray[], axis: number): NdArray {
  const first = arrays[0]!;
  const shape = first.shape.map((n, d) => (d === axis ? total(arrays.map((a) => a.shape[axis]!)) : n));
  return make(shape, (at) => {
    let k = at[axis]!;
    for (const a of arrays) {
      const n = a.shape[axis]!;
      if (k < n)
        return get(
          a,
          at.map((v, d) => (d === axis ? k : v)),
        );
      k -= n;
    }
    throw new Error('beyond the last array');
  });
}

export const gather = (a: NdArray, axis: number, positions: NdArray): NdArray =>
  make(positions.shape, (at) => {
    const k = get(positions, at);
    return k < 0 || k >= a.shape[axis]!
      ? 0
      : get(
          a,
          at.map((v, d) => (d === axis ? k : v)),
        );
  });

/** (…, M, K) × (…, K, N), leading dimensions broadcast. */
export function matmul(a: NdArray, b: NdArray): NdArray {
  const [m, k, n] = [a.shape.at(-2)!, a.shape.at(-1)!, b.shape.at(-1)!];
  const lead = broadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const left = broadcastTo(a, [...lead, m, k]);
  const right = broadcastTo(b, [...lead, k, n]);
  const data: number[] = [];
  for (let batch = 0; batch < count(lead); batch++) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++)
          sum += left.data[(batch * m + i) * k + p]! * right.data[(batch * k + p) * n + j]!;
        data.push(sum);
      }
    }
  }
  return { shape: [...lead, m, n], data };
}

export interface Sliding {
  readonly stride?: readonly [number, number];
  readonly padding?: readonly [number, number];
  readonly dilation?: readonly [number, number];
}

/** `f` of every window of an (N, C, H, W) image: the values in it and where (undefined in the padding). */
function windows(
  x: NdArray,
  kernel: readonly [number, number],
  { stride = [1, 1], padding = [0, 0], dilation = [1, 1] }: Sliding,
): { size: number[]; at: (n: number, c: number, oy: number, ox: number) => (number | undefined)[] } {
  const size = [0, 1].map(
    (i) =>
      Math.floor((x.shape[2 + i]! + 2 * padding[i]! - dilation[i]! * (kernel[i]! - 1) - 1) / stride[i]!) + 1,
  );
  const at = (n: number, c: number, oy: number, ox: number): (number | undefined)[] =>
    range(0, kernel[0]).flatMap((ky) =>
      range(0, kernel[1]).map((kx) => {
        const y = oy * stride[0] + ky * dilation[0] - padding[0];
        const z = ox * stride[1] + kx * dilation[1] - padding[1];
        return y >= 0 && y < x.shape[2]! && z >= 0 && z < x.shape[3]! ? get(x, [n, c, y, z]) : undefined;
      }),
    );
  return { size, at };
}

/** x (N, C, H, W), w (O, C/groups, kH, kW) → (N, O, outH, outW). */
export function conv2d(
  x: NdArray,
  w: NdArray,
  options: Sliding & { readonly groups?: number } = {},
): NdArray {
  const { groups = 1 } = options;
  const [outputs, inputs, kh, kw] = w.shape as [number, number, number, number];
  const seen = windows(x, [kh, kw], options);
  return make([x.shape[0]!, outputs, ...seen.size], ([n, o, oy, ox]) => {
    const group = Math.floor(o! / (outputs / groups));
    return total(
      range(0, inputs).map((c) => {
        const taps = seen.at(n!, group * inputs + c, oy!, ox!);
        return total(taps.map((v, t) => (v ?? 0) * w.data[(o! * inputs + c) * kh * kw + t]!));
      }),
    );
  });
}

/** `f` of the values in each window of an (N, C, H, W) image, undefined in the padding. */
export function pool(
  f: (values: (number | undefined)[]) => number,
  x: NdArray,
  kernel: readonly [number, number],
  options: Sliding,
): NdArray {
  const seen = windows(x, kernel, options);
  return make([...x.shape.slice(0, 2), ...seen.size], ([n, c, oy, ox]) => f(seen.at(n!, c!, oy!, ox!)));
}
