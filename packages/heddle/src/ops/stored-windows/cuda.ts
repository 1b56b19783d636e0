/**
 * Windows read from memory on a GPU, a thread each, and passed to what is made of them. Bound by memory; rows of windows of
 * two columns are read two elements at a time.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { WindowsProblem } from './problem.js';

const THREADS = 256;

export function windowsOnGpu(p: WindowsProblem): GridKernel {
  const paired = p.window[1] === 2 && p.size[1] % 2 === 0 && p.offset % 2 === 0 && p.from === f32;
  const kernel = defineKernel(
    p.name,
    { x: buffer(p.from), y: buffer(p.to) },
    ({ x, y }, context) => {
      const { globalId, idiv, lane, load2, local, problem, paired, finish } = context;
      const { planes, channels, size, outSize, window, offset, from } = problem;
      const i = globalId.x;
      if (i >= planes * outSize[0] * outSize[1]) return;
      const c = i % outSize[1];
      const r = idiv(i, outSize[1]) % outSize[0];
      const plane = idiv(i, outSize[1] * outSize[0]);
      const corner = offset + (plane * size[0] + r * window[0]) * size[1] + c * window[1];
      const held = local(from, window[0] * window[1]);
      for (let ky = 0; ky < window[0]; ky++) {
        if (paired) {
          const pair = load2(x, corner + ky * size[1]);
          held[2 * ky] = lane(pair, 0);
          held[2 * ky + 1] = lane(pair, 1);
        } else
          for (let kx = 0; kx < window[1]; kx++) held[ky * window[1] + kx] = x[corner + ky * size[1] + kx];
      }
      y[i] = finish(held, idiv(plane, channels), plane % channels, r, c);
    },
    { problem: p, paired, finish: p.finish },
  );
  const windows = p.planes * p.outSize[0] * p.outSize[1];
  return { kernel, grid: [Math.ceil(windows / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}
