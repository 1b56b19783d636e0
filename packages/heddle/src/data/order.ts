/** Orders of examples: shuffled, and by class. */
import { anArrayLike, integerFrom, requireArgument } from '../core/arguments.js';
import type { PhiloxStream } from '../core/philox.js';

/** In place, every order as likely (Fisher and Yates). */
export function shuffle<A extends Uint32Array>(items: A, random: PhiloxStream): A {
  for (let last = items.length - 1; last > 0; last--) {
    const other = random.below(last + 1);
    const swapped = items[last]!;
    items[last] = items[other]!;
    items[other] = swapped;
  }
  return items;
}

/** The numbers 0 to `length` − 1. */
export function inOrder(length: number): Uint32Array {
  const order = new Uint32Array(length);
  // By index: the array's own `from` takes several times as long.
  for (let i = 0; i < length; i++) order[i] = i;
  return order;
}

/** The numbers 0 to `length` − 1 in a random order. */
export const shuffled = (length: number, random: PhiloxStream): Uint32Array =>
  shuffle(inOrder(length), random);

/** The places of each label that occurs, by label. @throws ArgumentError unless labels are integers from 0 */
export function groupsOf(op: string, labels: ArrayLike<number>): Uint32Array[] {
  requireArgument(op, 'labels', labels, anArrayLike);
  const groups = new Map<number, number[]>();
  for (let place = 0; place < labels.length; place++) {
    const label = labels[place]!;
    requireArgument(op, `label ${place}`, label, integerFrom(0));
    const group = groups.get(label);
    if (group) group.push(place);
    else groups.set(label, [place]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, places]) => Uint32Array.from(places));
}

/**
 * A class for each place, each class as often as `counts` says, so that among the first n there are n times its share,
 * less than one more or fewer, for every n (R. Tijdeman, The chairman assignment problem, 1980).
 */
export function classOrder(counts: readonly number[]): Uint32Array {
  const all = counts.reduce((sum, count) => sum + count, 0);
  // How far each class is behind its share, times `all`. One that is not behind by this much must wait.
  const behind = counts.map(() => 0);
  const least = all / Math.max(2 * counts.length - 2, 1);
  return new Uint32Array(all).map(() => {
    let next = 0;
    let soonest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < counts.length; i++) {
      behind[i]! += counts[i]!;
      if (behind[i]! < least) continue;
      // Until when it can wait: the next place at which it would be too far behind.
      const due = (all - least - behind[i]!) / counts[i]!;
      if (due >= soonest) continue;
      soonest = due;
      next = i;
    }
    behind[next]! -= all;
    return next;
  });
}
