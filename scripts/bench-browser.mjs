/**
 * A training step of lenet5 (batches of 64) in a page and under Node, in turns: `node scripts/bench-browser.mjs`, once built.
 * Prints the median of each and their ratio, with one thread (the page's main thread) and with several (a worker of an
 * isolated page). ROUNDS=5 sets how often each is measured.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const tests = join(dirname(dirname(fileURLToPath(import.meta.url))), 'packages/heddle/dist/tests/browser');
const { openChromium, serve } = await import(join(tests, 'chromium.js'));
const { writeFiles } = await import(join(tests, 'files.js'));
const rounds = Number(process.env.ROUNDS ?? 5);
/** Passes over the 640 images that are timed. */
const PASSES = 20;

const folder = mkdtempSync(join(tmpdir(), 'heddle-bench-'));
const files = join(folder, 'files');
await writeFiles(files);
await build({
  ...{ bundle: true, format: 'esm', splitting: true, logLevel: 'error', outdir: join(folder, 'app') },
  entryPoints: ['page.js', 'page-worker.js'].map((name) => join(tests, name)),
});
const chromium = await openChromium();
const server = await serve({ app: join(folder, 'app'), files }, true);

/** Seconds of a step. @param {string} hash */
async function inPage(hash) {
  const page = await chromium.newPage();
  await page.goto(`${server.url}/page/app/page.js#${hash}rounds=${PASSES}`);
  await page.waitForFunction('globalThis.computed !== undefined');
  const { stepSeconds } = await page.evaluate('globalThis.computed');
  await page.close();
  return stepSeconds;
}

/** @param {string} threads */
function underNode(threads) {
  const code = `const { compute } = await import(${JSON.stringify(join(tests, 'app.js'))});
    console.log((await compute(${JSON.stringify(files)}, ${PASSES})).stepSeconds);`;
  const env = { ...process.env, HEDDLE_DEVICE: 'cpu', ...(threads && { HEDDLE_THREADS: threads }) };
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    env,
    encoding: 'utf8',
  });
  return Number(stdout.trim().split('\n').at(-1));
}

/** @param {readonly number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

for (const [name, hash, threads] of [
  ['one thread', '', '1'],
  ['all threads', 'worker', ''],
]) {
  const page = [];
  const node = [];
  for (let round = 0; round < rounds; round++) {
    page.push(await inPage(hash));
    node.push(underNode(threads));
  }
  const ms = (s) => `${(1000 * s).toFixed(2)} ms`;
  console.log(
    `${name}: page ${ms(median(page))}, Node ${ms(median(node))}, ratio ${(median(page) / median(node)).toFixed(2)}`,
  );
}
await chromium.close();
server.close();
rmSync(folder, { recursive: true });
