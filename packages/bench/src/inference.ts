/** `heddle bench inference`: engines beside ONNX Runtime on the same weights and, on a GPU, PyTorch. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { manualSeed, type nn, randn } from 'heddle';
import { compile, type Engine, type EnginePrecision, loadEngine } from 'heddle/inference';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { table } from 'heddle/internal/cli/format.js';
import { optionalPackage } from 'heddle/internal/cli/packages.js';
import { currentDevice } from 'heddle/internal/engine/storage.js';
import { LeNet5 } from 'heddle/internal/train/programs.js';
import { ResNet18, ResNet50 } from 'heddle/internal/train/resnet.js';
import { selectCases } from './workload.js';

interface InferenceCase {
  readonly id: string;
  readonly title: string;
  readonly build: () => nn.Module;
  /** Of an example. */
  readonly shape: readonly number[];
  readonly batch: number;
  readonly precision: EnginePrecision;
  /** The network of inference_peers.py that PyTorch runs. */
  readonly network?: string;
}

const casesOf = (
  name: string,
  batches: readonly number[],
  of: Omit<InferenceCase, 'id' | 'title' | 'batch'>,
): InferenceCase[] =>
  batches.map((batch) => ({
    ...of,
    batch,
    id: `${name}-${batch}`,
    title: `${name}, ${of.shape.join('×')}, ${of.precision}, batch ${batch}`,
  }));

const CPU_CASES: readonly InferenceCase[] = [
  ...casesOf('lenet5', [1, 8, 64], { build: () => new LeNet5(), shape: [1, 28, 28], precision: 'f32' }),
  ...casesOf('resnet18-32', [1, 8], {
    build: () => new ResNet18(3, 10),
    shape: [3, 32, 32],
    precision: 'f32',
  }),
  ...casesOf('resnet18-224', [1, 8], {
    build: () => new ResNet18(3, 1000, { large: true }),
    shape: [3, 224, 224],
    precision: 'f32',
  }),
];

const GPU_CASES: readonly InferenceCase[] = [
  ...casesOf('resnet50-bf16', [1, 8, 32], {
    build: () => new ResNet50(3, 1000),
    shape: [3, 224, 224],
    precision: 'bf16',
    network: 'resnet50',
  }),
  ...casesOf('resnet50-int8', [32], {
    build: () => new ResNet50(3, 1000),
    shape: [3, 224, 224],
    precision: 'int8',
    network: 'resnet50',
  }),
  ...CPU_CASES,
];

/** A figure of another library, in µs, or why there is none. */
interface PeerLine {
  readonly peer: string;
  readonly version: string;
  readonly mode: string;
  readonly us?: number;
  readonly min?: number;
  readonly samples?: number;
  readonly skipped?: string;
}

/** Times in µs. */
export interface InferenceMeasurement extends Spread {
  readonly case: string;
  readonly title: string;
  readonly batch: number;
  readonly launches: number;
  /** On a GPU, of a run alone: the input is there, and the output stays. */
  readonly device?: Spread;
  /** Of an engine with its one program: milliseconds and bytes of its file. */
  readonly load: { readonly ms: Spread; readonly bytes: number };
  /** The best round of each mode; `ratio` is Heddle's median / the peer's, on a GPU that of `device`: below 1 Heddle takes less. */
  readonly peers: readonly (PeerLine & { readonly ratio?: number })[];
}

export interface InferenceResults extends Circumstances {
  readonly benchmark: 'inference';
  readonly device: MeasuredDevice;
  /** Of Heddle and of ONNX Runtime on the CPU. */
  readonly threads: number;
  readonly method: string;
  readonly measurements: readonly InferenceMeasurement[];
}

export interface InferenceBenchOptions {
  /** Cases, or their first words. Default: all of the device. */
  readonly only?: readonly string[];
  /** Time for each case in each round. */
  readonly seconds: number;
  /** Turns of Heddle and of its peers. */
  readonly rounds: number;
  /** The command of Python; without one, there are no peers. */
  readonly python?: string | undefined;
  readonly given?: string;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

const METHOD =
  'From an array of the host to an array of the host (engine.runArrays; session.run), one batch after the other, wall-clock. Heddle and its ' +
  'peers take turns, each in a round warms up for a third of its time; the medians are of the best round of each. On a GPU, the ' +
  "peers' inputs and outputs stay there, as Heddle's do in the time of the device. load: loadEngine, from the second time on.";

/** @throws ArgumentError for an unknown case; the signal's reason */
export async function runInferenceBench(options: InferenceBenchOptions): Promise<InferenceResults> {
  const device = currentDevice();
  const isGpu = device.target.model === 'threads';
  const measurements: InferenceMeasurement[] = [];
  const folder = await mkdtemp(join(tmpdir(), 'heddle-inference-'));
  try {
    for (const of of selectCases(isGpu ? GPU_CASES : CPU_CASES, options.only))
      measurements.push(await measure(of, folder, options));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return {
    ...circumstances(`npx heddle bench inference${options.given ?? ''}`),
    ...{ benchmark: 'inference', device: measuredDevice(device), threads: isGpu ? 1 : device.target.units },
    ...{ method: METHOD, measurements },
  };
}

async function measure(
  of: InferenceCase,
  folder: string,
  options: InferenceBenchOptions,
): Promise<InferenceMeasurement> {
  const { rounds, seconds, python, onProgress, signal } = options;
  manualSeed(0);
  const model = of.build();
  const engine = await compile(model, {
    shapes: [of.shape],
    batchSizes: [of.batch],
    precision: of.precision,
    ...(of.precision === 'int8' && { calibration: [randn([8, ...of.shape])] }),
  });
  const onnx = python === undefined ? undefined : await exported(model, of, folder);
  const best: { spread?: Spread } = {};
  const peers = new Map<string, PeerLine>();
  for (let round = 1; round <= rounds; round++) {
    signal?.throwIfAborted();
    onProgress?.(`${of.title}, round ${round} of ${rounds}`);
    const spread = spreadOf(await sample(engine, of, seconds));
    if (!best.spread || spread.median < best.spread.median) best.spread = spread;
    if (python === undefined) continue;
    for (const line of onnx ? await peerLines(python, onnx, of, options) : [NO_ONNX]) {
      const key = `${line.peer} ${line.mode}`;
      const known = peers.get(key);
      if (!known || (line.us ?? Number.POSITIVE_INFINITY) < (known.us ?? Number.POSITIVE_INFINITY))
        peers.set(key, line);
    }
  }
  const isGpu = currentDevice().target.model === 'threads';
  const device = isGpu ? spreadOf((await engine.profile(of.batch, { each: false })).us) : undefined;
  const load = await loadTimes(engine, join(folder, `${of.id}.engine`));
  const { launches } = engine;
  engine.dispose();
  const spread = best.spread!;
  return {
    ...{ case: of.id, title: of.title, batch: of.batch, ...spread, launches: launches[0]!, load },
    ...(device && { device }),
    peers: [...peers.values()].map((p) => ({
      ...p,
      ...(p.us !== undefined && { ratio: rounded((device ?? spread).median / p.us) }),
    })),
  };
}

/** µs of each run. */
async function sample(engine: Engine, { shape, batch }: InferenceCase, seconds: number): Promise<number[]> {
  const inputs = [await randn([batch, ...shape]).data()];
  const until = async (end: number, least: number): Promise<number[]> => {
    const us: number[] = [];
    while (performance.now() < end || us.length < least) {
      const begin = performance.now();
      await engine.runArrays(inputs, batch);
      us.push((performance.now() - begin) * 1000);
    }
    return us;
  };
  await until(performance.now() + (seconds / 3) * 1000, 3);
  return until(performance.now() + seconds * 1000, 3);
}

async function loadTimes(engine: Engine, path: string): Promise<InferenceMeasurement['load']> {
  await engine.save(path);
  const ms: number[] = [];
  for (let i = 0; i < 6; i++) {
    const begin = performance.now();
    const loaded = await loadEngine(path);
    if (i > 0) ms.push(performance.now() - begin);
    loaded.dispose();
  }
  return { ms: spreadOf(ms), bytes: (await stat(path)).size };
}

const NO_ONNX: PeerLine = {
  ...{ peer: 'onnxruntime', version: '', mode: 'all' },
  skipped: 'heddle-onnx, which writes the model for it, is not installed: npm install heddle-onnx',
};

/** The model as ONNX, if heddle-onnx is installed. */
async function exported(
  model: nn.Module,
  { id, shape, batch }: InferenceCase,
  folder: string,
): Promise<string | undefined> {
  const onnx = await optionalPackage('heddle-onnx');
  if (!onnx) return undefined;
  const path = join(folder, `${id}.onnx`);
  await onnx.exportOnnx(model, [randn([batch, ...shape])], { path });
  return path;
}

async function peerLines(
  python: string,
  model: string,
  { id, shape, batch, network }: InferenceCase,
  { seconds, signal }: InferenceBenchOptions,
): Promise<PeerLine[]> {
  const { target } = currentDevice();
  const script = fileURLToPath(new URL('../../inference_peers.py', import.meta.url));
  const args = [script, '--model', model, '--case', id, '--input', [batch, ...shape].join(',')];
  args.push('--seconds', String(seconds), '--threads', String(target.name === 'cpu' ? target.units : 1));
  if (target.name === 'cuda') args.push('--device', 'cuda');
  if (network) args.push('--network', network);
  try {
    const { stdout } = await promisify(execFile)(python, args, { ...(signal && { signal }) });
    return stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as PeerLine] : []));
  } catch (error) {
    signal?.throwIfAborted();
    const skipped = `${python} does not run inference_peers.py: ${(error as Error).message}`.slice(0, 300);
    return [{ peer: 'onnxruntime', version: '', mode: 'all', skipped }];
  }
}

export function inferenceReport({ device, threads, measurements }: InferenceResults): string {
  const rows = measurements.map(({ title, median, min, batch, launches, device: alone, load, peers }) => {
    const timed = peers.filter((p) => p.us !== undefined);
    return [
      title,
      ...[median, min, ...(alone ? [alone.median] : [])].map((us) => us.toFixed(us < 100 ? 1 : 0)),
      ((batch / median) * 1e6).toFixed(0),
      String(launches),
      load.ms.median.toFixed(1),
      timed.map((p) => `${p.peer} ${p.mode} ${p.us} (${p.ratio})`).join(', ') || '–',
    ];
  });
  const skipped = measurements.flatMap(({ case: id, peers }) =>
    peers.flatMap((p) =>
      p.skipped === undefined ? [] : [`skipped: ${id}, ${p.peer} ${p.mode}: ${p.skipped}`],
    ),
  );
  const onGpu = measurements.some(({ device: alone }) => alone);
  const header = [
    'case',
    'µs',
    'min',
    ...(onGpu ? ['device'] : []),
    'images/s',
    'launches',
    'load ms',
    'peers: median µs (ratio)',
  ];
  const head = `${device.description}${device.name === 'cpu' ? `; ONNX Runtime with ${threads} thread${threads === 1 ? '' : 's'}` : ''}`;
  return [head, table(header, rows), ...skipped].join('\n');
}
