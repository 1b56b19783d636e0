/** `heddle eval` and `heddle predict`: the model of a run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ArgumentError, DataError, FileError } from '../core/errors.js';
import { formatShape, sameShape, sizeOf } from '../core/shape.js';
import { ArrayDataset, type Normalization, type TextCodec } from '../data/index.js';
import { parseNpy } from '../io/index.js';
import { readBytes } from '../io/read.js';
import { restored } from '../io/stored.js';
import type { Layer } from '../nn/index.js';
import { closeDevices } from '../runtime/registry.js';
import { tensor } from '../tensor/create.js';
import { sigmoid, softmax } from '../tensor/functional-activations.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  loadWeights,
  metrics,
  programNamed,
} from '../train/index.js';
import type { TrainingProgram } from '../train/programs.js';
import { percent, table, textLoss, whole } from './format.js';
import { isImageFile, readImageFiles } from './image-files.js';
import {
  type ClassData,
  chooseDevice,
  type DataOptions,
  dataNamed,
  evaluationLoader,
  loadData,
  sizesOf,
} from './run-data.js';
import { type ImageFilesConfig, type RunConfig, RunFolder } from './run-folder.js';
import { StatusLine } from './terminal.js';
import { codecOfRun } from './text-data.js';

export interface SavedRunOptions extends DataOptions {
  /** Those of the epoch that was best (if they were kept), or the last ones. */
  readonly weights?: 'best' | 'last';
  readonly device?: string;
}

/** A run's network. */
export interface SavedModel {
  readonly program: TrainingProgram;
  readonly config: RunConfig;
  readonly model: Layer;
  /** What encodes the text of a language model. */
  readonly codec: TextCodec | undefined;
  /** The file of its weights. */
  readonly file: string;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** The model of a run, in evaluation mode. @throws ArgumentError, FileError */
export async function openModel(
  path: string,
  { weights, device }: Pick<SavedRunOptions, 'weights' | 'device'>,
): Promise<SavedModel> {
  const { folder, config } = RunFolder.open(path);
  const program = programNamed(config.program);
  const files = { best: join(path, 'best.safetensors'), last: join(path, 'weights.safetensors') };
  const file = files[weights ?? (existsSync(files.best) ? 'best' : 'last')];
  if (!existsSync(file))
    throw new FileError(
      file,
      'there are no such weights yet: the run was interrupted before its first epoch ended.',
    );
  const codec = await codecOfRun(folder, config.data);
  chooseDevice(device);
  const model = program.build(config.recipe, sizesOf(config.data));
  await loadWeights(model, file);
  model.eval();
  return { program, config, model, codec, file };
}

/** The data of a run, or other data of its kind. @throws ArgumentError for data that its model does not fit */
export async function dataOfRun(
  { program, config: { recipe, data: of, seed }, codec }: SavedModel,
  options: SavedRunOptions,
) {
  const status = new StatusLine(process.stderr);
  const data = await loadData({
    ...{ program, recipe, data: dataNamed(program, options) ?? of.set, seed, of, codec, isTest: true },
    tell: (text) => status.show(() => text),
    warn: say,
  }).finally(() => status.clear());
  if ('classes' in data) requireFit(data, of);
  return data;
}

function requireFit({ name, test, classes }: ClassData, of: RunConfig['data']): void {
  const shape = of.inputShape ?? test.inputShape;
  const count = of.classNames?.length ?? classes.length;
  if (sameShape(test.inputShape, shape) && classes.length === count) return;
  throw new ArgumentError(
    `the run was trained on inputs of ${formatShape(shape)} in ${count} classes, ${name} has ` +
      `${formatShape(test.inputShape)} in ${classes.length}. Choose other --data.`,
  );
}

/** Judge a run's model on the test set. */
export async function evaluateRun(path: string, options: SavedRunOptions): Promise<number> {
  try {
    const saved = await openModel(path, options);
    const { program, config, model, file } = saved;
    const data = await dataOfRun(saved, options);
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
      say(`loss       ${textLoss(loss, data.tokensPerCharacter)}`);
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

/** Classify inputs, or the examples of a file, by a run's model. */
export async function predictRun(
  path: string,
  inputs: readonly string[],
  options: SavedRunOptions,
): Promise<number> {
  try {
    const saved = await openModel(path, options);
    if (saved.program.data === 'text')
      throw new ArgumentError(
        `${path} is a run of ${saved.program.name}, which writes text. Use: npx heddle generate ${path}`,
      );
    const { files, classNames } = saved.config.data;
    const areFiles = files !== undefined && classNames !== undefined && inputs.every(isImageFile);
    const examples = areFiles
      ? await imageExamples(inputs, files, classNames)
      : await Promise.all(inputs.map((input) => dataExamples(input, saved, options)));
    for (const { input, classes, values, labels } of examples) {
      const name = inputs.length > 1 ? `${input}   ` : '';
      for (const [i, line] of (await rankedClasses(saved.model, values, classes)).entries())
        say(`${name}${line}${labels ? `   (true class: ${classes[labels[i]!]})` : ''}`);
    }
    return 0;
  } finally {
    await closeDevices();
  }
}

/** What an argument of the command stands for. */
interface NamedExamples {
  readonly input: string;
  readonly classes: readonly string[];
  /** (N, …). */
  readonly values: Tensor;
  /** What they really are, if that is known. */
  readonly labels?: Int32Array;
}

/** Files are read as those that the run was trained on; that needs none of these. */
const imageExamples = (
  paths: readonly string[],
  files: ImageFilesConfig,
  classes: readonly string[],
): Promise<NamedExamples[]> =>
  Promise.all(paths.map(async (input) => ({ input, classes, values: await readImageFiles([input], files) })));

/** The likeliest classes of each example, with their probabilities. */
async function rankedClasses(model: Layer, values: Tensor, names: readonly string[]): Promise<string[]> {
  const logits = noGrad(() => model.forward(values));
  const isBinary = logits.shape[1] === 1;
  const shares = [...(await (isBinary ? sigmoid(logits) : softmax(logits, 1)).data())].map(Number);
  const classes = names.length;
  return Array.from({ length: values.shape[0]! }, (_, i) => {
    const own = isBinary ? [1 - shares[i]!, shares[i]!] : shares.slice(i * classes, (i + 1) * classes);
    return own
      .map((share, c) => ({ share, name: names[c]! }))
      .sort((a, b) => b.share - a.share)
      .slice(0, 3)
      .map(({ name, share }) => `${name} ${percent(share)}`)
      .join('   ');
  });
}

/** What an argument names: numbers, an example of the test set, or the rows of a file. */
async function dataExamples(
  input: string,
  saved: SavedModel,
  options: SavedRunOptions,
): Promise<NamedExamples> {
  const data = (await dataOfRun(saved, options)) as ClassData;
  const { test, classes } = data;
  const number = /^test:(\d+)$/.exec(input)?.[1];
  if (number !== undefined && Number(number) >= test.length)
    throw new ArgumentError(`${input}: the test set has the examples 0 to ${test.length - 1}.`);
  const examples = number === undefined ? await givenExamples(input, data) : test;
  const indices =
    number === undefined ? Array.from({ length: examples.length }, (_, i) => i) : [Number(number)];
  const inputs = new Float32Array(indices.length * sizeOf(test.inputShape));
  const labels = new Int32Array(indices.length);
  await examples.batchInto(indices, inputs, labels);
  const values = tensor(inputs, { shape: [indices.length, ...test.inputShape] });
  return { input, classes, values, ...(number !== undefined && { labels }) };
}

/** Numbers, or the rows of a file, normalized as the test set is. */
async function givenExamples(input: string, { test, files }: ClassData): Promise<ArrayDataset> {
  const { inputShape, classes } = test;
  const size = sizeOf(inputShape);
  const normalize =
    test instanceof ArrayDataset ? test.normalize : (files!.format.normalize as Normalization);
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
  if (!existsSync(input) || !/\.npy$/i.test(input))
    throw new ArgumentError(
      `${input} is not an input. Expected numbers (0.5,-0.2), an example of the test set (test:3), or a .npy file; ` +
        'of a run on an image folder, images.',
    );
  const stored = parseNpy(await readBytes(input), input);
  return make(stored.dtype === 'u8' ? stored.data : Float32Array.from(await restored(stored).data(), Number));
}
