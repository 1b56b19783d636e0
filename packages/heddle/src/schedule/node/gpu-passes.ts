/** The passes that only a GPU gains by, tuning among them, and what saves memory. A browser has none: see schedule/browser/gpu-passes.ts. */
export { arenaFor } from '../passes/arena.js';
export { besideLongLaunches } from '../passes/beside-long.js';
export { chainRows } from '../passes/chains.js';
export { joinSums } from '../passes/column-sums.js';
export { mergeLaunches } from '../passes/horizontal.js';
export { joinLists } from '../passes/lists.js';
export { claimOverwrites } from '../passes/overwrites.js';
export { placeParts } from '../passes/regions.js';
export { joinSpreads } from '../passes/spreads.js';
export { tuneCalls } from '../passes/variants.js';
