/**
 * Max pooling of bytes with channels last on a GPU. A thread has up to 16 channels of a pixel, four in each word, and reads them at
 * once. A word is compared as a number four times, each of its bytes being the highest once: what is below decides only between
 * equal bytes, and is cut off at the end. So no byte is taken out of its word before all have been compared, which would be
 * another instruction for each.
 */
import { i8, i32 } from '../../core/dtype.js';
import { buffer, type Lanes } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import { loadLanes, splatLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import { finishAt, poolConstants, spread } from './cuda.js';
import type { PoolProblem } from './problem.js';

/** Bytes of a word. */
const WORD = 4;
/** Threads for each multiprocessor from which one has more than a word. */
const BUSY = 512;

/** Words that a thread reads at once; undefined if bytes do not lie in words. */
export function wordsOf(p: PoolProblem, units: number): Lanes | undefined {
  const { channels, dtype, imageOffset, isLast, outSize, planes } = p;
  if (dtype !== i8 || !isLast) return undefined;
  const words = (planes * outSize[0] * outSize[1] * channels) / WORD;
  const fits = (n: number): boolean => [channels, imageOffset].every((at) => at % (WORD * n) === 0);
  return ([4, 2, 1] as const).find((n) => fits(n) && (n === 1 || words / n >= BUSY * units));
}

/** The largest byte of every window. @param words of a thread */
export function maxPoolBytes(p: PoolProblem, words: Lanes): GridKernel {
  const kernel = defineKernel(
    'maxPool2dBytes',
    { x: buffer(i32), y: buffer(i8) },
    ({ x, y }, context) => {
      const { globalId, i32, idiv, lane, local, local2, local4, store4, vec4 } = context;
      const { finishAt, loadLanes, splatLanes } = context;
      const { PLANES, H, W, OH, OW, KH, KW, SY, SX, PY, PX, DY, DX, X_AT, INNER, LANES, WORD } = context;
      const i = globalId.x * (LANES * WORD);
      if (i >= PLANES * OH * OW * INNER) return;
      const channel = i % INNER;
      const c = idiv(i, INNER) % OW;
      const r = idiv(i, INNER * OW) % OH;
      const plane = idiv(i, INNER * OW * OH);
      const image = X_AT + plane * (H * W * INNER) + channel;
      // Of each word its bytes from the lowest on, as the highest byte of a number.
      const largest = LANES === 4 ? local4(i32, WORD) : LANES === 2 ? local2(i32, WORD) : local(i32, WORD);
      for (let k = 0; k < WORD; k++) largest[k] = splatLanes(i32(-(2 ** 31)), LANES, context);
      for (let ky = 0; ky < KH; ky++) {
        const iy = r * SY - PY + ky * DY;
        if (iy >= 0 && iy < H) {
          for (let kx = 0; kx < KW; kx++) {
            const ix = c * SX - PX + kx * DX;
            if (ix >= 0 && ix < W) {
              const v = loadLanes(x, idiv(image + (iy * W + ix) * INNER, WORD), LANES, context);
              for (let k = 0; k < WORD - 1; k++)
                largest[k] = Math.max(largest[k]!, v << splatLanes(i32(24 - 8 * k), LANES, context));
              largest[WORD - 1] = Math.max(largest[WORD - 1]!, v);
            }
          }
        }
      }
      const of = (k: number, l: number): number => (LANES === 1 ? largest[k]! : lane(largest[k]!, l)) >> 24;
      for (let l = 0; l < LANES; l++) {
        const four = vec4(of(0, l), of(1, l), of(2, l), of(3, l));
        const at = l * WORD;
        store4(y, i + at, finishAt(four, plane, r, c, channel + at, context));
      }
    },
    { ...poolConstants(p, words), finishAt, loadLanes, splatLanes, WORD },
  );
  return spread(kernel, (p.planes * p.outSize[0] * p.outSize[1] * p.channels) / (WORD * words));
}
