/** Profiles name the calls that their launches come from: the user's lines, and gradients by what they are of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordOrigins } from '../../src/graph/origin.js';
import { jit, nn, optim, rand, type Tensor, tensor, useDevice } from '../../src/index.js';

useDevice('cpu');

const origins = async (record: boolean): Promise<string[]> => {
  const layer = new nn.Linear(4, 3);
  const optimizer = new optim.SGD(layer.parameters(), { lr: 0.1 });
  const step = jit((x: Tensor) => {
    const y = layer.forward(x).relu();
    const loss = y.mul(y).sum();
    loss.backward();
    optimizer.step();
    return loss;
  });
  recordOrigins(record);
  const { launches } = await step.profile([rand([2, 4])], { rounds: 1, roundUs: 10 }).finally(() => {
    recordOrigins(false);
    step.dispose();
  });
  return launches.flatMap((l) => l.origins);
};

test('launches come from lines of the user, layers and gradients of both', async () => {
  const found = await origins(true);
  const here = String.raw`tests[\\/]graph[\\/]origin\.test\.ts`;
  for (const pattern of [
    `^nn/linear\\.ts:\\d+ ← .*${here}:\\d+$`,
    `^∂ nn/linear\\.ts:\\d+ ← .*${here}:\\d+$`,
    `^(?!nn).*${here}:\\d+$`,
  ])
    assert.ok(
      found.some((o) => new RegExp(pattern).test(o)),
      `${pattern} in:\n${found.join('\n')}`,
    );
});

test('without being asked nothing is recorded', async () => {
  assert.deepEqual(await origins(false), []);
  assert.equal(tensor([1]).add(1).node.origin, undefined);
});
