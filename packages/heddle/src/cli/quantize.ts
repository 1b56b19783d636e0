/** `heddle quantize`: the network of a run in 8-bit integers, and what that costs. */
import { join } from 'node:path';
import { ArgumentError } from '../core/errors.js';
import { writeFileAtomic } from '../io/index.js';
import { type CalibrationMethod, quantizationReport, quantize } from '../quantization/index.js';
import { closeDevices } from '../runtime/registry.js';
import { tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { whole } from './format.js';
import { type ClassDataset, evaluationLoader, loaderOf } from './run-data.js';
import { dataOfRun, openModel, type SavedRunOptions } from './saved-run.js';

export interface QuantizeCommandOptions extends SavedRunOptions {
  readonly method: CalibrationMethod;
  readonly percentile: number;
  readonly examples: number;
  readonly maxLoss: number;
  readonly keep?: readonly string[];
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Inputs and labels of a data set's batches. */
async function batchesOf(
  dataset: ClassDataset,
  loader: ReturnType<typeof loaderOf>,
): Promise<{ readonly inputs: Tensor; readonly labels: Tensor }[]> {
  const batches: { readonly inputs: Tensor; readonly labels: Tensor }[] = [];
  for await (const batch of loader as AsyncIterable<{ inputs: Float32Array; labels: Int32Array }>) {
    const shape = [batch.labels.length, ...dataset.inputShape];
    // The loader's arrays are those of the next batch, too.
    batches.push({
      inputs: tensor(batch.inputs.slice(), { shape }),
      labels: tensor(batch.labels.slice()),
    });
  }
  return batches;
}

/** Quantize a run's model, print the report, and write both into the run's folder. */
export async function quantizeRun(path: string, options: QuantizeCommandOptions): Promise<number> {
  try {
    const saved = await openModel(path, options);
    const data = await dataOfRun(saved, options);
    if (!('classes' in data))
      throw new ArgumentError('heddle quantize takes runs that classify: this one is of a language model.');
    const { method, percentile, keep = [], maxLoss } = options;
    const count = Math.min(options.examples, data.train.length);
    const calibration = data.train.slice(0, count);
    say(`weights      ${saved.file}`);
    say(`calibration  ${whole(count)} examples of ${data.name}, ${method}`);
    const batches = await batchesOf(calibration, loaderOf(calibration, { batchSize: Math.min(128, count) }));
    const quantized = await quantize(saved.model, batches, { method, percentile, keep });
    const test = await batchesOf(data.test, evaluationLoader(data.test));
    const report = await quantizationReport(saved.model, quantized, test, { maxLoss });
    const [weights, facts] = [join(path, 'quantized.safetensors'), join(path, 'quantization.json')];
    await quantized.save(weights);
    await writeFileAtomic(facts, `${JSON.stringify({ method, percentile, keep, report }, null, 2)}\n`);
    say(`\n${report}\n\nwritten      ${weights}\n             ${facts}`);
    return 0;
  } finally {
    await closeDevices();
  }
}
