/** Boxes and sampling of images, as detectors use them. */
import { type AnyTensor, f32, i32, type Tensor, tensor } from 'heddle';
import { formatShape, sizeOf, stridesOf } from 'heddle/internal/core/shape.js';
import { listOf } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, int, text } from './attributes.js';
import { offsetsOf } from './convolution.js';
import { type Call, operator } from './operator.js';

/** A box by its corners. */
interface Box {
  readonly low: readonly [number, number];
  readonly high: readonly [number, number];
}

/** How much two boxes overlap: the area of what they share by that of both. */
function overlap(a: Box, b: Box): number {
  const side = (i: 0 | 1): number =>
    Math.max(0, Math.min(a.high[i], b.high[i]) - Math.max(a.low[i], b.low[i]));
  const area = ({ low, high }: Box): number => (high[0] - low[0]) * (high[1] - low[1]);
  const shared = side(0) * side(1);
  const [p, q] = [area(a), area(b)];
  return p <= 0 || q <= 0 || shared <= 0 ? 0 : shared / (p + q - shared);
}

function boxOf(values: readonly number[], isCentre: boolean): Box {
  const [a, b, c, d] = values as [number, number, number, number];
  if (isCentre) return { low: [a - c / 2, b - d / 2], high: [a + c / 2, b + d / 2] };
  return { low: [Math.min(a, c), Math.min(b, d)], high: [Math.max(a, c), Math.max(b, d)] };
}

const NonMaxSuppression = operator({
  since: [10, 11],
  inputs: [2, 5],
  known: 'all',
  attributes: { center_point_box: int(0) },
  compute: (call) => {
    const [batches, count] = call.value(0).shape as [number, number];
    const classes = call.value(1).shape[1]!;
    const [coordinates, scores] = [call.numbers(0)!, call.numbers(1)!];
    const most = call.number(2) ?? 0;
    const [most_overlap, least] = [call.number(3) ?? 0, call.optional(4) && call.number(4)];
    const kept: number[] = [];
    for (let n = 0; n < batches; n++) {
      const boxes = listOf(count, (_, i) =>
        boxOf(
          coordinates.slice(4 * (n * count + i), 4 * (n * count + i + 1)),
          call.attributes.center_point_box === 1,
        ),
      );
      for (let c = 0; c < classes; c++) {
        const score = (i: number): number => scores[(n * classes + c) * count + i]!;
        const candidates = boxes.map((_, i) => i).filter((i) => least === undefined || score(i) > least);
        candidates.sort((i, j) => score(j) - score(i) || i - j);
        const chosen: number[] = [];
        for (const i of candidates) {
          if (chosen.length >= most) break;
          if (chosen.every((j) => overlap(boxes[i]!, boxes[j]!) <= most_overlap)) chosen.push(i);
        }
        kept.push(...chosen.flatMap((i) => [n, c, i]));
      }
    }
    return Value.int64s(kept, [kept.length / 3, 3]);
  },
});

/** Weights of the elements around a place, one function for each: of the distance from the element before it. */
const LINEAR = [(t: AnyTensor) => t.neg().add(1), (t: AnyTensor) => t];
const A = -0.75;
const near = (d: AnyTensor): AnyTensor =>
  d
    .mul(A + 2)
    .sub(A + 3)
    .mul(d.square())
    .add(1);
const far = (d: AnyTensor): AnyTensor =>
  d
    .mul(A)
    .sub(5 * A)
    .mul(d)
    .add(8 * A)
    .mul(d)
    .sub(4 * A);
const CUBIC = [
  (t: AnyTensor) => far(t.add(1)),
  near,
  (t: AnyTensor) => near(t.neg().add(1)),
  (t: AnyTensor) => far(t.neg().add(2)),
];

/** Places mirrored at the borders until they are within. */
function reflected(x: AnyTensor, low: number, high: number): AnyTensor {
  const range = high - low;
  if (range <= 0) return x.mul(0);
  const within = x.sub(low).remainder(2 * range);
  return within.minimum(within.neg().add(2 * range)).add(low);
}

const GridSample = operator({
  since: [16, 20, 22],
  inputs: [2],
  attributes: { align_corners: int(0), mode: text('linear'), padding_mode: text('zeros') },
  compute: (call) => {
    const [x, grid] = [call.value(0), call.value(1)];
    const sizes = x.shape.slice(2);
    const { align_corners: aligned, padding_mode: padding } = call.attributes;
    const mode = call.attributes.mode.replace(/^bi/, '');
    if (grid.shape.at(-1) !== sizes.length || sizes.some((d) => d < 1))
      throw call.shapeError(`the grid ${formatShape(grid.shape)} does not fit ${formatShape(x.shape)}.`);
    if (
      !['linear', 'nearest', 'cubic'].includes(mode) ||
      !['zeros', 'border', 'reflection'].includes(padding)
    )
      throw call.shapeError(`mode '${call.attributes.mode}' with padding '${padding}' is not known.`);
    const [n, c] = x.shape as [number, number];
    const points = sizeOf(grid.shape.slice(1, -1));
    const borders = sizes.map((d) => (aligned ? ([0, d - 1] as const) : ([-0.5, d - 0.5] as const)));
    // The last dimension of the image comes first in the grid.
    const places = sizes.map((d, i) => {
      const g = grid.tensor
        .at('...', sizes.length - 1 - i)
        .reshape([n, points])
        .cast(f32);
      return aligned ? g.add(1).mul((d - 1) / 2) : g.add(1).mul(d).sub(1).div(2);
    });
    const limited = places.map((p, i) => {
      const [low, high] = borders[i]!;
      if (padding === 'border') return p.clamp(0, sizes[i]! - 1);
      return padding === 'reflection' ? reflected(p, low, high) : p;
    });
    const sampler: Sampler = {
      x: x.tensor.reshape([n, c, sizeOf(sizes)]) as Tensor,
      sizes,
      borders,
      padding,
    };
    const sampled =
      mode === 'nearest' ? nearestSample(sampler, limited) : weightedSample(sampler, limited, mode);
    return Value.of(sampled.reshape([n, c, ...grid.shape.slice(1, -1)]).cast(x.tensor.dtype));
  },
});

/** What is sampled. */
interface Sampler {
  /** (N, C, elements) */
  readonly x: Tensor;
  readonly sizes: readonly number[];
  readonly borders: readonly (readonly [number, number])[];
  readonly padding: string;
}

/** The elements at whole places (N, points) of each dimension, by the rule for what lies beyond. */
function elementsAt({ x, sizes, borders, padding }: Sampler, places: readonly AnyTensor[]): AnyTensor {
  const strides = stridesOf(sizes);
  const inside = places.map((p, i) => {
    if (padding === 'reflection')
      return reflected(p, ...borders[i]!)
        .round()
        .clamp(0, sizes[i]! - 1);
    return p.clamp(0, sizes[i]! - 1);
  });
  const flat = inside.map((p, i) => p.mul(strides[i]!)).reduce((a, b) => a.add(b));
  const [n, c] = x.shape as [number, number];
  const points = flat.shape[1]!;
  const index = flat.cast(i32).reshape([n, 1, points]).expand([n, c, points]);
  const picked = x.gather(2, index).cast(f32);
  if (padding !== 'zeros') return picked;
  const isInside = places.map((p, i) => p.ge(0).and(p.le(sizes[i]! - 1))).reduce((a, b) => a.and(b));
  return isInside.reshape([n, 1, points]).where(picked, 0) as AnyTensor;
}

const nearestSample = (s: Sampler, places: readonly AnyTensor[]): AnyTensor =>
  elementsAt(
    s,
    places.map((p) => p.round()),
  );

/** Sums of the elements around each place, with the weights of all dimensions multiplied. */
function weightedSample(s: Sampler, places: readonly AnyTensor[], mode: string): AnyTensor {
  const weights = mode === 'cubic' ? CUBIC : LINEAR;
  const first = mode === 'cubic' ? -1 : 0;
  const floors = places.map((p) => p.floor());
  const rest = places.map((p, i) => p.sub(floors[i]!));
  const kernel = s.sizes.map(() => weights.length);
  let sum: AnyTensor | undefined;
  for (let t = 0; t < sizeOf(kernel); t++) {
    const at = offsetsOf(t, kernel);
    const weight = at.map((k, i) => weights[k]!(rest[i]!)).reduce((a, b) => a.mul(b));
    const part = elementsAt(
      s,
      at.map((k, i) => floors[i]!.add(k + first)),
    ).mul(weight.unsqueeze(1));
    sum = sum ? sum.add(part) : part;
  }
  return sum!;
}

/** The four elements around a place of an image and their weights; none beyond its border. */
function corners(y: number, x: number, height: number, width: number): [at: number, weight: number][] {
  if (y < -1 || y > height || x < -1 || x > width)
    return [
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ];
  const [py, px] = [Math.min(Math.max(y, 0), height - 1), Math.min(Math.max(x, 0), width - 1)];
  const [y0, x0] = [Math.floor(py), Math.floor(px)];
  const [y1, x1] = [Math.min(y0 + 1, height - 1), Math.min(x0 + 1, width - 1)];
  const [ly, lx] = [py - y0, px - x0];
  return [
    [y0 * width + x0, (1 - ly) * (1 - lx)],
    [y0 * width + x1, (1 - ly) * lx],
    [y1 * width + x0, ly * (1 - lx)],
    [y1 * width + x1, ly * lx],
  ];
}

const ROI = {
  coordinate_transformation_mode: text('half_pixel', { from: 16 }),
  mode: text('avg'),
  output_height: int(1),
  output_width: int(1),
  sampling_ratio: int(0),
  spatial_scale: float(1),
};

/** The samples of each bin of a region: four corners each. */
function samplesOf(call: Call<typeof ROI>, region: readonly number[], height: number, width: number) {
  const a = call.attributes;
  const isHalf = call.version >= 16 && a.coordinate_transformation_mode === 'half_pixel';
  const [x0, y0, x1, y1] = region.map((v) => v * a.spatial_scale - (isHalf ? 0.5 : 0)) as [
    number,
    number,
    number,
    number,
  ];
  const [w, h] = isHalf ? [x1 - x0, y1 - y0] : [Math.max(1, x1 - x0), Math.max(1, y1 - y0)];
  const [binHeight, binWidth] = [h / a.output_height, w / a.output_width];
  const rows = a.sampling_ratio > 0 ? a.sampling_ratio : Math.ceil(binHeight);
  const columns = a.sampling_ratio > 0 ? a.sampling_ratio : Math.ceil(binWidth);
  return listOf(a.output_height * a.output_width, (_, bin) => {
    const [py, px] = [Math.floor(bin / a.output_width), bin % a.output_width];
    return listOf(Math.max(0, rows) * Math.max(0, columns), (_, s) => {
      const [iy, ix] = [Math.floor(s / columns), s % columns];
      const y = y0 + (py + (iy + 0.5) / rows) * binHeight;
      return corners(y, x0 + (px + (ix + 0.5) / columns) * binWidth, height, width);
    });
  });
}

/** Regions of an image in bins of one size, by bilinear samples. He et al. 2017. */
const RoiAlign = operator({
  since: [10, 16, 22],
  inputs: [3],
  known: [1, 2],
  attributes: ROI,
  compute: (call) => {
    const x = call.value(0);
    const [, c, height, width] = x.shape as [number, number, number, number];
    const [regions, images] = [call.numbers(1)!, call.numbers(2)!];
    const bins = images.flatMap((_, r) => samplesOf(call, regions.slice(4 * r, 4 * r + 4), height, width));
    const most = Math.max(1, ...bins.map((samples) => samples.length));
    const perBin = bins.map((samples, i) => {
      const image = images[Math.floor(i / (call.attributes.output_height * call.attributes.output_width))]!;
      // Bins with fewer samples repeat the first: with the weight 0, or for the largest as it is.
      return listOf(most, (_, s) => ({
        image,
        isExtra: s >= samples.length,
        taps: samples[s] ?? samples[0] ?? corners(-2, 0, height, width),
        count: Math.max(1, samples.length),
      }));
    });
    const all = perBin.flat();
    const isMax = call.attributes.mode === 'max';
    const positions = all.flatMap(({ image, taps }) => taps.map(([at]) => image * height * width + at));
    const weights = all.flatMap(({ isExtra, taps, count }) =>
      taps.map(([, w]) => (isMax ? w : isExtra ? 0 : w / count)),
    );
    const rows = x.permute([0, 2, 3, 1]).reshape([x.size / c, c]);
    const picked = rows.take(Value.int64s(positions), 0).tensor;
    const by = tensor(Float32Array.from(weights), { shape: [weights.length, 1] }).cast(picked.dtype);
    const grouped = picked.mul(by).reshape([bins.length, 4 * most, c]) as Tensor;
    const made: AnyTensor = isMax ? grouped.max(1) : grouped.sum(1);
    const { output_height: oh, output_width: ow } = call.attributes;
    return Value.of(
      made
        .reshape([images.length, oh * ow, c])
        .transpose(1, 2)
        .reshape([images.length, c, oh, ow]),
    );
  },
});

export const DETECTION = { NonMaxSuppression, GridSample, RoiAlign };
