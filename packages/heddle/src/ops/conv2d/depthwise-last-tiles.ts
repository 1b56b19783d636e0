/** The launch rules of depthwise convolutions with channels last: the patch and the channels of a thread. */
import { FITTED, hasRegisters, residentBlocks } from '../../kernel/ir/machine.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule, splitsOf } from '../launch-rule.js';
import {
  type LastDepthwise,
  type LastLayout,
  type LastPatch,
  type LastWeightPatch,
  lastLayout,
  tapsAtOnce,
} from './depthwise-last.js';
import { lanesFor, productsOf, sidesOf } from './depthwise-patch.js';
import { LEVEL, patchesOf } from './depthwise-tiles.js';

const { received, cached, instructions, unhidden, latency, wait, tail } = FITTED.depthwise;

/** Bytes of a line of memory. */
const LINE = 128;

/** Rows and columns of a patch. */
const DOWN = [1, 2, 4, 7, 8, 14];
const ACROSS = [1, 2, 3, 4, 7, 8];

/** Lines of values that are on their way while one is multiplied. */
const AHEAD = 2;

/** Instructions of a thread that are written out, about. With more, the compiler spills registers. */
const MOST_WRITTEN = 1900;

/** Channels that a thread may have: they are aligned in both sources and in the result. */
const lanesOf = (
  { groups, inputs, outputs, imageOffset, secondOffset }: LastDepthwise,
  isWeight: boolean,
) => {
  const isSingle = inputs === 1 && outputs === 1;
  const most = isSingle ? lanesFor(groups, imageOffset, isWeight ? secondOffset : 0) : 1;
  return ([1, 2, 4] as const).filter((n) => n <= most);
};

/** A patch, and how it is spread over blocks: the rules ask for that many times. */
interface Tile<P extends LastPatch> {
  readonly patch: P;
  readonly layout: LastLayout;
}

function* candidates(p: LastDepthwise, isWeight: boolean): Generator<Tile<LastPatch>> {
  for (const patch of patchesOf(p, DOWN, ACROSS)) {
    const sides = sidesOf(p, patch);
    for (const [lanes, warps] of combinations(lanesOf(p, isWeight), [4, 8])) {
      const whole = { ...patch, lanes, threads: warps * GPU.warp, ahead: AHEAD };
      yield { patch: whole, layout: lastLayout(p, whole, isWeight, sides) };
    }
  }
}

/** Patches alike in channels and columns: of these the fastest is timed, so that the others are of another kind. */
const kindOf = ({ patch: { lanes, columns } }: Tile<LastPatch>): string => `${lanes} ${columns}`;

/**
 * At most how many are timed. On an H200 (2026-11-29) the fastest of these takes 0.6 % longer than the fastest of four for 41 convolutions
 * and input gradients of MobileNetV2 and ConvNeXt, and 0.2 % for 21 weight gradients, by the sum of their times.
 */
const MOST = { result: 2, weight: 3 } as const;

/** Warps that a multiprocessor has at once, at least: fewer do not keep it busy. */
const LEAST_WARPS = 12;

/** What a launch does. */
interface PatchLaunch {
  readonly isWeight: boolean;
  /** How often each thread goes over a patch. */
  readonly times: number;
  readonly blocks: number;
}

/** Rows of the patch that a thread has in registers at once: those that it has begun and not ended. */
function rowsAtOnce({ patch, rows, pieces }: LastLayout, rounds: number): number {
  if (pieces * rounds > 1) return patch.rows;
  const alive = rows.lines.map(
    (_, v) => rows.starts.filter((from, r) => from <= v && v <= rows.ends[r]!).length,
  );
  return Math.max(...alive);
}

/** Registers of a thread. Lines of values that are on their way have the size of their dtype. */
function registersOf(p: LastDepthwise, layout: LastLayout, isWeight: boolean): number {
  const { patch, taps, columns, lanes } = layout;
  const rows = isWeight
    ? layout.ahead + Math.min(layout.rows.taps, patch.rows)
    : rowsAtOnce(layout, p.inputs);
  const values = columns.lines.length * (0.5 + (layout.ahead * p.dtype.bytes) / 4);
  return 16 + Math.ceil(lanes * (taps + rows * patch.columns + values));
}

const sharedOf = (layout: LastLayout, isWeight: boolean): number =>
  4 * layout.width * (isWeight ? layout.down * tapsAtOnce(layout) : layout.taps);

const needsOf = (p: LastDepthwise, layout: LastLayout, isWeight: boolean) => ({
  threads: layout.threads,
  bytes: sharedOf(layout, isWeight),
  registers: registersOf(p, layout, isWeight),
});

/** Reads and stores of a thread, each of all lanes; for the weight gradient it reads both sources. */
const movedBy = ({ rows, columns, patch }: LastLayout): number =>
  rows.lines.length * columns.lines.length + patch.rows * patch.columns;

const fitting =
  (isWeight: boolean) =>
  ({ limits }: Target, p: LastDepthwise, { patch, layout }: Tile<LastPatch>): boolean => {
    const isSmallest = patch.rows <= p.stride[0] && patch.columns <= p.stride[1] && patch.lanes === 1;
    const isShort = (productsOf(layout) + movedBy(layout)) * patch.lanes <= MOST_WRITTEN;
    return (
      isSmallest ||
      (isShort && hasRegisters(limits, LEAST_WARPS * GPU.warp, registersOf(p, layout, isWeight)))
    );
  };

/** Cycles of a multiprocessor. */
function cyclesOf(
  { limits, units }: Target,
  p: LastDepthwise,
  layout: LastLayout,
  { isWeight, times, blocks }: PatchLaunch,
): number {
  const { rows, columns, lanes, taps, threads } = layout;
  const { bytes } = p.dtype;
  const moved = movedBy(layout);
  const converted = bytes < 4 ? moved : 0;
  const issued = instructions * moved + lanes * (converted + productsOf(layout));
  // Weights that are read first, or sums of taps that are added up at last.
  const aside = 2 * lanes * taps;
  const warps = Math.ceil(threads / GPU.warp);
  // Lines of memory of an access, by all lanes of a warp.
  const lines = Math.max(1, (GPU.warp * lanes * bytes) / LINE);
  const source = (p.images * p.groups * p.inputs * p.size[0] * p.size[1] * bytes) / units;
  const result = (p.images * p.groups * p.outputs * p.outSize[0] * p.outSize[1] * bytes) / units;
  // The patches of a block are beside each other: others read what is around them as well.
  const beside = Math.min(layout.down, columns.patches);
  const strip = beside * columns.patchShift;
  const twice =
    (Math.max(rows.lines.length, rows.patchShift) / rows.patchShift) *
    (1 + Math.max(0, columns.lines.length - columns.patchShift) / strip);
  const perUnit = Math.ceil(blocks / units);
  const resident = residentBlocks(limits, needsOf(p, layout, isWeight));
  const waves = Math.ceil(perUnit / resident);
  // Few blocks are left at last, which do not keep the memory busy.
  const idle = waves > 1 ? (tail * resident * units) / blocks : 0;
  const parts = [
    (perUnit * warps * (times * issued + aside)) / 4,
    perUnit * warps * (times * lines * moved + aside),
    ((1 + idle) * (source + result)) / received,
    (source * twice + result) / cached,
    waves * (latency + (times * rows.lines.length * wait) / layout.ahead),
  ];
  const longest = Math.max(...parts);
  const others = parts.reduce((sum, n) => sum + n, 0) - longest;
  return longest + unhidden * others;
}

const blocksOf = ({ chunks, items, down }: LastLayout): number => chunks * Math.ceil(items / down);

const rule: LaunchRule<LastDepthwise, Tile<LastPatch>> = {
  candidates: (_target, p) => candidates(p, false),
  fits: fitting(false),
  cycles(target, p, { layout }) {
    const times = p.inputs * layout.pieces;
    return cyclesOf(target, p, layout, { isWeight: false, times, blocks: blocksOf(layout) });
  },
  key: kindOf,
};

/** Patches of a thread, the most promising first. */
export const lastPatches = (p: LastDepthwise, target: Target): LastPatch[] =>
  fastestTiles(rule, target, p, MOST.result).map(({ patch }) => patch);

const weightRule: LaunchRule<LastDepthwise, Tile<LastWeightPatch>> = {
  *candidates({ limits, units }, p) {
    for (const { patch, layout } of candidates(p, true)) {
      const resident = residentBlocks(limits, needsOf(p, layout, true));
      const rounds = Math.ceil(layout.items / layout.down);
      const least = Math.ceil((rounds * patch.rows * patch.columns) / LEVEL);
      for (const waves of [1, 2]) {
        const wanted = (waves * resident * units) / (layout.chunks * layout.pieces);
        yield { patch: { ...patch, parts: splitsOf(rounds, Math.max(wanted, least)) }, layout };
      }
    }
  },
  fits: fitting(true),
  cycles(target, p, { patch, layout }) {
    const times = Math.ceil(layout.items / layout.down / patch.parts);
    const blocks = patch.parts * layout.chunks * layout.pieces;
    const added = (4 * patch.parts * layout.channels * layout.allTaps) / cached / target.units;
    return added + cyclesOf(target, p, layout, { isWeight: true, times, blocks });
  },
  key: kindOf,
};

/** Ways to sum the weight gradient, the most promising first. */
export const lastWeightPatches = (p: LastDepthwise, target: Target): LastWeightPatch[] =>
  fastestTiles(weightRule, target, p, MOST.weight).map(({ patch }) => patch);
