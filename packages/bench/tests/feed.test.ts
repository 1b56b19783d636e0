/** `heddle bench data` and `feed`, and torch_loader.py, on tiny budgets. No figure is judged. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MAIN } from 'heddle/internal/cli/main-path.js';
import { readFeedPeers } from '../src/feed.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-feed-'));
after(() => rmSync(folder, { recursive: true }));

function bench(args: readonly string[], nodeOptions: readonly string[] = []) {
  return new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
    const child = execFile(
      process.execPath,
      [...nodeOptions, MAIN, 'bench', ...args],
      { cwd: folder },
      (_, out, err) => resolve({ code: child.exitCode, out, err }),
    );
  });
}

const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8'));

test('bench data compares the loader with sharp', async () => {
  const args = ['data', '--images', '12', '--size', '16', '--rounds', '2', '--json', 'data.json'];
  const { code, out, err } = await bench(args);
  assert.equal(code, 0, err);
  assert.match(out, /^12 JPEGs of 16 × 16, \d+ at a time, 0 workers\nsharp alone /);
  const { benchmark, sharp, loader, floats, ratio, floatRatio } = read('data.json');
  assert.equal(benchmark, 'data');
  for (const { median, samples } of [sharp, loader, floats, ratio, floatRatio]) {
    assert.ok(median > 0);
    assert.equal(samples, 2);
  }
});

test('bench data says which packages it needs', async () => {
  // As where heddle-data is not installed.
  const hooks = `export async function resolve(name, context, next) {
    if (name !== 'heddle-data') return next(name, context);
    throw Object.assign(new Error("Cannot find package 'heddle-data'"), { code: 'ERR_MODULE_NOT_FOUND' });
  }`;
  const script = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;
  const main = `import { register } from 'node:module'; register(${JSON.stringify(script(hooks))});`;
  const { code, err } = await bench(['data'], ['--disable-warning=DEP0205', '--import', script(main)]);
  assert.deepEqual(
    [code, err],
    [2, 'heddle: heddle bench data needs two packages: npm install heddle-data sharp\n'],
  );
});

const PEER = {
  peer: 'torch',
  version: '2',
  case: 'lenet5-64',
  mode: 'graph',
  way: 'host',
  us: 200,
  busy: 0.5,
};

test('bench feed measures the three ways, beside a peer', async () => {
  const lines = [PEER, { ...PEER, mode: 'eager', us: 300, busy: 0.6 }].map((line) => JSON.stringify(line));
  writeFileSync(join(folder, 'torch.jsonl'), lines.join('\n'));
  const { code, out, err } = await bench([
    ...['feed', '--only', 'lenet5-64', '--steps', '2', '--rounds', '1', '--workers', '1'],
    ...['--device', 'cpu', '--peer', 'torch.jsonl', '--json', 'feed.json'],
  ]);
  assert.equal(code, 0, err);
  assert.match(out, /training +batches +µs a step +busy +torch 2 +busy\n/);
  assert.match(out, /lenet5-64 +from the host .* 200\.0 \(graph\) +50\.00? ?%/);
  assert.match(out, /lenet5-64 +by 1 workers /);
  const { measurements } = read('feed.json');
  assert.deepEqual(
    measurements.map((m: Record<string, unknown>) => [m.way, m.workers, (m.us as number) > 0, m.peer]),
    [
      ['resident', 0, true, undefined],
      ['host', 0, true, { peer: 'torch', version: '2', mode: 'graph', us: 200, busy: 0.5 }],
      ['workers', 1, true, undefined],
    ],
  );
  const refused = await bench(['feed', '--only', 'alexnet', '--device', 'cpu']);
  assert.match(refused.err, /no case is called 'alexnet'\. Expected one of: lenet5-64, /);
  writeFileSync(join(folder, 'torch.jsonl'), '{"peer":"torch"}');
  await assert.rejects(readFeedPeers(join(folder, 'torch.jsonl')), /line 1 is not a figure/);
});

const hasTorch = spawnSync('python3', ['-c', 'import torch']).status === 0;

test('torch_loader.py prints what bench feed reads', { skip: !hasTorch && 'there is no torch' }, async () => {
  const script = fileURLToPath(new URL('../../torch_loader.py', import.meta.url));
  const env = { ...process.env, OMP_NUM_THREADS: '1' };
  const options = [
    '--only',
    'lenet5-64',
    '--steps',
    '1',
    '--rounds',
    '1',
    '--workers',
    '1',
    '--device',
    'cpu',
  ];
  const { stdout, stderr } = spawnSync('python3', [script, ...options], { encoding: 'utf8', env });
  writeFileSync(join(folder, 'loader.jsonl'), stdout);
  const peers = await readFeedPeers(join(folder, 'loader.jsonl'));
  assert.deepEqual([...peers.keys()], ['lenet5-64 resident', 'lenet5-64 host', 'lenet5-64 workers'], stderr);
});
