/**
 * One seed, one result: LeNet-5 in processes of their own gives the same bits on a GPU; of the CPU, processes.test.ts. The first
 * chooses among the ways of a kernel, and leaves its choice in the cache for the others.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { cudaReason } from '../cases/case-runner.js';

const LIBRARY = new URL('../../src/index.js', import.meta.url).href;

/** 20 steps of Adam on random pictures; prints a digest of the bits of all losses and weights. */
const TRAINING = `
  import { createHash } from 'node:crypto';
  import * as h from ${JSON.stringify(LIBRARY)};
  import { PROGRAMS } from ${JSON.stringify(new URL('train/index.js', LIBRARY).href)};
  h.manualSeed(Number(process.env.SEED));
  h.setPrecision({ conv: process.env.PRECISION, matmul: process.env.PRECISION });
  const model = PROGRAMS.lenet5.build();
  const optimizer = new h.optim.Adam(model.parameters(), { lr: 1e-3 });
  const step = h.jit((x, y) => {
    const loss = h.crossEntropy(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const digest = createHash('sha256');
  const bits = async (t) => digest.update(new Uint8Array((await t.data()).buffer.slice(0)));
  for (let i = 0; i < 20; i++) {
    const x = h.randn([64, 1, 28, 28]);
    await bits(step(x, x.flatten(1).argmax(1).mod(10)));
  }
  for (const p of model.parameters()) await bits(p);
  console.log(digest.digest('hex'));
  process.exit(0);
`;

async function digest(env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', TRAINING], {
    env: { ...process.env, ...env },
  });
  return stdout.trim();
}

const cache = await mkdtemp(join(tmpdir(), 'heddle-determinism-'));
after(() => rm(cache, { recursive: true }));

const missing = cudaReason();
for (const { device, precision, reason } of [
  { device: 'cuda', precision: 'f32', reason: missing },
  { device: 'cuda', precision: 'tf32', reason: missing },
  { device: 'cuda', precision: 'bf16', reason: missing },
]) {
  test(`lenet5 on ${device} in ${precision}`, { skip: reason ? `not run: ${reason}` : false }, async () => {
    const env = { HEDDLE_DEVICE: device, HEDDLE_CACHE: cache, PRECISION: precision, SEED: '1' };
    const first = await digest(env);
    const [second, other] = await Promise.all([digest(env), digest({ ...env, SEED: '2' })]);
    assert.match(first, /^[0-9a-f]{64}$/);
    assert.equal(first, second);
    assert.notEqual(first, other);
  });
}
