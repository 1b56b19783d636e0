/** NumPy-style indexing as movement ops. */
import { shown } from '../core/arguments.js';
import { bool, i32 } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis } from '../core/shape.js';
import * as b from '../graph/build.js';
import { GraphNode } from '../graph/node.js';
import { indexSelect } from '../ops/index-add/op.js';

/** A position, a slice `'start:stop:step'` (parts may be left out), `null` for a new dimension, or `'...'`. */
export type Index = number | string | null;

/** What NumPy's `x[entries]` gives. At most one entry may be a tensor of positions (i32, any shape). */
export function index(x: GraphNode, entries: readonly (Index | GraphNode)[]): GraphNode {
  const full = withEllipsis(entries, x.shape.length, x);
  const start: number[] = [];
  const step: number[] = [];
  const size: number[] = [];
  /** Per result dimension: kept, new, or dropped (a plain number). */
  const shape: number[] = [];
  let taken: { axis: number; at: number; positions: GraphNode } | undefined;
  let axis = 0;
  for (const entry of full) {
    if (entry === null) {
      shape.push(1);
      continue;
    }
    if (typeof entry !== 'number' && typeof entry !== 'string' && !(entry instanceof GraphNode))
      throw new ArgumentError(
        `[at] entry ${full.indexOf(entry)} is ${shown(entry)}, must be a position, a slice such as '1:3', null, '...' or an i32 tensor of positions.`,
      );
    const length = x.shape[axis]!;
    if (typeof entry === 'number') {
      const at = entry < 0 ? entry + length : entry;
      if (!Number.isInteger(entry) || at < 0 || at >= length) {
        throw new ShapeError(
          `[at] ${entry} is out of range for dimension ${axis} of ${formatShape(x.shape)}: use ${-length} to ${length - 1}.`,
        );
      }
      start.push(at);
      step.push(1);
      size.push(1);
    } else if (entry instanceof GraphNode) {
      if (taken) throw new ArgumentError('[at] takes one tensor of positions at a time: index in two steps.');
      if (entry.dtype !== i32)
        throw new ArgumentError(
          entry.dtype === bool
            ? '[at] a mask of bool does not pick elements: how many is not known here. Use mask.where(x, 0).'
            : `[at] positions must be i32, got ${entry.dtype.name}. Convert with .cast(i32).`,
        );
      taken = { axis, at: shape.length, positions: entry };
      shape.push(length);
      start.push(0);
      step.push(1);
      size.push(length);
    } else {
      const range = parseSlice(entry, length);
      shape.push(range.size);
      start.push(range.start);
      step.push(range.step);
      size.push(range.size);
    }
    axis++;
  }
  const cut = b.reshape(b.slice(x, start, size, step), shape);
  return taken ? take(cut, taken.positions, taken.at) : cut;
}

/** @throws DTypeError */
function requirePositions(op: string, index: GraphNode): void {
  if (index.dtype !== i32)
    throw new DTypeError(`[${op}] index must be i32, got ${index.dtype.name}. Convert with .cast(i32).`);
}

/** @internal */
export function takeFlat(x: GraphNode, positions: GraphNode): GraphNode {
  requirePositions('take', positions);
  return take(b.reshape(x, [x.size]), positions, 0);
}

/** @internal */
export function select(x: GraphNode, axis: number, positions: GraphNode): GraphNode {
  requirePositions('indexSelect', positions);
  if (positions.shape.length !== 1)
    throw new ShapeError(
      `[indexSelect] index is ${formatShape(positions.shape)}, must have one dimension. See gather, or x.at(index).`,
    );
  return take(x, positions, normalizeAxis('indexSelect', axis, x.shape.length));
}

/** Rows (or whatever `axis` holds) picked by position; negative positions count from the back. */
function take(x: GraphNode, positions: GraphNode, axis: number): GraphNode {
  const length = x.shape[axis]!;
  const wrapped = b.where(
    b.map('lt', positions, b.like(positions, 0)),
    b.add(positions, b.like(positions, length)),
    positions,
  );
  const picked = indexSelect(x, b.reshape(wrapped, [positions.size]), axis);
  return b.reshape(picked, [...x.shape.slice(0, axis), ...positions.shape, ...x.shape.slice(axis + 1)]);
}

function withEllipsis(
  entries: readonly (Index | GraphNode)[],
  rank: number,
  x: GraphNode,
): (Index | GraphNode)[] {
  const named = entries.filter((e) => e !== null && e !== '...').length;
  const dots = entries.filter((e) => e === '...').length;
  if (dots > 1) throw new ArgumentError("[at] takes '...' once.");
  if (named > rank)
    throw new ShapeError(`[at] ${named} indices for the ${rank} dimensions of ${formatShape(x.shape)}.`);
  const rest = new Array<Index>(rank - named).fill(':');
  const at = entries.indexOf('...');
  return at < 0 ? [...entries, ...rest] : [...entries.slice(0, at), ...rest, ...entries.slice(at + 1)];
}

/** NumPy's rules: bounds are clamped, a negative step walks backwards. */
export function parseSlice(text: string, length: number): { start: number; step: number; size: number } {
  const match = /^\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?$/.exec(text);
  if (!match)
    throw new ArgumentError(
      `[at] "${text}" is not a slice. Write 'start:stop:step', any part left out, as in '1:3' or '::-1'.`,
    );
  const [first, last, by] = [match[1], match[2], match[3]].map((t) =>
    t === undefined ? undefined : Number(t),
  );
  const step = by ?? 1;
  if (step === 0) throw new ArgumentError(`[at] "${text}": step must not be 0.`);
  const clamp = (v: number, low: number, high: number): number =>
    Math.min(Math.max(v < 0 ? v + length : v, low), high);
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1];
  const start = first === undefined ? (step > 0 ? low : high) : clamp(first, low, high);
  const stop = last === undefined ? (step > 0 ? high : low) : clamp(last, low, high);
  const size = Math.max(0, Math.ceil((stop - start) / step));
  return { start: size === 0 ? 0 : start, step, size };
}
