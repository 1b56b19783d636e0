/** `heddle bench inference` on a tiny budget. No figure is judged. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { MAIN } from 'heddle/internal/cli/main-path.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-inference-'));
after(() => rmSync(folder, { recursive: true }));

const bench = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
  promisify(execFile)(
    process.execPath,
    [MAIN, 'bench', 'inference', '--device', 'cpu', '--seconds', '0.02', '--rounds', '1', ...args],
    { cwd: folder },
  );

const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8'));

test('engines are timed, and how long their files take to load', async () => {
  const { stdout } = await bench('--only', 'lenet5-1', '--no-peers', '--json', 'alone.json');
  assert.match(stdout, /lenet5, 1×28×28, f32, batch 1/);
  const { benchmark, measurements } = read('alone.json');
  assert.equal(benchmark, 'inference');
  const [{ case: id, median, launches, load, peers }] = measurements;
  assert.equal(id, 'lenet5-1');
  assert.ok(median > 0 && launches > 0 && load.ms.samples === 5 && load.bytes > 0);
  assert.deepEqual(peers, []);
});

test('peers that do not run are named with the reason', async () => {
  const { stdout } = await bench('--only', 'lenet5-1', '--python', 'no-such-python', '--json', 'none.json');
  assert.match(stdout, /skipped: lenet5-1, onnxruntime all: .*no-such-python/);
  const [{ peers }] = read('none.json').measurements;
  assert.ok(peers.length === 1 && peers[0].ratio === undefined);
});
