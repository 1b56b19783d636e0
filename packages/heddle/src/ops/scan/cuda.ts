/**
 * Running sums and products of rows on a GPU. f32 and i32; the same bits every time.
 *
 * A team of threads takes a tile of a row at a time: each thread scans a few neighbours in registers, the threads' totals
 * are scanned by shuffles within a warp and through shared memory between warps, and what all earlier tiles add up to is
 * carried from one tile to the next. Short rows have small teams, several in a block.
 *
 * A row that is too long for one block is cut into chunks: their totals are computed first, then scanned, and each chunk
 * begins with what the ones before it add up to. The row is read twice and written once, in parallel; a carry goes
 * through CARRIES tiles at most, so that the error does not grow with the length of the row.
 *
 * G. Blelloch, Prefix sums and their applications (1990); D. Merrill and M. Garland, Single-pass parallel prefix scan with
 * decoupled look-back (2016), whose waiting between blocks would save the second read.
 */
import type { DType } from '../../core/dtype.js';
import type { Target } from '../../kernel/ir/target.js';
import { buffer } from '../../kernel/ir/types.js';
import { type Cast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { ScanProblem } from './problem.js';

const THREADS = 256;
/** Neighbours that a thread scans. */
const EACH = 4;
const TILE = THREADS * EACH;
/** Tiles that a carry goes through at most. */
const CARRIES = 64;
/** Blocks per multiprocessor to aim for when a row is cut. */
const SPREAD = 4;

/** How a row is cut. */
export interface ScanCut {
  /** Elements of a chunk, all but the last of a row. */
  readonly chunk: number;
  /** Chunks of a row. */
  readonly chunks: number;
}

/** One chunk where the rows alone keep the GPU busy. */
export function cutOf({ rows, n }: Pick<ScanProblem, 'rows' | 'n'>, { units }: Target): ScanCut {
  const tiles = Math.ceil(n / TILE);
  const share = Math.ceil((tiles * rows) / (SPREAD * units));
  const each = Math.min(CARRIES, rows >= SPREAD * units ? tiles : Math.max(1, share));
  return { chunk: each * TILE, chunks: Math.ceil(tiles / each) };
}

/** Threads that scan a row together: a power of two. */
const teamOf = (n: number): number => Math.min(THREADS, 2 ** Math.ceil(Math.log2(Math.ceil(n / EACH))));

interface Scanning {
  readonly product: boolean;
  readonly team: number;
}

const combine = (a: number, b: number, product: boolean) => (product ? a * b : a + b);

/**
 * running[t] becomes the total of the values of t's team up to thread t. All threads of the block take part; what was in
 * `running` has been read.
 */
const scanTeam = (
  value: number,
  running: Memory,
  { product, team }: Scanning,
  context: Intrinsics & { readonly combine: typeof combine },
) => {
  const { threadIdx, laneId, warpId, shuffleUp, select, barrier, combine } = context;
  let sum = value;
  for (let by = 1; by < Math.min(team, 32); by *= 2) {
    const below = shuffleUp(sum, by);
    sum = select(laneId % Math.min(team, 32) >= by, combine(below, sum, product), sum);
  }
  running[threadIdx.x] = sum;
  barrier();
  if (team > 32) {
    const first = warpId - (warpId % (team / 32));
    for (let w = warpId - 1; w >= first; w--) sum = combine(running[32 * w + 31], sum, product);
    barrier();
    running[threadIdx.x] = sum;
    barrier();
  }
};

const nameOf = ({ op }: ScanProblem): string => (op === 'add' ? 'cumsum' : 'cumprod');

const HELPERS = { combine, scanTeam };

/** What all kernels of this file are compiled for. */
const constantsOf = ({ op, rows, n, offset }: ScanProblem, dtype: DType, cut: ScanCut, team: number) => ({
  scanning: { product: op === 'mul', team } satisfies Scanning,
  identity: op === 'mul' ? 1 : 0,
  number: dtype as Cast<'f32'>,
  ...{ rows, n, offset, ...cut, EACH, THREADS },
});

/** x → the totals of the chunks of each row (rows, chunks). */
export function scanTotals(p: ScanProblem, dtype: DType, cut: ScanCut): GridKernel {
  const kernel = defineKernel(
    `${nameOf(p)}Totals`,
    { x: buffer(dtype), totals: buffer(dtype) },
    ({ x, totals }, context) => {
      const { blockIdx, threadIdx, idiv, shared, combine, scanTeam } = context;
      const { number, scanning, identity, n, offset, chunk, chunks, EACH, THREADS } = context;
      const row = idiv(blockIdx.x, chunks);
      const begin = (blockIdx.x % chunks) * chunk;
      const end = Math.min(begin + chunk, n);
      const running = shared(number, THREADS);
      let carry = number(identity);
      for (let first = begin; first < end; first += THREADS * EACH) {
        let sum = number(identity);
        for (let j = 0; j < EACH; j++) {
          const i = first + threadIdx.x * EACH + j;
          if (i < end) sum = combine(sum, x[offset + row * n + i], scanning.product);
        }
        carry = combine(carry, sum, scanning.product);
      }
      scanTeam(carry, running, scanning, context);
      if (threadIdx.x === THREADS - 1) totals[blockIdx.x] = running[THREADS - 1];
    },
    {
      ...HELPERS,
      ...constantsOf(p, dtype, cut, THREADS),
    },
  );
  return { kernel, grid: [p.rows * cut.chunks, 1, 1], threads: THREADS, sharedBytes: 0 };
}

/**
 * x → the running totals of each chunk, which begins with the last of `before` (rows, chunks), the running totals of the
 * chunks, that stands before it. `before` is given if there are several chunks.
 */
export function scanChunks(p: ScanProblem, dtype: DType, cut: ScanCut): GridKernel {
  const team = cut.chunks > 1 ? THREADS : teamOf(p.n);
  const buffers = { x: buffer(dtype), y: buffer(dtype), before: buffer(dtype) };
  const { before: _, ...alone } = buffers;
  const kernel = defineKernel(
    nameOf(p),
    cut.chunks > 1 ? buffers : (alone as typeof buffers),
    ({ x, y, before }, context) => {
      const { blockIdx, threadIdx, idiv, shared, local, barrier, combine, scanTeam, finish } = context;
      const { number, scanning, identity, rows, n, offset, chunk, chunks, EACH, THREADS } = context;
      const { team, product } = scanning;
      const member = threadIdx.x % team;
      const row = chunks > 1 ? idiv(blockIdx.x, chunks) : idiv(blockIdx.x * THREADS + threadIdx.x, team);
      const begin = chunks > 1 ? (blockIdx.x % chunks) * chunk : 0;
      const end = Math.min(begin + chunk, n);
      const running = shared(number, THREADS);
      let carry = number(identity);
      if (chunks > 1 && begin > 0) carry = before[blockIdx.x - 1];
      for (let first = begin; first < end; first += team * EACH) {
        const from = first + member * EACH;
        const own = local(number, EACH);
        for (let j = 0; j < EACH; j++) {
          own[j] = from + j < end && row < rows ? x[offset + row * n + from + j] : number(identity);
          if (j > 0) own[j] = combine(own[j - 1], own[j], product);
        }
        scanTeam(own[EACH - 1], running, scanning, context);
        const start = member > 0 ? combine(carry, running[threadIdx.x - 1], product) : carry;
        for (let j = 0; j < EACH; j++)
          if (from + j < end && row < rows)
            y[row * n + from + j] = finish(combine(start, own[j], product), row, from + j);
        if (n > team * EACH) {
          carry = combine(carry, running[THREADS - 1], product);
          barrier();
        }
      }
    },
    { ...HELPERS, ...constantsOf(p, dtype, cut, team), finish: p.finish },
  );
  const blocks = cut.chunks > 1 ? p.rows * cut.chunks : Math.ceil((p.rows * team) / THREADS);
  return { kernel, grid: [blocks, 1, 1], threads: THREADS, sharedBytes: 0 };
}
