/** Some seconds of the soak test; scripts/soak.mjs runs it for as long as is asked for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from './models.js';
import { soak } from './soak.js';

const folder = await temporaryFolder();

test('every request under load is answered once, with its own answer', {
  skip: process.platform !== 'linux' && 'reads /proc',
}, async () => {
  const { requests, errors, lost, memoryMiB } = await soak(folder, 3);
  assert.ok(requests > 100, `${requests} requests`);
  assert.deepEqual({ errors, lost }, { errors: 0, lost: 0 });
  // Heaps grow to their working size in the first seconds: a leak of one request's bytes would show in minutes alone.
  assert.ok(memoryMiB[1] < memoryMiB[0] + 200, memoryMiB.join(' → '));
});
