/**
 * Windows read from memory on the CPU and passed to what is made of them. A block is one plane. Of windows with two columns
 * four are taken at a time: two vectors of a row become one of even and one of odd columns.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { WindowsProblem } from './problem.js';

export function windowsOnCpu(p: WindowsProblem): Tiled {
  const isWide = p.window[1] === 2 && p.from === f32 && p.to === f32;
  const kernel = defineKernel(
    p.name,
    { x: buffer(p.from), y: buffer(p.to) },
    ({ x, y }, context) => {
      const { blockIdx, idiv, f32, lane, load4, store4, vec4, local, local4, problem, wide, finish } =
        context;
      const { channels, size, outSize, window, offset, from } = problem;
      const n = idiv(blockIdx.x, channels);
      const channel = blockIdx.x % channels;
      let r = 0;
      while (r < outSize[0]) {
        const row = offset + (blockIdx.x * size[0] + r * window[0]) * size[1];
        const to = (blockIdx.x * outSize[0] + r) * outSize[1];
        let c = 0;
        if (wide > 0) {
          while (c < wide) {
            const held = local4(f32, window[0] * 2);
            for (let ky = 0; ky < window[0]; ky++) {
              const p = load4(x, row + ky * size[1] + 2 * c);
              const q = load4(x, row + ky * size[1] + 2 * c + 4);
              held[2 * ky] = vec4(lane(p, 0), lane(p, 2), lane(q, 0), lane(q, 2));
              held[2 * ky + 1] = vec4(lane(p, 1), lane(p, 3), lane(q, 1), lane(q, 3));
            }
            store4(y, to + c, finish(held, n, channel, r, c));
            c += 4;
          }
        }
        while (c < outSize[1]) {
          const held = local(from, window[0] * window[1]);
          for (let ky = 0; ky < window[0]; ky++)
            for (let kx = 0; kx < window[1]; kx++)
              held[ky * window[1] + kx] = x[row + ky * size[1] + c * window[1] + kx];
          y[to + c] = finish(held, n, channel, r, c);
          c += 1;
        }
        r += 1;
      }
    },
    { problem: p, wide: isWide ? p.outSize[1] - (p.outSize[1] % 4) : 0, finish: p.finish },
  );
  return { kernel, blocks: p.planes };
}
