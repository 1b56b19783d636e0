/** What holds of launches with their memory, checked under HEDDLE_CHECK=1 after the passes that make or change them. */
import { InternalError } from '../../core/errors.js';
import type { PlacedLaunch } from '../launch.js';
import { areParts, meet, type Touch } from './needs.js';

const nameOf = ({ work }: PlacedLaunch): string => ('kernel' in work ? work.kernel.name : work.library.name);

/** A piece of memory, and what was last written there. */
interface Held {
  readonly from: number;
  readonly to: number;
  readonly value: object;
  readonly whole?: object | undefined;
}

/**
 * @throws InternalError if launches of a level touch what one of them writes, if one lies outside of the arena, if one writes over
 * what it uses and may not, or if one reads what another value has been written over: memory of two that live at the same time
 * overlaps
 */
export function verifyLaunches(launches: readonly PlacedLaunch[], arenaBytes: number, after: string): void {
  const fail = (launch: PlacedLaunch, rule: string): never => {
    throw new InternalError(`after ${after}: ${nameOf(launch)} on level ${launch.level} ${rule}`);
  };
  const memories = new Map<string, Held[]>();
  const written = new Set<object>();
  launches.forEach((launch, at) => {
    const before = launches[at - 1];
    if (before && before.level > launch.level)
      fail(launch, `comes after ${nameOf(before)} of level ${before.level}`);
    for (const other of launches.slice(0, at))
      if (other.level === launch.level && meet(launch.touches, other.touches))
        fail(launch, `touches memory of ${nameOf(other)} beside it`);
    launch.touches.forEach((touch, i) => {
      if (launch.touches.slice(0, i).some((other) => clash(touch, other)))
        fail(launch, `writes ${touch.memory} from ${touch.from} to ${touch.to} over what it uses`);
    });
    for (const { memory, from, to, writes, value } of launch.touches) {
      if (memory === 'arena' && to > arenaBytes)
        fail(launch, `reaches ${to} of an arena of ${arenaBytes} bytes`);
      if (!value) continue;
      // Scratch memory is written and read by the stages of one call: the later ones find what the first has made.
      const reads = writes
        ? written.has(value) && !('op' in value)
        : memory === 'arena' || written.has(value);
      if (reads && !holds(memories.get(memory) ?? [], { from, to, value }))
        fail(launch, `reads ${memory} from ${from} to ${to}, which holds something else`);
    }
    for (const touch of launch.touches) if (touch.writes) write(memories, written, touch);
  });
}

/** Whether a launch must not use both: one is written over the other, which it is not made for. */
const clash = (a: Touch, b: Touch): boolean =>
  a.value !== b.value && meet([a], [b]) && !(isOver(a, b) || isOver(b, a));

/** Whether it is written exactly over the other, which the launch only reads, and may be. */
const isOver = (a: Touch, b: Touch): boolean =>
  a.writes && !b.writes && a.over === b.value && a.over !== undefined && a.from === b.from && a.to === b.to;

const holds = (held: readonly Held[], { from, to, value }: Held): boolean =>
  from === to || held.some((h) => h.value === value && h.from <= from && to <= h.to);

function write(
  memories: Map<string, Held[]>,
  written: Set<object>,
  { memory, from, to, value, whole }: Touch,
): void {
  if (!value) return;
  const others = (memories.get(memory) ?? []).filter(
    (h) => h.to <= from || to <= h.from || areParts(h, { value, whole }),
  );
  memories.set(memory, [...others, { from, to, value, whole }]);
  written.add(value);
}

/** @throws InternalError if a launch does not wait, by way of others, for one whose memory it touches */
export function verifyNeeds(
  launches: readonly PlacedLaunch[],
  needs: readonly (readonly number[])[],
  after: string,
): void {
  const before: Set<number>[] = [];
  launches.forEach((launch, at) => {
    before.push(new Set(needs[at]!.flatMap((need) => [need, ...(before[need] ?? [])])));
    launches.slice(0, at).forEach((other, i) => {
      if (!before[at]!.has(i) && meet(launch.touches, other.touches))
        throw new InternalError(`after ${after}: ${nameOf(launch)} does not wait for ${nameOf(other)}`);
    });
  });
}
