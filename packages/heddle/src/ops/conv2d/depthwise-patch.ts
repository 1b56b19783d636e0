/**
 * How a thread of a depthwise convolution sees a plane: a patch of results, the lines of the source under it, which of
 * them meets which result by which tap, and how a line is read. All of it is known when the kernel is compiled.
 *
 * A kernel of many taps is taken piece by piece: a loop over pieces of at most MOST_TAPS × MOST_TAPS taps, each of which
 * is unrolled and finds its lines by the same tables, a little further down or to the right.
 */
import type { Intrinsics, Memory } from '../../kernel/language/language.js';
import type { Lanes, loadLanes } from '../lanes.js';
import type { Convolution } from './problem.js';

/** What a thread computes: neighbouring rows and columns of one plane. */
export interface Patch {
  readonly rows: number;
  readonly columns: number;
}

/** Taps along a side of a piece. */
const MOST_TAPS = 8;

/** A row or column of the source, from the first that the patch's first result is at. */
export interface SourceLine {
  readonly at: number;
  /** Whether there are patches for which it is before the image, or beyond it. */
  readonly before: boolean;
  readonly beyond: boolean;
  /** For each result along the side, the tap of the piece by which it meets this line; −1: none. */
  readonly taps: readonly number[];
}

/** One side of the patch, along `axis`: rows (0) or columns (1). */
function sideOf(p: Convolution, axis: 0 | 1, results: number) {
  const kernel = p.kernel[axis];
  const stride = p.stride[axis];
  const dilation = p.dilation[axis];
  const padding = p.padding[axis];
  const step = p.adjoint ? stride : 1;
  const taps = kernel < MOST_TAPS ? kernel : step * Math.ceil(MOST_TAPS / step);
  const pieces = Math.ceil(kernel / taps);
  /** From one piece to the next, and from one patch to the next. */
  const pieceShift = pieces === 1 ? 0 : p.adjoint ? -(taps * dilation) / stride : taps * dilation;
  const patchShift = p.adjoint ? results / stride : results * stride;
  /** Where a result meets a tap; undefined: between two pixels of the gradient. */
  const meets = (result: number, tap: number): number | undefined => {
    if (!p.adjoint) return result * stride + tap * dilation - padding;
    const at = result + padding - tap * dilation;
    return at % stride === 0 ? at / stride : undefined;
  };
  const tapsAt = new Map<number, number[]>();
  for (let result = 0; result < results; result++) {
    for (let tap = 0; tap < taps; tap++) {
      const at = meets(result, tap);
      if (at === undefined) continue;
      const line = tapsAt.get(at) ?? new Array<number>(results).fill(-1);
      line[result] = tap;
      tapsAt.set(at, line);
    }
  }
  const patches = Math.ceil(p.outSize[axis] / results);
  const reach = [0, (pieces - 1) * pieceShift];
  const first = Math.min(...reach);
  const last = (patches - 1) * patchShift + Math.max(...reach);
  const lines = [...tapsAt]
    .sort(([a], [b]) => a - b)
    .map(
      ([at, taps]): SourceLine => ({
        at,
        taps,
        before: at + first < 0,
        beyond: at + last >= p.size[axis],
      }),
    );
  /** Of each result, the first and the last line that it meets; one that meets none is complete with the first. */
  const met = (line: (isMet: (line: SourceLine) => boolean) => number): number[] =>
    Array.from({ length: results }, (_, result) =>
      Math.max(
        0,
        line((l) => l.taps[result]! >= 0),
      ),
    );
  const starts = met((isMet) => lines.findIndex(isMet));
  const ends = met((isMet) => lines.findLastIndex(isMet));
  const whole = pieces * taps === kernel;
  return { taps, pieces, whole, pieceShift, patchShift, patches, lines, starts, ends };
}

export type Side = ReturnType<typeof sideOf>;

/** Where a line of the source and a result meet, and by which tap of the piece. */
export interface Meeting {
  readonly line: number;
  readonly result: number;
  readonly tap: number;
}

/** All meetings along a side: line by line, in the order of results. */
export const meetingsOf = ({ lines }: Side): Meeting[] =>
  lines.flatMap(({ taps }, line) => taps.flatMap((tap, result) => (tap >= 0 ? [{ line, result, tap }] : [])));

/** All meetings along a side: result by result, in the order of lines. */
export const meetingsByResult = (side: Side): Meeting[] =>
  meetingsOf(side).sort((a, b) => a.result - b.result);

/** Neighbours of a line that are read at once. */
interface Read {
  readonly at: number;
  readonly lanes: Lanes;
  readonly before: boolean;
  readonly beyond: boolean;
  /** Where each of them is among the columns that are needed; −1: nowhere. */
  readonly places: readonly number[];
}

/** The most neighbours that can be read at once: all or none of them are in the image, and they are aligned in memory. */
export const lanesFor = (...multiples: readonly number[]): Lanes =>
  ([4, 2] as const).find((n) => multiples.every((m) => m % n === 0)) ?? 1;

/** How the needed columns of a line are read: aligned neighbours together, unless only one of them is needed. */
function readsOf({ lines, pieceShift, patchShift }: Side, width: number, offset: number): Read[] {
  const lanes = lanesFor(width, offset, patchShift, pieceShift);
  const groups = new Map<number, number[]>();
  lines.forEach(({ at }, i) => {
    const from = Math.floor(at / lanes) * lanes;
    groups.set(from, [...(groups.get(from) ?? []), i]);
  });
  return [...groups].flatMap(([from, needed]): Read[] => {
    const { before, beyond } = lines[needed[0]!]!;
    if (needed.length === 1) return [{ at: lines[needed[0]!]!.at, lanes: 1, before, beyond, places: needed }];
    const places = Array.from(
      { length: lanes },
      (_, l) => needed.find((i) => lines[i]!.at === from + l) ?? -1,
    );
    return [{ at: from, lanes, before, beyond, places }];
  });
}

/** The tables of a patch, in whatever order its pixels lie. Of an adjoint, its sides are multiples of the strides. */
export function sidesOf(p: Convolution, patch: Patch) {
  const rows = sideOf(p, 0, patch.rows);
  const columns = sideOf(p, 1, patch.columns);
  return {
    patch,
    rows,
    columns,
    /** Taps of a piece, and of the kernel. */
    taps: rows.taps * columns.taps,
    allTaps: p.kernel[0] * p.kernel[1],
    pieces: rows.pieces * columns.pieces,
    /** Patches of a plane. */
    perPlane: rows.patches * columns.patches,
  };
}

export type PatchSides = ReturnType<typeof sidesOf>;

/** Multiply-adds of a piece of the kernel, of a thread. */
export function productsOf({ rows, columns }: PatchSides): number {
  const met = (lines: Side['lines']): number =>
    lines.reduce((n, { taps }) => n + taps.filter((t) => t >= 0).length, 0);
  return met(rows.lines) * met(columns.lines);
}

/** Of a patch of a plane, which is `offset` away from aligned memory. */
export function patchOf(p: Convolution, patch: Patch, offset = 0) {
  const sides = sidesOf(p, patch);
  return {
    ...sides,
    reads: readsOf(sides.columns, p.size[1], p.imageOffset),
    /** Neighbours of the plane of results that are read or written at once. */
    lanes: lanesFor(patch.columns, p.outSize[1], offset),
  };
}

export type PatchLayout = ReturnType<typeof patchOf>;

/** What the device functions below find in the context. */
export interface PatchContext extends Intrinsics {
  readonly problem: Convolution;
  readonly layout: PatchLayout;
  readonly loadLanes: typeof loadLanes;
}

/**
 * Reads line `line` under the patch whose source begins at row `top` and column `left` of the plane from `x[from]` on into
 * `values`, one for each needed column; 0 around the image. For use in kernels.
 */
export function readLine(
  x: Memory,
  from: number,
  top: number,
  left: number,
  line: number,
  values: Memory,
  context: PatchContext,
): void {
  const { problem, layout, f32, lane, splat2, splat4, loadLanes } = context;
  const { rows, reads } = layout;
  const { size } = problem;
  const v = top + rows.lines[line]!.at;
  const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
  const start = from + v * size[1];
  for (let k = 0; k < reads.length; k++) {
    const u = left + reads[k]!.at;
    const there = inside && (!reads[k]!.before || u >= 0) && (!reads[k]!.beyond || u < size[1]);
    const { lanes } = reads[k]!;
    const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
    const read = there ? f32(loadLanes(x, start + u, lanes, context)) : none;
    for (let l = 0; l < lanes; l++)
      if (reads[k]!.places[l]! >= 0) values[reads[k]!.places[l]!] = lanes === 1 ? read : lane(read, l);
  }
}
