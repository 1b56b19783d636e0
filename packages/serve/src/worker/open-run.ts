/** The network of a run of `heddle train`, as a model that is served. */
import { jit, noGrad, type Tensor, tensor } from 'heddle';
import { IMAGE_SETS } from 'heddle/data';
import type { RunConfig } from 'heddle/internal/cli/run-folder.js';
import { openModel, type SavedModel } from 'heddle/internal/cli/saved-run.js';
import type { ImageInput, ModelSpec, TensorSpec } from '../protocol/model-spec.js';
import type { Explanation, HostTensor, ServedModel } from './served-model.js';

/** Open a run: its best weights, or the last ones where those are not kept. @throws ArgumentError, FileError */
export async function openRun(path: string, device: string | undefined): Promise<ServedModel> {
  const saved = await openModel(path, device === undefined ? {} : { device });
  const { model } = saved;
  const forward = jit((x: Tensor) => noGrad(() => model.forward(x)));
  const run = async ([input]: readonly HostTensor[]): Promise<readonly HostTensor[]> => {
    const output = forward(tensor(input!.values, { shape: [...input!.shape] }) as Tensor);
    return [{ shape: output.shape, values: await output.data() }];
  };
  const spec = await specOf(saved, run);
  if (!spec.image) return { spec, run };
  const explain = async (input: HostTensor, target: number | undefined): Promise<Explanation> => {
    const { gradCam } = await import('heddle-look');
    const image = tensor(input.values, { shape: [...input.shape] }) as Tensor;
    const [found] = await gradCam(model, image, target === undefined ? {} : { targets: [target] });
    return found!;
  };
  return { spec: { ...spec, explains: await canExplain(model) }, run, explain };
}

/** Whether Grad-CAM has a convolution to look at, and heddle-look is there to do it. */
async function canExplain(model: SavedModel['model']): Promise<boolean> {
  const { nn } = await import('heddle');
  const convolves = [...model.namedModules()].some(([, module]) => module instanceof nn.Conv2d);
  return (
    convolves &&
    (await import('heddle-look').then(
      () => true,
      () => false,
    ))
  );
}

async function specOf({ program, config }: SavedModel, run: ServedModel['run']): Promise<ModelSpec> {
  const input = inputOf(config, program.data);
  const shape = input.shape.map((size) => (size === -1 ? 1 : size));
  const count = shape.reduce((a, b) => a * b);
  const values = input.datatype === 'INT32' ? new Int32Array(count) : new Float32Array(count);
  const [output] = await run([{ shape, values }]);
  const { classNames } = config.data;
  const logits: TensorSpec = {
    name: 'logits',
    datatype: 'FP32',
    shape: output!.shape.map((size, i) => (input.shape[i] === -1 ? -1 : size)),
  };
  const image = classNames && imageInputOf(config);
  return {
    ...{ platform: 'heddle_run', inputs: [input], outputs: [logits], batched: true },
    ...(classNames && { classes: classNames }),
    ...(image && { image }),
  };
}

/** What the network of a program takes. */
function inputOf({ data, recipe }: RunConfig, kind: SavedModel['program']['data']): TensorSpec {
  if (kind === 'text') {
    const below = data.tokenizer?.size ?? [...(data.vocabulary ?? '')].length;
    return { name: 'input', datatype: 'INT32', shape: [-1, recipe.sizes!.context], below };
  }
  const shape = data.inputShape ?? (kind === 'images' ? [1, 28, 28] : [2]);
  return { name: 'input', datatype: 'FP32', shape: [-1, ...shape] };
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
