/**
 * Max pooling and its gradient on the CPU. f32.
 *
 * A block is one plane (image and channel). Any window is a loop over its elements. 2 × 2 windows side by side, the
 * usual case, go four at a time: two rows of 8 pixels are four vectors, whose larger lanes are put together from even
 * and odd places by shuffles; what 4 does not divide goes window by window.
 *
 * The gradient of windows that do not overlap needs no sums: each pixel looks whether it is the first of the largest
 * of its window and takes its gradient or 0, so nothing of the forward pass is kept.
 */
import { f32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';

export interface PoolProblem {
  /** Images × channels, and the channels. */
  readonly planes: number;
  readonly channels: number;
  readonly size: readonly [number, number];
  readonly outSize: readonly [number, number];
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation: readonly [number, number];
  /** Where the image and (backward) the gradient begin, in elements. */
  readonly imageOffset: number;
  readonly gradientOffset: number;
  /** (value, image, channel, row, column) → the value to store. */
  readonly finish: IrFunction;
  /** On a GPU: (position, image, channel, row, column), keeps where in its window each value was found. */
  readonly save?: IrFunction | undefined;
}

/** 2 × 2 windows side by side, without padding. */
const isPairs = ({ kernel, stride, padding, dilation }: PoolProblem): boolean =>
  [...kernel, ...stride].every((n) => n === 2) &&
  padding.every((n) => n === 0) &&
  dilation.every((n) => n === 1);

const constantsOf = (p: PoolProblem) => ({
  ...{ CHANNELS: p.channels, H: p.size[0], W: p.size[1], OH: p.outSize[0], OW: p.outSize[1] },
  ...{
    KH: p.kernel[0],
    KW: p.kernel[1],
    SY: p.stride[0],
    SX: p.stride[1],
    PY: p.padding[0],
    PX: p.padding[1],
  },
  ...{ DY: p.dilation[0], DX: p.dilation[1], PAIRS: isPairs(p), X_AT: p.imageOffset, G_AT: p.gradientOffset },
  finish: p.finish,
});

/** The largest element of every window. */
export function maxPool(problem: PoolProblem): Tiled {
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const { blockIdx, f32, idiv, lane, load4, store4, vec4, finish } = context;
      const { CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, PAIRS, X_AT } = context;
      const n = idiv(blockIdx.x, CHANNELS);
      const channel = blockIdx.x % CHANNELS;
      const image = X_AT + blockIdx.x * H * W;
      const wide = PAIRS ? OW - (OW % 4) : 0;
      let r = 0;
      while (r < OH) {
        const to = (blockIdx.x * OH + r) * OW;
        let c = 0;
        while (c < wide) {
          const from = image + 2 * r * W + 2 * c;
          const p = Math.max(load4(x, from), load4(x, from + W));
          const q = Math.max(load4(x, from + 4), load4(x, from + W + 4));
          const even = vec4(lane(p, 0), lane(p, 2), lane(q, 0), lane(q, 2));
          const odd = vec4(lane(p, 1), lane(p, 3), lane(q, 1), lane(q, 3));
          store4(y, to + c, finish(Math.max(even, odd), n, channel, r, c));
          c += 4;
        }
        for (let c = wide; c < OW; c++) {
          let m = f32(Number.NEGATIVE_INFINITY);
          if (PAIRS) {
            const from = image + 2 * r * W + 2 * c;
            m = Math.max(Math.max(x[from], x[from + 1]), Math.max(x[from + W], x[from + W + 1]));
          } else
            for (let ky = 0; ky < KH; ky++) {
              const iy = r * SY - PY + ky * DY;
              if (iy >= 0 && iy < H) {
                for (let kx = 0; kx < KW; kx++) {
                  const ix = c * SX - PX + kx * DX;
                  if (ix >= 0 && ix < W) m = Math.max(m, x[image + iy * W + ix]);
                }
              }
            }
          y[to + c] = finish(m, n, channel, r, c);
        }
        r += 1;
      }
    },
    constantsOf(problem),
  );
  return { kernel, blocks: problem.planes };
}

/** The gradient, for windows that do not overlap and have no holes. */
export function maxPoolGradient(problem: PoolProblem): Tiled {
  const kernel = defineKernel(
    'maxPool2dGradient',
    { x: buffer(f32), g: buffer(f32), dx: buffer(f32) },
    ({ x, g, dx }, context) => {
      const { blockIdx, f32, idiv, lane, load4, store4, vec4, splat4, select, finish } = context;
      const { CHANNELS, H, W, OH, OW, KH, KW, SY, SX, PY, PX, PAIRS, X_AT, G_AT } = context;
      const n = idiv(blockIdx.x, CHANNELS);
      const channel = blockIdx.x % CHANNELS;
      const image = X_AT + blockIdx.x * H * W;
      const slopes = G_AT + blockIdx.x * OH * OW;
      const to = blockIdx.x * H * W;

      const pixel = (iy: number, ix: number) => {
        const r = idiv(iy + PY, SY);
        const c = idiv(ix + PX, SX);
        const ky = (iy + PY) % SY;
        const kx = (ix + PX) % SX;
        let slope = f32(0);
        if (r < OH && c < OW && ky < KH && kx < KW) {
          const v = x[image + iy * W + ix];
          // Nothing before it is as large, nothing after it larger; NaN in the window leaves it without gradient.
          let first = true;
          for (let j = 0; j < KH; j++) {
            for (let i = 0; i < KW; i++) {
              const y = r * SY - PY + j;
              const z = c * SX - PX + i;
              if (y >= 0 && y < H && z >= 0 && z < W) {
                const other = x[image + y * W + z];
                const before = j < ky || (j === ky && i < kx);
                first = first && (before ? other < v : other <= v);
              }
            }
          }
          if (first) slope = g[slopes + r * OW + c];
        }
        dx[to + iy * W + ix] = finish(slope, n, channel, iy, ix);
      };

      const wide = PAIRS ? OW - (OW % 4) : 0;
      const paired = PAIRS ? 2 * OH : 0;
      let iy = 0;
      while (iy < paired) {
        const row = slopes + idiv(iy, 2) * OW;
        let c = 0;
        while (c < wide) {
          const from = image + iy * W + 2 * c;
          const p = load4(x, from);
          const q = load4(x, from + 4);
          const r = load4(x, from + W);
          const s = load4(x, from + W + 4);
          const topLeft = vec4(lane(p, 0), lane(p, 2), lane(q, 0), lane(q, 2));
          const topRight = vec4(lane(p, 1), lane(p, 3), lane(q, 1), lane(q, 3));
          const lowLeft = vec4(lane(r, 0), lane(r, 2), lane(s, 0), lane(s, 2));
          const lowRight = vec4(lane(r, 1), lane(r, 3), lane(s, 1), lane(s, 3));
          const m = Math.max(Math.max(topLeft, topRight), Math.max(lowLeft, lowRight));
          const none = splat4(f32(0));
          // What is left of the gradient after each element had its chance.
          const slope = load4(g, row + c);
          const a = select(topLeft === m, slope, none);
          const afterA = select(topLeft === m, none, slope);
          const b = select(topRight === m, afterA, none);
          const afterB = select(topRight === m, none, afterA);
          const d = select(lowLeft === m, afterB, none);
          const e = select(lowRight === m, select(lowLeft === m, none, afterB), none);
          const at = to + iy * W + 2 * c;
          const upper = vec4(lane(a, 0), lane(b, 0), lane(a, 1), lane(b, 1));
          const upperEnd = vec4(lane(a, 2), lane(b, 2), lane(a, 3), lane(b, 3));
          const lower = vec4(lane(d, 0), lane(e, 0), lane(d, 1), lane(e, 1));
          const lowerEnd = vec4(lane(d, 2), lane(e, 2), lane(d, 3), lane(e, 3));
          store4(dx, at, finish(upper, n, channel, iy, 2 * c));
          store4(dx, at + 4, finish(upperEnd, n, channel, iy, 2 * c + 4));
          store4(dx, at + W, finish(lower, n, channel, iy + 1, 2 * c));
          store4(dx, at + W + 4, finish(lowerEnd, n, channel, iy + 1, 2 * c + 4));
          c += 4;
        }
        while (c < OW) {
          const from = image + iy * W + 2 * c;
          const m = Math.max(Math.max(x[from], x[from + 1]), Math.max(x[from + W], x[from + W + 1]));
          const first =
            x[from] === m ? 0 : x[from + 1] === m ? 1 : x[from + W] === m ? 2 : x[from + W + 1] === m ? 3 : 4;
          const slope = g[row + c];
          for (let i = 0; i < 4; i++) {
            const down = idiv(i, 2);
            const aside = 2 * c + (i % 2);
            const v = first === i ? slope : f32(0);
            dx[to + (iy + down) * W + aside] = finish(v, n, channel, iy + down, aside);
          }
          c += 1;
        }
        iy += 2;
      }
      let r = 0;
      while (r < H) {
        for (let ix = r < paired ? 2 * OW : 0; ix < W; ix++) pixel(r, ix);
        r += 1;
      }
    },
    constantsOf(problem),
  );
  return { kernel, blocks: problem.planes };
}
