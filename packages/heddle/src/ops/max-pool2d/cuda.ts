/**
 * Max pooling and its gradient on a GPU. Bound by memory: a thread per element of the result. Windows side by side are
 * read by ops/stored-windows, or are in the threads of a convolution's kernel; what is here is for all others, in f32.
 *
 * The forward pass saves where each window's first maximum is, a byte each (i32 for windows of 255 elements and more).
 * In the gradient of windows that do not overlap a thread has a window and writes the gradient to its place and 0 to the
 * others, up to where the next windows begin; that reads less than looking for the maximum again, and takes two thirds of
 * the time on large images. For windows that overlap, each pixel adds up the gradients of the windows that point to it,
 * in their order.
 */
import { type DType, f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
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
});

/** Whether pairs of a row can be written as one: windows 2 wide side by side, in even rows. */
const isPaired = ({ kernel, stride, padding, dilation, size, dtype }: PoolProblem): boolean =>
  kernel[1] === 2 &&
  stride[1] === 2 &&
  padding[1] === 0 &&
  dilation[1] === 1 &&
  size[1] % 2 === 0 &&
  dtype === f32;

/** The largest element of every window; NaN if it holds one. */
export function maxPool(p: PoolProblem): GridKernel {
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const { globalId, idiv, f32, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT } = context;
      const i = globalId.x;
      if (i >= PLANES * OH * OW) return;
      const c = i % OW;
      const r = idiv(i, OW) % OH;
      const plane = idiv(i, OW * OH);
      const image = X_AT + plane * H * W;
      let largest = f32(Number.NEGATIVE_INFINITY);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (ix >= 0 && ix < W) largest = Math.max(largest, x[image + iy * W + ix]);
          }
        }
      }
      y[i] = finish(largest, idiv(plane, CHANNELS), plane % CHANNELS, r, c);
    },
    constantsOf(p),
  );
  return spread(kernel, p.planes * p.outSize[0] * p.outSize[1]);
}

/** The gradient, for windows that do not overlap and have no holes. */
export function maxPoolGradient(p: PoolProblem): GridKernel {
  // A cell is a window and what lies between it and the next; behind the last window there may be more of them.
  const cells = [0, 1].map((d) => Math.ceil((p.size[d]! + p.padding[d]!) / p.stride[d]!)) as [number, number];
  const kernel = defineKernel(
    'maxPool2dGradient',
    { positions: buffer(positionDtype(p) as DType), g: buffer(p.dtype), dx: buffer(p.dtype) },
    ({ positions, g, dx }, context) => {
      const { globalId, idiv, i32, local, store2, vec2, finish, DTYPE } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, X_AT, G_AT } = context;
      const { PAIRED, DOWN, ACROSS } = context;
      const i = globalId.x;
      if (i >= PLANES * DOWN * ACROSS) return;
      const c = i % ACROSS;
      const r = idiv(i, ACROSS) % DOWN;
      const plane = idiv(i, ACROSS * DOWN);
      const n = idiv(plane, CHANNELS);
      const channel = plane % CHANNELS;
      const to = plane * H * W;
      const top = r * SY - PY;
      const left = c * SX - PX;
      const isWindow = r < OH && c < OW;
      const window = (plane * OH + r) * OW + c;
      const slope = isWindow ? g[G_AT + window] : 0;
      const position = isWindow ? i32(positions[X_AT + window]) : i32(-1);
      for (let ky = 0; ky < SY; ky++) {
        const iy = top + ky;
        const row = local(DTYPE, SX);
        for (let kx = 0; kx < SX; kx++) row[kx] = ky < KH && kx < KW && position === ky * KW + kx ? slope : 0;
        if (iy >= 0 && iy < H) {
          if (PAIRED) {
            const slopes = vec2(row[0], row[1]);
            store2(dx, to + iy * W + c * 2, finish(slopes, n, channel, iy, c * 2));
          } else {
            for (let kx = 0; kx < SX; kx++) {
              const ix = left + kx;
              if (ix >= 0 && ix < W) dx[to + iy * W + ix] = finish(row[kx], n, channel, iy, ix);
            }
          }
        }
      }
    },
    { ...constantsOf(p), DTYPE: p.dtype, PAIRED: isPaired(p), DOWN: cells[0], ACROSS: cells[1] },
  );
  return spread(kernel, p.planes * cells[0] * cells[1]);
}

/** The place in its window, in row order, of each window's first maximum; one beyond the last if it holds NaN. */
export function maxPoolPositions(p: PoolProblem): GridKernel {
  const dtype: DType = positionDtype(p);
  const kernel = defineKernel(
    'maxPool2dPositions',
    { x: buffer(f32), positions: buffer(dtype) },
    ({ x, positions }, context) => {
      const { globalId, idiv, f32, i32, u8, WIDE } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT } = context;
      const i = globalId.x;
      if (i >= PLANES * OH * OW) return;
      const c = i % OW;
      const r = idiv(i, OW) % OH;
      const image = X_AT + idiv(i, OW * OH) * H * W;
      let largest = f32(0);
      let position = i32(-1);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        for (let kx = 0; kx < KW; kx++) {
          const ix = c * SX - PX + kx * DX;
          const v =
            iy >= 0 && iy < H && ix >= 0 && ix < W ? x[image + iy * W + ix] : f32(Number.NEGATIVE_INFINITY);
          if (position < 0 || v > largest) {
            largest = v;
            position = ky * KW + kx;
          }
          if (!(v <= Number.POSITIVE_INFINITY)) {
            largest = f32(Number.POSITIVE_INFINITY);
            position = KH * KW;
          }
        }
      }
      if (WIDE) positions[i] = position;
      else positions[i] = u8(position);
    },
    { ...constantsOf(p), WIDE: dtype.name === 'i32' },
  );
  return spread(kernel, p.planes * p.outSize[0] * p.outSize[1]);
}

/** The gradient, for any windows. */
export function maxPoolGradientOfAny(p: PoolProblem): GridKernel {
  const kernel = defineKernel(
    'maxPool2dGradient',
    { positions: buffer(positionDtype(p) as DType), g: buffer(f32), dx: buffer(f32) },
    ({ positions, g, dx }, context) => {
      const { globalId, idiv, i32, f32, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, G_AT } = context;
      const i = globalId.x;
      if (i >= PLANES * H * W) return;
      const ix = i % W;
      const iy = idiv(i, W) % H;
      const plane = idiv(i, W * H);
      let slope = f32(0);
      // Windows in their order: the later taps of a window belong to the earlier windows.
      for (let ty = 0; ty < KH; ty++) {
        const ky = KH - 1 - ty;
        const v = iy + PY - ky * DY;
        const r = idiv(v, SY);
        for (let tx = 0; tx < KW; tx++) {
          const kx = KW - 1 - tx;
          const u = ix + PX - kx * DX;
          const c = idiv(u, SX);
          if (v >= 0 && v % SY === 0 && r < OH && u >= 0 && u % SX === 0 && c < OW) {
            const window = (plane * OH + r) * OW + c;
            if (i32(positions[X_AT + window]) === ky * KW + kx) slope += g[G_AT + window];
          }
        }
      }
      dx[i] = finish(slope, idiv(plane, CHANNELS), plane % CHANNELS, iy, ix);
    },
    constantsOf(p),
  );
  return spread(kernel, p.planes * p.size[0] * p.size[1]);
}
