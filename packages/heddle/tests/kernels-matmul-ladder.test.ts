/** Every rung of the ladder against the sum of products, in the simulator, which also looks for races and overruns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MATMUL_LADDER } from '../src/kernels/matmul-ladder.js';
import { simulate } from '../src/runtime/sim/launch.js';

const [M, N, K] = [128, 256, 32];
const random = (count: number, seed: number): Float32Array => {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state % 17) - 8;
  });
};
const a = random(M * K, 1);
const b = random(K * N, 2);
/** Small whole numbers: every order of the sums gives the same. */
const expected = Float32Array.from({ length: M * N }, (_, i) => {
  let sum = 0;
  for (let k = 0; k < K; k++) sum += a[Math.floor(i / N) * K + k]! * b[k * N + (i % N)]!;
  return sum;
});

for (const { name, kernel } of MATMUL_LADDER) {
  test(`matmul ladder: ${name}`, () => {
    const { kernel: ir, grid, threads } = kernel({ M, N, K });
    const c = new Float32Array(M * N);
    simulate(ir, { grid, block: threads }, { a, b, c });
    assert.deepEqual(c, expected);
  });
}
