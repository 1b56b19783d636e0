/** What is compiled while variants are timed: the launches that do not depend on a choice, as the program will run them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { i32 } from '../../src/core/dtype.js';
import { Trace } from '../../src/engine/trace.js';
import { crossEntropy, optim, useDevice, zeros } from '../../src/index.js';
import { kernelFingerprint } from '../../src/kernel/ir/fingerprint.js';
import { H200 } from '../../src/kernel/ir/target.js';
import type { StageWork } from '../../src/schedule/launch.js';
import type { TuneRequest } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';
import { LeNet5 } from '../../src/train/programs.js';

const textOf = (work: StageWork): string => {
  assert.ok('kernel' in work);
  return kernelFingerprint(work.kernel);
};

test('only what depends on a choice is left to compile after the choices', () => {
  useDevice('cpu');
  const model = new LeNet5();
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const [x, labels] = [zeros([64, 1, 28, 28]), zeros([64], { dtype: i32 })];
  const trace = new Trace(() => {});
  const loss = trace.run(() => {
    const value = crossEntropy(model.forward(x), labels);
    value.backward();
    optimizer.step();
    return value;
  });
  const timed = new Set<string>();
  let meanwhile: readonly StageWork[] = [];
  const { launches } = schedule([...trace.assigned.values(), loss.node], H200, {
    tune: (requests: readonly TuneRequest[], others) => {
      for (const { variants } of requests)
        for (const { work } of variants[0]!.make().stages) timed.add(textOf(work));
      meanwhile = others!();
      return requests.map(() => undefined);
    },
  });
  const begun = new Set([...timed, ...meanwhile.map(textOf)]);
  const late = launches.filter(({ work }) => !begun.has(textOf(work)));
  assert.deepEqual(late, []);
  const run = new Set(launches.map(({ work }) => textOf(work)));
  assert.deepEqual(
    meanwhile.filter((work) => !run.has(textOf(work))),
    [],
  );
  const merged = meanwhile.filter((work) => 'kernel' in work && work.kernel.name.includes('_and_'));
  assert.ok(timed.size > 0 && merged.length > 0);
});
