#!/usr/bin/env node
/**
 * Measure the ladders of the learning path: the programs in docs/learn that have a `const ladder`, an object of functions
 * that do the same work, each better than the one before. Writes bench/results/ladders-<device>-<date>.json, of which
 * scripts/ladder-tables.mjs makes the tables of the chapters.
 *
 *   node scripts/measure-ladders.mjs [--device cpu|cuda] [--only 01-kernels,06] [--threads 1] [--rounds 15]
 *
 * Each ladder runs in a process of its own. A round takes every step in turn, repeated for about 20 ms; a figure is the
 * median of the rounds after two that warm up. Nothing else should run on the machine.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { transformSync } from 'esbuild';
import { device, synchronize } from 'heddle';
import { circumstances, spreadOf } from 'heddle/internal/cli/figures.js';

const { values } = parseArgs({
  options: {
    device: { type: 'string', default: 'cpu' },
    only: { type: 'string' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '15' },
    program: { type: 'string' },
    out: { type: 'string' },
  },
});
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const WARM_UP = 2;
const ROUND_MS = 20;

if (values.program) await measureProgram(values.program, values.out);
else measureChapters();

/** Every chapter's ladder, each in a process of its own. */
function measureChapters() {
  const chapters = readdirSync(join(root, 'docs/learn')).filter((name) => /^\d.*\.md$/.test(name));
  const wanted = values.only?.split(',');
  const folder = join(root, '.build/ladders');
  mkdirSync(folder, { recursive: true });
  const ladders = {};
  let found;
  for (const name of chapters.map((file) => basename(file, '.md'))) {
    if (wanted && !wanted.some((each) => name.startsWith(each))) continue;
    const page = readFileSync(join(root, 'docs/learn', `${name}.md`), 'utf8');
    const programs = [...page.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((m) => m[1]);
    const program = programs.find((text) => /^const ladder\b/m.test(text));
    if (!program) continue;
    const { code } = transformSync(`${program}\nexport { ladder };`, { loader: 'ts', target: 'es2022' });
    const path = join(folder, `${name}.mjs`);
    writeFileSync(path, code);
    const out = join(folder, `${name}.json`);
    const args = [fileURLToPath(import.meta.url), '--program', path, '--out', out, '--rounds', values.rounds];
    const env = { ...process.env, HEDDLE_DEVICE: values.device, HEDDLE_THREADS: values.threads };
    const { status } = spawnSync(process.execPath, args, { stdio: 'inherit', env, cwd: folder });
    if (status !== 0) process.exit(status ?? 1);
    found = JSON.parse(readFileSync(out, 'utf8'));
    ladders[name] = found.rungs;
    for (const { rung, median } of found.rungs) console.log(name.padEnd(30), rung.padEnd(40), `${median} µs`);
  }
  if (!found) throw new Error('no chapter has such a ladder');
  const command = `node scripts/measure-ladders.mjs --device ${values.device} --threads ${values.threads}`;
  const figures = {
    ...{ benchmark: 'ladders', ...circumstances(command), device: found.device },
    ...{ threads: Number(values.threads), ladders },
  };
  const file = join(root, `bench/results/ladders-${values.device}-${figures.date.slice(0, 10)}.json`);
  writeFileSync(file, `${JSON.stringify(figures, null, 2)}\n`);
  console.log(`\nfigures  ${file}\ntables   node scripts/ladder-tables.mjs`);
}

/** One ladder, in µs. @param {string} path @param {string} out */
async function measureProgram(path, out) {
  const { ladder } = await import(pathToFileURL(path).href);
  const steps = Object.entries(ladder).map(([rung, work]) => ({ rung, work, repeats: 1, samples: [] }));
  for (let round = -WARM_UP; round < Number(values.rounds); round++)
    for (const step of steps) {
      const start = performance.now();
      for (let i = 0; i < step.repeats; i++) await step.work();
      await synchronize();
      const ms = (performance.now() - start) / step.repeats;
      if (round < 0) step.repeats = Math.max(1, Math.round(ROUND_MS / ms));
      else step.samples.push(1000 * ms);
    }
  const rungs = steps.map(({ rung, samples }) => ({ rung, ...spreadOf(samples) }));
  writeFileSync(out, JSON.stringify({ device: device(), rungs }));
}
