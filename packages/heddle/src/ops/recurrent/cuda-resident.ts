/**
 * All steps of a recurrent network, or of its gradient, as one launch on a GPU, where a multiprocessor has room for the weights:
 * a block takes a row of the batch, or a few, through all steps, and has the matrix in registers and shared memory from
 * the start to the end. f32.
 *
 * A thread has four neighbouring columns of the matrix, and a share of K for them. At each step it multiplies the state,
 * which lies in shared memory, by what it has; the shares are added in shared memory; then each thread computes the cell
 * of its elements, and puts the new state where the old one was. The block waits for its threads twice a step, and
 * nobody else: where a launch per step takes 1.3 µs of starting and of waiting for memory, this takes 512 cycles to
 * multiply 256 by 256 × 256, and 128 for each 16 KiB that are not in registers.
 */
import { FITTED, hasRegisters } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import {
  BACKWARD,
  BACKWARD_ELEMENTS,
  backwardOffsets,
  elementConstants,
  FORWARD,
  FORWARD_ELEMENTS,
  forwardOffsets,
  productOf,
} from './cuda-elements.js';
import type { RecurrentProblem } from './problem.js';

const THREADS = 512;
/** Registers of a thread, and those that have weights; each row more takes some. */
const REGISTERS = 128;
const weightsHeld = (rowsEach: number): number => (rowsEach === 1 ? 96 : 64);

/** How the weights are spread over a block. */
interface ResidentWork {
  /** Rows of the batch that a block takes. */
  readonly rowsEach: number;
  readonly K: number;
  readonly columns: number;
  /** Columns that a thread has. */
  readonly width: 1 | 4;
  readonly groups: number;
  /** Threads that share K. */
  readonly shares: number;
  readonly threads: number;
  /** Quads of steps along K that a thread has, of which the first are in registers. */
  readonly quads: number;
  readonly inRegisters: number;
  /** Elements of shared memory of a row of the state, and of a row of the sums. */
  readonly statePitch: number;
  readonly sumPitch: number;
  /** Where in shared memory the state and the sums begin: behind the weights. */
  readonly stateAt: number;
  readonly sumsAt: number;
  readonly sharedBytes: number;
  /** Elements of a thread. */
  readonly own: number;
}

/** Undefined where the weights do not fit. */
export function residentWork(
  p: RecurrentProblem,
  isBackward: boolean,
  target: Target,
): ResidentWork | undefined {
  const { K, parts } = productOf(p, isBackward);
  const { limits, units } = target;
  const rowsEach = Math.min(4, Math.ceil(p.rows / units));
  const columns = parts * p.size;
  const width = p.size % 4 === 0 && p.offsets.every((o) => o % 4 === 0) ? 4 : 1;
  const groups = columns / width;
  const all = Math.ceil(K / 4);
  const shares = Math.min(all, Math.floor(THREADS / groups));
  if (shares === 0 || !hasRegisters(limits, THREADS, REGISTERS)) return undefined;
  const threads = Math.ceil((groups * shares) / 32) * 32;
  const quads = Math.ceil(all / shares);
  const inRegisters = Math.min(quads, weightsHeld(rowsEach) / (4 * width));
  const statePitch = 4 * quads * shares;
  const sumPitch = Math.ceil(columns / 4) * 4;
  const stateAt = (quads - inRegisters) * 4 * width * threads;
  const sumsAt = stateAt + rowsEach * statePitch;
  const sharedBytes = 4 * (sumsAt + shares * rowsEach * sumPitch);
  if (sharedBytes > limits.sharedBytesPerBlock) return undefined;
  const own = Math.ceil((rowsEach * p.size) / threads);
  return {
    ...{ rowsEach, K, columns, width, groups, shares, threads, quads, inRegisters, statePitch, sumPitch },
    ...{ stateAt, sumsAt, sharedBytes, own },
  };
}

/** Estimated cycles of all steps. */
export function residentCycles(p: RecurrentProblem, work: ResidentWork, { units }: Target): number {
  const { rowsEach, K, columns, quads, stateAt, threads } = work;
  const waves = Math.ceil(Math.ceil(p.rows / rowsEach) / units);
  const multiply = (rowsEach * K * columns) / 128;
  const read = (stateAt + rowsEach * quads * threads) / 32;
  const step = Math.max(multiply, read) + 0.5 * Math.min(multiply, read) + 6 * FITTED.matmul.shares;
  return FITTED.matmul.latency + waves * p.steps * step;
}

interface ResidentContext extends Intrinsics {
  readonly work: ResidentWork;
  readonly rows: number;
  readonly size: number;
  readonly loadLanes: typeof loadLanes;
  readonly storeLanes: typeof storeLanes;
  readonly loadWeights: typeof loadWeights;
  readonly multiplyState: typeof multiplyState;
  readonly elementSum: typeof elementSum;
  readonly eachElement: typeof eachElement;
}

/** Loads a thread's weights: the columns of its group, and of each of its quads four steps along K. */
const loadWeights = (mine: Memory, held: Memory, w: Memory, from: number, context: ResidentContext) => {
  const { f32, idiv, loadLanes, splat4, storeLanes, threadIdx, work } = context;
  const { K, columns, groups, inRegisters, quads, shares, threads, width } = work;
  const share = idiv(threadIdx.x, groups);
  const at = from + width * (threadIdx.x % groups);
  for (let q = 0; q < quads; q++) {
    for (let l = 0; l < 4; l++) {
      const k = 4 * (q * shares + share) + l;
      let v = width === 4 ? splat4(f32(0)) : f32(0);
      if (share < shares && k < K) v = loadLanes(w, at + k * columns, width, context);
      if (q < inRegisters) mine[4 * q + l] = v;
      else storeLanes(held, ((4 * (q - inRegisters) + l) * threads + threadIdx.x) * width, v, width, context);
    }
  }
};

/** Multiplies the state of the block's rows by the thread's weights; the sums go to shared memory, one part a share. */
const multiplyState = (mine: Memory, held: Memory, context: ResidentContext) => {
  const { f32, fma, idiv, lane, load4, loadLanes, local, local4, splat4, storeLanes, threadIdx, work } =
    context;
  const {
    groups,
    inRegisters,
    quads,
    rowsEach,
    shares,
    stateAt,
    statePitch,
    sumPitch,
    sumsAt,
    threads,
    width,
  } = work;
  const share = idiv(threadIdx.x, groups);
  if (threads === groups * shares || share < shares) {
    const sums = width === 4 ? local4(f32, rowsEach) : local(f32, rowsEach);
    for (let r = 0; r < rowsEach; r++) sums[r] = width === 4 ? splat4(f32(0)) : f32(0);
    const state = local4(f32, rowsEach);
    for (let q = 0; q < quads; q++) {
      for (let r = 0; r < rowsEach; r++)
        state[r] = load4(held, stateAt + r * statePitch + 4 * (q * shares + share));
      for (let l = 0; l < 4; l++) {
        const by =
          q < inRegisters
            ? mine[4 * q + l]
            : loadLanes(held, ((4 * (q - inRegisters) + l) * threads + threadIdx.x) * width, width, context);
        for (let r = 0; r < rowsEach; r++) {
          const v = lane(state[r], l);
          sums[r] = fma(width === 4 ? splat4(v) : v, by, sums[r]);
        }
      }
    }
    const column = width * (threadIdx.x % groups);
    for (let r = 0; r < rowsEach; r++)
      storeLanes(held, sumsAt + (share * rowsEach + r) * sumPitch + column, sums[r], width, context);
  }
};

/** A column of a row's product: all shares together. */
const elementSum = (held: Memory, row: number, column: number, { f32, work }: ResidentContext) => {
  const { rowsEach, shares, sumPitch, sumsAt } = work;
  let sum = f32(0);
  for (let share = 0; share < shares; share++)
    sum = sum + held[sumsAt + (share * rowsEach + row) * sumPitch + column];
  return sum;
};

/** An element of a thread: its number, its row in the block and in the batch, its feature. */
type TakeElement = (e: number, row: number, n: number, j: number) => void;

/** Does something for each of the thread's elements. */
const eachElement = (take: TakeElement, { blockIdx, idiv, rows, size, threadIdx, work }: ResidentContext) => {
  const { own, rowsEach, threads } = work;
  for (let e = 0; e < own; e++) {
    const i = e * threads + threadIdx.x;
    const row = idiv(i, size);
    const n = blockIdx.x * rowsEach + row;
    if (row < rowsEach && n < rows) take(e, row, n, i % size);
  }
};

const RESIDENT = { loadLanes, storeLanes, loadWeights, multiplyState, elementSum, eachElement };

/** All steps: x (T, N, gates·H), w (H, gates·H), bias (gates·H), h0, c0 (N, H) → y (T, N, states·H). */
export function forwardResident(p: RecurrentProblem, work: ResidentWork): GridKernel {
  const kernel = defineKernel(
    `${p.cell}Resident`,
    FORWARD,
    ({ x, w, bias, h0, c0, y }, context) => {
      const { barrier, dynamicShared, f32, local, local4, threadIdx } = context;
      const { eachElement, elementSum, forwardElement, loadForward, loadWeights, multiplyState } = context;
      const { h0At, numbers, rows, size, states, steps, wAt, work } = context;
      const { inRegisters, own, rowsEach, stateAt, statePitch, threads, width } = work;
      const held = dynamicShared(f32);
      const mine = width === 4 ? local4(f32, 4 * inRegisters) : local(f32, 4 * inRegisters);
      const given = local(f32, own, numbers);
      const memory = { x, w, bias, h0, c0, y };
      loadWeights(mine, held, w, wAt, context);
      for (let i = threadIdx.x; i < rowsEach * statePitch; i += threads) held[stateAt + i] = 0;
      barrier();
      eachElement((_e, row, n, j) => {
        held[stateAt + row * statePitch + j] = h0[h0At + n * size + j];
      }, context);
      barrier();
      let t = 0;
      while (t < steps) {
        eachElement((e, _row, n, j) => loadForward(given, e, n, j, t, memory, context), context);
        multiplyState(mine, held, context);
        barrier();
        eachElement((e, row, n, j) => {
          const product = (gate: number) => elementSum(held, row, gate * size + j, context);
          const give = (state: number, v: number) => {
            y[((t * rows + n) * states + state) * size + j] = v;
            if (state === 0) held[stateAt + row * statePitch + j] = v;
          };
          forwardElement(given, e, product, give, context);
        }, context);
        barrier();
        t += 1;
      }
    },
    { ...elementConstants(p, false), ...forwardOffsets(p), ...FORWARD_ELEMENTS, ...RESIDENT, work },
  );
  return launchOf(p, kernel, work);
}

/** All steps of the gradient; the sources and the result as `recurrentGradientOp` has them. */
export function backwardResident(p: RecurrentProblem, work: ResidentWork): GridKernel {
  const { blocks: ofState } = productOf(p, true);
  const kernel = defineKernel(
    `${p.cell}GradientResident`,
    BACKWARD,
    ({ g, y, x, s, w, h0, c0, d }, context) => {
      const { barrier, dynamicShared, f32, local, local4, threadIdx } = context;
      const { backwardElement, eachElement, elementSum, loadBackward, loadWeights, multiplyState } = context;
      const { blocks, numbers, ofState, rows, size, steps, wAt, work } = context;
      const { inRegisters, own, rowsEach, stateAt, statePitch, threads, width } = work;
      const held = dynamicShared(f32);
      const mine = width === 4 ? local4(f32, 4 * inRegisters) : local(f32, 4 * inRegisters);
      const given = local(f32, own, numbers);
      const memory = { g, y, x, s, w, h0, c0, d };
      loadWeights(mine, held, w, wAt, context);
      // Nothing comes from behind the last step.
      for (let i = threadIdx.x; i < rowsEach * statePitch; i += threads) held[stateAt + i] = 0;
      barrier();
      let t = steps - 1;
      while (t >= 0) {
        eachElement((e, _row, n, j) => loadBackward(given, e, n, j, t, memory, context), context);
        multiplyState(mine, held, context);
        barrier();
        eachElement((e, row, n, j) => {
          const give = (block: number, v: number) => {
            d[((t * rows + n) * blocks + block) * size + j] = v;
            for (let i = 0; i < ofState.length; i++)
              if (ofState[i] === block) held[stateAt + row * statePitch + i * size + j] = v;
          };
          backwardElement(given, e, elementSum(held, row, j, context), give, context);
        }, context);
        barrier();
        t -= 1;
      }
    },
    { ...elementConstants(p, true), ...backwardOffsets(p), ...BACKWARD_ELEMENTS, ...RESIDENT, work, ofState },
  );
  return launchOf(p, kernel, work);
}

const launchOf = (p: RecurrentProblem, kernel: GridKernel['kernel'], work: ResidentWork): GridKernel => {
  const { rowsEach, sharedBytes, threads } = work;
  return { kernel, grid: [Math.ceil(p.rows / rowsEach), 1, 1], threads, sharedBytes };
};
