/** On two GPUs, an exchange runs beside the work that does not need it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noTwoGpus, outputs } from './device-tests.js';
import { LIMIT } from './processes.js';

/** Both take the device's time, and together less than one after the other. */
test('an exchange runs beside products that do not need it', {
  ...LIMIT,
  skip: noTwoGpus(),
}, async () => {
  for (const out of await outputs('cuda', 2, 'overlap')) {
    const text = /times (\{.*\})/.exec(out)?.[1];
    const { products, exchange, both } = JSON.parse(text!) as Record<string, number>;
    const hidden = (products! + exchange! - both!) / Math.min(products!, exchange!);
    process.stdout.write(`overlap: ${text}, ${(100 * hidden).toFixed(0)} % of the shorter one is hidden\n`);
    assert.ok(hidden > 0.5, text);
  }
});
