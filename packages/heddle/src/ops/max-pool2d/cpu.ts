/**
 * Max pooling and its gradient on the CPU; a block is one plane (image and channel). Windows side by side are
 * read by ops/stored-windows; here any window is a loop over its elements.
 *
 * The gradient of windows that do not overlap needs no sums: each pixel takes the gradient of its window or 0. Of 2 × 2
 * windows side by side, the usual case, four at a time: their gradients are spread over two rows of 8 pixels.
 */
import { type DType, f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import { type PoolProblem, positionDtype } from './problem.js';

/** 2 × 2 windows side by side, without padding, of numbers that come in vectors. */
const isPairs = ({ kernel, stride, padding, dilation, dtype }: PoolProblem): boolean =>
  [...kernel, ...stride].every((n) => n === 2) &&
  padding.every((n) => n === 0) &&
  dilation.every((n) => n === 1) &&
  dtype === f32;

const constantsOf = (p: PoolProblem) => ({ problem: p, pairs: isPairs(p), finish: p.finish });

/** The largest element of every window. */
export function maxPool(problem: PoolProblem): Tiled {
  const kernel = defineKernel(
    'maxPool2d',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { blockIdx, f32, idiv, problem, finish }) => {
      const { channels, size, outSize, kernel, stride, padding, dilation, imageOffset } = problem;
      const image = imageOffset + blockIdx.x * size[0] * size[1];
      let r = 0;
      while (r < outSize[0]) {
        for (let c = 0; c < outSize[1]; c++) {
          let m = f32(Number.NEGATIVE_INFINITY);
          for (let ky = 0; ky < kernel[0]; ky++) {
            const iy = r * stride[0] - padding[0] + ky * dilation[0];
            if (iy >= 0 && iy < size[0]) {
              for (let kx = 0; kx < kernel[1]; kx++) {
                const ix = c * stride[1] - padding[1] + kx * dilation[1];
                if (ix >= 0 && ix < size[1]) m = Math.max(m, x[image + iy * size[1] + ix]);
              }
            }
          }
          const to = (blockIdx.x * outSize[0] + r) * outSize[1] + c;
          y[to] = finish(m, idiv(blockIdx.x, channels), blockIdx.x % channels, r, c);
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
    {
      positions: buffer(positionDtype(problem) as DType),
      g: buffer(problem.dtype),
      dx: buffer(problem.dtype),
    },
    ({ positions, g, dx }, context) => {
      const { blockIdx, f32, i32, idiv, lane, load4, store4, vec4, splat4, select, finish } = context;
      const { problem, pairs } = context;
      const { channels, size, outSize, kernel, stride, padding, imageOffset, gradientOffset } = problem;
      const n = idiv(blockIdx.x, channels);
      const channel = blockIdx.x % channels;
      const windows = blockIdx.x * outSize[0] * outSize[1];
      const to = blockIdx.x * size[0] * size[1];

      const pixel = (iy: number, ix: number) => {
        const r = idiv(iy + padding[0], stride[0]);
        const c = idiv(ix + padding[1], stride[1]);
        const ky = (iy + padding[0]) % stride[0];
        const kx = (ix + padding[1]) % stride[1];
        let slope = 0;
        if (r < outSize[0] && c < outSize[1] && ky < kernel[0] && kx < kernel[1]) {
          const window = windows + r * outSize[1] + c;
          if (i32(positions[imageOffset + window]) === ky * kernel[1] + kx)
            slope = g[gradientOffset + window];
        }
        dx[to + iy * size[1] + ix] = finish(slope, n, channel, iy, ix);
      };

      const wide = pairs ? outSize[1] - (outSize[1] % 4) : 0;
      const paired = pairs ? 2 * outSize[0] : 0;
      let iy = 0;
      while (iy < paired) {
        const row = windows + idiv(iy, 2) * outSize[1];
        let c = 0;
        if (pairs) {
          while (c < wide) {
            const from = imageOffset + row + c;
            const place = vec4(
              i32(positions[from]),
              i32(positions[from + 1]),
              i32(positions[from + 2]),
              i32(positions[from + 3]),
            );
            const slope = load4(g, gradientOffset + row + c);
            const none = splat4(f32(0));
            for (let down = 0; down < 2; down++) {
              const left = select(place === splat4(i32(2 * down)), slope, none);
              const right = select(place === splat4(i32(2 * down + 1)), slope, none);
              const at = to + (iy + down) * size[1] + 2 * c;
              const near = vec4(lane(left, 0), lane(right, 0), lane(left, 1), lane(right, 1));
              const far = vec4(lane(left, 2), lane(right, 2), lane(left, 3), lane(right, 3));
              store4(dx, at, finish(near, n, channel, iy + down, 2 * c));
              store4(dx, at + 4, finish(far, n, channel, iy + down, 2 * c + 4));
            }
            c += 4;
          }
        }
        while (c < outSize[1]) {
          const place = i32(positions[imageOffset + row + c]);
          const slope = g[gradientOffset + row + c];
          for (let i = 0; i < 4; i++) {
            const down = idiv(i, 2);
            const aside = 2 * c + (i % 2);
            const v = place === i ? slope : 0;
            dx[to + (iy + down) * size[1] + aside] = finish(v, n, channel, iy + down, aside);
          }
          c += 1;
        }
        iy += 2;
      }
      let r = 0;
      while (r < size[0]) {
        for (let ix = r < paired ? 2 * outSize[1] : 0; ix < size[1]; ix++) pixel(r, ix);
        r += 1;
      }
    },
    constantsOf(problem),
  );
  return { kernel, blocks: problem.planes };
}
