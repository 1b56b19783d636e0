/** Convolution and pooling of signals and volumes, transposed convolution, adaptive pooling. */
import { bf16, f64 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { conv2d, get, make, mean, type NdArray, pool, range, reshape, total } from '../ndarray.js';
import type { Case } from './case.js';

type Size = readonly number[];

/** (N, C, L) as images of one row, and back. */
const rows = (x: NdArray): NdArray => reshape(x, [...x.shape.slice(0, -1), 1, x.shape.at(-1)!]);
const signals = (y: NdArray): NdArray => reshape(y, [...y.shape.slice(0, -2), y.shape.at(-1)!]);

const volume = (
  x: NdArray,
  w: NdArray,
  stride: Size,
  padding: Size,
  dilation: Size,
  groups: number,
): NdArray => {
  const [o, c, ...kernel] = w.shape as number[];
  const size = [0, 1, 2].map(
    (i) =>
      Math.floor((x.shape[2 + i]! + 2 * padding[i]! - dilation[i]! * (kernel[i]! - 1) - 1) / stride[i]!) + 1,
  );
  const taps = make(kernel, () => 0);
  return make([x.shape[0]!, o!, ...size], ([n, out, ...at]) => {
    const first = Math.floor(out! / (o! / groups)) * c!;
    return total(
      range(0, c!).map((channel) =>
        total(
          taps.data.map((_, t) => {
            const k = [
              Math.floor(t / (kernel[1]! * kernel[2]!)),
              Math.floor(t / kernel[2]!) % kernel[1]!,
              t % kernel[2]!,
            ];
            const from = k.map((v, i) => at[i]! * stride[i]! + v * dilation[i]! - padding[i]!);
            const isInside = from.every((v, i) => v >= 0 && v < x.shape[2 + i]!);
            return isInside ? get(x, [n!, first + channel, ...from]) * get(w, [out!, channel, ...k]) : 0;
          }),
        ),
      ),
    );
  });
};

interface Transposed {
  readonly stride?: readonly [number, number];
  readonly padding?: readonly [number, number];
  readonly outputPadding?: readonly [number, number];
  readonly dilation?: readonly [number, number];
  readonly groups?: number;
}

/** Each pixel adds the kernel to a window of the result: here as the sum that a pixel of the result gets. */
function transposed(x: NdArray, w: NdArray, options: Transposed): NdArray {
  const {
    stride = [1, 1],
    padding = [0, 0],
    outputPadding = [0, 0],
    dilation = [1, 1],
    groups = 1,
  } = options;
  const [c, perGroup, ...kernel] = w.shape as number[];
  const size = [0, 1].map(
    (i) =>
      (x.shape[2 + i]! - 1) * stride[i]! -
      2 * padding[i]! +
      dilation[i]! * (kernel[i]! - 1) +
      outputPadding[i]! +
      1,
  );
  const inputs = c! / groups;
  return make([x.shape[0]!, perGroup! * groups, ...size], ([n, o, ...at]) => {
    const group = Math.floor(o! / perGroup!);
    let sum = 0;
    for (let channel = group * inputs; channel < (group + 1) * inputs; channel++)
      for (let i = 0; i < x.shape[2]!; i++)
        for (let j = 0; j < x.shape[3]!; j++) {
          const [ky, kx] = [i, j].map((v, d) => (at[d]! + padding[d]! - v * stride[d]!) / dilation[d]!) as [
            number,
            number,
          ];
          const isTap = [ky, kx].every((k, d) => Number.isInteger(k) && k >= 0 && k < kernel[d]!);
          if (isTap) sum += get(x, [n!, channel, i, j]) * get(w, [channel, o! % perGroup!, ky, kx]);
        }
    return sum;
  });
}

const transposedCases: readonly (readonly [Size, Size, Transposed])[] = [
  [[1, 1, 1, 1], [1, 1, 2, 3], {}],
  [[2, 2, 3, 4], [2, 3, 3, 2], { stride: [2, 3], padding: [1, 0], outputPadding: [1, 2] }],
  [[1, 4, 3, 3], [4, 1, 2, 2], { groups: 2, dilation: [2, 1], padding: [1, 1] }],
  [[1, 2, 3, 2], [2, 1, 2, 2], { dilation: [3, 2], outputPadding: [2, 1], padding: [2, 1] }],
  [[0, 1, 3, 3], [1, 2, 2, 2], {}],
];

/** Where a tap meets an element of x, both are multiplied. w (C, O, …kernel) */
const transposedVolume = (x: NdArray, w: NdArray, stride: Size, padding: Size): NdArray => {
  const [channels, outputs, ...kernel] = w.shape as number[];
  const size = kernel.map((k, i) => (x.shape[2 + i]! - 1) * stride[i]! - 2 * padding[i]! + k);
  return make([x.shape[0]!, outputs!, ...size], ([n, out, ...at]) =>
    total(
      range(0, channels! * kernel[0]! * kernel[1]! * kernel[2]!).map((t) => {
        const [channel, ...k] = [
          kernel[0]! * kernel[1]! * kernel[2]!,
          kernel[1]! * kernel[2]!,
          kernel[2]!,
          1,
        ].map((below, i) => Math.floor(t / below) % [channels!, ...kernel][i]!) as [number, ...number[]];
        const from = k.map((v, i) => (at[i]! + padding[i]! - v) / stride[i]!);
        const isThere = from.every((v, i) => Number.isInteger(v) && v >= 0 && v < x.shape[2 + i]!);
        return isThere ? get(x, [n!, channel, ...from]) * get(w, [channel, out!, ...k]) : 0;
      }),
    ),
  );
};

const convolutions: Case[] = [
  {
    op: 'conv1d',
    inputs: [{ shape: [2, 4, 7] }, { shape: [2, 2, 3] }, { shape: [2] }],
    run: (x, w, c) => H.conv1d(x, w, c, { stride: 2, padding: 2, dilation: 2, groups: 2 }),
    reference: (x, w, c) => {
      const y = conv2d(rows(x), rows(w), { stride: [1, 2], padding: [0, 2], dilation: [1, 2], groups: 2 });
      return signals(make(y.shape, (at) => get(y, at) + c.data[at[1]!]!));
    },
    absolute: 1e-5,
  },
  {
    op: 'conv3d',
    inputs: [{ shape: [2, 2, 4, 3, 3] }, { shape: [4, 1, 2, 2, 2] }],
    run: (x, w) =>
      H.conv3d(x, w, undefined, { stride: [2, 1, 1], padding: [1, 0, 1], dilation: [2, 1, 2], groups: 2 }),
    reference: (x, w) => volume(x, w, [2, 1, 1], [1, 0, 1], [2, 1, 2], 2),
    absolute: 1e-5,
  },
  {
    op: 'convTranspose3d',
    inputs: [{ shape: [2, 2, 2, 3, 2] }, { shape: [2, 2, 3, 2, 2] }],
    run: (x, w) => H.convTranspose3d(x, w, undefined, { stride: [2, 1, 3], padding: [1, 0, 1] }),
    reference: (x, w) => transposedVolume(x, w, [2, 1, 3], [1, 0, 1]),
    absolute: 1e-5,
  },
  {
    op: 'convTranspose1d',
    inputs: [{ shape: [1, 2, 4] }, { shape: [2, 3, 3] }, { shape: [3] }],
    run: (x, w, c) => H.convTranspose1d(x, w, c, { stride: 2, padding: 1, outputPadding: 1 }),
    reference: (x, w, c) => {
      const y = transposed(rows(x), rows(w), { stride: [1, 2], padding: [0, 1], outputPadding: [0, 1] });
      return signals(make(y.shape, (at) => get(y, at) + c.data[at[1]!]!));
    },
    absolute: 1e-5,
  },
  ...transposedCases.map(
    ([x, w, options]): Case => ({
      op: 'convTranspose2d',
      inputs: [{ shape: x }, { shape: w }],
      run: (a, b) => H.convTranspose2d(a, b, undefined, options),
      reference: (a, b) => transposed(a, b, options),
      absolute: 1e-5,
    }),
  ),
  ...(
    [
      [f64, 1e-12],
      [bf16, 5e-2],
    ] as const
  ).map(
    ([dtype, tolerance]): Case => ({
      op: 'convTranspose2d',
      inputs: [
        { shape: [1, 2, 3, 3], dtype },
        { shape: [2, 2, 2, 2], dtype },
      ],
      run: (x, w) => H.convTranspose2d(x, w, undefined, { stride: 2 }),
      reference: (x, w) => transposed(x, w, { stride: [2, 2] }),
      relative: tolerance,
      absolute: tolerance,
    }),
  ),
];

const largest = (v: readonly (number | undefined)[]): number => Math.max(...v.filter((e) => e !== undefined));

/** `f` of each of the windows. */
const adaptive = (x: NdArray, size: readonly [number, number], f: (values: number[]) => number): NdArray =>
  make([...x.shape.slice(0, 2), ...size], ([n, c, ...at]) => {
    const [ys, xs] = at.map((i, d) => {
      const whole = x.shape[2 + d]!;
      return range(Math.floor((i * whole) / size[d]!), Math.ceil(((i + 1) * whole) / size[d]!));
    }) as [number[], number[]];
    return f(ys.flatMap((i) => xs.map((j) => get(x, [n!, c!, i, j]))));
  });

const pooling: Case[] = [
  {
    op: 'maxPool1d',
    inputs: [{ shape: [2, 2, 9] }],
    run: (x) => H.maxPool1d(x, 3, { stride: 2, padding: 1, dilation: 2 }),
    reference: (x) =>
      signals(pool(largest, rows(x), [1, 3], { stride: [1, 2], padding: [0, 1], dilation: [1, 2] })),
  },
  {
    op: 'avgPool1d',
    inputs: [{ shape: [2, 2, 7] }],
    run: (x) => H.avgPool1d(x, 3, { padding: 1, countIncludePad: false }),
    reference: (x) =>
      signals(
        pool((v) => mean(v.filter((e) => e !== undefined)), rows(x), [1, 3], {
          stride: [1, 3],
          padding: [0, 1],
        }),
      ),
  },
  ...(
    [
      [1, 1],
      [2, 3],
      [3, 5],
      [5, 2],
    ] as const
  ).flatMap((size): Case[] => [
    {
      op: 'adaptiveAvgPool2d',
      inputs: [{ shape: [2, 2, 4, 6] }],
      run: (x) => H.adaptiveAvgPool2d(x, size),
      reference: (x) => adaptive(x, size, mean),
    },
    {
      op: 'adaptiveMaxPool2d',
      inputs: [{ shape: [2, 2, 4, 6] }],
      run: (x) => H.adaptiveMaxPool2d(x, size),
      reference: (x) => adaptive(x, size, (v) => Math.max(...v)),
    },
  ]),
  {
    op: 'adaptiveAvgPool1d',
    inputs: [{ shape: [2, 2, 7] }],
    run: (x) => H.adaptiveAvgPool1d(x, 3),
    reference: (x) => signals(adaptive(rows(x), [1, 3], mean)),
  },
  {
    op: 'adaptiveMaxPool1d',
    inputs: [{ shape: [2, 2, 7] }],
    run: (x) => H.adaptiveMaxPool1d(x, 3),
    reference: (x) => signals(adaptive(rows(x), [1, 3], (v) => Math.max(...v))),
  },
  {
    op: 'adaptive pooling of bf16',
    inputs: [{ shape: [1, 1, 3, 5], dtype: bf16 }],
    run: (x) => H.adaptiveAvgPool2d(x, [2, 3]).add(H.adaptiveMaxPool2d(x, [2, 3])),
    reference: (x) => adaptive(x, [2, 3], (v) => mean(v) + Math.max(...v)),
    relative: 1e-2,
    absolute: 2e-2,
  },
];

export const WINDOWS: readonly Case[] = [...convolutions, ...pooling];
