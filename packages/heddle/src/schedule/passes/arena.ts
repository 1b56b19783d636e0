/** One arena for all that lives inside a program: as small as can be, unless launches would wait for each other's memory. */
import { isExchange } from '#schedule/exchanges.js';
import type { Target } from '../../kernel/ir/target.js';
import type { PlacedLaunch } from '../launch.js';
import { ARENA, type Arena, type Lifetime, planArena } from './memory.js';
import { launchNeeds, runsBefore } from './needs.js';

/**
 * The smallest arena, in which results are written over what they are made of only if that makes it smaller; but on a GPU, as long
 * as its cache holds everything, one whose memory is taken over only by launches that follow those who used it anyway: small launches
 * side by side do not wait for each other's memory.
 */
export function arenaFor(
  lifetimes: readonly Lifetime[],
  launchesIn: (arena: Arena) => readonly PlacedLaunch[],
  { model, limits }: Target,
): Arena {
  const own = lifetimes.map(({ over: _, ...lifetime }) => lifetime);
  const [shared, plain] = [planArena(lifetimes), planArena(own)];
  const smallest = shared.bytes < plain.bytes ? shared : plain;
  if (model !== 'threads' || smallest.bytes > limits.cacheBytes) return smallest;
  const apart = planArena(own, () => false);
  const launches = launchesIn(apart);
  const isBefore = runsBefore(
    launchNeeds(launches.map(({ work, ...launch }) => ({ ...launch, isExchange: isExchange(work) }))),
  );
  const usersAt = new Map<number, number[]>();
  launches.forEach(({ touches }, i) => {
    for (const { memory, from } of touches)
      if (memory === ARENA) usersAt.set(from, [...(usersAt.get(from) ?? []), i]);
  });
  const users = lifetimes.map((_, i) => usersAt.get(apart.offsets[i]!) ?? []);
  const follow = (i: number, j: number): boolean =>
    users[j]!.every((then) => users[i]!.every((first) => isBefore(first, then)));
  const roomy = planArena(own, (i, j) => follow(i, j) || follow(j, i));
  return roomy.bytes <= limits.cacheBytes ? roomy : smallest;
}
