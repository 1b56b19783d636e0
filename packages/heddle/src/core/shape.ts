/** Shapes, strides and broadcasting (NumPy's rules). */
import { type Rule, requireArgument, shown } from './arguments.js';
import { ShapeError } from './errors.js';

/** Sizes of a tensor's dimensions, outermost first. `[]` is a scalar. */
export type Shape = readonly number[];

export const sizeOf = (shape: Shape): number => shape.reduce((n, d) => n * d, 1);

export const sameShape = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((d, i) => d === b[i]);

export const formatShape = (shape: Shape): string => `(${shape.join(',')})`;

/** Row-major strides, in elements. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i]!;
  }
  return strides;
}

/** The shape that `shapes` broadcast to. @throws ShapeError where two sizes differ and neither is 1. */
export function broadcastShapes(op: string, ...shapes: Shape[]): number[] {
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  const out = new Array<number>(rank).fill(1);
  for (const shape of shapes) {
    shape.forEach((d, i) => {
      const at = rank - shape.length + i;
      if (d === 1 || d === out[at]) return;
      if (out[at] !== 1) {
        throw new ShapeError(
          `[${op}] shapes do not broadcast: ${shapes.map(formatShape).join(' and ')}, ` +
            `${out[at]} ≠ ${d} in dimension ${at - rank}. Sizes must be equal, or one of them 1.`,
        );
      }
      out[at] = d;
    });
  }
  return out;
}

/** `axis` counted from the front, for a tensor of `rank` dimensions. @throws ShapeError out of range. */
export function normalizeAxis(op: string, axis: number, rank: number): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
    throw new ShapeError(
      `[${op}] axis ${shown(axis)} is out of range for ${rank} dimension${rank === 1 ? '' : 's'}: ` +
        `use ${-rank} to ${rank - 1}.`,
    );
  }
  return axis < 0 ? axis + rank : axis;
}

const isSize = (d: unknown): boolean => Number.isSafeInteger(d) && (d as number) >= 0;

export const aShape: Rule = {
  error: ShapeError,
  must: 'a list of integers ≥ 0, as in [2, 3]',
  holds: (v) => Array.isArray(v) && v.every(isSize),
};

/** @throws ShapeError unless it is a list of sizes */
export function requireShape(op: string, shape: unknown): asserts shape is Shape {
  requireArgument(op, 'shape', shape, aShape);
}
