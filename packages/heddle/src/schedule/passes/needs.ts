/** Which launches must run before which others, by the memory they touch. */

/** Bytes that a launch reads or writes. */
export interface Touch {
  /** Equal texts are the same memory. */
  readonly memory: string;
  readonly from: number;
  readonly to: number;
  readonly writes: boolean;
  /** What is read or written there: a node's value, or a piece of scratch memory. */
  readonly value?: object;
  /** What the value is a part of: parts of one whole do not meet. */
  readonly whole?: object | undefined;
  /** What the same launch reads there, and may be written over by it. */
  readonly over?: object | undefined;
}

/** A launch as far as its order goes. */
export interface Placed {
  readonly touches: readonly Touch[];
  readonly level: number;
  /** It exchanges values with other processes: it waits only for what it must, and no launch of the next level for it. */
  readonly isExchange?: boolean;
  /**
   * How many exchanges must have ended before. Where it awaits any, only launches that await as many wait for it because of its level:
   * levels do not say when exchanges end. Default: 0.
   */
  readonly awaits?: number;
}

/**
 * For each launch the earlier ones that it needs: they touch the same bytes, and one of both writes them. A launch that
 * could run earlier than on its level also needs the leading one of the level before, the one on which the longest
 * chain hangs. Left out are those that run before anyway, as they are needed by what it needs.
 * @param launches in an order in which they may run
 */
export function launchNeeds(launches: readonly Placed[]): number[][] {
  const clash = launches.map(
    ({ touches }) =>
      (other: number): boolean =>
        meet(touches, launches[other]!.touches),
  );
  const heights = heightsOf(inOrder(clash));
  const leading = new Map<number, number>();
  const awaited = (i: number): number => launches[i]!.awaits ?? 0;
  launches.forEach(({ level, isExchange }, i) => {
    if (!isExchange && heights[i]! > (heights[leading.get(level) ?? -1] ?? -1)) leading.set(level, i);
  });
  return inOrder(
    launches.map(
      ({ level, isExchange }, i) =>
        (other) =>
          clash[i]!(other) ||
          (!isExchange &&
            leading.get(level - 1) === other &&
            (awaited(other) === 0 || awaited(other) === awaited(i))),
    ),
  );
}

/** @param needs for each, whether it needs an earlier one */
function inOrder(needs: readonly ((other: number) => boolean)[]): number[][] {
  /** What runs before each, a bit for each. */
  const before: Uint32Array[] = [];
  return needs.map((of, at) => {
    const mine = new Uint32Array((at >> 5) + 1);
    const found: number[] = [];
    for (let other = at - 1; other >= 0; other--) {
      if ((mine[other >> 5]! >> (other & 31)) & 1 || !of(other)) continue;
      found.push(other);
      mine[other >> 5]! |= 1 << (other & 31);
      before[other]!.forEach((bits, i) => {
        mine[i]! |= bits;
      });
    }
    before.push(mine);
    return found.reverse();
  });
}

/** Whether a launch is over when another begins, by what each needs. */
export function runsBefore(needs: readonly (readonly number[])[]): (first: number, then: number) => boolean {
  const before = needs.map(() => new Set<number>());
  needs.forEach((mine, i) => {
    for (const need of mine) {
      before[i]!.add(need);
      for (const other of before[need]!) before[i]!.add(other);
    }
  });
  return (first, then) => before[then]!.has(first);
}

/** How many launches hang on each, one after the other. */
export function heightsOf(needs: readonly (readonly number[])[]): number[] {
  const heights = needs.map(() => 0);
  for (let i = needs.length - 1; i >= 0; i--)
    for (const need of needs[i]!) heights[need] = Math.max(heights[need]!, heights[i]! + 1);
  return heights;
}

export const meet = (some: readonly Touch[], others: readonly Touch[]): boolean =>
  some.some((a) =>
    others.some(
      (b) =>
        a.memory === b.memory && a.from < b.to && b.from < a.to && (a.writes || b.writes) && !areParts(a, b),
    ),
  );

/** Whether two values are different parts of one whole. */
export const areParts = (a: Pick<Touch, 'value' | 'whole'>, b: Pick<Touch, 'value' | 'whole'>): boolean =>
  a.whole !== undefined && a.whole === b.whole && a.value !== b.value;
