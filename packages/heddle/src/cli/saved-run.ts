/** `heddle eval` and `heddle predict`: the model of a run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ArgumentError, DataError, FileError } from '../core/errors.js';
import { formatShape, sizeOf } from '../core/shape.js';
import { ArrayDataset } from '../data/index.js';
import { parseNpy } from '../io/index.js';
import { readBytes } from '../io/read.js';
import { restored } from '../io/stored.js';
import type { Layer } from '../nn/index.js';
import { closeDevices } from '../runtime/registry.js';
import { tensor } from '../tensor/create.js';
import { sigmoid, softmax } from '../tensor/functional-activations.js';
import { noGrad } from '../tensor/modes.js';
import {
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  loadWeights,
  metrics,
  programNamed,
} from '../train/index.js';
import type { TrainingProgram } from '../train/programs.js';
import { perCharacter, percent, table, whole } from './format.js';
import {
  type ClassData,
  chooseDevice,
  type DataOptions,
  dataNamed,
  evaluationLoader,
  loadData,
} from './run-data.js';
import { type RunConfig, RunFolder } from './run-folder.js';

export interface SavedRunOptions extends DataOptions {
  /** Those of the epoch that was best (if they were kept), or the last ones. */
  readonly weights?: 'best' | 'last';
  readonly device?: string;
}

interface SavedModel {
  readonly program: TrainingProgram;
  readonly config: RunConfig;
  readonly model: Layer;
  /** The file of its weights. */
  readonly file: string;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** The model of a run, in evaluation mode. @throws ArgumentError, FileError */
export async function openModel(
  path: string,
  { weights, device }: Pick<SavedRunOptions, 'weights' | 'device'>,
): Promise<SavedModel> {
  const { config } = RunFolder.open(path);
  const program = programNamed(config.program);
  const files = { best: join(path, 'best.safetensors'), last: join(path, 'weights.safetensors') };
  const file = files[weights ?? (existsSync(files.best) ? 'best' : 'last')];
  if (!existsSync(file))
    throw new FileError(
      file,
      'there are no such weights yet: the run was interrupted before its first epoch ended.',
    );
  chooseDevice(device);
  const { vocabulary } = config.data;
  const model = program.build(config.recipe, vocabulary === undefined ? undefined : [...vocabulary].length);
  await loadWeights(model, file);
  model.eval();
  return { program, config, model, file };
}

/** The data of a run, or other data of its kind. */
function dataOf({ program, config: { recipe, data, seed } }: SavedModel, options: SavedRunOptions) {
  const { set, vocabulary } = data;
  return loadData({ program, recipe, data: dataNamed(program, options) ?? set, seed, vocabulary });
}

/** Judge a run's model on the test set. */
export async function evaluateRun(path: string, options: SavedRunOptions): Promise<number> {
  try {
    const saved = await openModel(path, options);
    const { program, config, model, file } = saved;
    const data = await dataOf(saved, options);
    say(`weights    ${file}`);
    say(`data       ${data.name}: ${whole(data.test.length)} to test`);
    const judge = (more: EvaluateOptions['metrics']): Promise<Evaluation> =>
      evaluate(model, evaluationLoader(data.test), {
        autocast: config.recipe.autocast,
        loss: program.loss('mean'),
        metrics: { accuracy: program.metric, ...more },
      });
    if ('classes' in data) await judgeClasses(judge, data.classes);
    else {
      const { loss, metrics } = await judge({});
      say(`loss       ${perCharacter(loss)}`);
      say(`accuracy   ${percent(metrics.accuracy!)}`);
    }
    return 0;
  } finally {
    await closeDevices();
  }
}

async function judgeClasses(
  judge: (metrics: EvaluateOptions['metrics']) => Promise<Evaluation>,
  names: readonly string[],
): Promise<void> {
  const classes = names.length;
  const average = 'macro' as const;
  const {
    loss,
    metrics: found,
    tables,
  } = await judge({
    precision: metrics.precision({ classes, average }),
    recall: metrics.recall({ classes, average }),
    f1: metrics.f1({ classes, average }),
    confusion: metrics.confusionMatrix(classes),
  });
  say(`loss       ${loss.toFixed(4)}`);
  for (const [name, value] of Object.entries(found)) say(`${name.padEnd(11)}${percent(value)}`);
  const rows = tables!.confusion!.map((row, c) => [names[c]!, ...row.map(whole)]);
  say(`\n${table(['true \\ predicted', ...names], rows)}`);
}

/** Classify one input, or the examples of a file, by a run's model. */
export async function predictRun(path: string, input: string, options: SavedRunOptions): Promise<number> {
  try {
    const saved = await openModel(path, options);
    const data = await dataOf(saved, options);
    if (!('classes' in data))
      throw new ArgumentError(
        `${path} is a run of ${saved.program.name}, which writes text. Use: npx heddle generate ${path}`,
      );
    const { model } = saved;
    const examples = await examplesOf(input, data);
    const [count, ...shape] = [examples.length, ...examples.inputShape];
    const inputs = new Float32Array(count * sizeOf(shape));
    examples.batchInto(
      Array.from({ length: count }, (_, i) => i),
      inputs,
      new Int32Array(count),
    );
    const logits = noGrad(() => model.forward(tensor(inputs, { shape: [count, ...shape] })));
    const isBinary = logits.shape[1] === 1;
    const shares = [...(await (isBinary ? sigmoid(logits) : softmax(logits, 1)).data())].map(Number);
    const classes = data.classes.length;
    for (let i = 0; i < count; i++) {
      const own = isBinary ? [1 - shares[i]!, shares[i]!] : shares.slice(i * classes, (i + 1) * classes);
      const ranked = own
        .map((share, c) => ({ share, name: data.classes[c]! }))
        .sort((a, b) => b.share - a.share)
        .slice(0, 3);
      const label = input.startsWith('test:') ? `   (true class: ${data.classes[examples.labels[i]!]})` : '';
      say(`${ranked.map(({ name, share }) => `${name} ${percent(share)}`).join('   ')}${label}`);
    }
    return 0;
  } finally {
    await closeDevices();
  }
}

/** What the command's input names: numbers, an example of the test set, or the rows of a file. */
async function examplesOf(input: string, { test }: ClassData): Promise<ArrayDataset> {
  const { inputShape, normalize, classes } = test;
  const size = sizeOf(inputShape);
  const number = /^test:(\d+)$/.exec(input)?.[1];
  if (number !== undefined) {
    if (Number(number) >= test.length)
      throw new ArgumentError(`${input}: the test set has the examples 0 to ${test.length - 1}.`);
    return test.slice(Number(number), Number(number) + 1);
  }
  const make = (inputs: Float32Array | Uint8Array): ArrayDataset => {
    if (inputs.length === 0 || inputs.length % size !== 0)
      throw new DataError(
        `${input} has ${inputs.length} values, this model takes ${size} for each example, of shape ${formatShape(inputShape)}.`,
      );
    const labels = new Int32Array(inputs.length / size);
    return new ArrayDataset({ inputs, inputShape, labels, classes, normalize });
  };
  const numbers = input.split(',').map((text) => (text.trim() === '' ? Number.NaN : Number(text)));
  if (numbers.every(Number.isFinite)) return make(Float32Array.from(numbers));
  if (!existsSync(input))
    throw new ArgumentError(
      `${input} is not an input. Expected numbers (0.5,-0.2), an example of the test set (test:3), or a .npy file.`,
    );
  const stored = parseNpy(await readBytes(input), input);
  return make(stored.dtype === 'u8' ? stored.data : Float32Array.from(await restored(stored).data(), Number));
}
