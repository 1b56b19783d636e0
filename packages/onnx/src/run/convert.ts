/** `heddle onnx convert`: trained networks as ONNX models, and ONNX models as weights. */
import { existsSync, statSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import {
  type AnyTensor,
  ArgumentError,
  FileError,
  i32,
  loadWeights,
  type nn,
  useDevice,
  zeros,
} from 'heddle';
import { whole } from 'heddle/internal/cli/format.js';
import { sizesOf } from 'heddle/internal/cli/run-data.js';
import { type RunConfig, RunFolder } from 'heddle/internal/cli/run-folder.js';
import { openModel } from 'heddle/internal/cli/saved-run.js';
import { StatusLine } from 'heddle/internal/cli/terminal.js';
import { EXAMPLES } from 'heddle/internal/cli/training-steps.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { programNamed, type TrainingProgram } from 'heddle/internal/train/programs.js';
import { readSafetensors, saveTensors } from 'heddle/io';
import { type DynamicAxes, exportOnnx } from '../export/export-onnx.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { readModel } from '../file/model-file.js';
import { loadOnnx, type OnnxOutputs } from '../model/onnx-model.js';
import { describe } from './describe.js';
import { bytes } from './info.js';
import { dimensionName, randomInputs, sizesFor } from './random-inputs.js';
import { weightsOf } from './weights.js';

/** Options of `heddle onnx convert`. */
export interface ConvertOptions {
  readonly opset?: number;
  /** Dimensions of any size; default: the batch. */
  readonly dynamic?: readonly string[];
  readonly precision?: 'f32' | 'f16';
  readonly weights?: 'best' | 'last';
  readonly program?: string;
  readonly externalData?: boolean;
  readonly functions?: boolean;
}

type Say = (line: string) => void;

/** @param say prints a line @throws ArgumentError for what cannot be converted, FileError */
export async function convert(from: string, to: string, options: ConvertOptions, say: Say): Promise<void> {
  const target = extname(to).toLowerCase();
  if (!existsSync(from)) throw new FileError(from, 'no such file or folder.');
  const isModel = extname(from).toLowerCase() === '.onnx';
  try {
    if (isModel && ['.safetensors', '.npz'].includes(target)) return await toWeights(from, to, say);
    if (target !== '.onnx')
      throw new ArgumentError(
        `${to}: cannot be written from ${from}. ${isModel ? 'Name a file .safetensors or .npz.' : 'Name a file .onnx.'}`,
      );
    if (isModel) return await again(from, to, options, say);
    await toOnnx(await networkOf(from, options), to, options, say);
  } finally {
    await closeDevices();
  }
}

/** A network with its weights, and what it was trained on. */
interface Network {
  readonly model: nn.Module;
  readonly program: TrainingProgram;
  /** Of a run. */
  readonly config: RunConfig | undefined;
  /** Where its weights are from. */
  readonly file: string;
}

/** @throws ArgumentError if nothing says which network the weights are of */
async function networkOf(from: string, { weights, program: name }: ConvertOptions): Promise<Network> {
  useDevice('cpu');
  if (statSync(from).isDirectory()) return openModel(from, { ...(weights && { weights }), device: 'cpu' });
  const folder = dirname(from);
  const config =
    name === undefined && existsSync(join(folder, 'config.json')) ? RunFolder.open(folder).config : undefined;
  if (name === undefined && !config)
    throw new ArgumentError(
      `${from}: nothing says which network these weights are of. Give it: --program lenet5, or convert the folder of a run.`,
    );
  const program = programNamed(name ?? config!.program);
  const model = program.build(config?.recipe, config && sizesOf(config.data));
  await loadWeights(model, from, (await isCheckpoint(from)) ? { prefix: 'model.' } : {});
  return { model: model.eval(), program, config, file: from };
}

/** Whether a file is what `heddle train --resume` needs. */
const isCheckpoint = async (path: string): Promise<boolean> =>
  extname(path) === '.safetensors' && (await readSafetensors(path)).metadata.format === 'heddle checkpoint';

async function toOnnx(network: Network, to: string, options: ConvertOptions, say: Say): Promise<void> {
  const { model, program, config, file } = network;
  const dynamic = options.dynamic ?? ['batch'];
  const status = new StatusLine(process.stderr);
  status.show(() => `exporting ${program.name} …`);
  try {
    const input = exampleOf(network);
    const { operators, files } = await exportOnnx(model, [input], {
      path: to,
      ...exportOptions(options),
      dynamicAxes: dynamicAxes(program, dynamic),
      metadata: metadataOf(program, config),
    });
    status.clear();
    say(`weights    ${file}`);
    say(`input      ${input.dtype.name} (${input.shape.join(', ')}), dynamic: ${dynamic.join(', ')}`);
    sayWritten(operators, files, say);
  } finally {
    status.clear();
  }
}

/** The options that are those of `exportOnnx`. */
const exportOptions = ({ opset, precision, externalData, functions }: ConvertOptions) => ({
  ...(opset !== undefined && { opset }),
  ...(precision && { precision }),
  ...(externalData && { externalData }),
  ...(functions && { functions }),
});

/** A batch of one, as the network was trained with. */
function exampleOf({ program, config }: Network): AnyTensor {
  if (program.data === 'text') {
    const { context } = config?.recipe.sizes ?? program.recipe.sizes!;
    return zeros([1, context], { dtype: i32 });
  }
  return zeros([1, ...(config?.data.inputShape ?? EXAMPLES[program.data].shape)]);
}

const AXES: Readonly<Record<string, number>> = { batch: 0, length: 1 };

/** @throws ArgumentError for dimensions that the network does not have */
function dynamicAxes({ name, data }: TrainingProgram, dynamic: readonly string[]): DynamicAxes {
  if (dynamic.join() === 'none') return {};
  const known = data === 'text' ? ['batch', 'length'] : ['batch'];
  for (const one of dynamic)
    if (!known.includes(one))
      throw new ArgumentError(`--dynamic ${dynamic.join(',')}: ${name} has ${known.join(' and ')}, or none.`);
  return { input: Object.fromEntries(dynamic.map((one) => [AXES[one]!, one])) };
}

/** What users of the model want to know of its training. */
function metadataOf({ name }: TrainingProgram, config: RunConfig | undefined): Record<string, string> {
  const { classNames, files } = config?.data ?? {};
  return {
    'heddle.program': name,
    ...(classNames && { 'heddle.classes': JSON.stringify(classNames) }),
    ...(files && { 'heddle.images': JSON.stringify(files.format) }),
  };
}

/** A model once more: with the operators of another version, or with its weights elsewhere. */
async function again(from: string, to: string, options: ConvertOptions, say: Say): Promise<void> {
  useDevice('cpu');
  const model = await loadOnnx<OnnxOutputs>(from);
  const { metadata } = describe(await readModel(from));
  const axes = model.inputs.map(({ name, shape }) => {
    const dynamic = (shape ?? []).flatMap((size, axis) =>
      typeof size === 'number' ? [] : [[axis, dimensionName(name, axis, size)] as const],
    );
    return [name, Object.fromEntries(dynamic)] as const;
  });
  for (const { name, dtype } of [...model.inputs, ...model.outputs])
    if (ELEMENT_TYPES[dtype].dtype?.name !== dtype)
      throw new ArgumentError(
        `${from}: '${name}' is of type ${dtype}, which the library has no tensors of: it cannot be written again.`,
      );
  const { operators, files } = await exportOnnx(
    model,
    randomInputs(model.inputs, sizesFor(model.inputs, {})),
    {
      ...{ path: to, metadata, dynamicAxes: Object.fromEntries(axes) },
      ...exportOptions(options),
      inputNames: model.inputs.map(({ name }) => name),
      outputNames: model.outputs.map(({ name }) => name),
    },
  );
  sayWritten(operators, files, say);
}

function sayWritten(operators: Readonly<Record<string, number>>, files: readonly string[], say: Say): void {
  const nodes = Object.values(operators).reduce((n, count) => n + count, 0);
  const named = Object.entries(operators).map(([name, n]) => `${name} ${n}`);
  say(`nodes      ${whole(nodes)}: ${named.join(', ')}`);
  for (const path of files) say(`written    ${path}, ${bytes(statSync(path).size)}`);
}

async function toWeights(from: string, to: string, say: Say): Promise<void> {
  const tensors = await weightsOf(await readModel(from));
  await saveTensors(to, tensors);
  say(`tensors    ${whole(Object.keys(tensors).length)}`);
  say(`written    ${to}, ${bytes(statSync(to).size)}`);
}
