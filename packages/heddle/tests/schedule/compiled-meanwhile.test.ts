/** What is compiled while variants are timed: the launches that do not depend on a choice, as the program will run them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kernelFingerprint } from '../../src/kernel/ir/fingerprint.js';
import { H200 } from '../../src/kernel/ir/target.js';
import type { StageWork } from '../../src/schedule/launch.js';
import type { TuneRequest } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';
import { lenet5Step } from './lenet5-step.js';

const textOf = (work: StageWork): string => {
  assert.ok('kernel' in work);
  return kernelFingerprint(work.kernel);
};

test('only what depends on a choice is left to compile after the choices', () => {
  const timed = new Set<string>();
  let meanwhile: readonly StageWork[] = [];
  const { launches } = schedule(lenet5Step(64), H200, {
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
