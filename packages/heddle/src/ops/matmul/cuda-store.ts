/**
 * How the sums of a matrix product get to memory on a GPU, whatever multiplied: finished, or in parts that `matmulSum`
 * adds; and from the shares of warps along K.
 */
import { type DType, f32, i32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { type Lanes, loadLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import type { MatmulProblem } from './cpu.js';
import type { BlockWork, TilePlace } from './cuda-block.js';

/** What the device functions below take from the context. */
export interface StoreContext extends Intrinsics {
  readonly work: BlockWork;
  readonly finish: IrFunction;
  readonly storeSums: typeof storeSums;
  readonly loadLanes: typeof loadLanes;
  readonly storeLanes: typeof storeLanes;
}

/** Stores neighbours in a row of C: finished, or as the part of a piece, to which the next pieces are added. */
export function storeSums(
  c: Memory,
  v: number,
  lanes: Lanes,
  piece: number,
  row: number,
  column: number,
  at: TilePlace,
  context: StoreContext,
): void {
  const { work, finish, loadLanes, storeLanes } = context;
  const { M, N, batches } = work.sizes;
  const { batch, split } = at;
  const to = ((work.inParts ? split * batches + batch : batch) * M + row) * N + column;
  if (row < M && column < N) {
    if (!work.inParts) storeLanes(c, to, finish(work.cast(v), batch, row, column), lanes, context);
    else if (work.pieces === 1 || piece === 0) storeLanes(c, to, v, lanes, context);
    else storeLanes(c, to, loadLanes(c, to, lanes, context) + v, lanes, context);
  }
}

/**
 * Adds what the warps along K have put into shared memory, a tile of C each, in their order. Every thread adds a few
 * neighbours at a time and passes them to `store`.
 */
export function storeShares(
  held: Memory,
  at: TilePlace,
  store: (v: number, row: number, column: number) => void,
  context: StoreContext,
): void {
  const { threadIdx, idiv, bitcast, f32, work, loadLanes } = context;
  const { sizes, tiles, warps, threads, lanes, sharePitch } = work;
  const { rows, columns } = tiles;
  for (let first = 0; first < rows * columns; first += threads * lanes) {
    const i = first + threadIdx.x * lanes;
    const row = at.row + idiv(i, columns);
    const column = at.column + (i % columns);
    const inTile = first + threads * lanes <= rows * columns || i < rows * columns;
    if (inTile && row < sizes.M && column < sizes.N) {
      const share = (w: number) => {
        const from =
          sharePitch === columns
            ? w * (rows * columns) + i
            : (w * rows + idiv(i, columns)) * sharePitch + (i % columns);
        return bitcast(f32, loadLanes(held, from, lanes, context));
      };
      let total = share(0);
      for (let w = 1; w < warps.K; w++) total += share(w);
      store(total, row, column);
    }
  }
}

/** The device functions, as constants of a kernel. */
export const STORE = { storeSums, storeShares, loadLanes, storeLanes };

const SUM_THREADS = 128;
/** Parts that a thread adds, if it can be helped: it waits for one after the other. */
const PARTS = 16;

/**
 * The product from its parts, added in the order of K. Of many parts each of several threads adds its share, and the first
 * adds up the shares. Parts of i32 stay so.
 * @param dtype what the epilogue takes
 * @param output what is stored
 */
export function matmulSum(
  { batches, M, N, finish }: Pick<MatmulProblem, 'batches' | 'M' | 'N' | 'finish'>,
  splits: number,
  dtype: DType = f32,
  output: DType = dtype,
): GridKernel {
  const part = dtype === i32 ? i32 : f32;
  const lanes: Lanes = N % 4 === 0 ? 4 : N % 2 === 0 ? 2 : 1;
  const size = batches * M * N;
  const shares = Math.min(16, 2 ** Math.ceil(Math.log2(splits / Math.min(splits, PARTS))));
  const width = SUM_THREADS / shares;
  const kernel = defineKernel(
    'matmulSum',
    { parts: buffer(part), c: buffer(output) },
    ({ parts, c }, context) => {
      const { barrier, blockIdx, globalId, idiv, shared, threadIdx } = context;
      const { finish, size, splits, M, N, lanes, cast, loadLanes, part, storeLanes } = context;
      const { SUM_THREADS, share, shares, width } = context;
      if (shares === 1) {
        const i = globalId.x * lanes;
        if (i < size) {
          let sum = loadLanes(parts, i, lanes, context);
          for (let s = 1; s < splits; s++) sum += loadLanes(parts, s * size + i, lanes, context);
          const row = idiv(i, N);
          storeLanes(c, i, finish(cast(sum), idiv(row, M), row % M, i % N), lanes, context);
        }
      } else {
        const held = shared(part, SUM_THREADS * lanes);
        const i = (blockIdx.x * width + (threadIdx.x % width)) * lanes;
        const first = idiv(threadIdx.x, width) * share;
        if (i < size && first < splits) {
          let sum = loadLanes(parts, first * size + i, lanes, context);
          for (let s = first + 1; s < Math.min(first + share, splits); s++)
            sum += loadLanes(parts, s * size + i, lanes, context);
          storeLanes(held, threadIdx.x * lanes, sum, lanes, context);
        }
        barrier();
        if (i < size && threadIdx.x < width) {
          let sum = loadLanes(held, threadIdx.x * lanes, lanes, context);
          for (let s = 1; s * share < splits; s++)
            sum += loadLanes(held, (s * width + threadIdx.x) * lanes, lanes, context);
          const row = idiv(i, N);
          storeLanes(c, i, finish(cast(sum), idiv(row, M), row % M, i % N), lanes, context);
        }
      }
    },
    {
      ...{ size, splits, M, N, lanes, part, cast: asCast(dtype), finish, loadLanes, storeLanes },
      ...{ SUM_THREADS, shares, share: Math.ceil(splits / shares), width },
    },
  );
  return {
    kernel,
    grid: [Math.ceil(size / (lanes * width)), 1, 1],
    threads: SUM_THREADS,
    sharedBytes: 0,
  };
}
