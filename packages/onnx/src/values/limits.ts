/**
 * How much a graph may ask for while it is recorded. A file is not to be trusted: an attribute of a few bytes could ask for more
 * positions than there is memory, or for more nodes than there is time.
 */
import { ShapeError } from 'heddle';

/** The most numbers of a list that follows from sizes and attributes: positions, weights, counts. */
const MOST_NUMBERS = 2 ** 21;
/** The most parts that one operator is written out in: taps of a kernel, steps of a sequence. */
const MOST_PARTS = 10_000;
/** The most dimensions of a tensor. */
const MOST_DIMENSIONS = 64;

/** A list made number by number. @throws ShapeError for too many */
export function listOf<T>(length: number, make: (_: undefined, i: number) => T): T[] {
  if (!(length <= MOST_NUMBERS))
    throw new ShapeError(
      `[onnx] a list of ${length} numbers is asked for, at most ${MOST_NUMBERS} are made.`,
    );
  return Array.from({ length: Math.max(0, length) }, make);
}

/** @param what they are, as in 'steps' @throws ShapeError for too many */
export function requireParts(count: number, what: string): void {
  if (!(count <= MOST_PARTS))
    throw new ShapeError(`[onnx] an operator of ${count} ${what}: at most ${MOST_PARTS} are written out.`);
}

/** @throws ShapeError for too many dimensions */
export function requireRank(rank: number): void {
  if (rank > MOST_DIMENSIONS)
    throw new ShapeError(`[onnx] a tensor of ${rank} dimensions, at most ${MOST_DIMENSIONS} are supported.`);
}
