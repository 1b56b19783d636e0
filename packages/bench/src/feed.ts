/** `heddle bench feed`: training from the memory of the host beside training from that of the device. */
import { ArgumentError, ArrayDataset, crossEntropy, fit, Loader, manualSeed, synchronize } from 'heddle';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
} from 'heddle/internal/cli/figures.js';
import { percent, table } from 'heddle/internal/cli/format.js';
import { device } from 'heddle/internal/tensor/modes.js';
import { optimizerOf, PROGRAMS } from 'heddle/internal/train/programs.js';
import { readFigures } from './peers.js';

interface FeedCase {
  readonly program: 'lenet5' | 'resnet18';
  readonly inputShape: readonly [channels: number, height: number, width: number];
  readonly batchSize: number;
}

const LENET = { program: 'lenet5', inputShape: [1, 28, 28] } as const;

/** As in torch_loader.py. */
const CASES: Readonly<Record<string, FeedCase>> = {
  'lenet5-64': { ...LENET, batchSize: 64 },
  'lenet5-256': { ...LENET, batchSize: 256 },
  'lenet5-1024': { ...LENET, batchSize: 1024 },
  'resnet18-256': { program: 'resnet18', inputShape: [3, 32, 32], batchSize: 256 },
};

/** Where the batches are made: on the device, on the main thread, on worker threads. */
const WAYS = ['resident', 'host', 'workers'] as const;
type Way = (typeof WAYS)[number];

/** The first one, in which programs are compiled, is not counted. */
const EPOCHS = 3;
const MOST_IMAGES = 60_000;

/** µs of a step, and what part of it a step of the resident training takes. */
interface FeedFigure {
  readonly us: number;
  readonly busy: number;
}

interface FeedPeer extends FeedFigure {
  readonly peer: string;
  readonly version: string;
  readonly mode: string;
}

/** Figures of another library, by case and way. */
export type FeedPeers = ReadonlyMap<string, FeedPeer>;

interface FeedMeasurement extends FeedFigure {
  readonly case: string;
  readonly way: Way;
  readonly workers: number;
  readonly peer?: FeedPeer;
}

export interface FeedResults extends Circumstances {
  readonly benchmark: 'feed';
  readonly device: MeasuredDevice;
  readonly method: string;
  readonly measurements: readonly FeedMeasurement[];
}

export interface FeedBenchOptions {
  /** Cases. Default: all. */
  readonly only?: readonly string[];
  /** Of an epoch, unless it would take more than 60,000 images. */
  readonly steps: number;
  readonly rounds: number;
  readonly workers: number;
  /** What was asked for on the command line. */
  readonly given?: string;
  readonly peers?: FeedPeers;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

/** @throws FileError if there is no such file, or naming the first line that is not a figure */
export async function readFeedPeers(path: string): Promise<FeedPeers> {
  const figures = await readFigures({
    path,
    madeBy: 'python3 node_modules/heddle-bench/torch_loader.py',
    expected: 'peer, version, case, mode, way, us, busy',
    parse: (value) => {
      const fits =
        ['peer', 'version', 'case', 'mode', 'way'].every((key) => typeof value[key] === 'string') &&
        ['us', 'busy'].every((key) => Number.isFinite(value[key]));
      return fits
        ? (value as unknown as FeedPeer & { readonly case: string; readonly way: string })
        : undefined;
    },
  });
  const best = new Map<string, FeedPeer>();
  for (const { case: name, way, peer, version, mode, us, busy } of figures) {
    const key = `${name} ${way}`;
    if (us < (best.get(key)?.us ?? Number.POSITIVE_INFINITY))
      best.set(key, { peer, version, mode, us, busy });
  }
  return best;
}

/** @throws ArgumentError for an unknown case; the signal's reason */
export async function runFeedBench(options: FeedBenchOptions): Promise<FeedResults> {
  const { only = Object.keys(CASES), rounds, workers, peers, onProgress, given = '' } = options;
  const unknown = only.find((name) => !(name in CASES));
  if (unknown !== undefined)
    throw new ArgumentError(
      `no case is called '${unknown}'. Expected one of: ${Object.keys(CASES).join(', ')}.`,
    );
  const measurements: FeedMeasurement[] = [];
  for (const name of only) {
    const best: Record<Way, number> = { resident: Infinity, host: Infinity, workers: Infinity };
    const examples = examplesOf(CASES[name]!, options.steps);
    for (let round = 0; round < rounds; round++)
      for (const way of WAYS) {
        onProgress?.(`${name}, ${way}, round ${round + 1} of ${rounds}`);
        best[way] = Math.min(best[way], await stepOf(CASES[name]!, examples, way, options));
      }
    for (const way of WAYS) {
      const peer = peers?.get(`${name} ${way}`);
      measurements.push({
        ...{ case: name, way, workers: way === 'workers' ? workers : 0 },
        ...{ us: rounded(best[way]), busy: rounded(best.resident / best[way]) },
        ...(peer && { peer }),
      });
    }
  }
  return {
    ...circumstances(`heddle bench feed${given}`),
    benchmark: 'feed',
    device: measuredDevice(device()),
    method:
      'µs of a training step over whole epochs of random images, bytes in memory, without the first epoch: the best of some ' +
      'trainings by turns. busy: what part of it a step of the resident training takes.',
    measurements,
  };
}

function examplesOf({ inputShape, batchSize }: FeedCase, steps: number): ArrayDataset {
  const count = Math.max(batchSize, Math.min(MOST_IMAGES, steps * batchSize));
  const inputs = new Uint8Array(count * inputShape.reduce((a, b) => a * b));
  let state = 1;
  const noise = Uint8Array.from({ length: 2 ** 16 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
  for (let at = 0; at < inputs.length; at += noise.length)
    inputs.set(noise.subarray(0, inputs.length - at), at);
  return new ArrayDataset({
    ...{ inputs, inputShape, classes: 10 },
    labels: Uint8Array.from({ length: count }, (_, i) => i % 10),
  });
}

/** µs of a step. */
async function stepOf(
  { program: name, inputShape, batchSize }: FeedCase,
  examples: ArrayDataset,
  way: Way,
  { workers, signal }: FeedBenchOptions,
): Promise<number> {
  manualSeed(0);
  const program = PROGRAMS[name];
  const model = program.build(program.recipe, { inputShape, classes: 10 });
  const train = new Loader(examples, {
    ...{ batchSize, shuffle: true, dropLast: true },
    workers: way === 'workers' ? workers : 0,
  });
  const marks: number[] = [];
  const onEpochEnd = async (): Promise<void> => {
    await synchronize();
    marks.push(performance.now());
  };
  await fit(model, {
    ...{
      train,
      loss: crossEntropy,
      epochs: EPOCHS,
      resident: way === 'resident',
      callbacks: [{ onEpochEnd }],
    },
    optimizer: optimizerOf(program.recipe, model.parameters()),
    ...(signal && { signal }),
  });
  train.dispose();
  signal?.throwIfAborted();
  return (1000 * (marks.at(-1)! - marks[0]!)) / ((EPOCHS - 1) * train.length);
}

const TITLES: Readonly<Record<Way, (workers: number) => string>> = {
  resident: () => 'resident',
  host: () => 'from the host',
  workers: (count) => `by ${count} workers`,
};

export function feedReport({ device, measurements }: FeedResults): string {
  const peer = measurements.find((m) => m.peer)?.peer;
  return [
    device.description,
    '',
    table(
      ['training', 'batches', 'µs a step', 'busy', ...(peer ? [`${peer.peer} ${peer.version}`, 'busy'] : [])],
      measurements.map((m) => [
        m.case,
        TITLES[m.way](m.workers),
        m.us.toFixed(1),
        percent(m.busy),
        ...(peer
          ? m.peer
            ? [`${m.peer.us.toFixed(1)} (${m.peer.mode})`, percent(m.peer.busy)]
            : ['', '']
          : []),
      ]),
    ),
  ].join('\n');
}
