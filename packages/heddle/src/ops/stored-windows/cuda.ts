/**
 * Windows read from memory on a GPU and passed to what is made of them. Bound by memory: rows are read 16 bytes at a time
 * where they can be, for which a thread has two windows of two columns, and one of others.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { WindowsProblem } from './problem.js';

const THREADS = 256;

/** Elements of a row that are read as one vector. */
function vectorOf({ window, size, outSize, offset, from }: WindowsProblem): 1 | 2 | 4 {
  const isAligned = (n: number): boolean => from === f32 && size[1] % n === 0 && offset % n === 0;
  if (isAligned(4) && (window[1] % 4 === 0 || (window[1] === 2 && outSize[1] % 2 === 0))) return 4;
  return isAligned(2) && window[1] % 2 === 0 ? 2 : 1;
}

export function windowsOnGpu(p: WindowsProblem): GridKernel {
  const vector = vectorOf(p);
  const each = p.window[1] < vector ? 2 : 1;
  const kernel = defineKernel(
    p.name,
    { x: buffer(p.from), y: buffer(p.to) },
    ({ x, y }, context) => {
      const { globalId, idiv, lane, load2, load4, local, problem, vector, each, finish } = context;
      const { planes, channels, size, outSize, window, offset, from } = problem;
      const i = globalId.x * each;
      if (i >= planes * outSize[0] * outSize[1]) return;
      const c = i % outSize[1];
      const r = idiv(i, outSize[1]) % outSize[0];
      const plane = idiv(i, outSize[1] * outSize[0]);
      const corner = offset + (plane * size[0] + r * window[0]) * size[1] + c * window[1];
      const held = local(from, window[0] * window[1]);
      const next = local(from, window[0] * window[1]);
      for (let ky = 0; ky < window[0]; ky++) {
        const row = corner + ky * size[1];
        for (let kx = 0; kx < window[1]; kx += vector) {
          const at = ky * window[1] + kx;
          if (vector === 4) {
            const four = load4(x, row + kx);
            held[at] = lane(four, 0);
            held[at + 1] = lane(four, 1);
            if (each === 2) {
              next[at] = lane(four, 2);
              next[at + 1] = lane(four, 3);
            } else {
              held[at + 2] = lane(four, 2);
              held[at + 3] = lane(four, 3);
            }
          } else if (vector === 2) {
            const two = load2(x, row + kx);
            held[at] = lane(two, 0);
            held[at + 1] = lane(two, 1);
          } else held[at] = x[row + kx];
        }
      }
      const n = idiv(plane, channels);
      y[i] = finish(held, n, plane % channels, r, c);
      if (each === 2) y[i + 1] = finish(next, n, plane % channels, r, c + 1);
    },
    { problem: p, vector, each, finish: p.finish },
  );
  const threads = (p.planes * p.outSize[0] * p.outSize[1]) / each;
  return { kernel, grid: [Math.ceil(threads / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}
