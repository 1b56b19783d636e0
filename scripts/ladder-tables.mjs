#!/usr/bin/env node
/**
 * Put the newest figures of ladders into the pages of docs/kernels and docs/learn, between <!-- ladder:matmul --> and
 * <!-- /ladder --> (conv, transpose, and each chapter's own name, alike).
 *
 *   node scripts/ladder-tables.mjs            write
 *   node scripts/ladder-tables.mjs --check    fail if a page says something else than the figures
 *
 * The figures: `npx heddle bench matmul`, `conv` and `transpose` on a GPU, `node scripts/measure-ladders.mjs` for the chapters.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const results = join(root, 'bench/results');

/** The newest figures of a benchmark, or undefined. @param {string} name */
function newest(name) {
  const file = readdirSync(results)
    .filter((each) => each.startsWith(`${name}-`) && each.endsWith('.json'))
    .sort()
    .at(-1);
  return file && { file, ...JSON.parse(readFileSync(join(results, file), 'utf8')) };
}

const round = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const time = (us) => (us >= 1000 ? `${round(us / 1000)} ms` : `${round(us)} µs`);
const times = (ratio) => `${round(ratio)}×`;
const percent = (share) => `${round(100 * share)} %`;

function markdown(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(header), `|---|${'--:|'.repeat(header.length - 1)}`, ...rows.map(line)].join('\n');
}

/** Where figures come from. */
const source = ({ device, machine, date, commit, command, file }) =>
  `Medians. ${device.description}, Node ${machine.node}, ${date.slice(0, 10)}${commit ? `, commit ${commit}` : ''}: ` +
  `[${basename(file)}](../../bench/results/${basename(file)}). To reproduce: \`${command}\`.`;

function matmul() {
  const figures = newest('matmul');
  const sizes = [...new Set(figures.steps.map((s) => s.size))];
  const at = (rung, size) => figures.steps.find((s) => s.rung === rung && s.size === size);
  // A vendor's library is listed by how it was called, which differs from size to size: its f32 product is the yardstick.
  const ours = [...new Set(figures.steps.filter((s) => s.samples > 1 && !s.arithmetic).map((s) => s.rung))];
  const largest = sizes.at(-1);
  const rows = ours.map((rung, i) => {
    const step = at(rung, largest);
    const before = at(ours[i - 1], largest);
    const gain = before && !rung.startsWith('matmul') ? times(before.median / step.median) : '';
    return [rung, time(step.median), gain, ...sizes.map((size) => percent(at(rung, size).ofPeer))];
  });
  const yardstick = figures.steps.find((s) => s.size === largest && s.ofPeer === 1);
  rows.push(['cuBLAS, f32', time(yardstick.median), '', ...sizes.map(() => '100 %')]);
  const header = ['step', `${largest}³`, 'gain', ...sizes.map((size) => `of cuBLAS in f32, ${size}³`)];
  return `${markdown(header, rows)}\n\n${source(figures)}`;
}

/** The rungs in bf16, against the vendor's product in bf16. */
function matmulWarpgroups() {
  const figures = newest('matmul');
  const steps = figures.steps.filter((s) => s.arithmetic === 'bf16');
  if (steps.length === 0)
    return 'Not measured yet: `npx heddle bench matmul` on a Hopper GPU measures this ladder.';
  const sizes = [...new Set(steps.map((s) => s.size))];
  const peer = (size) =>
    figures.steps.find((s) => s.size === size && s.samples === 1 && s.rung.endsWith(', bf16'));
  const at = (rung, size) => steps.find((s) => s.rung === rung && s.size === size);
  const rungs = [...new Set(steps.map((s) => s.rung))];
  const largest = sizes.at(-1);
  const rows = rungs.map((rung, i) => [
    rung,
    time(at(rung, largest).median),
    i === 0 ? '' : times(at(rungs[i - 1], largest).median / at(rung, largest).median),
    `${round(at(rung, largest).gflops / 1e3)} TFLOP/s`,
    ...sizes.map((size) => (peer(size) ? percent(peer(size).median / at(rung, size).median) : '')),
  ]);
  const header = [
    'step',
    `${largest}³`,
    'gain',
    'rate',
    ...sizes.map((size) => `of cuBLASLt in bf16, ${size}³`),
  ];
  return `${markdown(header, rows)}\n\n${source(figures)}`;
}

function conv() {
  const figures = newest('conv');
  if (!figures) return 'Not measured yet: `npx heddle bench conv` on a GPU measures this ladder.';
  const sizes = [...new Set(figures.steps.map((s) => s.size))];
  const at = (rung, size) => figures.steps.find((s) => s.rung === rung && s.size === size);
  const largest = sizes.at(-1);
  const rungs = [...new Set(figures.steps.map((s) => s.rung))];
  const rows = rungs.map((rung, i) => {
    const before = at(rungs[i - 1], largest);
    const climbs = before && !/^(conv2d|cudnn)/.test(rung);
    return [
      rung.replace('cudnn direct', 'cuDNN'),
      time(at(rung, largest).median),
      climbs ? times(before.median / at(rung, largest).median) : '',
      ...sizes.map((size) => (at(rung, size).ofPeer === undefined ? '' : percent(at(rung, size).ofPeer))),
    ];
  });
  const header = [
    ...['step', `${largest} channels`, 'gain'],
    ...sizes.map((size) => `of cuDNN in f32, ${size} channels`),
  ];
  return `${markdown(header, rows)}\n\n${source(figures)}`;
}

function transpose() {
  const { steps, ...figures } = newest('transpose');
  const rows = steps.map(({ rung, median, gigabytes, ofCopy }) => [
    ...[rung, time(median), `${round(gigabytes)} GB/s`, percent(ofCopy)],
  ]);
  const header = ['step', `${steps[0].size}²`, 'rate', 'of the copy'];
  return `${markdown(header, rows)}\n\n${source(figures)}`;
}

/** A chapter's ladder, on the CPU and, where there are figures, on a GPU. @param {string} chapter */
function chapter(chapter) {
  const runs = ['cpu', 'cuda'].flatMap((device) => {
    const figures = newest(`ladders-${device}`);
    const rungs = figures?.ladders[chapter];
    return rungs ? [{ ...figures, rungs }] : [];
  });
  if (runs.length === 0)
    return 'Not measured yet: `node scripts/measure-ladders.mjs` measures the ladders of all chapters.';
  const header = ['step'];
  for (const { device, threads } of runs)
    header.push(
      device.name === 'cpu'
        ? `CPU, ${threads === 1 ? 'one thread' : `${threads} threads`}`
        : device.description.split(',')[0],
      '',
    );
  const rows = runs[0].rungs.map(({ rung }, i) => [
    rung,
    ...runs.flatMap(({ rungs }) => [
      time(rungs[i].median),
      i === 0 ? '' : times(rungs[0].median / rungs[i].median),
    ]),
  ]);
  return [markdown(header, rows), ...runs.map(source)].join('\n\n');
}

const write = { matmul, 'matmul-warpgroups': matmulWarpgroups, conv, transpose };
let stale = 0;
for (const folder of ['docs/kernels', 'docs/learn'])
  for (const name of readdirSync(join(root, folder)).filter((file) => file.endsWith('.md'))) {
    const path = join(root, folder, name);
    const page = readFileSync(path, 'utf8');
    const wanted = page.replace(
      /(<!-- ladder:([\w-]+) -->\n)[\s\S]*?(<!-- \/ladder -->)/g,
      (_, open, ladder, close) => `${open}\n${(write[ladder] ?? chapter)(ladder)}\n\n${close}`,
    );
    if (wanted === page) continue;
    if (values.check) {
      console.error(`${folder}/${name} differs from the figures: run node scripts/ladder-tables.mjs`);
      stale++;
    } else writeFileSync(path, wanted);
  }
process.exitCode = stale > 0 ? 1 : 0;
