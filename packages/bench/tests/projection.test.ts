/** The projection of scaling, against sums by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Links, project } from '../src/projection.js';

const LINKS: Links = { bandwidth: 100e9, latency: 5e-6, hostBandwidth: 40e9, hostLatency: 10e-6 };
const near = (a: number, b: number): void =>
  assert.ok(Math.abs(a - b) < 1e-9 * Math.abs(b), `${a}, not ${b}`);

test('a small network shows all of its exchange, which is latency', () => {
  const { exchange, shown, efficiency } = project({ compute: 100e-6, buckets: [1e5] }, LINKS, 8, 1);
  // 1.75 · 1 µs, and six steps of 5 µs.
  near(exchange, 31.75e-6);
  near(shown, 31.75e-6);
  near(efficiency, 100 / 131.75);
});

test('a large one shows its last bucket, as long as the backward pass is longer than the exchange', () => {
  const buckets = [...Array.from({ length: 19 }, () => 20e6), 1e6];
  const { exchange, shown } = project({ compute: 0.1, buckets }, LINKS, 8, 1);
  near(exchange, (1.75 * 381e6) / 100e9 + 120 * 5e-6);
  near(shown, (1.75 * 1e6) / 100e9 + 6 * 5e-6);
});

test('hosts exchange an eighth for each of their GPUs; what takes longer than the backward pass is shown', () => {
  const bytes = 100e6;
  const buckets = [40e6, 30e6, 20e6, 10e6];
  const { exchange, shown } = project({ compute: 1e-3, buckets }, LINKS, 8, 64);
  near(exchange, (1.75 * bytes) / 100e9 + 24 * 5e-6 + ((126 / 64) * bytes) / 8 / 40e9 + 48 * 10e-6);
  near(shown, exchange - 2e-3 / 3);
});

test('one GPU alone exchanges nothing', () => {
  near(project({ compute: 1, buckets: [1e9] }, LINKS, 1, 1).efficiency, 1);
});
