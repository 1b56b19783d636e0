/** The launch rules of depthwise convolutions on a GPU: how large the patch of a thread is. */
import { FITTED, hasRegisters, residentBlocks } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule, splitsOf } from '../launch-rule.js';
import { roundsOf, THREADS, type WeightPatch } from './cuda-depthwise.js';
import { type Patch, type PatchLayout, patchOf, productsOf } from './depthwise-patch.js';
import type { Convolution, ConvolveProblem, WeightGradientProblem } from './problem.js';

/** Multiply-adds of a thread that are written out. */
const MOST_PRODUCTS = 2000;
/** Products that an accumulator of the weight gradient takes. */
export const LEVEL = 4096;

const { received, instructions, unhidden, latency } = FITTED.depthwise;

/** Patches that do not reach far beyond the plane; those of an adjoint begin at multiples of the stride. */
export function* patchesOf(
  p: Convolution,
  down: readonly number[] = [1, 2, 4, 7, 8, 14, 16],
  across: readonly number[] = [1, 2, 4, 8],
): Generator<Patch> {
  const by = (axis: 0 | 1, n: number): number =>
    p.adjoint ? p.stride[axis] * Math.ceil(n / p.stride[axis]) : n;
  const seen = new Set<string>();
  for (const [height, width] of combinations(down, across)) {
    const rows = by(0, Math.min(height, p.outSize[0]));
    const columns = by(1, width > p.outSize[1] ? Math.min(p.outSize[1], 4) : width);
    const key = `${rows}x${columns}`;
    if (!seen.has(key)) yield { rows, columns };
    seen.add(key);
  }
}

/** Patches alike in width and size: of these the fastest is timed, so that the others are of another kind. */
const kindOf = ({ rows, columns }: Patch): string => `${columns} ${rows * columns > 32 ? 'large' : 'small'}`;

/** Of a thread that holds all sums of its patch, and of one that holds those of the taps and few rows of slopes at a time. */
const registersOf = ({ patch, taps, columns }: PatchLayout): number =>
  40 + patch.rows * patch.columns + taps + columns.lines.length;
const weightRegistersOf = ({ patch, taps, rows, columns }: PatchLayout): number =>
  24 + Math.min(patch.rows, rows.taps) * patch.columns + taps + columns.lines.length;

const fits = (target: Target, p: Convolution, patch: Patch): boolean => {
  const layout = patchOf(p, patch);
  const isSmallest = patch.rows <= p.stride[0] && patch.columns <= p.stride[1];
  const hasRoom = hasRegisters(target.limits, 4 * THREADS, registersOf(layout));
  return isSmallest || (productsOf(layout) <= MOST_PRODUCTS && hasRoom);
};

interface PatchWork {
  readonly threads: number;
  /** How often each goes over a piece of the kernel. */
  readonly times: number;
  readonly blocks: number;
  readonly registers: number;
}

/** Cycles of a multiprocessor. */
function cyclesOf(
  target: Target,
  p: Convolution,
  layout: PatchLayout,
  { threads, times, blocks, registers }: PatchWork,
): number {
  const { rows, columns, reads, patch, lanes } = layout;
  const { bytes } = p.dtype;
  const results = (patch.rows * patch.columns) / lanes;
  const read = rows.lines.length * reads.length;
  const converted = bytes < 4 ? rows.lines.length * columns.lines.length : 0;
  const issued = instructions * (read + results) + converted + productsOf(layout) + layout.taps;
  // A warp's reads lie as far apart as its patches do.
  const lines = Math.max(1, (32 * Math.abs(columns.patchShift) * bytes) / 128);
  const pixels = p.images * p.groups;
  const elements = p.inputs * p.size[0] * p.size[1] + p.outputs * p.outSize[0] * p.outSize[1];
  const each = (times * threads) / 32 / target.units;
  const parts = [
    (each * issued) / 4,
    each * (read * lines + results),
    (pixels * elements * bytes) / received / target.units,
  ];
  const longest = Math.max(...parts);
  const others = parts.reduce((sum, n) => sum + n, 0) - longest;
  const resident = residentBlocks(target.limits, { threads: THREADS, bytes: 0, registers });
  const waves = Math.ceil(blocks / (resident * target.units));
  return longest + unhidden * others + latency * waves;
}

const convolveRule: LaunchRule<ConvolveProblem, Patch> = {
  candidates: (_target, p) => patchesOf(p),
  fits,
  cycles(target, p, patch) {
    const layout = patchOf(p, patch);
    const threads = p.images * p.groups * p.outputs * layout.perPlane;
    const blocks = Math.ceil(threads / THREADS);
    const registers = registersOf(layout);
    return cyclesOf(target, p, layout, { threads, times: p.inputs * layout.pieces, blocks, registers });
  },
  key: kindOf,
};

/** Patches of a thread, the most promising first. */
export const depthwisePatches = (p: ConvolveProblem, target: Target, count = 3): Patch[] =>
  fastestTiles(convolveRule, target, p, count);

const weightRule: LaunchRule<WeightGradientProblem, WeightPatch> = {
  *candidates(target, p) {
    for (const patch of patchesOf(p)) {
      const layout = patchOf(p, patch);
      const rounds = roundsOf(p, patch);
      const registers = weightRegistersOf(layout);
      const resident = residentBlocks(target.limits, { threads: THREADS, bytes: 0, registers });
      const others = p.groups * p.outputs * layout.pieces;
      const least = (rounds * patch.rows * patch.columns) / LEVEL;
      for (const waves of [1, 2, 4]) {
        const wanted = (waves * resident * target.units) / others;
        yield { ...patch, parts: splitsOf(rounds, Math.max(wanted, Math.ceil(least))) };
      }
    }
  },
  fits,
  cycles(target, p, patch) {
    const layout = patchOf(p, patch, p.gradientOffset);
    const channels = p.groups * p.outputs * layout.pieces;
    const blocks = patch.parts * channels;
    const threads = THREADS * roundsOf(p, patch) * channels;
    const sums = (blocks * (THREADS / 32) * instructions * 2 * layout.taps) / 4 / target.units;
    const registers = weightRegistersOf(layout);
    return cyclesOf(target, p, layout, { threads, times: 1, blocks, registers }) + sums;
  },
  key: kindOf,
};

/** Ways to sum the weight gradient, the most promising first. */
export const depthwiseWeightPatches = (p: WeightGradientProblem, target: Target, count = 3): WeightPatch[] =>
  fastestTiles(weightRule, target, p, count);
