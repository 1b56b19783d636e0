/** What the simulator tells of a run: accesses and barriers, in their order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatorError } from '../../src/core/errors.js';
import { buffer, defineKernel, f32 } from '../../src/kernel/language/index.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import type { SimulationEvent } from '../../src/runtime/sim/run.js';

const reverse = (text: string): ReturnType<typeof defineKernel> =>
  defineKernel('reverse', { x: buffer(f32) }, new Function(`return ${text}`)() as never);

const run = (text: string): { readonly told: string[]; readonly error: unknown } => {
  const told: string[] = [];
  const trace = ({ kind, memory, shared, element, block, thread, line }: SimulationEvent): void => {
    told.push(`${line}: ${block[0]}.${thread[0]} ${kind}${shared ? ' shared' : ''} ${memory}[${element}]`);
  };
  try {
    simulate(reverse(text), { grid: 2, block: 2 }, { x: Float32Array.of(1, 2) }, { trace });
    return { told, error: undefined };
  } catch (error) {
    return { told, error };
  }
};

const KERNEL = `({ x }, { threadIdx, blockIdx, shared, barrier, f32 }) => {
  const tile = shared(f32, 2);
  tile[threadIdx.x] = x[threadIdx.x];
  barrier();
  if (blockIdx.x === 0) x[threadIdx.x] = tile[1 - threadIdx.x];
}`;

test('accesses and barriers are told by line, block and thread, in their order', () => {
  // The second block reads what the first has written: that is a race.
  const { told, error } = run(KERNEL);
  assert.deepEqual(told.slice(0, 9), [
    '3: 0.0 read x[0]',
    '3: 0.0 write shared tile[0]',
    '3: 0.1 read x[1]',
    '3: 0.1 write shared tile[1]',
    '4: 0.0 barrier [0]',
    '5: 0.0 read shared tile[1]',
    '5: 0.0 write x[0]',
    '5: 0.1 read shared tile[0]',
    '5: 0.1 write x[1]',
  ]);
  assert.ok(error instanceof SimulatorError && error.kind === 'race', String(error));
  assert.equal(told.at(-1), '3: 1.0 read x[0]');
});

test('what led to a finding is told before it is thrown', () => {
  const { told, error } = run(KERNEL.replace('barrier();', ''));
  assert.ok(error instanceof SimulatorError);
  assert.equal(error.kind, 'uninitialized-read');
  assert.equal(told.at(-1), '5: 0.0 read shared tile[1]');
});
