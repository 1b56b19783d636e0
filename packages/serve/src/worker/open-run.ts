/** The network of a run of `heddle train`, as a model that is served. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type DType, FileError, f32, i32, nn, type Shape } from 'heddle';
import { IMAGE_SETS } from 'heddle/data';
import { compile } from 'heddle/inference';
import type { RunConfig } from 'heddle/internal/cli/run-folder.js';
import { openModel, type SavedModel } from 'heddle/internal/cli/saved-run.js';
import { loadQuantized } from 'heddle/quantization';
import type { ImageInput, ModelSpec } from '../protocol/model-spec.js';
import { batchSizes, engineRun, engineTensors } from './engine-model.js';
import { canExplain, explainBy } from './explain.js';
import type { OpenOptions } from './open-model.js';
import type { ServedModel } from './served-model.js';

/**
 * Open a run: its best weights, or the last ones where those are not kept; with precision int8 those that `heddle quantize` wrote.
 * @throws ArgumentError, FileError
 */
export async function openRun({ path, device, maxBatchSize, precision }: OpenOptions): Promise<ServedModel> {
  const saved = await openModel(path, device === undefined ? {} : { device });
  const { model, program, config } = saved;
  const { shape, dtype, below } = inputOf(config, program.data);
  const computed = precision === 'int8' ? await quantizedOf(path, model) : model;
  const engine = await compile(computed as nn.Module, {
    ...{
      shapes: [shape],
      dtypes: [dtype],
      inputNames: ['input'],
      batchSizes: batchSizes(maxBatchSize),
      precision,
    },
  });
  const { inputs, outputs, batched } = engineTensors(engine);
  const { classNames } = config.data;
  const image = classNames && imageInputOf(config);
  const spec: ModelSpec = {
    ...{ platform: 'heddle_run', batched },
    inputs: inputs.map((input) => ({ ...input, ...(below !== undefined && { below }) })),
    outputs: outputs.map((output) => ({ ...output, name: 'logits' })),
    ...(classNames && { classes: classNames }),
    ...(image && { image, explains: await canExplain(convolves(model)) }),
  };
  const run = await engineRun(engine);
  return spec.explains ? { spec, run, explain: explainBy(model) } : { spec, run };
}

/** A run's model in bytes. Its own weights stay: Grad-CAM needs their gradients. @throws FileError */
async function quantizedOf(path: string, model: SavedModel['model']): Promise<nn.Module> {
  const file = join(path, 'quantized.safetensors');
  if (existsSync(file)) return loadQuantized(model as nn.Module, file);
  throw new FileError(file, `does not exist: precision int8 serves what \`heddle quantize ${path}\` writes.`);
}

const convolves = (model: SavedModel['model']): boolean =>
  [...model.namedModules()].some(([, module]) => module instanceof nn.Conv2d);

/** An example of what the network of a program takes. */
function inputOf(
  { data, recipe }: RunConfig,
  kind: SavedModel['program']['data'],
): { readonly shape: Shape; readonly dtype: DType; readonly below?: number } {
  if (kind !== 'text')
    return { shape: data.inputShape ?? (kind === 'images' ? [1, 28, 28] : [2]), dtype: f32 };
  const below = data.tokenizer?.size ?? [...(data.vocabulary ?? '')].length;
  return { shape: [recipe.sizes!.context], dtype: i32, below };
}

/** How the run reads images; undefined if it does not say. */
function imageInputOf({ data }: RunConfig): ImageInput | undefined {
  if (data.files) return data.files.format as unknown as ImageInput;
  const set = data.set ?? 'mnist';
  const { inputShape } = data;
  if (inputShape?.length !== 3 || !Object.hasOwn(IMAGE_SETS, set)) return undefined;
  const [channels, height, width] = inputShape as [1 | 3, number, number];
  const { normalize } = IMAGE_SETS[set as keyof typeof IMAGE_SETS];
  return { size: [height, width], channels, resize: 'squash', normalize };
}
