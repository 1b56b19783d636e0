/** On a GPU gradients are exchanged while those of earlier layers are computed. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { averageGradients } from '../../src/distributed/index.js';
import { Trace } from '../../src/engine/trace.js';
import { crossEntropy, i32, nn, optim, randn, useDevice, zeros } from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { runsBefore } from '../../src/schedule/passes/needs.js';
import { schedule } from '../../src/schedule/schedule.js';
import { joinTwin } from './twins.js';

useDevice('cpu');
const twins = await joinTwin();
after(() => twins.leave());

const TARGET: Target = { ...H200, libraries: new Set(['collective.allReduce']) };

test('an exchange needs the gradients of its bucket only, and no gradient waits for it', () => {
  const layers = Array.from({ length: 4 }, () => new nn.Linear(512, 512));
  const model = new nn.Sequential(...layers.flatMap((layer) => [layer, new nn.ReLU()]));
  const parameters = model.parameters();
  const optimizer = new optim.SGD(parameters, { lr: 0.1 });
  const [x, y] = [randn([256, 512]), zeros([256], { dtype: i32 })];
  const trace = new Trace(() => {});
  trace.run(() => {
    crossEntropy(model.forward(x), y as never).backward();
    averageGradients(parameters, { bucketBytes: 2 ** 20 });
    optimizer.step();
  });
  const { launches } = schedule([...trace.assigned.values()], TARGET);
  const names = launches.map(({ work }) => ('library' in work ? work.library.name : work.kernel.name));
  const before = runsBefore(launches.map(({ needs }) => needs));
  const exchanges = names.flatMap((name, i) => (name === 'collective.allReduce' ? [i] : []));
  assert.equal(exchanges.length, 4, names.join('\n'));
  // One after the other, in the same order on all ranks.
  exchanges.slice(1).forEach((exchange, i) => {
    assert.ok(before(exchanges[i]!, exchange));
  });
  const gradients = launches.flatMap(({ work }, i) => ('library' in work ? [] : [i]));
  const [first] = exchanges as [number];
  const beside = gradients.filter((i) => !before(i, first) && !before(first, i));
  const after = gradients.filter((i) => before(first, i));
  // The products of three layers' gradients, for weights and inputs, run beside the first exchange.
  const products = beside.filter((i) => names[i]!.includes('matmul'));
  assert.ok(
    products.length >= 5,
    `beside: ${beside.map((i) => names[i]).join(', ')}; after: ${after.map((i) => names[i]).join(', ')}`,
  );
  assert.ok(
    after.every((i) => !names[i]!.includes('matmul')),
    after.map((i) => names[i]).join(', '),
  );
});
