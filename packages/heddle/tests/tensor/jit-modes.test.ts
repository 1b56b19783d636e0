/** Functions that depend on the mode of layers are traced once for each mode. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineStats, jit, manualSeed, nn, ones, type Tensor } from '../../src/index.js';

const values = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

test('a function follows train() and eval(), and keeps a program for each', async () => {
  manualSeed(1);
  const dropout = new nn.Dropout({ p: 0.5 });
  const step = jit((x: Tensor) => dropout.forward(x));
  const x = ones([64]);
  assert.ok((await values(step(x))).includes(0));
  dropout.eval();
  assert.deepEqual(await values(step(x)), new Array(64).fill(1));
  const { compiled } = engineStats();
  for (let i = 0; i < 3; i++) {
    dropout.train();
    assert.ok((await values(step(x))).includes(0));
    dropout.eval();
    assert.ok(!(await values(step(x))).includes(0));
  }
  assert.equal(engineStats().compiled, compiled);
});

test('a mode that the function sets itself is part of it', async () => {
  const dropout = new nn.Dropout({ p: 0.5 });
  const evaluate = jit((x: Tensor) => {
    dropout.eval();
    return dropout.forward(x);
  });
  await values(evaluate(ones([8])));
  const { compiled } = engineStats();
  dropout.train();
  assert.ok(!(await values(evaluate(ones([8])))).includes(0));
  assert.equal(engineStats().compiled, compiled);
});

test('statistics of batches are gathered in training only, by one function', async () => {
  const norm = new nn.BatchNorm1d(2);
  const forward = jit((x: Tensor) => norm.forward(x));
  await values(forward(ones([4, 2])));
  const before = await values(norm.runningMean!);
  norm.eval();
  await values(forward(ones([4, 2])));
  assert.deepEqual(await values(norm.runningMean!), before);
  norm.train();
  await values(forward(ones([4, 2])));
  assert.notDeepEqual(await values(norm.runningMean!), before);
});
