#!/usr/bin/env node
/**
 * Put the newest figures of bench/results into docs/performance/index.md, between <!-- bench:cpu --> and <!-- /bench:cpu -->
 * (and bench:accuracy, bench:data and bench:gpu alike), and a summary of them into the README, at bench:summary. What there are no
 * figures of a GPU for is left out. The charts beside the figures are drawn anew, for which the packages must be built.
 *
 *   node scripts/bench-table.mjs            write
 *   node scripts/bench-table.mjs --check    fail if a page says something else than the figures
 *
 * Others than the newest: name the files. The folder of the pages: --root (default: this repository).
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    check: { type: 'boolean', default: false },
    root: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
  },
});
const results = join(values.root, 'bench/results');
const PAGES = ['README.md', 'docs/performance/index.md'];

/** The rows of the page; the results have more. Those without FMA are other measurements of the same case. */
const CPU_ROWS = [
  { case: 'mlp' },
  { case: 'lenet5' },
  { case: 'cnn' },
  { case: 'matmul-512-ab' },
  { case: 'matmul-1024-ab' },
  { case: 'matmul-1024-ab', fma: false },
  { case: 'matmul-1024-abt' },
  { case: 'matmul-1024-atb' },
  { case: 'matmul-2048-ab' },
  { case: 'softmax' },
  { case: 'elementwise' },
  { case: 'startup' },
  { case: 'memory' },
];

/** The kernels in the page, by their ids. */
const KERNEL_ROWS = [
  'matmul-f32-4096',
  'matmul-tf32-4096',
  'matmul-bf16-4096',
  'softmax-8192',
  'layernorm-8192',
  'relu-8192',
  'transpose-8192',
  'sum-8192',
  'columnsum-8192',
  'conv-16x3x224x224-64-forward',
  'conv-16x3x224x224-64-backward',
  'conv-256x64x32x32-64-forward',
  'conv-256x64x32x32-64-backward',
  'batchnorm-256x64x32x32-forward',
  'batchnorm-256x64x32x32-backward',
  'normal-1e8',
  'uniform-1e8',
];

/** The rows of the summary: figures, case, and where they were measured. */
const SUMMARY_ROWS = [
  ['cpu', 'mlp'],
  ['cpu', 'lenet5'],
  ['cpu', 'cnn'],
  ['cpu', 'matmul-1024-ab'],
  ['train', 'mlp-64'],
  ['train', 'lenet5-64'],
  ['train', 'cnn-64'],
  ['kernels', 'conv-256x64x32x32-64-forward'],
];

const TABLES = {
  summary: summaryTable,
  cpu: () => table('cpu', cpuTable),
  accuracy: () => table('accuracy', accuracyTable),
  data: () => table('data', dataTable),
  gpu: gpuSection,
};

/** The newest figures of a benchmark in their table. @param of which of them count */
function table(name, write, of = () => true) {
  const file = positionals.find((path) => basename(path).startsWith(`${name}-`)) ?? newest(name, of);
  if (!file) throw new Error(`no ${name}-*.json in ${results}: run npx heddle bench ${name} first`);
  return write(JSON.parse(readFileSync(file, 'utf8')), file);
}

function cpuTable({ measurements, machine, ...run }, file) {
  const threads = [...new Set(measurements.map((m) => m.threads))].sort((a, b) => a - b);
  const peer = measurements.find((m) => m.peer)?.peer;
  const plural = (n) => `${n} thread${n === 1 ? '' : 's'}`;
  const header = ['what', ...threads.map((n) => `Heddle, ${plural(n)}`)];
  if (peer) header.push(...threads.map((n) => `${peer.peer}, ${plural(n)}`), 'ratio');
  const rows = CPU_ROWS.flatMap(({ case: id, fma = true }) => {
    const found = threads.map((n) =>
      measurements.find((m) => m.case === id && m.threads === n && (m.fma === fma || m.rate === undefined)),
    );
    const first = found.find(Boolean);
    if (!first) return [];
    const launches = first.launches === undefined ? '' : `, ${first.launches} launches`;
    const cells = [
      `${first.title}${fma ? '' : ', without FMA'}${first.rate ? '' : launches}`,
      ...found.map((m) => (m ? figure(m, m.median) : '')),
    ];
    if (peer) {
      const least = (figures) => Math.min(...figures.filter((x) => x !== undefined));
      const ratio = least(found.map((m) => m?.median)) / least(found.map((m) => m?.peer?.median));
      cells.push(...found.map((m) => (m?.peer ? figure(m, m.peer.median) : '')));
      cells.push(Number.isFinite(ratio) && ratio > 0 ? ratio.toFixed(2) : '');
    }
    return [cells];
  });
  const versions = peer ? ` ${peer.peer} ${peer.version}.` : '';
  const ratio = peer
    ? ` Ratio = Heddle's best time ÷ ${peer.peer}'s best time; below 1 means Heddle is faster.`
    : '';
  return [
    markdown(header, rows),
    '',
    `Medians. ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, ${run.date.slice(0, 10)}` +
      `${run.commit ? `, commit ${run.commit}` : ''}.${versions}${ratio} Spread and method: ` +
      `${link(file)}. To reproduce it on your machine: \`${run.command}\`.`,
  ].join('\n');
}

/** A measurement's rate at a median, or the median itself. */
function figure({ unit, rate, median }, value) {
  if (rate) return `${round((rate.value * median) / value)} ${rate.unit}`;
  return `${round(value)} ${unit}`;
}

const round = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

function accuracyTable({ runs, data, machine, device, ...run }, file) {
  const rows = [...new Set(runs.map((r) => `${r.program} ${r.recipe}`))].map((key) => {
    const same = runs.filter((r) => `${r.program} ${r.recipe}` === key);
    const { program, recipe, settings } = same[0];
    const accuracies = same.map((r) => r.accuracy).sort((a, b) => a - b);
    const percent = (share) => `${(100 * share).toFixed(2)} %`;
    const [least, most] = [percent(accuracies[0]), percent(accuracies.at(-1))];
    const seconds = same.reduce((sum, r) => sum + r.seconds, 0) / same.length;
    return [
      recipe === 'default' ? program : `${program}, ${recipe} recipe`,
      `${settings.optimizer}, lr ${settings.lr}`,
      String(settings.epochs),
      least === most ? most : `${least} to ${most}`,
      `${seconds.toFixed(0)} s`,
    ];
  });
  const seeds = new Set(runs.map((r) => r.seed)).size;
  return [
    markdown(['network', 'optimizer', 'epochs', 'test accuracy', 'training'], rows),
    '',
    `On ${data}, ${seeds === 1 ? '1 seed' : `${seeds} seeds`}. ${device?.description ?? `${machine.cpu}, ${machine.cores} cores`}, Node ` +
      `${machine.node}, ${run.date.slice(0, 10)}: ${link(file)}. To reproduce: \`${run.command}\`.`,
  ].join('\n');
}

function dataTable({ sharp, loader, floats, images, size, machine, ...run }, file) {
  const row = (name, { median, processorMicroseconds }) => [
    name,
    `${round(median)} images/s`,
    `${round(processorMicroseconds)} µs`,
    `${(sharp.processorMicroseconds / processorMicroseconds).toFixed(2)}×`,
  ];
  const rows = [
    row('sharp alone', sharp),
    row('the loader: bytes in planes', loader),
    row('the loader: f32 in planes', floats),
  ];
  return [
    markdown(['who decodes', 'rate', 'of the processor, for an image', "of sharp's speed"], rows),
    '',
    `${images.toLocaleString('en')} JPEGs of ${size} × ${size}. The last column is by the time of the processor, as both keep all cores ` +
      `busy and rates depend on what else runs. ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, ${run.date.slice(0, 10)}, ` +
      `commit ${run.commit}: ${link(file)}. To reproduce: \`${run.command}\`.`,
  ].join('\n');
}

/** How busy the host keeps the device. */
function feedTable({ measurements, ...run }, file) {
  const peers = namesOfPeers(measurements);
  const rows = [...new Set(measurements.map((m) => m.case))].map((name) => {
    const [resident, host, workers] = ['resident', 'host', 'workers'].map((way) =>
      measurements.find((m) => m.case === name && m.way === way),
    );
    const share = ({ us: time, busy }) => `${us(time)} (${Math.round(100 * busy)} %)`;
    const beside = (m) => (peers === '' ? [] : [m.peer ? share(m.peer) : '']);
    return [
      name,
      us(resident.us),
      ...beside(resident),
      ...[host, workers].flatMap((m) => [share(m), ...beside(m)]),
    ];
  });
  const { workers } = measurements.find((m) => m.way === 'workers');
  const beside = peers === '' ? [] : [peers];
  return [
    markdown(
      [
        ...['a training step on', 'resident data', ...beside],
        ...['batches from the host', ...beside],
        ...[`by ${workers} workers`, ...beside],
      ],
      rows,
    ),
    '',
    `In brackets: how busy the host keeps the device, which is the time of a resident step ÷ the time taken. ${source(run, file)}`,
  ].join('\n');
}

function markdown(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(header), `|---|${'--:|'.repeat(header.length - 1)}`, ...rows.map(line)].join('\n');
}

/** The newest file of a benchmark's figures, if there is one. */
function newest(name, of = () => true) {
  return readdirSync(results)
    .filter((file) => file.startsWith(`${name}-`) && file.endsWith('.json'))
    .sort()
    .reverse()
    .map((file) => join(results, file))
    .find((file) => of(JSON.parse(readFileSync(file, 'utf8'))));
}

const onGpu = ({ device }) => device.name.startsWith('cuda');

/** Training steps, kernels and whole runs on a GPU: what there is of them. */
function gpuSection() {
  const parts = Object.entries({
    train: stepTable,
    'steps-large': stepTable,
    large: largeTable,
    kernels: kernelTable,
    layers: layerTable,
    matmul: ladderTable,
    transpose: transposeTable,
    mnist: mnistTable,
    feed: feedTable,
  }).flatMap(([name, write]) => (newest(name, onGpu) ? [table(name, write, onGpu)] : []));
  return parts.length === 0 ? '' : ['## On a GPU', GPU_NOTE, ...parts].join('\n\n');
}

const GPU_NOTE =
  'Speed-up = time of the best peer ÷ time of Heddle: above 1 Heddle is faster (the ratio of the CPU is the inverse).';

const us = (value) => `${round(value)} µs`;

/** Two more cells for the peer: its time in its best mode, and how many times as fast Heddle is. */
const peerCells = ({ peer, median }) =>
  peer ? [`${us(peer.us)} (${peer.peer} ${peer.mode})`, `${round(peer.us / median)}×`] : ['', ''];

/** Whose figures are compared with. */
const namesOfPeers = (measurements) =>
  [
    ...new Set(
      measurements.flatMap(({ peer }) => (peer ? [`${peer.peer} ${peer.version ?? ''}`.trim()] : [])),
    ),
  ].join(', ');

function stepTable({ measurements, ...run }, file) {
  const peers = namesOfPeers(measurements);
  const header = [
    'a training step',
    'Heddle',
    'one call per step',
    'launches',
    ...(peers ? [peers, 'speed-up'] : []),
  ];
  const rows = measurements.map((m) => [
    m.title,
    us(m.median),
    us(m.calls.median),
    String(m.launches),
    ...(peers ? peerCells(m) : []),
  ]);
  return `${markdown(header, rows)}${picture(file)}\n\n${source(run, file)}`;
}

function kernelTable({ measurements, ceilings, ...run }, file) {
  const peers = namesOfPeers(measurements);
  const header = ['a kernel', 'Heddle', 'rate', 'of the ceiling', ...(peers ? [peers, 'speed-up'] : [])];
  const rows = KERNEL_ROWS.flatMap((id) => measurements.filter((m) => m.case === id)).map((m) => [
    m.title,
    us(m.median),
    m.gflops ? `${round(m.gflops / 1000)} TFLOP/s` : `${round(m.gigabytes)} GB/s`,
    m.ofCeiling ? `${round(100 * m.ofCeiling)} %` : '',
    ...(peers ? peerCells(m) : []),
  ]);
  const products = Object.entries(ceilings.products).map(([p, rate]) => `${p} ${round(rate / 1000)} TFLOP/s`);
  const limits = `Ceilings of the same run: copy ${round(ceilings.copy)} GB/s, products ${products.join(', ')}.`;
  return `${markdown(header, rows)}${picture(file)}\n\n${limits} ${source(run, file)}`;
}

function layerTable({ measurements, ...run }, file) {
  const peers = namesOfPeers(measurements);
  const header = ['a layer, a loss or an optimizer', 'Heddle', ...(peers ? [peers, 'speed-up'] : [])];
  const rows = measurements.map((m) => [m.title, us(m.median), ...(peers ? peerCells(m) : [])]);
  return `${markdown(header, rows)}${picture(file)}\n\n${run.method} ${source(run, file)}`;
}

/** Products, and of the convolutions of each network, arithmetic and direction how they compare with the peer's. */
function largeTable({ measurements, ...run }, file) {
  const compared = measurements.filter((m) => m.peer);
  const products = compared.filter(({ case: id }) => !id.startsWith('conv-'));
  const groups = new Map();
  for (const m of compared.filter((m) => !products.includes(m)))
    groups.set(groupOf(m), [...(groups.get(groupOf(m)) ?? []), m]);
  const rows = [
    ...products.map((m) => [m.title, us(m.median), us(m.peer.us), `${round(m.peer.us / m.median)}×`, '']),
    ...[...groups].map(([name, of]) => {
      const speedUps = of.map((m) => m.peer.us / m.median);
      const mean = Math.exp(speedUps.reduce((sum, x) => sum + Math.log(x), 0) / speedUps.length);
      const total = (time) => us(of.reduce((sum, m) => sum + time(m), 0));
      const range = `${round(Math.min(...speedUps))} to ${round(Math.max(...speedUps))}`;
      return [name, total((m) => m.median), total((m) => m.peer.us), `${round(mean)}×`, range];
    }),
  ];
  const header = [
    'a product, or all convolutions of a network',
    'Heddle',
    namesOfPeers(compared),
    'speed-up',
    'range',
  ];
  return `${markdown(header, rows)}\n\nOf convolutions the sum of the times and the geometric mean of the speed-ups. ${source(run, file)}`;
}

/** `conv-bf16-resnet18-…-fwd` → resnet18, bf16, forward */
function groupOf({ case: id }) {
  const [, arithmetic, network] = id.split('-');
  const direction = { fwd: 'forward', dgrad: 'gradient of the input', wgrad: 'gradient of the weights' };
  return `${network}, ${arithmetic}, ${direction[id.split('-').at(-1)]}`;
}

/** The ladder at its largest size. */
function ladderTable({ steps, ...run }, file) {
  const size = Math.max(...steps.map((s) => s.size));
  const rows = steps
    .filter((s) => s.size === size)
    .map(({ rung, arithmetic, median, gflops, ofPeer }) => [
      arithmetic ? `${rung}, ${arithmetic}` : rung,
      us(median),
      `${round(gflops / 1000)} TFLOP/s`,
      ofPeer === undefined ? '' : `${round(100 * ofPeer)} %`,
    ]);
  const header = [`the ladder of the product, ${size}³`, 'time', 'rate', 'of the fastest f32 peer'];
  return `${markdown(header, rows)}${picture(file)}\n\n${source(run, file)}`;
}

/** The ladder at its largest size. */
function transposeTable({ steps, ...run }, file) {
  const size = Math.max(...steps.map((s) => s.size));
  const rows = steps
    .filter((s) => s.size === size)
    .map(({ rung, median, gigabytes, ofCopy }) => [
      rung,
      us(median),
      `${round(gigabytes)} GB/s`,
      `${round(100 * ofCopy)} %`,
    ]);
  const header = [`the ladder of the transpose, ${size}²`, 'time', 'rate', 'of the copy'];
  return `${markdown(header, rows)}${picture(file)}\n\n${source(run, file)}`;
}

function mnistTable({ runs, ...run }, file) {
  const percent = (share) => `${(100 * share).toFixed(2)} %`;
  const rows = runs.map(({ title, cache, accuracy, epoch, training, process }) => [
    `${title}, ${cache} cache`,
    [...new Set([percent(Math.min(...accuracy)), percent(Math.max(...accuracy))])].join(' to '),
    epoch ? `${epoch.median.toFixed(3)} s` : '',
    `${round(training.median)} s`,
    `${round(process.median)} s`,
  ]);
  const warm = runs.find(({ cache }) => cache === 'warm');
  const seeds = warm
    ? `, one seed per run: 0 with a cold cache, 1 to ${warm.accuracy.length} with a warm one`
    : '';
  const header = [
    `\`npx heddle train\` on MNIST${seeds}`,
    'test accuracy',
    'an epoch and its test',
    'first step to last test',
    'the whole process',
  ];
  return `${markdown(header, rows)}\n\n${source(run, file)}`;
}

/** Where figures of a GPU come from. */
const source = ({ device, machine, date, commit, command, note }, file) =>
  `Medians. ${device.description}${device.driver ? `, driver ${device.driver}` : ''}, Node ${machine.node}, ${date.slice(0, 10)}${commit ? `, commit ${commit}` : ''}: ` +
  `${link(file)}. To reproduce: \`${command}\`.${note ? ` ${note}` : ''}`;

/** Of the figures, from docs/performance. */
const link = (file) => `[${basename(file)}](../../bench/results/${basename(file)})`;

/** The chart that belongs to the figures. */
function picture(file) {
  const chart = file.replace(/\.json$/, '.svg');
  return existsSync(chart) ? `\n\n![chart](../../bench/results/${basename(chart)})` : '';
}

/** One row a case: Heddle's best figure and the best of the other, by time. */
function summaryTable() {
  const found = SUMMARY_ROWS.flatMap(([name, id]) => {
    const file = newest(name, name === 'cpu' ? undefined : onGpu);
    if (!file) return [];
    const { measurements, machine, device, date } = JSON.parse(readFileSync(file, 'utf8'));
    const same = measurements.filter((m) => m.case === id && m.fma !== false);
    if (same.length === 0) return [];
    const where = device ? device.description.split(',')[0] : `${machine.cores} CPU cores`;
    const least = (key) => same.reduce((best, m) => (key(m) < key(best) ? m : best));
    const heddle = least((m) => m.median);
    const peer = least((m) => m.peer?.us ?? m.peer?.median ?? Number.POSITIVE_INFINITY).peer;
    const unit = heddle.unit ?? 'µs';
    const other = peer?.us ?? peer?.median;
    const who = peer && (peer.mode ? `${peer.peer} ${peer.mode}` : peer.peer);
    const title = /^(mlp|lenet5|cnn)\b/.test(heddle.title)
      ? `a training step of ${heddle.title.replace(': a training step', '')}`
      : heddle.title;
    const cells = other ? [`${round(other)} ${unit} (${who})`, `${round(other / heddle.median)}×`] : ['', ''];
    return [
      { where, date: date.slice(0, 10), row: [where, title, `${round(heddle.median)} ${unit}`, ...cells] },
    ];
  });
  const dates = new Intl.ListFormat('en').format([...new Set(found.map(({ date }) => date))].sort());
  return [
    markdown(
      ['on', 'what', 'Heddle', 'PyTorch or library', 'speed-up'],
      found.map(({ row }) => row),
    ),
    '',
    `Medians of ${dates}; the best number of threads and the best mode on both sides. Above 1× Heddle is faster.`,
  ].join('\n');
}

/** Draw each chart from the figures beside it. */
async function redraw() {
  const { chartOfResults } = await import('../packages/bench/dist/src/chart.js');
  for (const name of readdirSync(results).filter((file) => file.endsWith('.svg'))) {
    const figures = JSON.parse(readFileSync(join(results, name.replace(/svg$/, 'json')), 'utf8'));
    writeFileSync(join(results, name), chartOfResults(figures));
  }
}

function withTables(text, page) {
  return text.replace(/(<!-- bench:(\w+) -->\n)[\s\S]*?(<!-- \/bench:\2 -->)/g, (_, open, name, close) => {
    const make = TABLES[name];
    if (!make) throw new Error(`${page}: no table is called bench:${name}`);
    const text = make();
    return `${open}${text === '' ? '' : `${text}\n`}${close}`;
  });
}

try {
  for (const page of PAGES) {
    const path = join(values.root, page);
    const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
    if (!before.includes('<!-- bench:'))
      throw new Error(`${page} has no place for figures: <!-- bench:… -->`);
    const after = withTables(before, page);
    if (!values.check) writeFileSync(path, after);
    else if (after !== before)
      throw new Error(`${page} and bench/results differ: run node scripts/bench-table.mjs`);
  }
  if (!values.check) await redraw();
} catch (error) {
  process.stderr.write(`bench-table: ${error.message}\n`);
  process.exitCode = 1;
}
