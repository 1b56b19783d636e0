/** Damaged models: an error of the library each, or a result. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { HeddleError } from 'heddle';
import { drawsFrom, mutated } from './mutations.js';
import { failureOf, nodeCases } from './node-cases.js';
import { property } from './property.js';

const CASES = nodeCases();

property(
  'a damaged model is an error of the library, or has a result',
  [fc.nat({ max: 2 ** 32 - 1 })],
  async (seed) => {
    const draw = drawsFrom(seed);
    const c = CASES[draw(CASES.length)]!;
    const model = mutated(c.model, CASES[draw(CASES.length)]!.model, draw);
    try {
      await failureOf({ ...c, model }, draw(2) ? 'device' : 'host');
    } catch (error) {
      assert.ok(error instanceof HeddleError, `${c.name}: ${(error as Error).stack}`);
    }
  },
  { runs: 1000 },
);
