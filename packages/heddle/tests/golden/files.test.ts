/** The golden files are whole, and both sides of the training runs begin with the same parameters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digest, type GoldenArray, goldenCases, goldenParameters, goldenTraining } from './golden.js';

/** A mask of floats may be −∞. */
const complete = ({ shape, data }: GoldenArray, isMask = false): boolean =>
  data.length === shape.reduce((n, d) => n * d, 1) &&
  data.every((v) => Number.isFinite(v) || (isMask && v === Number.NEGATIVE_INFINITY));

for (const group of ['ops', 'losses', 'large', 'tensors', 'optimizers', 'sequences', 'images'] as const) {
  test(`golden ${group}: every array is complete and finite, every gradient belongs to an input`, () => {
    const cases = goldenCases(group);
    assert.equal(new Set(cases.map((c) => c.name)).size, cases.length);
    for (const { name, inputs, outputs } of cases) {
      for (const [key, array] of [...Object.entries(inputs), ...Object.entries(outputs)])
        assert.ok(complete(array, key === 'mask'), `${name}: ${key}`);
      for (const key of Object.keys(outputs).filter((k) => k.startsWith('grad.')))
        assert.deepEqual(outputs[key]!.shape, inputs[key.slice('grad.'.length)]!.shape, `${name}: ${key}`);
    }
  });
}

test('golden training: the generator gives the parameters that PyTorch started from', () => {
  for (const run of goldenTraining()) {
    for (const [name, { data }] of Object.entries(goldenParameters(run))) {
      const [mine, theirs] = [digest(data), run.initial[name]!];
      assert.deepEqual(mine.samples, theirs.samples, `${run.name} ${name}`);
      assert.ok(Math.abs(mine.sum - theirs.sum) < 1e-9 && Math.abs(mine.norm - theirs.norm) < 1e-9);
    }
    assert.equal(run.losses.length, 10);
  }
});
