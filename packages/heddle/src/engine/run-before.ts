/** What a schedule runs once, before its own launches. */
import type { Device } from '../runtime/device.js';
import type { Schedule } from '../schedule/launch.js';
import { launchesOf, resultBytes } from './program.js';
import { BufferStorage } from './storage.js';

/**
 * The further leaves of a schedule, computed from its constants.
 * @param leaves the graph's own; memory of inputs is not looked at
 */
export function runBefore(
  { before }: Schedule,
  leaves: readonly BufferStorage[],
  device: Device,
): BufferStorage[] {
  if (!before) return [];
  const results = resultBytes(before).map((bytes) => new BufferStorage(bytes, 'engines', device));
  const arena =
    before.arenaBytes > 0 ? [new BufferStorage(before.arenaBytes, 'intermediate values', device)] : [];
  const program = device.compile(launchesOf(before, leaves.length));
  program.run([...leaves, ...results, ...arena].map(({ buffer }) => buffer));
  program.dispose();
  for (const storage of arena) storage.release();
  return before.roots.map((place) => results['result' in place ? place.result : -1]!);
}

/** Which leaves the launches of a schedule read, without what runs before. */
export function leavesRead({ launches, roots }: Schedule): Set<number> {
  const places = [...launches.flatMap(({ args }) => args), ...roots];
  return new Set(places.flatMap((place) => ('leaf' in place ? [place.leaf] : [])));
}
