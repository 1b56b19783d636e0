/**
 * How a block of the convolution kernels for GPUs copies its weights to shared memory: those of some output channels and
 * some input channels, all taps. In memory they are (output, input, tap) of the forward direction: runs of (input, tap)
 * for one output or, for the adjoint, of (output, tap) for one input.
 *
 * For tensor cores they stay rows as they lie, copied in pieces of up to 4; for f32 the copy is (input, tap, output), so
 * that a thread reads 4 outputs at once. There a warp reads runs and keeps where its columns go: indices are sums.
 */
import { isHalf } from '../../core/dtype.js';
import type { Memory } from '../../kernel/language/language.js';
import { type Copying, commonVector, inPhase } from './cuda-image.js';
import type { Convolution } from './problem.js';

type Weighted = Convolution & { readonly weightOffset: number };

/** The weights in memory. */
interface Weights {
  readonly adjoint: boolean;
  /** They are 16-bit floats, and become f32 where they are copied to. */
  readonly widened: boolean;
  /** Where the weights begin, and how many channels there are (per group). */
  readonly at: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly taps: number;
}

const weightsOf = (p: Weighted): Weights => ({
  adjoint: p.adjoint,
  widened: isHalf(p.dtype),
  at: p.weightOffset,
  inputs: p.inputs,
  outputs: p.outputs,
  taps: p.kernel[0] * p.kernel[1],
});

/** Rows as they lie: where those of a chunk are, and in what pieces they are copied. */
export interface WeightRows extends Weights {
  /** Rows of the copy, elements of each, and from one to the next. */
  readonly rows: number;
  readonly length: number;
  readonly pitch: number;
  /** Elements of one copy, and copies of a row. */
  readonly vector: number;
  readonly copies: number;
  /** Threads that share a row, so many teams of them. */
  readonly lanes: number;
  readonly teams: number;
  readonly threads: number;
}

/**
 * The lanes of a warp read 8 outputs × 4 neighbouring terms: rows are 4 banks apart, modulo 8, so that no two meet, and
 * those of the adjoint 8, modulo 16, where the taps are an odd number.
 */
export function weightRows(p: Weighted, chunk: number, channels: number, threads: number): WeightRows {
  const taps = p.kernel[0] * p.kernel[1];
  const rows = p.adjoint ? chunk : channels;
  const length = (p.adjoint ? channels : chunk) * taps;
  const stride = (p.adjoint ? p.outputs : p.inputs) * taps;
  const vector = commonVector(p.weightOffset, length, stride);
  const copies = length / vector;
  const teams = teamsFor(rows, copies, threads);
  return { ...weightsOf(p), rows, length, threads, pitch: pitchOf(p, length), vector, copies, ...teams };
}

/** Teams of threads that take the fewest turns to copy rows of so many copies: as indices are sums, each turn is one instruction. */
function teamsFor(rows: number, copies: number, threads: number): { lanes: number; teams: number } {
  const ways = Array.from({ length: copies }, (_, i) => Math.ceil(copies / (i + 1)))
    .filter((lanes) => lanes <= threads)
    .map((lanes) => ({ lanes, teams: Math.min(rows, Math.floor(threads / lanes)) }));
  const turnsOf = ({ lanes, teams }: { lanes: number; teams: number }): number =>
    Math.ceil(copies / lanes) * Math.ceil(rows / teams);
  return ways.reduce((best, way) => (turnsOf(way) < turnsOf(best) ? way : best));
}

const pitchOf = ({ adjoint }: Weighted, length: number): number =>
  adjoint ? inPhase(length, 8, 16) : inPhase(length, 4, 8);

/** Floats of all rows: all that the search for a good tile asks for. */
export function weightFloats(p: Weighted, chunk: number, channels: number): number {
  const taps = p.kernel[0] * p.kernel[1];
  return p.adjoint ? chunk * pitchOf(p, channels * taps) : channels * pitchOf(p, chunk * taps);
}

/** Starts to copy the rows of output channels `output` … and input channels `input` … of group g. For use in kernels. */
export function copyWeightRows(
  w: Memory,
  to: Memory,
  at: number,
  g: number,
  output: number,
  input: number,
  copy: WeightRows,
  context: Copying,
): void {
  const { threadIdx, idiv, copyRun } = context;
  const { adjoint, inputs, outputs, taps, rows, length, pitch, vector } = copy;
  const { copies, lanes, teams, threads } = copy;
  const first = adjoint ? input : output;
  const all = adjoint ? inputs : outputs;
  const stride = (adjoint ? outputs : inputs) * taps;
  const begin = (adjoint ? output : input) * taps;
  const from = copy.at + (g * all + first) * stride + begin;
  const team = idiv(threadIdx.x, lanes);
  const member = threadIdx.x % lanes;
  for (let t = 0; t < Math.ceil(rows / teams); t++) {
    const row = team + t * teams;
    const isRow = (t + 1) * teams <= rows || row < rows;
    for (let q = 0; q < Math.ceil(copies / lanes); q++) {
      const k = (member + q * lanes) * vector;
      const there = first + row < all && begin + k < stride;
      const spot = at + row * pitch + k;
      const source = from + row * stride + k;
      if ((teams * lanes === threads || team < teams) && isRow && ((q + 1) * lanes <= copies || k < length))
        copyRun(to, spot, w, source, there, vector, copy.widened, context);
    }
  }
}

export interface WeightCopy extends Weights {
  /** Rows and columns of the copy, and warps. */
  readonly rows: number;
  readonly columns: number;
  readonly warps: number;
}

export function weightCopy(p: Weighted, chunk: number, channels: number, warps: number): WeightCopy {
  const taps = p.kernel[0] * p.kernel[1];
  return {
    ...weightsOf(p),
    warps,
    rows: p.adjoint ? chunk : channels,
    columns: (p.adjoint ? channels : chunk) * taps,
  };
}

/**
 * Starts to copy the weights of output channels `output` … and input channels `input` … of group g to `to`, zeros where
 * there are none. `place(o, c, tap)` says where. For use in kernels.
 */
export function copyWeights(
  w: Memory,
  to: Memory,
  g: number,
  output: number,
  input: number,
  place: (o: number, c: number, tap: number) => number,
  copy: WeightCopy,
  context: Copying,
): void {
  const { warpId, laneId, idiv, copyRun } = context;
  const { adjoint, inputs, outputs, taps, rows, columns, warps } = copy;
  let column = laneId;
  while (column < columns) {
    const other = idiv(column, taps);
    const tap = column % taps;
    for (let row = warpId; row < rows; row += warps) {
      const o = output + (adjoint ? other : row);
      const c = input + (adjoint ? row : other);
      const from = adjoint
        ? ((g * inputs + c) * outputs + o) * taps + taps - 1 - tap
        : ((g * outputs + o) * inputs + c) * taps + tap;
      const spot = place(adjoint ? other : row, adjoint ? row : other, tap);
      copyRun(to, spot, w, copy.at + from, o < outputs && c < inputs, 1, copy.widened, context);
    }
    column += 32;
  }
}
