/** Schedules as text: what they give, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArgumentError } from '../../src/core/errors.js';
import { schedules } from '../../src/optim/index.js';
import { parseSchedule } from '../../src/train/schedule-expression.js';

const { chain, constant, cosine, multiStep, oneCycle, warmup } = schedules;
const span = { steps: 60, stepsPerEpoch: 20 };

test('expressions give the schedules that they name', () => {
  const cases = [
    ['cosine', cosine()],
    [' chain(warmup(0.5 * 20), cosine({ final: 1 / 4 })) ', chain(warmup(10), cosine({ final: 0.25 }))],
    ["multiStep([1, 2], { unit: 'epoch', gamma: +0.5 })", multiStep([1, 2], { unit: 'epoch', gamma: 0.5 })],
    ['oneCycle({ threePhase: true })', oneCycle({ threePhase: true })],
    ['chain(constant(1 - 0.5, { length: 5 }), constant)', chain(constant(0.5, { length: 5 }), constant())],
  ] as const;
  for (const [text, expected] of cases)
    for (const step of [0, 4, 11, 25, 45, 59])
      assert.equal(parseSchedule(text).factor(step, span), expected.factor(step, span), text);
});

test('anything else is refused, and nothing of it is run', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['', /is not a schedule: it cannot be parsed/],
    ['cosine(', /it cannot be parsed/],
    ['cosine cosine', /'cosine' follows its end/],
    ['0.1', /it gives no schedule/],
    ['[cosine]', /it gives no schedule/],
    ['process.exit(1)', /process\.exit\(1\) cannot be in it/],
    ['(() => cosine)()', /cannot be in it/],
    ['cosine({ [1]: 2 })', /\[1\]: 2 is not a name with a value/],
    ['chain(...[cosine])', /\.\.\.\[cosine\] cannot be in it/],
    ["cosine({ final: '1' - 1 })", /'1' - 1 cannot be in it/],
    ['custom((t) => t)', /custom takes a function, which only a program can give/],
    ['toString', /unknown schedule 'toString'/],
    ['cosine({ finale: 1 })', /unknown option 'finale'/],
    ['step', /\[step\] size is undefined/],
  ];
  for (const [text, message] of cases)
    assert.throws(
      () => parseSchedule(text),
      (e) => e instanceof ArgumentError && message.test(e.message),
      text,
    );
});
