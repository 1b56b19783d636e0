/** What HEDDLE_DEBUG=2 shows: a line for each launch of every run, with the same results. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { inference, jit, nn, ones, type Tensor } from '../../src/index.js';

/** What `work` writes to stderr with HEDDLE_DEBUG=2: the lines of launches. */
async function launchesShown(t: TestContext, work: () => Promise<void>): Promise<number> {
  const write = t.mock.method(process.stderr, 'write', () => true);
  process.env.HEDDLE_DEBUG = '2';
  try {
    await work();
  } finally {
    delete process.env.HEDDLE_DEBUG;
    write.mock.restore();
  }
  const shown = write.mock.calls.map(({ arguments: [text] }) => String(text)).join('');
  return (shown.match(/^\[heddle\] +[\d.]+ µs {2}level \d+ {2}\w+/gm) ?? []).length;
}

test('of a jitted function', async (t) => {
  const step = jit((x: Tensor) => x.matmul(x).softmax(1).sum());
  const expected = await step(ones([8, 8])).item();
  step.dispose();
  const logged = jit((x: Tensor) => x.matmul(x).softmax(1).sum());
  const shown = await launchesShown(t, async () => {
    for (let run = 0; run < 3; run++) assert.equal(await logged(ones([8, 8])).item(), expected);
  });
  assert.ok(logged.launches! > 0 && shown >= 3 * logged.launches!, `${shown} lines`);
});

test('of an engine', async (t) => {
  const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
  const expected = await model.forward(ones([1, 4])).data();
  const shown = await launchesShown(t, async () => {
    const engine = await inference.compile(model, { shapes: [[4]] });
    for (let run = 0; run < 3; run++) {
      const values = await engine.runArrays([new Float32Array(4).fill(1)], 1);
      assert.deepEqual(values[0], expected);
    }
    engine.dispose();
  });
  assert.ok(shown >= 3 * 2, `${shown} lines`);
});
