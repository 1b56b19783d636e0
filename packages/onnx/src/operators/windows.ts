/** Sliding windows of convolutions and pooling: strides, dilations, and the padding that a node asks for. */
import { ceilDiv } from 'heddle';
import { int, ints, text } from './attributes.js';
import type { Call } from './operator.js';

/** The attributes of all operators with windows. */
export const WINDOW = {
  auto_pad: text('NOTSET'),
  dilations: ints(undefined),
  kernel_shape: ints(undefined),
  pads: ints(undefined),
  strides: ints(undefined),
};

/** What the attributes of a node say. */
export type WindowAttributes = {
  readonly [K in keyof typeof WINDOW]: K extends 'auto_pad' ? string : readonly number[] | undefined;
};

/** Windows along the spatial dimensions. */
export interface Windows {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  /** Elements before the first and behind the last. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** How many windows. */
  readonly count: readonly number[];
}

/** @param sizes of the spatial dimensions @param ceil whether a last window may go beyond the padding */
export function windowsOf(
  call: Pick<Call, 'shapeError'>,
  attributes: WindowAttributes,
  sizes: readonly number[],
  kernel: readonly number[],
  ceil = false,
): Windows {
  const n = sizes.length;
  const strides = perDimension(call, 'strides', attributes.strides, n, 1);
  const dilations = perDimension(call, 'dilations', attributes.dilations, n, 1);
  if (kernel.length !== n) throw call.shapeError(`kernel_shape is (${kernel}), must have ${n} sizes.`);
  if ([...strides, ...dilations, ...kernel].some((v) => v < 1))
    throw call.shapeError('kernel, strides and dilations must be at least 1.');
  const extent = kernel.map((k, i) => (k - 1) * dilations[i]! + 1);
  const auto = attributes.auto_pad;
  if (auto === 'SAME_UPPER' || auto === 'SAME_LOWER') {
    const count = sizes.map((d, i) => ceilDiv(d, strides[i]!));
    const total = sizes.map((d, i) => Math.max(0, (count[i]! - 1) * strides[i]! + extent[i]! - d));
    const less = total.map((t) => Math.floor(t / 2));
    const more = total.map((t, i) => t - less[i]!);
    const [before, after] = auto === 'SAME_UPPER' ? [less, more] : [more, less];
    return { kernel, strides, dilations, before, after, count };
  }
  if (auto !== 'NOTSET' && auto !== 'VALID' && auto !== '')
    throw call.shapeError(`auto_pad '${auto}' is not known.`);
  const pads = perDimension(call, 'pads', auto === 'VALID' ? undefined : attributes.pads, 2 * n, 0);
  if (pads.some((p) => p < 0)) throw call.shapeError(`pads are (${pads}), must be at least 0.`);
  const [before, after] = [pads.slice(0, n), pads.slice(n)];
  const count = sizes.map((d, i) => {
    const room = d + before[i]! + after[i]! - extent[i]!;
    if (room < 0) throw call.shapeError(`a window of ${extent[i]} does not fit ${d} elements with padding.`);
    const whole = Math.floor(room / strides[i]!) + 1;
    if (!ceil) return whole;
    const most = ceilDiv(room, strides[i]!) + 1;
    // The last window must begin within the input or the padding before it.
    return (most - 1) * strides[i]! >= d + before[i]! ? most - 1 : most;
  });
  return { kernel, strides, dilations, before, after, count };
}

/** A list of `n` numbers, or `n` times the same. */
function perDimension(
  call: Pick<Call, 'shapeError'>,
  name: string,
  given: readonly number[] | undefined,
  n: number,
  fallback: number,
): readonly number[] {
  if (given && given.length !== n) throw call.shapeError(`${name} are (${given}), must be ${n} numbers.`);
  return given ?? new Array<number>(n).fill(fallback);
}

export const GROUP = { group: int(1) };
