/**
 * Launches that differ in nothing but their memory and how many elements it has are one, on a GPU: an optimizer's updates
 * of all parameters. The kernel has one text for any number of them, and finds the arguments of its block in a list.
 */
import { kernelFingerprint } from '../../kernel/ir/fingerprint.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Place, PlacedLaunch } from '../launch.js';
import type { AnySize } from '../lower/lowering.js';

/** Bytes of an argument in a list. */
const ARGUMENT = 8;

interface Item {
  readonly launch: PlacedLaunch;
  readonly kernel: KernelIr;
  readonly anySize: AnySize;
  readonly blocks: number;
  readonly args: readonly Place[];
}

/** The same launches, with those of a level that have the same kernel as lists of arguments of one. */
export function joinLists(launches: readonly PlacedLaunch[], target: Target): PlacedLaunch[] {
  const joined: PlacedLaunch[] = [];
  const alike = new Map<string, Item[]>();
  const candidates = new Map<number, number>();
  for (const { level, anySize } of launches)
    if (anySize) candidates.set(level, (candidates.get(level) ?? 0) + 1);
  for (const launch of launches) {
    const item = (candidates.get(launch.level) ?? 0) > 1 ? itemOf(launch) : undefined;
    if (!item) {
      joined.push(launch);
      continue;
    }
    const key = `${launch.level} ${launch.awaits} ${kernelFingerprint(item.kernel)}`;
    alike.set(key, [...(alike.get(key) ?? []), item]);
  }
  for (const items of alike.values()) {
    const most = Math.floor(target.limits.parameterBytes / (ARGUMENT * (1 + items[0]!.args.length)));
    for (let from = 0; from < items.length; from += most) joined.push(listed(items.slice(from, from + most)));
  }
  return joined.sort((a, b) => a.level - b.level);
}

function itemOf(launch: PlacedLaunch): Item | undefined {
  const { work, args, anySize: known } = launch;
  const made = known?.lower();
  if (!known || !made || 'library' in work) return undefined;
  const { params, arrays } = work.kernel;
  const kernel = { name: 'elements', params: [...params, made.size], arrays, body: made.statement };
  const blocks = Math.ceil(known.elements / made.span);
  const from = args.map((place, i) => movedBy(made.starts.get(params[i]!) ?? 0, place));
  if (!from.every((place) => place !== undefined)) return undefined;
  return { launch, kernel, anySize: made, blocks, args: [...from, { value: known.elements }] };
}

/** Undefined for memory of which a program has the beginning only. */
function movedBy(bytes: number, place: Place): Place | undefined {
  if (bytes === 0) return place;
  return 'arena' in place ? { arena: place.arena + bytes } : undefined;
}

function listed(items: readonly Item[]): PlacedLaunch {
  const [{ launch, kernel, anySize }] = items as [Item];
  if (items.length === 1) return launch;
  let blocks = 0;
  const first = items.map((item): Place => {
    const value = blocks;
    blocks += item.blocks;
    return { value };
  });
  return {
    work: {
      kernel: { ...kernel, lists: items.length },
      grid: [blocks, 1, 1],
      block: [anySize.threads, 1, 1],
    },
    args: [...first, ...items.flatMap(({ args }) => args)],
    level: launch.level,
    awaits: launch.awaits,
    bytes: items.reduce((sum, item) => sum + item.launch.bytes, 0),
    origins: launch.origins && [...new Set(items.flatMap((item) => item.launch.origins ?? []))],
    touches: items.flatMap((item) => item.launch.touches),
  };
}
