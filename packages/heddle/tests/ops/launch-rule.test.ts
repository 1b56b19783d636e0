/** Which tiles a launch rule tries, and in which order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16 } from '../../src/core/dtype.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { fastestTiles, type LaunchRule } from '../../src/ops/launch-rule.js';
import { warpgroupTiles } from '../../src/ops/matmul/warpgroup-tiles.js';

interface Tile {
  readonly cycles: number;
  readonly splits: number;
}

const rule: LaunchRule<readonly Tile[], Tile> = {
  candidates: (_target, tiles) => tiles,
  fits: () => true,
  cycles: (_target, _tiles, { cycles }) => cycles,
  parts: ({ splits }) => splits,
};

const orderOf = (...tiles: readonly (readonly [cycles: number, splits: number])[]): number[] =>
  fastestTiles(
    rule,
    H200,
    tiles.map(([cycles, splits]) => ({ cycles, splits })),
    tiles.length,
  ).map(({ cycles }) => cycles);

test('of tiles that the model does not tell apart, the one with the fewest parts comes first', () => {
  assert.deepEqual(
    orderOf([1000, 7], [1004, 3], [1009, 1], [1011, 1], [1100, 1]),
    [1009, 1000, 1004, 1011, 1100],
  );
  assert.deepEqual(orderOf([1009, 3], [1000, 3], [1100, 1]), [1000, 1009, 1100], 'of as few the fastest');
  assert.deepEqual(
    orderOf([1000, 7], [1009, 1], [1155, 1]),
    [1009, 1000],
    'what is hopeless is by the fastest',
  );
  assert.deepEqual(orderOf(), []);
});

test('a long product of bf16 with tiles for all multiprocessors has no parts', () => {
  // The gradient of the hidden states under the head of a language model.
  const sizes = { batches: 1, M: 8192, N: 768, K: 50304, dtype: bf16, turned: { a: false, b: false } };
  for (const { splits } of warpgroupTiles(sizes, H200)) assert.equal(splits, 1);
});
