/**
 * A line search for the strong Wolfe conditions: the loss has fallen enough, and its slope is flat enough. J. Nocedal,
 * S. Wright, Numerical optimization (2006), algorithms 3.5 and 3.6, with cubic interpolation as in M. Schmidt's minFunc,
 * which PyTorch follows.
 */

/** Numbers of all parameters, one after the other. */
export type FlatVector = Float64Array<ArrayBuffer>;

/** The loss and its gradient somewhere. */
export interface LossPoint {
  readonly loss: number;
  readonly gradient: FlatVector;
}

/** A point on the line. */
interface LinePoint extends LossPoint {
  readonly t: number;
  readonly slope: number;
}

/** The loss must fall by this fraction of what the slope promises. */
const ENOUGH = 1e-4;
/** The slope must be at most this fraction of the first one. */
const FLAT = 0.9;

/** Σ xᵢyᵢ */
export function dot(x: FlatVector, y: FlatVector): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i]! * y[i]!;
  return sum;
}

/** max |xᵢ| */
export const largest = (x: FlatVector): number => x.reduce((most, v) => Math.max(most, Math.abs(v)), 0);

/**
 * @param evaluate the loss at t along the direction
 * @param t the first guess
 * @param slope of the loss at 0
 */
export async function strongWolfe(
  evaluate: (t: number) => Promise<LossPoint>,
  t: number,
  direction: FlatVector,
  start: LossPoint,
  slope: number,
  limits: { readonly tolerance: number; readonly most: number },
): Promise<{ readonly point: LossPoint; readonly length: number; readonly evaluations: number }> {
  const place = async (t: number): Promise<LinePoint> => {
    const point = await evaluate(t);
    return { ...point, t, slope: dot(point.gradient, direction) };
  };
  const isHigh = (p: LinePoint): boolean => p.loss > start.loss + ENOUGH * p.t * slope;
  const isFlat = (p: LinePoint): boolean => Math.abs(p.slope) <= -FLAT * slope;
  const origin: LinePoint = { ...start, t: 0, slope };
  let [previous, now] = [origin, await place(t)];
  let turns = 0;
  const result = ({ t, loss, gradient }: LinePoint) => ({
    point: { loss, gradient },
    length: t,
    evaluations: turns + 1,
  });

  // Longer steps, until the minimum is between two of them.
  let bracket: [LinePoint, LinePoint] | undefined;
  while (turns < limits.most && !bracket) {
    if (isHigh(now) || (turns > 1 && now.loss >= previous.loss)) bracket = [previous, now];
    else if (isFlat(now)) return result(now);
    else if (now.slope >= 0) bracket = [previous, now];
    else {
      const next = cubicMinimum(previous, now, now.t + 0.01 * (now.t - previous.t), now.t * 10);
      previous = now;
      now = await place(next);
      turns++;
    }
  }
  bracket ??= [origin, now];

  // Shorter intervals, the lower end first.
  let [low, high] = bracket[0].loss <= bracket[1].loss ? bracket : [bracket[1], bracket[0]];
  let isStuck = false;
  const reach = largest(direction);
  while (turns < limits.most && Math.abs(high.t - low.t) * reach >= limits.tolerance) {
    const [left, right] = [Math.min(low.t, high.t), Math.max(low.t, high.t)];
    let next = cubicMinimum(low, high, left, right);
    // A guess next to an end twice in a row, or on it, is moved into the interval.
    const margin = 0.1 * (right - left);
    const isNearEnd = Math.min(right - next, next - left) < margin;
    if (isNearEnd && (isStuck || next >= right || next <= left)) {
      next = Math.abs(next - right) < Math.abs(next - left) ? right - margin : left + margin;
      isStuck = false;
    } else isStuck = isNearEnd;
    now = await place(next);
    turns++;
    if (isHigh(now) || now.loss >= low.loss) {
      [low, high] = low.loss <= now.loss ? [low, now] : [now, low];
      continue;
    }
    if (isFlat(now)) return result(now);
    if (now.slope * (high.t - low.t) >= 0) high = low;
    low = now;
  }
  return result(low);
}

/** Where the cubic through two points with their slopes is least, within bounds; their middle if it has no minimum. */
function cubicMinimum(p: LinePoint, q: LinePoint, least: number, most: number): number {
  const [a, b] = p.t <= q.t ? [p, q] : [q, p];
  const d = a.slope + b.slope - (3 * (a.loss - b.loss)) / (a.t - b.t);
  const square = d * d - a.slope * b.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const root = Math.sqrt(square);
  const t = b.t - (b.t - a.t) * ((b.slope + root - d) / (b.slope - a.slope + 2 * root));
  return Math.min(Math.max(t, least), most);
}
