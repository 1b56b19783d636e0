/** The figures of the home page, from the newest results of the benchmarks. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineLoader } from 'vitepress';

const results = join(dirname(fileURLToPath(import.meta.url)), '../../../../bench/results');

export interface Figure {
  /** How many times as fast as the peer. */
  readonly times: string;
  readonly what: string;
  readonly where: string;
  readonly peer: string;
}

declare const data: readonly Figure[];

export { data };

interface Measurement {
  readonly case: string;
  readonly title: string;
  readonly median: number;
  readonly unit?: string;
  readonly fma?: boolean;
  readonly peer?: {
    readonly peer: string;
    readonly mode?: string;
    readonly us?: number;
    readonly median?: number;
  };
}
interface Results {
  readonly measurements: readonly Measurement[];
  readonly device?: { readonly description: string };
  readonly machine: { readonly cpu: string; readonly cores: number };
}

const ROWS = [
  ['train', 'lenet5-64'],
  ['train', 'cnn-256'],
  ['cpu', 'lenet5'],
] as const;

function newest(name: string): Results {
  const file = readdirSync(results)
    .filter((path) => path.startsWith(`${name}-`) && path.endsWith('.json'))
    .sort()
    .at(-1)!;
  return JSON.parse(readFileSync(join(results, file), 'utf8')) as Results;
}

function figure([name, id]: (typeof ROWS)[number]): Figure {
  const { measurements, device, machine } = newest(name);
  const same = measurements.filter((m) => m.case === id && m.fma !== false);
  const ours = same.reduce((best, m) => (m.median < best.median ? m : best));
  const timeOf = ({ peer }: Measurement): number => peer?.us ?? peer?.median ?? Number.POSITIVE_INFINITY;
  const theirs = same.reduce((best, m) => (timeOf(m) < timeOf(best) ? m : best));
  return {
    times: `${(timeOf(theirs) / ours.median).toFixed(1)}×`,
    what: ours.title.replace(/: a training step.*/, ''),
    where: device ? device.description.split(',')[0]! : `${machine.cores} CPU cores`,
    peer: [theirs.peer!.peer.replace('torch', 'PyTorch'), theirs.peer!.mode].filter(Boolean).join(' '),
  };
}

export default defineLoader({
  watch: [join(results, '*.json')],
  load: (): readonly Figure[] => ROWS.map(figure),
});
