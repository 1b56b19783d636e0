/**
 * Kernels under NVIDIA's compute-sanitizer: tests on the GPU, watched for accesses out of bounds and misaligned
 * (memcheck), for races in shared memory (racecheck) and for misused barriers (synccheck). Needs a GPU, the CUDA
 * toolkit and a build.
 *
 *   node scripts/sanitize.mjs [--tool memcheck,racecheck,synccheck] [--jobs 4] [--minutes 10] [test files]
 *
 * Without files: the case list and the tests of kernels. Ends with exit code 1 if there are findings, or if a tool or
 * a test fails. Buffers have memory of just their size meanwhile (HEDDLE_CUDA_SYNC=1), so that no access beyond one
 * hits another; the vendor's kernels are left out.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/**
 * Those that run kernels on the GPU one by one, on buffers of their own. Not kernel/cluster: memcheck (13.0) takes `st.async` for an
 * invalid write where a cluster is one block.
 */
const TESTS = [
  'cases/forward',
  'cases/gradient',
  'kernel/hopper',
  'ops/attention',
  'ops/conv2d-max-pool',
  'ops/conv2d-phases',
  'ops/conv2d-warpgroups',
  'ops/conv2d-weight-patches',
  'ops/matmul-split',
  'ops/matmul-warpgroups',
  'ops/precision-bounds',
  'ops/variants',
  'runtime/cuda-device',
  'schedule/lower-gpu',
  'tensor/initial-values',
  'tensor/user-kernels',
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tool: { type: 'string', default: 'memcheck,racecheck,synccheck' },
    jobs: { type: 'string', default: String(Math.min(4, availableParallelism())) },
    minutes: { type: 'string', default: '10' },
  },
});

const tool = ['compute-sanitizer', '/usr/local/cuda/bin/compute-sanitizer'].find(
  (path) => spawnSync(path, ['--version']).status === 0,
);
if (!tool) {
  console.error('compute-sanitizer is not on the PATH: it comes with the CUDA toolkit.');
  process.exit(2);
}
const built = join(root, 'packages', 'heddle', 'dist', 'tests');
const files =
  positionals.length > 0
    ? positionals.map((file) => resolve(file))
    : TESTS.map((name) => join(built, `${name}.test.js`)).filter((file) => existsSync(file));
if (files.length === 0) {
  console.error('There are no tests to run. Build first: npm run build');
  process.exit(2);
}
const logs = mkdtempSync(join(tmpdir(), 'heddle-sanitize-'));

/**
 * One test under one tool; returns whether nothing was found.
 * @param {string} name @param {string} file @returns {Promise<boolean>}
 */
async function run(name, file) {
  const log = join(logs, `${name}-${basename(file)}.log`);
  const started = performance.now();
  const args = ['--tool', name, '--log-file', log, '--print-limit', '20'];
  // Tests run out of memory on purpose.
  if (name === 'memcheck') args.push('--report-api-errors', 'no');
  args.push(process.execPath, file);
  const child = spawn(tool, args, {
    env: {
      ...process.env,
      HEDDLE_DEVICE: 'cuda',
      HEDDLE_CUDA_SYNC: '1',
      HEDDLE_TUNE: 'off',
      HEDDLE_VENDOR: 'off',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: Number(values.minutes) * 60_000,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const code = await new Promise((done) => {
    child.on('close', done);
  });
  const report = existsSync(log) ? readFileSync(log, 'utf8') : '';
  const idle = /terminated before first instrumented API call/.test(report);
  const summary =
    report.match(/(ERROR|RACECHECK) SUMMARY: .*/)?.[0] ?? (idle ? 'nothing ran on the GPU' : 'no summary');
  const clean = /ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards/.test(summary);
  const failed = output.match(/^ *not ok .*/gm) ?? [];
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  const tests = output.match(/^ok /gm)?.length ?? 0;
  const good = clean && code === 0;
  console.log(
    `${good ? '✓' : '✗'} ${name}  ${basename(file)}: ${summary}; ${tests} tests passed, ${failed.length} failed` +
      `${code === 0 ? '' : `, exit code ${code}`} (${seconds} s)`,
  );
  if (!clean && !idle) console.log(report.slice(0, 4000));
  if (failed.length > 0) console.log(failed.slice(0, 20).join('\n'));
  else if (code !== 0) console.log(output.slice(-2000));
  return good;
}

const work = values.tool.split(',').flatMap((name) => files.map((file) => ({ name, file })));
let good = true;
await Promise.all(
  Array.from({ length: Number(values.jobs) }, async () => {
    for (let next = work.shift(); next; next = work.shift()) {
      if (!(await run(next.name, next.file))) good = false;
    }
  }),
);
rmSync(logs, { recursive: true });
process.exitCode = good ? 0 : 1;
