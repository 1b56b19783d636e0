/** Metrics against the examples of scikit-learn's documentation, in batches of two, on every device that there is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AnyTensor,
  evaluate,
  i32,
  Loader,
  type Metric,
  metrics,
  nn,
  type Shape,
  type Tensor,
  TensorDataset,
  tensor,
} from '../../src/index.js';

/** Gives its inputs back: the outputs are what the test says. */
class Same extends nn.Module {
  forward(x: Tensor): Tensor {
    return x;
  }
}

async function measured(
  outputs: AnyTensor,
  targets: AnyTensor,
  asked: Readonly<Record<string, Metric>>,
): Promise<Awaited<ReturnType<typeof evaluate>>> {
  const loader = new Loader(new TensorDataset(outputs as Tensor, targets as Tensor), { batchSize: 2 });
  return evaluate(new Same(), loader, { loss: (x: Tensor) => x.mean(), metrics: asked });
}

const rounded = (values: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(values).map(([name, v]) => [name, Number(v.toFixed(6))]));

/** Logits whose largest is that of the class. */
const logitsOf = (classes: readonly number[], count: number): Tensor =>
  tensor(classes.map((c) => Array.from({ length: count }, (_, i) => (i === c ? 2 : -i))));

const labels = (...values: number[]): Tensor<Shape, 'i32'> => tensor(values, { dtype: i32 });

test('precision, recall and F1 of several classes', async () => {
  const outputs = logitsOf([0, 2, 1, 0, 0, 1], 3);
  const asked: Record<string, Metric> = { accuracy: metrics.accuracy };
  for (const average of ['macro', 'micro'] as const)
    for (const name of ['precision', 'recall', 'f1'] as const)
      asked[`${name} ${average}`] = metrics[name]({ classes: 3, average });
  const { metrics: found } = await measured(outputs, labels(0, 1, 2, 0, 1, 2), asked);
  assert.deepEqual(rounded(found), {
    accuracy: 0.333333,
    'precision macro': 0.222222,
    'recall macro': 0.333333,
    'f1 macro': 0.266667,
    'precision micro': 0.333333,
    'recall micro': 0.333333,
    'f1 micro': 0.333333,
  });
});

test('of class 1, from one logit or two; a class that does not occur; nothing to divide by', async () => {
  const asked = { p: metrics.precision(), r: metrics.recall(), f: metrics.f1() };
  const predicted = [1, 1, 0, 0, 1];
  const targets = labels(1, 0, 1, 0, 1);
  const expected = { p: 0.666667, r: 0.666667, f: 0.666667 };
  const one = tensor(predicted.map((c) => [c - 0.5]));
  for (const outputs of [one, one.reshape([-1]), logitsOf(predicted, 2)])
    assert.deepEqual(rounded((await measured(outputs, targets, asked)).metrics), expected);
  const none = await measured(tensor([[-1], [-1]]), labels(0, 0), asked);
  assert.deepEqual(none.metrics, { p: 0, r: 0, f: 0 });
  const macro = metrics.f1({ classes: 4, average: 'macro' });
  const { metrics: found } = await measured(logitsOf([0, 1], 4), labels(0, 1), { macro });
  assert.equal(found.macro, 1);
  assert.throws(() => metrics.f1({ classes: 3, average: 'binary' }), /average is 'binary' with 3 classes/);
});

test('a confusion matrix is a table: rows are labels, columns predictions', async () => {
  const confusion = metrics.confusionMatrix(3);
  const { metrics: numbers, tables } = await measured(
    ...([logitsOf([0, 0, 2, 2, 0, 2], 3), labels(2, 0, 2, 2, 0, 1), { confusion }] as const),
  );
  assert.deepEqual(
    [numbers, tables],
    [
      {},
      {
        confusion: [
          [2, 0, 0],
          [0, 0, 1],
          [1, 0, 2],
        ],
      },
    ],
  );
  await assert.rejects(
    measured(logitsOf([0, 1], 2), labels(0, 1), { confusion }),
    /\[confusionMatrix\] takes logits \(N,3\)/,
  );
});

test('top-k; equal logits count from the first', async () => {
  const scores = tensor([
    [0.5, 0.2, 0.2],
    [0.3, 0.4, 0.2],
    [0.2, 0.4, 0.3],
    [0.7, 0.2, 0.1],
  ]);
  const asked = {
    top1: metrics.topK(1),
    top2: metrics.topK(2),
    top3: metrics.topK(3),
    accuracy: metrics.accuracy,
  };
  const { metrics: found } = await measured(scores, labels(0, 1, 2, 2), asked);
  assert.deepEqual(found, { top1: 0.5, top2: 0.75, top3: 1, accuracy: 0.5 });
  const ties = await measured(
    tensor([
      [1, 1, 1],
      [1, 1, 1],
      [1, 1, 1],
    ]),
    labels(0, 1, 2),
    asked,
  );
  assert.deepEqual(rounded(ties.metrics), { top1: 0.333333, top2: 0.666667, top3: 1, accuracy: 0.333333 });
});

test('errors of regression over all elements, and perplexity without what is ignored', async () => {
  const { metrics: found } = await measured(
    ...([
      tensor([
        [0, 2],
        [-1, 2],
        [8, -5],
      ]),
      tensor([
        [0.5, 1],
        [-1, 1],
        [7, -6],
      ]),
    ] as const),
    { mae: metrics.mae, mse: metrics.mse },
  );
  assert.deepEqual(rounded(found), { mae: 0.75, mse: 0.708333 });
  await assert.rejects(
    measured(tensor([[1], [2]]), tensor([1, 2]), { mae: metrics.mae }),
    /\[mae\] shapes differ/,
  );
  const logits = tensor([
    [0, 1, 2],
    [3, 1, 0],
    [0, 0, 5],
  ]);
  const { metrics: perplexed } = await measured(logits, labels(2, 1, -100), {
    perplexity: metrics.perplexity(),
  });
  const nll = (row: readonly number[], label: number): number =>
    Math.log(row.reduce((sum, v) => sum + Math.exp(v), 0)) - row[label]!;
  const expected = Math.exp((nll([0, 1, 2], 2) + nll([3, 1, 0], 1)) / 2);
  assert.ok(Math.abs(perplexed.perplexity! - expected) < 1e-5 * expected);
});

test('a metric of sums gives as many as it says', async () => {
  const wrong: Metric = { size: 2, sums: (outputs) => outputs.sum(), result: () => 0 };
  await assert.rejects(
    measured(tensor([[1], [2]]), tensor([1, 2]), { wrong }),
    /metric 'wrong': sums gives Tensor.*must give a tensor of 2 elements/,
  );
  await assert.rejects(
    measured(tensor([[1], [2]]), tensor([1, 2]), { wrong: { size: 2 } as never }),
    /metrics is .*must be an object of metrics/,
  );
});
