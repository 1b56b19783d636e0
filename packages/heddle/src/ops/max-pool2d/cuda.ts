/**
 * Max pooling and its gradient on a GPU. Bound by memory: a thread per element of the result. Windows side by side are
 * read by ops/stored-windows, or are in the threads of a convolution's kernel; what is here is for all others. 16-bit floats
 * become f32 in registers: the gradients of overlapping windows are added there and rounded once.
 *
 * The forward pass saves where each window's first maximum is, a byte each (i32 for windows of 255 elements and more).
 * The gradient reads these positions, which are less than the image. A thread has whole strides of the image, and so the
 * same taps of windows as every other thread: it adds to each of its pixels the gradients of the windows that point there, in
 * the order of the windows.
 */
import { type DType, f32, isHalf } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { type PoolProblem, positionDtype } from './problem.js';

const THREADS = 256;

/** One thread for each of `count` pieces of work. */
const spread = (kernel: GridKernel['kernel'], count: number): GridKernel => ({
  ...{ kernel, grid: [Math.ceil(count / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 },
});

const constantsOf = (p: PoolProblem) => ({
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
  ...{ element: asCast(p.dtype), wide: asCast(isHalf(p.dtype) ? f32 : p.dtype) },
});

/** The largest element of every window; NaN if it holds one. */
export function maxPool(p: PoolProblem): GridKernel {
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, y }, context) => {
      const { globalId, idiv, wide, element, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT } = context;
      const i = globalId.x;
      if (i >= PLANES * OH * OW) return;
      const c = i % OW;
      const r = idiv(i, OW) % OH;
      const plane = idiv(i, OW * OH);
      const image = X_AT + plane * H * W;
      let largest = wide(Number.NEGATIVE_INFINITY);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (ix >= 0 && ix < W) largest = Math.max(largest, wide(x[image + iy * W + ix]));
          }
        }
      }
      y[i] = finish(element(largest), idiv(plane, CHANNELS), plane % CHANNELS, r, c);
    },
    constantsOf(p),
  );
  return spread(kernel, p.planes * p.outSize[0] * p.outSize[1]);
}

/** The place in its window, in row order, of each window's first maximum; one beyond the last if it holds NaN. */
export function maxPoolPositions(p: PoolProblem): GridKernel {
  const dtype: DType = positionDtype(p);
  const kernel = defineKernel(
    'maxPool2dPositions',
    { x: buffer(p.dtype), positions: buffer(dtype) },
    ({ x, positions }, context) => {
      const { globalId, idiv, wide, i32, u8, isWide } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT } = context;
      const i = globalId.x;
      if (i >= PLANES * OH * OW) return;
      const c = i % OW;
      const r = idiv(i, OW) % OH;
      const image = X_AT + idiv(i, OW * OH) * H * W;
      let largest = wide(0);
      let position = i32(-1);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        for (let kx = 0; kx < KW; kx++) {
          const ix = c * SX - PX + kx * DX;
          const v =
            iy >= 0 && iy < H && ix >= 0 && ix < W
              ? wide(x[image + iy * W + ix])
              : wide(Number.NEGATIVE_INFINITY);
          if (position < 0 || v > largest) {
            largest = v;
            position = ky * KW + kx;
          }
          if (!(v <= Number.POSITIVE_INFINITY)) {
            largest = wide(Number.POSITIVE_INFINITY);
            position = KH * KW;
          }
        }
      }
      if (isWide) positions[i] = position;
      else positions[i] = u8(position);
    },
    { ...constantsOf(p), isWide: dtype.name === 'i32' },
  );
  return spread(kernel, p.planes * p.outSize[0] * p.outSize[1]);
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

/** Elements of a row that are written as one vector. */
const vectorOf = (p: PoolProblem, pixels: number): 1 | 2 | 4 =>
  ([4, 2] as const).find((n) => pixels % n === 0 && p.size[1] % n === 0) ?? 1;

/** The gradient: 0 where no window's maximum is. */
export function maxPoolGradient(p: PoolProblem): GridKernel {
  const down = spanOf(p, 0, 1);
  // Four pixels are a vector, and share the windows that overlap there.
  const most = p.size[1] % 4 === 0 || p.stride[1] < p.kernel[1] ? 4 : 2;
  const strides = Math.ceil(most / p.stride[1]);
  const across = spanOf(p, 1, strides);
  const kernel = defineKernel(
    'maxPool2dGradient',
    { positions: buffer(positionDtype(p) as DType), g: buffer(p.dtype), dx: buffer(p.dtype) },
    ({ positions, g, dx }, context) => {
      const { globalId, idiv, wide, i32, local, store2, store4, vec2, vec4, element, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, G_AT } = context;
      const { DOWN, ACROSS, STRIDES, VECTOR } = context;
      const i = globalId.x;
      if (i >= PLANES * DOWN.threads * ACROSS.threads) return;
      const c = i % ACROSS.threads;
      const r = idiv(i, ACROSS.threads) % DOWN.threads;
      const plane = idiv(i, ACROSS.threads * DOWN.threads);
      const n = idiv(plane, CHANNELS);
      const channel = plane % CHANNELS;
      const left = c * ACROSS.pixels;
      // No position is negative.
      const at = local(i32, DOWN.windows, ACROSS.windows);
      const slopes = local(wide, DOWN.windows, ACROSS.windows);
      for (let wy = 0; wy < DOWN.windows; wy++) {
        for (let wx = 0; wx < ACROSS.windows; wx++) {
          const oy = r + DOWN.first + wy;
          const ox = c * STRIDES + ACROSS.first + wx;
          at[wy][wx] = -1;
          slopes[wy][wx] = 0;
          if ((!DOWN.beyond || (oy >= 0 && oy < OH)) && (!ACROSS.beyond || (ox >= 0 && ox < OW))) {
            const window = (plane * OH + oy) * OW + ox;
            at[wy][wx] = i32(positions[X_AT + window]);
            slopes[wy][wx] = wide(g[G_AT + window]);
          }
        }
      }
      for (let py = 0; py < DOWN.pixels; py++) {
        const iy = r * DOWN.pixels + py;
        const row = local(wide, ACROSS.pixels);
        for (let px = 0; px < ACROSS.pixels; px++) {
          row[px] = 0;
          for (let wy = 0; wy < DOWN.windows; wy++) {
            const y = py + PY - (DOWN.first + wy) * SY;
            if (y >= 0 && y % DY === 0 && y < KH * DY) {
              for (let wx = 0; wx < ACROSS.windows; wx++) {
                const x = px + PX - (ACROSS.first + wx) * SX;
                const isTap = x >= 0 && x % DX === 0 && x < KW * DX;
                if (isTap && at[wy][wx] === idiv(y, DY) * KW + idiv(x, DX))
                  row[px] = row[px] + slopes[wy][wx];
              }
            }
          }
        }
        const to = (plane * H + iy) * W + left;
        for (let px = 0; px < ACROSS.pixels; px += VECTOR) {
          const ix = left + px;
          if (iy < H && ix < W) {
            if (VECTOR === 4) {
              const four = vec4(row[px], row[px + 1], row[px + 2], row[px + 3]);
              store4(dx, to + px, finish(element(four), n, channel, iy, ix));
            } else if (VECTOR === 2) {
              store2(dx, to + px, finish(element(vec2(row[px], row[px + 1])), n, channel, iy, ix));
            } else dx[to + px] = finish(element(row[px]), n, channel, iy, ix);
          }
        }
      }
    },
    {
      ...constantsOf(p),
      ...{ DOWN: down, ACROSS: across, STRIDES: strides },
      VECTOR: vectorOf(p, across.pixels),
    },
  );
  return spread(kernel, p.planes * down.threads * across.threads);
}
