/** `heddle bench scaling` measures what it says it does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runScalingBench, scalingReport } from '../src/scaling.js';

test('one process, and two with the same and with half as many examples each', async () => {
  const results = await runScalingBench({
    ...{ networks: ['mlp'], batch: 64, rounds: 2, device: 'cpu', peer: false },
  });
  const { figures } = results;
  assert.deepEqual(
    figures.map(({ kind, ranks, batch }) => [kind, ranks, batch]),
    [
      ['one', 1, 64],
      ['weak', 2, 64],
      ['strong', 2, 32],
    ],
  );
  assert.ok(figures.every(({ step }) => step.median > 0));
  for (const { efficiency, hidden, exchange } of figures.slice(1)) {
    assert.ok(efficiency! > 0 && exchange!.median > 0);
    assert.ok(hidden! >= 0 && hidden! <= 1);
  }
  assert.match(scalingReport(results), /heddle {2}mlp {16}2 ranks strong {5}32 each/);
});

test('a network that is not known, and a batch that ranks cannot divide, are refused', async () => {
  await assert.rejects(
    runScalingBench({ networks: ['vgg'] }),
    /no network is called 'vgg'.*mlp, lenet5, cnn, resnet18-tf32, resnet18-bf16, gpt2-bf16/,
  );
  await assert.rejects(runScalingBench({ ranks: [3], batch: 64 }), /64 is not divisible among 3 ranks/);
  await assert.rejects(runScalingBench({ kinds: ['fast'] }), /'fast' is no kind of scaling/);
});
