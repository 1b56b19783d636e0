/** Small kernels on the copy engine and on warpgroups: a product of tiles by a producer and a warpgroup that multiplies. */
import {
  bf16,
  buffer,
  type DType,
  f32,
  type Intrinsics,
  i32,
  kernel,
  type PixelWalk,
  tensorMap,
} from '../../src/index.js';

/** What can be left out or done wrong. */
export type Fault =
  | 'wait'
  | 'reuse'
  | 'early'
  | 'bytes'
  | 'arrivals'
  | 'finish'
  | 'sums-fence'
  | 'sums-early'
  | 'sums-written'
  | 'words-fence'
  | 'words-early'
  | 'init'
  | 'divergent';

export interface TileProduct {
  readonly M: number;
  readonly N: number;
  readonly K: number;
  readonly dtype?: DType;
  readonly transposedA?: boolean;
  readonly transposedB?: boolean;
  /** a goes by way of registers. */
  readonly held?: boolean;
  /** The dtype of the sums. */
  readonly total?: DType;
  /** The sums are cleared, and not set to 0 one by one. */
  readonly cleared?: boolean;
  readonly fault?: Fault;
}

/** Bytes along K of a tile. */
const ROW = 128;
const STAGES = 2;

type ElementOf = (i: number) => number;
/** The elements of a word, by their bytes. */
const WORDS: Readonly<Record<number, (element: ElementOf, context: Intrinsics) => number>> = {
  1: (element, { u32 }) =>
    (u32(element(0)) & 255) |
    ((u32(element(1)) & 255) << 8) |
    ((u32(element(2)) & 255) << 16) |
    ((u32(element(3)) & 255) << 24),
  2: (element, { bitcast, u32, vec2 }) => bitcast(u32, vec2(element(0), element(1))),
  4: (element, { bitcast, u32 }) => bitcast(u32, element(0)),
};

/** c (M, N) = a · b, in blocks of 64 × N: a is (M, K), or (K, M) if transposed, b is (N, K), or (K, N) if transposed. */
export function tileProduct({
  M,
  N,
  K,
  dtype = bf16,
  transposedA = false,
  transposedB = false,
  held = false,
  total = dtype.kind === 'float' ? f32 : i32,
  cleared = false,
  fault,
}: TileProduct) {
  const depth = ROW / dtype.bytes;
  const tf32 = dtype === f32;
  const panels = Math.ceil(N / depth);
  const map = (sizes: readonly number[], box: readonly number[]) => tensorMap(dtype, { sizes, box, tf32 });
  return kernel(
    'tileProduct',
    {
      a: transposedA ? map([K, M], [depth, depth]) : map([M, K], [64, depth]),
      b: transposedB ? map([K, N], [depth, depth]) : map([N, K], [N, depth]),
      c: buffer(total),
    },
    ({ a, b, c }, context) => {
      const { barrier, blockIdx, idiv, local, mbarriers, sharedTile, threadIdx } = context;
      const { arrive, arriveExpect, initBarrier, tmaLoad, waitBarrier } = context;
      const { clearSums, commitWgmma, fenceWgmma, waitWgmma, wgmma } = context;
      const {
        M,
        N,
        K,
        STAGES,
        cleared,
        depth,
        dtype,
        fault,
        held,
        panels,
        step,
        total,
        transposedA,
        transposedB,
      } = context;
      const { laneId, u32, wordOf } = context;
      const as = sharedTile(dtype, STAGES, 1, 64, depth);
      const bs = transposedB
        ? sharedTile(dtype, STAGES, panels, depth, depth)
        : sharedTile(dtype, STAGES, 1, N, depth);
      const full = mbarriers(STAGES);
      const empty = mbarriers(STAGES);
      const row = blockIdx.x * 64;
      if (threadIdx.x === 0) {
        for (let s = 0; s < STAGES; s++) {
          initBarrier(full, s, fault === 'arrivals' ? 2 : 1);
          initBarrier(empty, s, 128);
        }
      }
      if (fault !== 'init') barrier();
      if (threadIdx.x < 128) {
        if (threadIdx.x === 0) {
          for (let k = 0; k < idiv(K, depth); k++) {
            const stage = k % STAGES;
            if (fault !== 'reuse') waitBarrier(empty, stage, idiv(k, STAGES) + 1);
            arriveExpect(
              full,
              stage,
              (64 + (transposedB ? panels * depth : N)) * 128 + (fault === 'bytes' ? 16 : 0),
            );
            if (transposedA) tmaLoad(as, stage, 0, 0, 0, a, k * depth, row, full, stage);
            else tmaLoad(as, stage, 0, 0, 0, a, row, k * depth, full, stage);
            if (transposedB)
              for (let p = 0; p < panels; p++)
                tmaLoad(bs, stage, p, 0, 0, b, k * depth, p * depth, full, stage);
            else tmaLoad(bs, stage, 0, 0, 0, b, 0, k * depth, full, stage);
          }
        }
      } else {
        const thread = threadIdx.x - 128;
        const sums = local(total, idiv(N, 2));
        if (cleared) clearSums(sums);
        else for (let i = 0; i < idiv(N, 2); i++) sums[i] = 0;
        if (fault === 'sums-early') c[row * N] = sums[0];
        if (fault === 'sums-written') sums[0] = 1;
        if (fault !== 'sums-fence') fenceWgmma(sums);
        for (let k = 0; k < idiv(K, depth); k++) {
          const stage = k % STAGES;
          if (fault !== 'wait') waitBarrier(full, stage, idiv(k, STAGES));
          if (fault === 'early') arrive(empty, stage);
          for (let d = 0; d < depth; d += step) {
            if (fault === 'divergent' && thread < 32) {
              if (d === 0) wgmma(sums, as, stage, 0, 0, 0, bs, stage, 0, 0, 0);
            } else if (held) {
              const words = local(u32, 4);
              const first = 16 * idiv(thread, 32) + idiv(laneId, 4);
              for (let j = 0; j < 4; j++) {
                const row = first + 8 * (j % 2);
                const at = d + idiv(step, 2) * idiv(j, 2) + idiv(step, 8) * (laneId % 4);
                words[j] = wordOf((i: number) => as[stage][0][row][at + i], context);
              }
              if (fault !== 'words-fence') fenceWgmma(words);
              // The sums begin with the first product.
              if (k === 0 && d === 0) wgmma(sums, words, bs, stage, 0, 0, d, false, false, true);
              else wgmma(sums, words, bs, stage, 0, 0, d);
              commitWgmma();
              if (fault !== 'words-early') waitWgmma(sums, 0);
            } else if (transposedA && transposedB)
              wgmma(sums, as, stage, 0, d, 0, bs, stage, 0, d, 0, true, true);
            else if (transposedA) wgmma(sums, as, stage, 0, d, 0, bs, stage, 0, 0, d, true);
            else if (transposedB) wgmma(sums, as, stage, 0, 0, d, bs, stage, 0, d, 0, false, true);
            else wgmma(sums, as, stage, 0, 0, d, bs, stage, 0, 0, d);
          }
          commitWgmma();
          if (fault !== 'finish') waitWgmma(sums, 0);
          if (fault !== 'early') arrive(empty, stage);
        }
        for (let i = 0; i < idiv(N, 2); i++) {
          const r = row + 16 * idiv(thread, 32) + idiv(thread % 32, 4) + 8 * (idiv(i, 2) % 2);
          const column = 8 * idiv(i, 4) + 2 * (thread % 4) + (i % 2);
          if (r < M) c[r * N + column] = sums[i];
        }
      }
    },
    {
      ...{ M, N, K, STAGES, cleared, depth, dtype, held, panels, total, transposedA, transposedB },
      fault: fault ?? '',
      step: 32 / dtype.bytes,
      wordOf: WORDS[dtype.bytes]!,
    },
  );
}

/** y = 2x, of tiles that threads read and write: by way of two tiles and a barrier of the threads that share them. */
export const throughTiles = (rows: number, columns: number, fault?: 'fence' | 'barrier' | 'unfinished') =>
  kernel(
    'throughTiles',
    {
      x: tensorMap(f32, { sizes: [rows, columns], box: [64, 32] }),
      y: tensorMap(f32, { sizes: [rows, columns], box: [64, 32] }),
    },
    ({ x, y }, context) => {
      const { barrier, blockIdx, fault, f32, idiv, mbarriers, sharedTile, threadIdx } = context;
      const { arriveExpect, tmaCommit, fenceAsync, groupBarrier, initBarrier, load4, tmaLoad } = context;
      const { lowerRegisters, store4, tmaStore, waitBarrier, tmaWait } = context;
      const from = sharedTile(f32, 64, 32);
      const to = sharedTile(f32, 64, 32);
      const full = mbarriers(1);
      const row = blockIdx.y * 64;
      const column = blockIdx.x * 32;
      if (threadIdx.x === 0) initBarrier(full, 0, 1);
      barrier();
      lowerRegisters(64);
      if (threadIdx.x === 0) {
        arriveExpect(full, 0, 64 * 32 * 4);
        tmaLoad(from, 0, 0, x, row, column, full, 0);
      }
      waitBarrier(full, 0, 0);
      for (let i = threadIdx.x; i < 512; i += 128) {
        const r = idiv(i, 8);
        const c = 4 * (i % 8);
        const v = load4(from, r, c);
        store4(to, r, c, v + v);
      }
      if (fault !== 'fence') fenceAsync();
      if (fault !== 'barrier') groupBarrier(2, 128);
      if (threadIdx.x === 0) {
        tmaStore(y, row, column, to, 0, 0);
        tmaCommit();
        if (fault !== 'unfinished') tmaWait(0);
      }
    },
    { fault: fault ?? '' },
  );

/** Images, and the pixels of them that tiles take one after the other. */
export interface Walked {
  /** (image, …, channel) */
  readonly sizes: readonly number[];
  readonly walk: PixelWalk;
  /** Which image and which pixel of the walk is the first, along each dimension. */
  readonly first: readonly number[];
  /** From the pixels to those that are copied. */
  readonly offsets: readonly number[];
}

/** Images of so many dimensions, as a kernel of 3 taps along each sees them. */
export const pixelsOf = (dimensions: number): Walked => {
  const along = <T>(each: T): T[] => new Array<T>(dimensions).fill(each);
  return {
    sizes: [2, ...along(8), 16],
    walk: { from: along(-1), counts: along(8) },
    ...{ first: [0, ...along(0)], offsets: along(2) },
  };
};

/** Pixels and channels of a tile. */
export const WALKED = [64, 8] as const;

/** y (64, 8): so many pixels of images, each off its place by `offsets`, and the channels from 4 on. */
export function walked({ sizes, walk, first, offsets }: Walked) {
  const [image, ...place] = first;
  const at = place.map((n, d) => walk.from[d]! + n * (walk.steps?.[d] ?? 1));
  return kernel(
    'walked',
    { x: tensorMap(f32, { sizes, box: WALKED, walk }), y: buffer(f32) },
    ({ x, y }, context) => {
      const { arriveExpect, barrier, f32, idiv, initBarrier, mbarriers, sharedTile, threadIdx } = context;
      const { at, dimensions, image, off, tmaLoad, waitBarrier } = context;
      const tile = sharedTile(f32, 64, 8);
      const full = mbarriers(1);
      if (threadIdx.x === 0) initBarrier(full, 0, 1);
      barrier();
      if (threadIdx.x === 0) {
        arriveExpect(full, 0, 64 * 8 * 4);
        if (dimensions === 1) tmaLoad(tile, 0, 0, x, image, at[0]!, 4, off[0]!, full, 0);
        if (dimensions === 2) tmaLoad(tile, 0, 0, x, image, at[0]!, at[1]!, 4, off[0]!, off[1]!, full, 0);
        if (dimensions === 3)
          tmaLoad(tile, 0, 0, x, image, at[0]!, at[1]!, at[2]!, 4, off[0]!, off[1]!, off[2]!, full, 0);
      }
      waitBarrier(full, 0, 0);
      for (let i = threadIdx.x; i < 64 * 8; i += 128) y[i] = tile[idiv(i, 8)][i % 8];
    },
    { at, dimensions: place.length, image: image!, off: offsets },
  );
}

/** Pixels of y are 1, 2, …, one after the other as a walk has them from this one on: (64, 8) of them. */
export function walkedBack({ sizes, walk, first }: Omit<Walked, 'offsets'>) {
  const [image, ...place] = first;
  const at = place.map((n, d) => walk.from[d]! + n * (walk.steps?.[d] ?? 1));
  return kernel(
    'walkedBack',
    { y: tensorMap(f32, { sizes, box: WALKED, walk }) },
    ({ y }, context) => {
      const { at, barrier, f32, fenceAsync, idiv, image, sharedTile, threadIdx } = context;
      const { tmaCommit, tmaStore, tmaWait } = context;
      const tile = sharedTile(f32, 64, 8);
      for (let i = threadIdx.x; i < 64 * 8; i += 128) tile[idiv(i, 8)][i % 8] = f32(i + 1);
      fenceAsync();
      barrier();
      if (threadIdx.x === 0) {
        tmaStore(y, image, at[0]!, at[1]!, 4, tile, 0, 0);
        tmaCommit();
        tmaWait(0);
      }
    },
    { at, image: image! },
  );
}
