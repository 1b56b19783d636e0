/**
 * Max pooling and its gradient on a GPU. f32. Bound by memory: a thread per element of the result.
 *
 * The gradient of windows that do not overlap needs nothing of the forward pass: a thread has a window, finds the first
 * of its largest elements and writes the gradient there and 0 to the others, up to where the next windows begin. For
 * windows that overlap, a first kernel saves the position of each window's first maximum (a byte, or i32 for windows of
 * 255 elements and more); each pixel then adds up the gradients of the windows that point to it, in their order. Where
 * pooling is part of a convolution's kernel, that saves the positions and the gradient reads them.
 *
 * H200, µs, 2 × 2 windows of 64 × 32 × 24²: 1.7; its gradient 2.7 (9.4 MB, in the cache), from saved positions 2.1; of 256
 * images 3.9, 9.2 and 6.0.
 */
import { type DType, f32, i32, u8 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { PoolProblem } from './cpu.js';

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

/** Whether pairs of a row can be read and written as one: windows 2 wide side by side, in even rows. */
const isPaired = ({ kernel, stride, padding, dilation, size, imageOffset }: PoolProblem): boolean =>
  kernel[1] === 2 &&
  stride[1] === 2 &&
  padding[1] === 0 &&
  dilation[1] === 1 &&
  size[1] % 2 === 0 &&
  imageOffset % 2 === 0;

/** The largest element of every window; NaN if it holds one. With `save`, also where it was: the first of them. */
export function maxPool(p: PoolProblem): GridKernel {
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const { globalId, idiv, f32, i32, lane, load2, local, finish, save, SAVES } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, PAIRED } = context;
      const i = globalId.x;
      if (i >= PLANES * OH * OW) return;
      const c = i % OW;
      const r = idiv(i, OW) % OH;
      const plane = idiv(i, OW * OH);
      const image = X_AT + plane * H * W;
      let largest = f32(Number.NEGATIVE_INFINITY);
      let position = i32(0);
      const held = local(f32, KW);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          if (PAIRED) {
            const pair = load2(x, image + iy * W + c * 2);
            held[0] = lane(pair, 0);
            held[1] = lane(pair, 1);
          }
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (PAIRED || (ix >= 0 && ix < W)) {
              const v = PAIRED ? held[kx] : x[image + iy * W + ix];
              if (SAVES && v > largest) position = ky * KW + kx;
              largest = Math.max(largest, v);
            }
          }
        }
      }
      const n = idiv(plane, CHANNELS);
      if (SAVES) save(largest <= Number.POSITIVE_INFINITY ? position : KH * KW, n, plane % CHANNELS, r, c);
      y[i] = finish(largest, n, plane % CHANNELS, r, c);
    },
    { ...constantsOf(p), PAIRED: isPaired(p), SAVES: p.save !== undefined, save: p.save ?? p.finish },
  );
  return spread(kernel, p.planes * p.outSize[0] * p.outSize[1]);
}

/** The gradient, for windows that do not overlap and have no holes, from the image or from saved positions. */
export function maxPoolGradient(p: PoolProblem, saved = false): GridKernel {
  // A cell is a window and what lies between it and the next; behind the last window there may be more of them.
  const cells = [0, 1].map((d) => Math.ceil((p.size[d]! + p.padding[d]!) / p.stride[d]!)) as [number, number];
  const kernel = defineKernel(
    saved ? 'maxPool2dGradientSaved' : 'maxPool2dGradient',
    { x: buffer(saved ? (positionDtype(p) as DType) : f32), g: buffer(f32), dx: buffer(f32) },
    ({ x, g, dx }, context) => {
      const { globalId, idiv, f32, lane, i32, local, load2, store2, vec2, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, X_AT, G_AT } = context;
      const { PAIRED, DOWN, ACROSS, SAVED } = context;
      const i = globalId.x;
      if (i >= PLANES * DOWN * ACROSS) return;
      const c = i % ACROSS;
      const r = idiv(i, ACROSS) % DOWN;
      const plane = idiv(i, ACROSS * DOWN);
      const n = idiv(plane, CHANNELS);
      const channel = plane % CHANNELS;
      const image = X_AT + plane * H * W;
      const to = plane * H * W;
      const top = r * SY - PY;
      const left = c * SX - PX;
      const held = local(f32, KH, KW);
      const isWindow = r < OH && c < OW;
      let largest = f32(Number.NEGATIVE_INFINITY);
      for (let ky = 0; ky < KH; ky++) {
        const iy = top + ky;
        if (PAIRED && !SAVED) {
          const pair =
            isWindow && iy >= 0 && iy < H ? load2(x, image + iy * W + c * 2) : vec2(largest, largest);
          held[ky][0] = lane(pair, 0);
          held[ky][1] = lane(pair, 1);
        }
        for (let kx = 0; kx < KW; kx++) {
          const ix = left + kx;
          const there = isWindow && iy >= 0 && iy < H && ix >= 0 && ix < W;
          if (!PAIRED && !SAVED)
            held[ky][kx] = there ? x[image + iy * W + ix] : f32(Number.NEGATIVE_INFINITY);
          if (there && !SAVED) largest = Math.max(largest, held[ky][kx]);
        }
      }
      // What is left of the gradient after each element had its chance; NaN is equal to nothing.
      const window = (plane * OH + r) * OW + c;
      let rest = isWindow ? g[G_AT + window] : f32(0);
      const position = SAVED && isWindow ? i32(x[X_AT + window]) : i32(-1);
      for (let ky = 0; ky < SY; ky++) {
        const iy = top + ky;
        const row = local(f32, SX);
        for (let kx = 0; kx < SX; kx++) {
          row[kx] = 0;
          if (ky < KH && kx < KW) {
            const ix = left + kx;
            const there = iy >= 0 && iy < H && ix >= 0 && ix < W;
            if (SAVED ? position === ky * KW + kx : there && held[ky][kx] === largest) {
              row[kx] = rest;
              rest = 0;
            }
          }
        }
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
    { ...constantsOf(p), PAIRED: isPaired(p), DOWN: cells[0], ACROSS: cells[1], SAVED: saved },
  );
  return spread(kernel, p.planes * cells[0] * cells[1]);
}

/** What a saved position is stored as: u8 where the windows are small. */
export const positionDtype = ({ kernel }: PoolProblem): DType<'u8'> | DType<'i32'> =>
  kernel[0] * kernel[1] < 255 ? u8 : i32;

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

/** The gradient from saved positions, for any windows. */
export function maxPoolGradientSaved(p: PoolProblem): GridKernel {
  const kernel = defineKernel(
    'maxPool2dGradientSaved',
    { positions: buffer(positionDtype(p) as DType), g: buffer(f32), dx: buffer(f32) },
    ({ positions, g, dx }, context) => {
      const { globalId, idiv, i32, f32, finish } = context;
      const { PLANES, CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, G_AT } = context;
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
            if (i32(positions[window]) === ky * KW + kx) slope += g[G_AT + window];
          }
        }
      }
      dx[i] = finish(slope, idiv(plane, CHANNELS), plane % CHANNELS, iy, ix);
    },
    constantsOf(p),
  );
  return spread(kernel, p.planes * p.size[0] * p.size[1]);
}
