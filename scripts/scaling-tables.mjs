/**
 * Tables for docs/performance/scaling.md, from figures of two GPUs:
 *
 *   node scripts/scaling-tables.mjs collectives.json scaling.json …
 *
 * A file may hold several results, one a line.
 */
import { readFileSync } from 'node:fs';
import { project } from '../packages/bench/dist/src/projection.js';

/** What is not measured: 400 Gbit/s of network for each GPU, of which 80 % arrive, and 10 µs from host to host. */
const NETWORK = { hostBandwidth: 40e9, hostLatency: 10e-6 };

const resultsIn = (path) => {
  const text = readFileSync(path, 'utf8');
  try {
    return [JSON.parse(text)];
  } catch {
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  }
};
const all = process.argv.slice(2).flatMap(resultsIn);
const collectives = all
  .filter(({ benchmark }) => benchmark === 'collectives')
  .flatMap(({ figures }) => figures);
const scaling = all.filter(({ benchmark }) => benchmark === 'scaling').flatMap(({ figures }) => figures);

const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (header, rows) =>
  [row(header), `|${header.map((_, i) => (i === 0 ? '---|' : '--:|')).join('')}`, ...rows.map(row), ''].join(
    '\n',
  );
const size = (bytes) => (bytes < 1e6 ? `${bytes / 1e3} KB` : `${bytes / 1e6} MB`);
const time = (us) => {
  if (us >= 1e4) return `${(us / 1e3).toFixed(1)} ms`;
  return `${us < 1e3 ? us.toPrecision(3) : us.toFixed(0)} µs`;
};
const percent = (v) => (v === undefined ? '' : `${(100 * v).toFixed(1)} %`);

const ways = [...new Set(collectives.map(({ by }) => by))];
const sizes = [...new Set(collectives.map(({ bytes }) => bytes))];
const of = (by, bytes) => collectives.find((f) => f.by === by && f.bytes === bytes);
const cell = (f) => (f ? `${time(1e3 * f.median)}, ${f.bandwidth.toFixed(1)} GB/s` : '');
process.stdout.write(
  `${table(
    ['size', ...ways],
    sizes.map((bytes) => [size(bytes), ...ways.map((by) => cell(of(by, bytes)))]),
  )}\n`,
);

const networks = [...new Set(scaling.map(({ network }) => network))];
const step = (by, network, kind) =>
  scaling.find((f) => f.by === by && f.network === network && f.kind === kind);
const kinds = (network) => ['one', 'weak', 'strong'].filter((kind) => step('heddle', network, kind));
process.stdout.write(
  `${table(
    ['network', 'GPUs', 'examples of each', 'Heddle', 'efficiency', 'hidden', 'PyTorch DDP', 'efficiency'],
    networks.flatMap((network) =>
      kinds(network).map((kind) => {
        const [mine, theirs] = [step('heddle', network, kind), step('torch', network, kind)];
        return [
          ...[network, kind === 'one' ? '1' : `${mine.ranks}, ${kind}`, String(mine.batch)],
          ...[time(mine.step.median), percent(mine.efficiency), percent(mine.hidden)],
          ...(theirs ? [time(theirs.step.median), percent(theirs.efficiency)] : ['', '']),
        ];
      }),
    ),
  )}\n`,
);

const own = collectives.filter(({ by }) => by === 'nccl graph');
const largest = own.toSorted((a, b) => b.bytes - a.bytes)[0];
const smallest = own.toSorted((a, b) => a.bytes - b.bytes)[0];
if (largest && networks.length > 0) {
  // Of two GPUs: two steps from GPU to GPU.
  const links = { bandwidth: 1e9 * largest.bandwidth, latency: smallest.median / 1e3 / 2, ...NETWORK };
  const projected = (network, gpus, hosts) => {
    const { compute, buckets } = step('heddle', network, 'weak');
    return percent(project({ compute: compute.median / 1e6, buckets }, links, gpus, hosts).efficiency);
  };
  process.stdout.write(
    `bandwidth ${largest.bandwidth} GB/s, latency ${((1e3 * smallest.median) / 2).toFixed(1)} µs\n\n` +
      table(
        ['network', '2 GPUs, measured', '2 GPUs', '8 GPUs of a host', '64 hosts of 8'],
        // The formula is that of an all-reduce.
        networks
          .filter((network) => !network.endsWith('-sharded'))
          .map((network) => [
            ...[network, percent(step('heddle', network, 'weak')?.efficiency)],
            ...[projected(network, 2, 1), projected(network, 8, 1), projected(network, 8, 64)],
          ]),
      ),
  );
}
