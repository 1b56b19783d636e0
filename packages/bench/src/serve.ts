/** `heddle bench serve`: how many requests a service answers, beside what its engine computes alone. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { device, manualSeed, nn } from 'heddle';
import { compile, type Engine } from 'heddle/inference';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
} from 'heddle/internal/cli/figures.js';
import { table } from 'heddle/internal/cli/format.js';
import { neededPackage } from 'heddle/internal/cli/packages.js';
import { LeNet5 } from 'heddle/internal/train/programs.js';
import { ResNet18 } from 'heddle/internal/train/resnet.js';
import {
  grpcRequest,
  type LoadResult,
  loadByGrpc,
  loadByRest,
  requireTools,
  restRequest,
} from './serve-load.js';
import { startService } from './serve-process.js';
import { selectCases } from './workload.js';

/** A network that is served, batched and one by one. */
interface ServedNetwork {
  readonly shape: readonly number[];
  readonly build: () => nn.Module;
}

/**
 * LeNet-5 computes an image in about the time of its request; `wide` reads 80 MB of weights for a batch of any size; ResNet-18
 * takes a GPU about as long for one image as for many, as each of its launches is too small for it.
 */
const NETWORKS = {
  lenet5: { shape: [1, 28, 28], build: () => new LeNet5() },
  wide: {
    shape: [784],
    build: () =>
      new nn.Sequential(
        ...[
          new nn.Linear(784, 4096),
          new nn.ReLU(),
          new nn.Linear(4096, 4096),
          new nn.ReLU(),
          new nn.Linear(4096, 10),
        ],
      ),
  },
  resnet18: { shape: [3, 32, 32], build: () => new ResNet18(3, 10) },
} as const satisfies Record<string, ServedNetwork>;

type NetworkName = keyof typeof NETWORKS;

interface ServeCase {
  readonly id: string;
  readonly title: string;
  readonly network: NetworkName;
  readonly protocol: 'rest' | 'grpc';
  /** Examples of a request. */
  readonly rows: number;
  /** Rows that may run together. */
  readonly maxBatchSize: number;
}

const MOST_ROWS = 64;
const SIZES = [1, 2, 4, 8, 16, 32, MOST_ROWS];

const CASES: readonly ServeCase[] = (Object.keys(NETWORKS) as NetworkName[]).flatMap((network) => [
  {
    ...{ id: `${network}-rest`, title: `${network}, REST`, network, protocol: 'rest', rows: 1 },
    maxBatchSize: MOST_ROWS,
  },
  {
    ...{ id: `${network}-grpc`, title: `${network}, gRPC`, network, protocol: 'grpc', rows: 1 },
    maxBatchSize: MOST_ROWS,
  },
  {
    ...{
      id: `${network}-single`,
      title: `${network}, REST, not batched`,
      network,
      protocol: 'rest',
      rows: 1,
    },
    maxBatchSize: 1,
  },
  {
    ...{ id: `${network}-rest32`, title: `${network}, REST, 32 examples each`, network, protocol: 'rest' },
    ...{ rows: 32, maxBatchSize: MOST_ROWS },
  },
]);

/** Medians of the rounds. */
export interface ServeMeasurement extends LoadResult {
  readonly case: string;
  readonly title: string;
  /** Examples in a second / those that the engine alone computes in its best batches. */
  readonly ofEngine: number;
  /** Of a case that is batched: its requests in a second / those of the case that is not. */
  readonly batchingGain?: number;
}

export interface ServeResults extends Circumstances {
  readonly benchmark: 'serve';
  readonly method: string;
  readonly clients: number;
  readonly device: MeasuredDevice;
  /** Of the CPU device, in the service and in the engine alone. */
  readonly threads: number;
  readonly measurements: readonly ServeMeasurement[];
  /** Examples in a second by batch size, and CPU µs of each. */
  readonly engines: Readonly<Record<string, readonly EngineFigure[]>>;
}

interface EngineFigure {
  readonly batch: number;
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
}

export interface ServeBenchOptions {
  /** Cases, or their first words. Default: all. */
  readonly only?: readonly string[];
  /** Of each case in each round. */
  readonly seconds: number;
  readonly rounds: number;
  /** Connections, each of which waits for its answer before it asks again. */
  readonly clients: number;
  readonly given: string;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

/** @throws ArgumentError for an unknown case, and if wrk, h2load or heddle-serve is missing; the signal's reason */
export async function runServeBench(options: ServeBenchOptions): Promise<ServeResults> {
  const { rounds, clients, seconds, given, onProgress, signal } = options;
  const cases = selectCases(CASES, options.only);
  await neededPackage('heddle-serve', 'heddle bench serve');
  await requireTools();
  const threads = Math.max(1, availableParallelism() - 1);
  const folder = await mkdtemp(join(tmpdir(), 'heddle-serve-'));
  const engines: Record<string, readonly EngineFigure[]> = {};
  const found = new Map<string, LoadResult[]>(cases.map(({ id }) => [id, []]));
  try {
    for (const network of new Set(cases.map((own) => own.network))) {
      onProgress?.(`${network}, compiling`);
      const engine = await writeModels(join(folder, 'models'), network);
      engines[network] = await engineAlone(engine, network, options);
      engine.dispose();
    }
    const service = await startService(join(folder, 'models'), device().name, threads);
    try {
      for (let round = 1; round <= rounds; round++)
        for (const own of cases) {
          signal?.throwIfAborted();
          onProgress?.(`${own.title}, round ${round} of ${rounds}`);
          const shape = [own.rows, ...NETWORKS[own.network].shape];
          const load = {
            service,
            model: modelOf(own),
            shape,
            clients,
            seconds,
            folder,
            ...(signal && { signal }),
          };
          found
            .get(own.id)!
            .push(
              own.protocol === 'rest'
                ? await loadByRest(load, restRequest(shape))
                : await loadByGrpc(load, grpcRequest(load.model, shape)),
            );
        }
    } finally {
      await service.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return {
    ...circumstances(`npx heddle bench serve${given}`),
    ...{ benchmark: 'serve', method: METHOD, device: measuredDevice(device()), clients, threads, engines },
    measurements: cases.map((own) => measurementOf(own, found, engines[own.network]!)),
  };
}

const METHOD =
  'One service, one instance of each model; clients that wait for their answers, REST by wrk and gRPC by h2load, on the ' +
  'same machine: medians of the rounds. CPU time is that of the process that reads and answers, of the one that computes, and of ' +
  'the load tool, for a request, from /proc. Engine: engine.runArrays in a process of its own, with as many threads, before the service starts.';

const modelOf = ({ network, maxBatchSize }: ServeCase): string =>
  maxBatchSize === 1 ? `${network}-single` : network;

/** The folders of a network's two models: the same engine. */
async function writeModels(folder: string, name: NetworkName): Promise<Engine> {
  manualSeed(0);
  const { build, shape } = NETWORKS[name];
  const engine = await compile(build(), { shapes: [shape], inputNames: ['input'], batchSizes: SIZES });
  for (const [model, maxBatchSize] of [
    [name, MOST_ROWS],
    [`${name}-single`, 1],
  ] as const) {
    await mkdir(join(folder, model, '1'), { recursive: true });
    await engine.save(join(folder, model, '1', 'model.engine'));
    await writeFile(join(folder, model, 'settings.json'), JSON.stringify({ maxBatchSize, queueSize: 4096 }));
  }
  return engine;
}

async function engineAlone(
  engine: Engine,
  name: NetworkName,
  { seconds, onProgress, signal }: ServeBenchOptions,
): Promise<readonly EngineFigure[]> {
  const figures: EngineFigure[] = [];
  for (const batch of SIZES) {
    signal?.throwIfAborted();
    onProgress?.(`${name}, the engine alone, batch ${batch}`);
    const size = NETWORKS[name].shape.reduce((a, b) => a * b, batch);
    const x = Float32Array.from({ length: size }, (_, i) => Math.sin(1e4 * Math.sin(i + 1)));
    const runFor = async (ms: number): Promise<number> => {
      let count = 0;
      for (const end = performance.now() + ms; performance.now() < end; count++)
        await engine.runArrays([x], batch);
      return count * batch;
    };
    await runFor(100 * seconds);
    const [began, cpu] = [performance.now(), process.cpuUsage()];
    const examples = await runFor(300 * seconds);
    const { user, system } = process.cpuUsage(cpu);
    figures.push({
      batch,
      perSecond: rounded((examples / (performance.now() - began)) * 1000),
      cpuMicroseconds: rounded((user + system) / examples),
    });
  }
  return figures;
}

function measurementOf(
  own: ServeCase,
  found: ReadonlyMap<string, readonly LoadResult[]>,
  engine: readonly EngineFigure[],
): ServeMeasurement {
  const figures = medians(found.get(own.id)!);
  const best = Math.max(...engine.map(({ perSecond }) => perSecond));
  const single = found.get(`${own.network}-single`);
  return {
    ...{ case: own.id, title: own.title, ...figures },
    ofEngine: rounded((figures.perSecond * own.rows) / best),
    ...(single &&
      own.id === `${own.network}-rest` && {
        batchingGain: rounded(figures.perSecond / medians(single).perSecond),
      }),
  };
}

function medians(rounds: readonly LoadResult[]): LoadResult {
  const of = (key: keyof LoadResult): number =>
    rounded(rounds.map((round) => round[key]).sort((a, b) => a - b)[rounds.length >> 1]!);
  return {
    ...{ perSecond: of('perSecond'), p50: of('p50'), p99: of('p99'), errors: of('errors') },
    ...{ frontMicroseconds: of('frontMicroseconds'), workerMicroseconds: of('workerMicroseconds') },
    loadMicroseconds: of('loadMicroseconds'),
  };
}

export function serveReport({ measurements, engines, clients, threads, device }: ServeResults): string {
  const rows = measurements.map((own) => [
    own.title,
    own.perSecond.toFixed(0),
    ...[own.p50, own.p99].map((ms) => ms.toFixed(1)),
    String(own.errors),
    ...[own.frontMicroseconds, own.workerMicroseconds, own.loadMicroseconds].map((us) => us.toFixed(0)),
    own.ofEngine.toFixed(2),
    own.batchingGain?.toFixed(1) ?? '–',
  ]);
  const header = [
    'requests',
    'a second',
    'p50 ms',
    'p99 ms',
    'errors',
    'CPU µs: front',
    'worker',
    'load',
    'of engine',
    'gain',
  ];
  const alone = Object.entries(engines).map(
    ([name, figures]) =>
      `${name}, the engine alone, examples/s by batch: ${figures.map(({ batch, perSecond }) => `${batch}: ${perSecond.toFixed(0)}`).join(', ')}`,
  );
  return [
    `${device.description}: ${clients} clients, ${threads} thread${threads === 1 ? '' : 's'} to compute`,
    table(header, rows),
    ...alone,
  ].join('\n');
}
