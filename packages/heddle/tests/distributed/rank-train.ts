/**
 * A rank of trainings, as a process: `rank-train.js <job as JSON>`, or without a job one after the other, each a line that it reads.
 * It writes its `Trained` as JSON to the job's file, with its rank behind the name, and prints `trained <file>`. It imports the
 * bundle, as users do, which Node loads in half the time.
 */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  type AnyTensor,
  ArrayDataset,
  accuracy,
  type Callback,
  crossEntropy,
  device,
  f64,
  fit,
  i32,
  Loader,
  manualSeed,
  nn,
  optim,
  setPrecision,
  type Tensor,
  TensorDataset,
  tensor,
} from 'heddle';
import * as distributed from 'heddle/distributed';
import { DTYPES, type DTypeName } from 'heddle/internal/core/dtype.js';
import { hostRoutine, registerHostRoutine } from 'heddle/internal/runtime/host-routines.js';

/** What is trained, and how. */
export interface TrainingJob {
  readonly file: string;
  readonly examples?: number;
  readonly batchSize?: number;
  readonly epochs?: number;
  readonly layers?: 'plain' | 'batchNorm' | 'synchronized' | 'dropout' | 'embedding';
  /** The data are tensors instead of arrays. */
  readonly tensors?: boolean;
  readonly accumulate?: number;
  readonly clipGradNorm?: number;
  readonly ema?: number;
  readonly shardOptimizer?: boolean;
  readonly folder?: string;
  readonly resume?: boolean;
  /** The rank that says 'stop' after so many steps. */
  readonly stop?: { readonly rank: number; readonly steps: number };
  /** An example whose input is not a number. */
  readonly nan?: number;
  /** Take a digest of the weights after each step; else a device may make many steps at a time. */
  readonly everyStep?: boolean;
  /** It goes on until a signal ends it: rank 0 prints `step` after the first. */
  readonly long?: boolean;
}

/** What a rank has in the end. */
export interface Trained {
  readonly rank: number;
  readonly worldSize: number;
  readonly steps: number;
  readonly ended: string;
  readonly losses: readonly number[];
  readonly validation: number;
  readonly accuracy: number;
  readonly weights: readonly number[];
  /** Of the bits of all weights and buffers. */
  readonly digest: string;
  /** The same after each step, where it was asked for. */
  readonly digests: readonly string[];
  /** Bytes of all reductions, on the CPU. */
  readonly reduced: number;
}

const FEATURES = 8;
/** No numbers of a generator that ranks could share. */
function pointsOf(
  examples: number,
  nan: number | undefined,
): { readonly inputs: Float32Array; readonly labels: Int32Array } {
  const inputs = Float32Array.from({ length: examples * FEATURES }, (_, i) => Math.sin(i * i * 0.37 + i));
  const labels = Int32Array.from({ length: examples }, (_, i) =>
    inputs[8 * i]! * inputs[8 * i + 1]! > 0 ? 1 : 0,
  );
  if (nan !== undefined) inputs[nan * FEATURES] = Number.NaN;
  return { inputs, labels };
}

/** A number for each feature, of more than there are examples. */
class Numbers extends nn.Module {
  override forward(x: Tensor): AnyTensor {
    return x.add(1).mul(300).cast(i32);
  }
}

function modelOf(layers: NonNullable<TrainingJob['layers']>): nn.Sequential {
  const hidden = 16;
  if (layers === 'embedding')
    return new nn.Sequential(
      new Numbers() as never,
      new nn.Embedding(601, 4),
      new nn.Flatten(),
      new nn.Linear(4 * FEATURES, 2),
    );
  const middle = {
    plain: [],
    batchNorm: [new nn.BatchNorm1d(hidden)],
    synchronized: [new nn.BatchNorm1d(hidden, { synchronized: true })],
    dropout: [new nn.Dropout({ p: 0.3 })],
  }[layers];
  // A bias before a batch norm has no gradient but rounding errors, of which Adam would make steps.
  const first = new nn.Linear(FEATURES, hidden, { bias: middle.length === 0 });
  return new nn.Sequential(first, ...middle, new nn.ReLU(), new nn.Linear(hidden, 2));
}

async function weightsOf(model: nn.Module): Promise<{ readonly weights: number[]; readonly digest: string }> {
  const hash = createHash('sha256');
  const weights: number[] = [];
  for (const held of Object.values(model.stateDict())) {
    const values = (await held.cast(f64).data()) as Float64Array;
    hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    weights.push(...values);
  }
  return { weights, digest: hash.digest('hex') };
}

/** Bytes of all reductions since a training has begun. */
let reduced = 0;
function countReduced(): void {
  const name = 'collective.allReduce';
  const allReduce = hostRoutine({ name, options: {} });
  registerHostRoutine(name, (call, memory, addresses) => {
    const { size, dtype } = call.options as unknown as { readonly size: number; readonly dtype: DTypeName };
    reduced += size * DTYPES[dtype].bytes;
    allReduce(call, memory, addresses);
  });
}

async function train({
  examples = 203,
  batchSize = 32,
  epochs = 3,
  layers = 'plain',
  stop,
  nan,
  ...job
}: TrainingJob): Promise<Trained> {
  reduced = 0;
  const rank = distributed.rank();
  manualSeed(1);
  const { inputs, labels } = pointsOf(examples, nan);
  const dataset = job.tensors
    ? new TensorDataset(tensor(inputs, { shape: [examples, FEATURES] }), tensor(labels))
    : new ArrayDataset({ inputs, labels, inputShape: [FEATURES], classes: 2 });
  const model = modelOf(layers);
  const digests: string[] = [];
  const watching: Callback = {
    onStep: async ({ step, epoch }) => {
      if (job.everyStep) digests.push((await weightsOf(model)).digest);
      if (job.long && rank === 0 && epoch === 0 && step === 1) process.stdout.write('step\n');
      return stop?.rank === rank && epoch === 0 && step >= stop.steps ? 'stop' : undefined;
    },
  };
  const loaderOf = (shuffle: boolean): Loader => new Loader(dataset as ArrayDataset, { batchSize, shuffle });
  const history = await fit(model, {
    train: loaderOf(true),
    validation: loaderOf(false),
    optimizer: new optim.Adam(model.parameters(), { lr: 0.01 }),
    loss: crossEntropy,
    metrics: { accuracy },
    epochs: job.long ? 100_000 : epochs,
    callbacks: stop || job.long || job.everyStep ? [watching] : [],
    ...(job.accumulate && { accumulate: job.accumulate }),
    ...(job.clipGradNorm && { clipGradNorm: job.clipGradNorm }),
    ...(job.ema && { ema: { decay: job.ema } }),
    ...(job.shardOptimizer && { shardOptimizer: true }),
    ...(job.folder && { folder: job.folder, checkpointEvery: { steps: 3 }, resume: job.resume ?? false }),
  });
  const last = history.epochs.at(-1);
  return {
    ...{ rank, worldSize: distributed.worldSize(), steps: history.steps, ended: history.ended },
    losses: history.epochs.map(({ loss }) => loss),
    validation: last?.validation?.loss ?? Number.NaN,
    accuracy: last?.validation?.metrics.accuracy ?? Number.NaN,
    ...{ ...(await weightsOf(model)), digests, reduced },
  };
}

setPrecision({ matmul: 'f32' });
await distributed.init();
if (distributed.worldSize() > 1 && device().name === 'cpu') countReduced();
const [, , given] = process.argv;
for await (const line of given ? [given] : createInterface(process.stdin)) {
  const job = JSON.parse(line) as TrainingJob;
  writeFileSync(`${job.file}.${distributed.rank()}`, JSON.stringify(await train(job)));
  process.stdout.write(`trained ${job.file}\n`);
}
await distributed.close();
