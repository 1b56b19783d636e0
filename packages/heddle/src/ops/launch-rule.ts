/**
 * Launch rules: into which tiles a kernel cuts its work on a GPU. A rule has three parts: the tiles worth considering,
 * which of them the machine has room for, and how long each takes by the model of kernel/ir/machine.ts. The model ranks;
 * the autotuner times the first few.
 */
import type { Target } from '../kernel/ir/target.js';

export interface LaunchRule<Problem, Tile> {
  /** Tiles that make sense for the problem; `target` says how many blocks it wants and how large they may be. */
  readonly candidates: (target: Target, problem: Problem) => Iterable<Tile>;
  /** Whether the machine has room for a block: its shared memory, registers and threads. */
  readonly fits: (target: Target, problem: Problem, tile: Tile) => boolean;
  /** Estimated cycles from the start of the launch to its end. */
  readonly cycles: (target: Target, problem: Problem, tile: Tile) => number;
  /** Of tiles with the same key only the fastest is worth timing. Default: all are. */
  readonly key?: (tile: Tile) => string;
  /** How many parts of the result the kernel stores, which take memory until they are added up. Default: as many for all tiles. */
  readonly parts?: (tile: Tile) => number;
}

/**
 * A tile that takes this much longer than the fastest by the model is not compiled: the model is off by less where it
 * was fitted, and a compiler needs up to a second for each.
 */
const HOPELESS = 1.15;

/** Tiles whose cycles differ by less are equals to the model. */
const EQUAL = 1.01;

/**
 * The `count` tiles that take the fewest cycles, the fastest first, but before them that of its equals whose results come in the
 * fewest parts; of equals in this too, the one considered first.
 * @param hopeless tiles that take more than so many times as long as the fastest are left out
 */
export function fastestTiles<Problem, Tile>(
  rule: LaunchRule<Problem, Tile>,
  target: Target,
  problem: Problem,
  count: number,
  hopeless = HOPELESS,
): Tile[] {
  const ranked: { readonly tile: Tile; readonly cycles: number }[] = [];
  for (const tile of rule.candidates(target, problem))
    if (rule.fits(target, problem, tile)) ranked.push({ tile, cycles: rule.cycles(target, problem, tile) });
  ranked.sort((a, b) => a.cycles - b.cycles);
  const least = ranked[0]?.cycles ?? 0;
  const partsOf = ({ tile }: (typeof ranked)[number]): number => rule.parts?.(tile) ?? 1;
  const [first] = ranked
    .filter(({ cycles }) => cycles <= EQUAL * least)
    .sort((a, b) => partsOf(a) - partsOf(b));
  if (first) ranked.unshift(...ranked.splice(ranked.indexOf(first), 1));
  const seen = new Set<string>();
  const tiles: Tile[] = [];
  for (const { tile, cycles } of ranked) {
    if (tiles.length === count || cycles > hopeless * least) break;
    const key = rule.key?.(tile);
    if (key !== undefined && seen.has(key)) continue;
    if (key !== undefined) seen.add(key);
    tiles.push(tile);
  }
  return tiles;
}

/** Cycles that the fastest tile takes by the model: Infinity if none fits. */
export const leastCycles = <Problem, Tile>(
  rule: LaunchRule<Problem, Tile>,
  target: Target,
  problem: Problem,
): number =>
  Math.min(...fastestTiles(rule, target, problem, 1).map((tile) => rule.cycles(target, problem, tile)));

/** The tiles, and where blocks share sums in all of them the best in which they do not: that is one launch less. */
export const withWhole = <Tile extends { readonly splits: number }>(
  tiles: readonly Tile[],
  whole: () => readonly Tile[],
): Tile[] => (tiles.every(({ splits }) => splits > 1) ? [...tiles, ...whole()] : [...tiles]);

type Elements<Lists extends readonly (readonly unknown[])[]> = {
  -readonly [I in keyof Lists]: Lists[I][number];
};

/** Every choice of one element from each list, the last list's changing fastest. */
export function* combinations<const Lists extends readonly (readonly unknown[])[]>(
  ...lists: Lists
): Generator<Elements<Lists>> {
  const [first, ...rest] = lists;
  if (first === undefined) {
    yield [] as unknown as Elements<Lists>;
    return;
  }
  for (const element of first)
    for (const others of combinations(...rest)) yield [element, ...others] as Elements<Lists>;
}

/** How many blocks share a sum over `pieces`, equally, if about `wanted` are wanted. */
export function splitsOf(pieces: number, wanted: number): number {
  const each = Math.ceil(pieces / Math.min(pieces, Math.max(1, Math.floor(wanted))));
  return Math.ceil(pieces / each);
}
