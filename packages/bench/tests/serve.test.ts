/** `heddle bench serve`: what its requests are, and a run on a tiny budget. No figure is judged. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { MAIN } from 'heddle/internal/cli/main-path.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-serve-bench-'));
after(() => rmSync(folder, { recursive: true }));

const bench = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
  promisify(execFile)(
    process.execPath,
    [MAIN, 'bench', 'serve', '--seconds', '1', '--rounds', '1', ...args],
    {
      cwd: folder,
    },
  );

const missing = ['wrk', 'h2load'].filter((tool) => spawnSync(tool, ['--version']).error !== undefined);

test('a service is loaded over both protocols, and every request is answered well', {
  skip: missing.length > 0 && `needs ${missing.join(' and ')}`,
}, async () => {
  const { stdout, stderr } = await bench('--only', 'lenet5', '--clients', '4', '--json', 'serve.json');
  assert.match(stdout, /lenet5, gRPC/);
  assert.match(stderr, /lenet5, REST, not batched, round 1 of 1/);
  const { benchmark, measurements, engines } = JSON.parse(readFileSync(join(folder, 'serve.json'), 'utf8'));
  assert.equal(benchmark, 'serve');
  assert.equal(engines.lenet5.length, 7);
  assert.deepEqual(
    measurements.map((own: { case: string }) => own.case),
    ['lenet5-rest', 'lenet5-grpc', 'lenet5-single', 'lenet5-rest32'],
  );
  for (const {
    errors,
    perSecond,
    p50,
    p99,
    frontMicroseconds,
    workerMicroseconds,
    loadMicroseconds,
  } of measurements) {
    assert.equal(errors, 0);
    assert.ok(perSecond > 0 && p99 >= p50 && p50 > 0);
    assert.ok(frontMicroseconds > 0 && workerMicroseconds > 0 && loadMicroseconds > 0);
  }
  assert.ok(measurements[0].batchingGain > 0);
});

test('an unknown case is named', async () => {
  await assert.rejects(bench('--only', 'lenat5'), /lenat5/);
});
