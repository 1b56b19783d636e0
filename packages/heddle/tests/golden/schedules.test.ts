/** Schedules against PyTorch's: the factors of 50 steps, step by step. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LrSchedule, schedules } from '../../src/optim/index.js';
import { type GoldenSchedule, goldenSchedules } from './golden.js';

type Make = (...args: unknown[]) => LrSchedule;
type Part = readonly [op: string, args: readonly unknown[], options: object];

const named = (op: string): Make => schedules[op as keyof typeof schedules] as unknown as Make;

function make({ op, args, options, stepsPerEpoch }: GoldenSchedule): LrSchedule {
  const unit = stepsPerEpoch > 1 && op !== 'plateau' ? { unit: 'epoch' } : {};
  if (op === 'custom') return schedules.custom((t) => 1 / (1 + t));
  if (op !== 'chain') return named(op)(...args, { ...options, ...unit });
  const parts = (args as readonly Part[]).map(([name, given, its]) => named(name)(...given, its));
  return schedules.chain(...parts);
}

for (const c of goldenSchedules()) {
  test(`PyTorch's ${c.name}`, () => {
    const schedule = make(c);
    const { stepsPerEpoch, observed } = c;
    c.factors.forEach((expected, step) => {
      const epochs = Math.floor(step / stepsPerEpoch);
      const span = { steps: 50, stepsPerEpoch, ...(observed && { observed: observed.slice(0, epochs) }) };
      const got = schedule.factor(step, span);
      assert.ok(Math.abs(got - expected) <= 1e-13, `step ${step}: ${got}, PyTorch ${expected}`);
    });
  });
}
