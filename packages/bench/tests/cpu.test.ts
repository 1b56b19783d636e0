/** `heddle bench` from end to end, on tiny budgets. No figure is judged: how fast it is, is for bench/. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { spreadOf } from 'heddle/internal/cli/figures.js';
import { ArgumentError, FileError } from 'heddle/internal/core/errors.js';
import { runAccuracyBench } from '../src/accuracy.js';
import { runCpuBench } from '../src/cpu.js';
import { type CpuResults, readPeers } from '../src/results.js';

const folder = await mkdtemp(join(tmpdir(), 'heddle-bench-'));
after(() => rm(folder, { recursive: true }));

const here = dirname(fileURLToPath(import.meta.url));

import { MAIN } from 'heddle/internal/cli/main-path.js';

function repository(): string {
  let at = here;
  while (!existsSync(join(at, 'scripts/bench-table.mjs'))) at = dirname(at);
  return at;
}

/** Run a script. @param stopAt Ctrl-C once stderr says this */
function run(
  script: string,
  args: readonly string[],
  stopAt?: string,
): Promise<{ code: number | null; out: string; err: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], { cwd: folder });
    const said = { out: '', err: '' };
    child.stdout.on('data', (text) => {
      said.out += text;
    });
    let stopped = false;
    child.stderr.on('data', (text) => {
      said.err += text;
      if (stopped || !stopAt || !said.err.includes(stopAt)) return;
      stopped = child.kill('SIGINT');
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...said }));
  });
}

const PEER = {
  peer: 'Other',
  version: '1.0',
  case: 'mlp',
  threads: 1,
  median: 2,
  min: 1,
  p90: 3,
  samples: 10,
};
const TINY = ['--threads', '1', '--rounds', '1', '--seconds', '0.01'];

test('bench cpu writes figures that hang together, and README and tables take them over', async () => {
  const peers = join(folder, 'peers.jsonl');
  await writeFile(peers, `${JSON.stringify(PEER)}\n`);
  const { code, out, err } = await run(MAIN, [
    ...['bench', 'cpu', '--only', 'mlp,matmul-512-ab,startup', ...TINY],
    ...['--peer', peers],
  ]);
  assert.equal(code, 0, err);
  assert.match(out, /mlp, batch 64, SGD: a training step/);
  const [file] = await readdir(join(folder, 'bench/results'));
  assert.match(file!, /^cpu-\d{4}-\d\d-\d\d\.json$/);
  const results = JSON.parse(await readFile(join(folder, 'bench/results', file!), 'utf8')) as CpuResults;
  assert.ok(results.machine.cores >= 1 && results.machine.node === process.version);
  assert.match(results.command, /^npx heddle bench cpu --threads 1 --rounds 1 --seconds 0.01 --only mlp/);

  const of = (id: string): CpuResults['measurements'] => results.measurements.filter((m) => m.case === id);
  for (const m of results.measurements) {
    assert.ok(m.min > 0 && m.min <= m.median && m.median <= m.p90, `${m.case}: ${JSON.stringify(m)}`);
    assert.ok(
      m.samples >= 3 && m.threads === 1 && m.rounds.length === (m.case === 'startup' ? 3 : 1),
      m.case,
    );
  }
  const [mlp] = of('mlp');
  assert.ok(mlp!.launches! > 0);
  assert.deepEqual([mlp!.peer!.peer, mlp!.peer!.median], ['Other', 2]);
  assert.ok(Math.abs(mlp!.peer!.ratio - mlp!.median / 2) <= 1e-3 * mlp!.peer!.ratio);
  const products = of('matmul-512-ab');
  assert.ok(products.some((m) => !m.fma));
  for (const m of products) {
    const expected = (2 * 512 ** 3) / m.median / 1e6;
    assert.ok(Math.abs(m.rate!.value - expected) <= 1e-3 * expected);
  }
  assert.equal(of('startup').length, 1);

  await writeFile(join(folder, 'README.md'), 'a\n<!-- bench:summary -->\n<!-- /bench:summary -->\nb\n');
  await mkdir(join(folder, 'docs/performance'), { recursive: true });
  const page = join(folder, 'docs/performance/index.md');
  await writeFile(page, 'before\n<!-- bench:cpu -->\n<!-- /bench:cpu -->\nafter\n');
  const script = join(repository(), 'scripts/bench-table.mjs');
  assert.equal((await run(script, ['--root', folder, '--check'])).code, 1);
  assert.equal((await run(script, ['--root', folder])).code, 0);
  const tables = await readFile(page, 'utf8');
  assert.match(
    tables,
    /^before\n<!-- bench:cpu -->\n\| what \| Heddle, 1 thread \| Other, 1 thread \| ratio \|\n/,
  );
  assert.match(tables, /\n\| matmul 512³, A·B \| [\d.]+ GFLOP\/s \| {2}\| {2}\|\n/);
  assert.match(tables, /\n<!-- \/bench:cpu -->\nafter\n$/);
  const summary = await readFile(join(folder, 'README.md'), 'utf8');
  const ratio = (2 / mlp!.median).toFixed(2 / mlp!.median >= 100 ? 0 : 2 / mlp!.median >= 10 ? 1 : 2);
  assert.ok(summary.includes(`| 2.00 ms (Other) | ${ratio}× |\n`), summary);
  assert.match(
    summary,
    /^a\n<!-- bench:summary -->\n\| on \| what .*a training step of mlp, batch 64, SGD \|/s,
  );
  assert.equal((await run(script, ['--root', folder, '--check'])).code, 0);
});

test('Ctrl-C ends bench cpu with nothing written', async () => {
  const { code, err } = await run(
    MAIN,
    ['bench', 'cpu', '--only', 'mlp', '--threads', '1', '--seconds', '60', '--json', 'interrupted.json'],
    'round 1 of 3',
  );
  assert.equal(code, 130, err);
  assert.match(err, /nothing was written/);
  assert.ok(!existsSync(join(folder, 'interrupted.json')));
});

test('peak memory is measured on MNIST', async () => {
  const { measurements, skipped } = await runCpuBench({ only: ['memory'], threads: [1], memorySteps: 2 });
  assert.deepEqual(skipped, []);
  assert.equal(measurements.length, 1);
  assert.ok(measurements[0]!.median > 50 && measurements[0]!.unit === 'MiB');
});

test('bench accuracy trains and tests', async () => {
  const said: string[] = [];
  const { runs } = await runAccuracyBench({
    only: ['mlp'],
    epochs: 2,
    limit: 2000,
    onProgress: (what) => said.push(what),
  });
  assert.equal(said.length, 2);
  assert.equal(runs.length, 1);
  assert.equal(runs[0]!.epochs.length, 2);
  assert.ok(runs[0]!.accuracy > 0.7, `after 2 epochs of 2,000 images: ${runs[0]!.accuracy}`);
  assert.equal(runs[0]!.accuracy, runs[0]!.epochs[1]!.accuracy);
});

test('what cannot be measured is refused by name', async () => {
  await assert.rejects(runCpuBench({ only: ['warp'] }), (e: Error) => {
    assert.ok(e instanceof ArgumentError);
    assert.match(e.message, /no case is called 'warp'\. Expected one of: mlp, lenet5, cnn, matmul-512-ab/);
    return true;
  });
  await assert.rejects(
    runAccuracyBench({ only: ['perceptron'] }),
    /no program on images is called 'perceptron'/,
  );
  await assert.rejects(readPeers(join(folder, 'none.jsonl')), FileError);
  const broken = join(folder, 'broken.jsonl');
  for (const line of ['{"peer":"Other"}', 'null', 'not JSON', '{}']) {
    await writeFile(broken, `${JSON.stringify(PEER)}\n\n${line}\n`);
    await assert.rejects(readPeers(broken), /line 3 is not a figure/, line);
  }
});

test('median, least and 90th percentile', () => {
  assert.deepEqual(spreadOf([3, 1, 2]), { median: 2, min: 1, p90: 3, samples: 3 });
  assert.deepEqual(spreadOf([4, 1, 3, 2]), { median: 2.5, min: 1, p90: 4, samples: 4 });
  assert.deepEqual(spreadOf(Array.from({ length: 100 }, (_, i) => 100 - i)), {
    median: 50.5,
    min: 1,
    p90: 90,
    samples: 100,
  });
});
