/**
 * Max pooling and its gradient on a GPU. Bound by memory: a thread per element of the result. Windows side by side are
 * read by ops/stored-windows, or are in the threads of a convolution's kernel; what is here is for all others. 16-bit floats
 * become f32 in registers: the gradients of overlapping windows are added there and rounded once.
 *
 * With channels last a thread has up to four neighbouring channels of a pixel, so that all accesses are coalesced.
 *
 * The forward pass saves where each window's first maximum is, a byte each (i32 for windows of 255 elements and more).
 * The gradient reads these positions, which are less than the image. A thread has whole strides of the image, and so the
 * same taps of windows as every other thread: it adds to each of its pixels the gradients of the windows that point there, in
 * the order of the windows.
 */
import { type DType, f32, i8, i32, isHalf } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel, type Intrinsics } from '../../kernel/language/language.js';
import { type Lanes, loadLanes, splatLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import { type PoolProblem, positionDtype } from './problem.js';
import { leastOf } from './windows.js';

const THREADS = 256;

/** One thread for each of `count` pieces of work. */
export const spread = (kernel: GridKernel['kernel'], count: number): GridKernel => ({
  ...{ kernel, grid: [Math.ceil(count / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 },
});

export const poolConstants = (p: PoolProblem, lanes: Lanes) => ({
  ...{ PLANES: p.planes, CHANNELS: p.channels, H: p.size[0], W: p.size[1] },
  ...{
    OH: p.outSize[0],
    OW: p.outSize[1],
    KH: p.kernel[0],
    KW: p.kernel[1],
    SY: p.stride[0],
    SX: p.stride[1],
  },
  ...{ PY: p.padding[0], PX: p.padding[1], DY: p.dilation[0], DX: p.dilation[1] },
  ...{ X_AT: p.imageOffset, G_AT: p.gradientOffset, finish: p.finish },
  ...{ element: asCast(p.dtype), wide: asCast(isHalf(p.dtype) ? f32 : p.dtype === i8 ? i32 : p.dtype) },
  LEAST: leastOf(p.dtype),
  ...{ IS_LAST: p.isLast, INNER: innerOf(p), LANES: lanes },
  ...{ finishAt, loadLanes, splatLanes, storeLanes },
});

/** Elements of a pixel that lie side by side. */
const innerOf = ({ isLast, channels }: PoolProblem): number => (isLast ? channels : 1);

/** Channels of a thread, read as one vector. @param most that it has registers for */
const lanesOf = (p: PoolProblem, most = 4): Lanes =>
  ([4, 2] as const).find(
    (n) => n <= most && [innerOf(p), p.imageOffset, p.gradientOffset].every((at) => at % n === 0),
  ) ?? 1;

/** What is stored in place of `value`, in the dtype of the elements. */
export function finishAt(
  value: number,
  plane: number,
  row: number,
  column: number,
  channel: number,
  { element, finish, idiv, CHANNELS, IS_LAST }: Intrinsics & ReturnType<typeof poolConstants>,
): number {
  return IS_LAST
    ? finish(element(value), plane, row, column, channel)
    : finish(element(value), idiv(plane, CHANNELS), plane % CHANNELS, row, column);
}

/** The largest element of every window; NaN if it holds one. */
export function maxPool(p: PoolProblem): GridKernel {
  const lanes = lanesOf(p);
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, y }, context) => {
      const { globalId, idiv, wide, finishAt, loadLanes, splatLanes, storeLanes } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, INNER, LANES, LEAST } = context;
      const i = globalId.x * LANES;
      if (i >= PLANES * OH * OW * INNER) return;
      const channel = i % INNER;
      const c = idiv(i, INNER) % OW;
      const r = idiv(i, INNER * OW) % OH;
      const plane = idiv(i, INNER * OW * OH);
      const image = X_AT + plane * (H * W * INNER) + channel;
      let largest = splatLanes(wide(LEAST), LANES, context);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (ix >= 0 && ix < W)
              largest = Math.max(largest, wide(loadLanes(x, image + (iy * W + ix) * INNER, LANES, context)));
          }
        }
      }
      storeLanes(y, i, finishAt(largest, plane, r, c, channel, context), LANES, context);
    },
    poolConstants(p, lanes),
  );
  return spread(kernel, (p.planes * p.outSize[0] * p.outSize[1] * innerOf(p)) / lanes);
}

/** The place in its window, in row order, of each window's first maximum; one beyond the last if it holds NaN. */
export function maxPoolPositions(p: PoolProblem): GridKernel {
  const dtype: DType = positionDtype(p);
  const lanes = lanesOf(p);
  const kernel = defineKernel(
    'maxPool2dPositions',
    { x: buffer(p.dtype), positions: buffer(dtype) },
    ({ x, positions }, context) => {
      const { globalId, idiv, i32, wide, select, place, loadLanes, splatLanes, storeLanes } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, INNER, LANES } = context;
      const i = globalId.x * LANES;
      if (i >= PLANES * OH * OW * INNER) return;
      const c = idiv(i, INNER) % OW;
      const r = idiv(i, INNER * OW) % OH;
      const image = X_AT + idiv(i, INNER * OW * OH) * (H * W * INNER) + (i % INNER);
      const infinity = splatLanes(wide(Number.POSITIVE_INFINITY), LANES, context);
      // Once it is NaN, nothing is larger.
      let largest = splatLanes(wide(Number.NEGATIVE_INFINITY), LANES, context);
      let position = splatLanes(i32(0), LANES, context);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (ix >= 0 && ix < W) {
              const v = wide(loadLanes(x, image + (iy * W + ix) * INNER, LANES, context));
              const here = splatLanes(i32(ky * KW + kx), LANES, context);
              const nowhere = splatLanes(i32(KH * KW), LANES, context);
              position = select(v <= infinity, select(v > largest, here, position), nowhere);
              largest = Math.max(largest, v);
            }
          }
        }
      }
      storeLanes(positions, i, place(position), LANES, context);
    },
    { ...poolConstants(p, lanes), place: asCast(dtype) },
  );
  return spread(kernel, (p.planes * p.outSize[0] * p.outSize[1] * innerOf(p)) / lanes);
}

/** What a thread of the gradient has along an axis. */
interface Span {
  /** Pixels, a multiple of the stride. */
  readonly pixels: number;
  /** The first window that covers some of a thread's pixels, less the number of strides before them. */
  readonly first: number;
  /** Windows from there on that do. */
  readonly windows: number;
  /** Threads along the axis. */
  readonly threads: number;
  /** Whether some of those windows are not there: at the ends of the image. */
  readonly beyond: boolean;
}

function spanOf(p: PoolProblem, axis: 0 | 1, strides: number): Span {
  const [stride, padding] = [p.stride[axis]!, p.padding[axis]!];
  const reach = (p.kernel[axis]! - 1) * p.dilation[axis]!;
  const pixels = strides * stride;
  const first = Math.ceil((padding - reach) / stride);
  const windows = Math.floor((padding + pixels - 1) / stride) - first + 1;
  const threads = Math.ceil(p.size[axis]! / pixels);
  const beyond = first < 0 || (threads - 1) * strides + first + windows > p.outSize[axis]!;
  return { pixels, first, windows, threads, beyond };
}

/** Windows times channels that a thread of the gradient has in registers. */
const MOST_HELD = 64;

/** The gradient: 0 where no window's maximum is. */
export function maxPoolGradient(p: PoolProblem): GridKernel {
  const down = spanOf(p, 0, 1);
  // Where columns lie side by side four pixels are a vector, and share the windows that overlap there.
  const most = p.isLast ? 1 : p.size[1] % 4 === 0 || p.stride[1] < p.kernel[1] ? 4 : 2;
  const strides = Math.ceil(most / p.stride[1]);
  const across = spanOf(p, 1, strides);
  const lanes = lanesOf(p, MOST_HELD / (down.windows * across.windows));
  const isWhole = (n: number): boolean => across.pixels % n === 0 && p.size[1] % n === 0;
  const vector = p.isLast ? lanes : (([4, 2] as const).find(isWhole) ?? 1);
  const kernel = defineKernel(
    'maxPool2dGradient',
    { positions: buffer(positionDtype(p) as DType), g: buffer(p.dtype), dx: buffer(p.dtype) },
    ({ positions, g, dx }, context) => {
      const { globalId, idiv, wide, i32, lane, local, vec2, vec4 } = context;
      const { finishAt, loadLanes, storeLanes } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, G_AT } = context;
      const { DOWN, ACROSS, STRIDES, INNER, LANES, VECTOR } = context;
      const i = globalId.x * LANES;
      if (i >= PLANES * DOWN.threads * ACROSS.threads * INNER) return;
      const channel = i % INNER;
      const c = idiv(i, INNER) % ACROSS.threads;
      const r = idiv(i, INNER * ACROSS.threads) % DOWN.threads;
      const plane = idiv(i, INNER * ACROSS.threads * DOWN.threads);
      const left = c * ACROSS.pixels;
      // No position is negative.
      const at = local(i32, DOWN.windows, ACROSS.windows, LANES);
      const slopes = local(wide, DOWN.windows, ACROSS.windows, LANES);
      for (let wy = 0; wy < DOWN.windows; wy++) {
        for (let wx = 0; wx < ACROSS.windows; wx++) {
          const oy = r + DOWN.first + wy;
          const ox = c * STRIDES + ACROSS.first + wx;
          for (let l = 0; l < LANES; l++) {
            at[wy][wx][l] = -1;
            slopes[wy][wx][l] = 0;
          }
          if ((!DOWN.beyond || (oy >= 0 && oy < OH)) && (!ACROSS.beyond || (ox >= 0 && ox < OW))) {
            const window = ((plane * OH + oy) * OW + ox) * INNER + channel;
            const places = i32(loadLanes(positions, X_AT + window, LANES, context));
            const values = wide(loadLanes(g, G_AT + window, LANES, context));
            for (let l = 0; l < LANES; l++) {
              at[wy][wx][l] = LANES === 1 ? places : lane(places, l);
              slopes[wy][wx][l] = LANES === 1 ? values : lane(values, l);
            }
          }
        }
      }
      for (let py = 0; py < DOWN.pixels; py++) {
        const iy = r * DOWN.pixels + py;
        const row = local(wide, ACROSS.pixels * LANES);
        for (let px = 0; px < ACROSS.pixels; px++) {
          for (let l = 0; l < LANES; l++) row[px * LANES + l] = 0;
          for (let wy = 0; wy < DOWN.windows; wy++) {
            const y = py + PY - (DOWN.first + wy) * SY;
            if (y >= 0 && y % DY === 0 && y < KH * DY) {
              for (let wx = 0; wx < ACROSS.windows; wx++) {
                const x = px + PX - (ACROSS.first + wx) * SX;
                const isTap = x >= 0 && x % DX === 0 && x < KW * DX;
                for (let l = 0; l < LANES; l++)
                  if (isTap && at[wy][wx][l] === idiv(y, DY) * KW + idiv(x, DX))
                    row[px * LANES + l] = row[px * LANES + l] + slopes[wy][wx][l];
              }
            }
          }
        }
        for (let e = 0; e < ACROSS.pixels * LANES; e += VECTOR) {
          const ix = left + idiv(e, LANES);
          if (iy < H && ix < W) {
            const sum =
              VECTOR === 4
                ? vec4(row[e], row[e + 1], row[e + 2], row[e + 3])
                : VECTOR === 2
                  ? vec2(row[e], row[e + 1])
                  : row[e];
            const to = ((plane * H + iy) * W + ix) * INNER + channel;
            storeLanes(dx, to, finishAt(sum, plane, iy, ix, channel, context), VECTOR, context);
          }
        }
      }
    },
    { ...poolConstants(p, lanes), DOWN: down, ACROSS: across, STRIDES: strides, VECTOR: vector },
  );
  return spread(kernel, (p.planes * down.threads * across.threads * innerOf(p)) / lanes);
}
