/** An ONNX file, as a model that is served. */
import { join } from 'node:path';
import { DTypeError, nn, type Tensor, tensor, useDevice } from 'heddle';
import { compile } from 'heddle/inference';
import { DTYPES, type DTypeName } from 'heddle/internal/core/dtype.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { decode } from 'heddle/internal/engine/realize.js';
import { loadOnnx, type OnnxModel, type OnnxOutputs } from 'heddle-onnx';
import { datatypeOf, recordOf } from '../protocol/datatypes.js';
import type { TensorSpec } from '../protocol/model-spec.js';
import { MODEL_FILES } from '../repository/model-files.js';
import { batchSizes, engineRun } from './engine-model.js';
import { canExplain, explainBy } from './explain.js';
import type { OpenOptions } from './open-model.js';
import type { HostTensor, ServedModel } from './served-model.js';

type ValueInfo = OnnxModel['inputs'][number];

/**
 * Open the ONNX file of a folder. If the first dimension of all inputs and outputs is free, it is the batch; if nothing else is free,
 * the model is compiled to an engine. @throws FileError; DTypeError for element types that tensors do not have
 */
export async function openOnnx(options: OpenOptions): Promise<ServedModel> {
  if (options.device !== undefined) useDevice(options.device);
  const file = join(options.path, MODEL_FILES.onnx);
  const model = await loadOnnx<OnnxOutputs>(file);
  model.eval();
  const [inputs, outputs] = [model.inputs, model.outputs].map((infos) =>
    infos.map((info) => specOf(info, file)),
  );
  const batched = [...inputs!, ...outputs!].every(({ shape }) => shape[0] === -1);
  const explains = await canExplain(takesImages(inputs!) && hasKernels(model));
  const spec = { platform: 'onnx_heddle', inputs: inputs!, outputs: outputs!, batched, explains };
  const isFixed = inputs!.every(({ shape }) => !shape.slice(1).includes(-1));
  return {
    ...{ spec, ...(explains && { explain: explainBy(new FirstOutput(model)) }) },
    run: batched && isFixed ? await compiled(model, spec.inputs, options) : await asItIs(model, spec.inputs),
  };
}

/** One input, (N, C, H, W). */
const takesImages = (inputs: readonly TensorSpec[]): boolean =>
  inputs.length === 1 && inputs[0]!.datatype === 'FP32' && inputs[0]!.shape.length === 4;

/** Whether it has weights as those of convolutions over images. */
const hasKernels = (model: OnnxModel<OnnxOutputs>): boolean =>
  model.parameters().some(({ ndim }) => ndim === 4);

/** A model as a layer, with its weights: its first output. */
class FirstOutput extends nn.Module {
  readonly #model: OnnxModel<OnnxOutputs>;

  constructor(model: OnnxModel<OnnxOutputs>) {
    super();
    this.#model = model;
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return this.#model.namedParameters();
  }

  forward(x: Tensor): Tensor {
    return [this.#model.forward(x)].flat()[0] as Tensor;
  }
}

async function compiled(
  model: OnnxModel<OnnxOutputs>,
  inputs: readonly TensorSpec[],
  { maxBatchSize, precision }: OpenOptions,
): Promise<ServedModel['run']> {
  const engine = await compile(model, {
    shapes: inputs.map(({ shape }) => shape.slice(1)),
    dtypes: inputs.map(({ datatype }) => DTYPES[recordOf(datatype).dtype!]),
    inputNames: inputs.map(({ name }) => name),
    ...{ batchSizes: batchSizes(maxBatchSize), precision },
  });
  return engineRun(engine);
}

/** A program for each shape of the inputs, made when it first comes; of a model with one shape, it is made here. */
async function asItIs(
  model: OnnxModel<OnnxOutputs>,
  specs: readonly TensorSpec[],
): Promise<ServedModel['run']> {
  const dtypes = specs.map(({ datatype }) => DTYPES[recordOf(datatype).dtype!]);
  const run = async (inputs: readonly HostTensor[]): Promise<readonly HostTensor[]> => {
    const given = inputs.map(({ values, shape }, i) =>
      tensor(values, { shape: [...shape], dtype: dtypes[i]! }),
    );
    const outputs = [await model.run(...given)].flat();
    return Promise.all(outputs.map(async (output) => ({ shape: output.shape, values: await output.data() })));
  };
  if (specs.every(({ shape }) => !shape.includes(-1)))
    await run(
      specs.map(({ shape }, i) => ({
        shape,
        values: decode(new Uint8Array(sizeOf(shape) * dtypes[i]!.bytes), dtypes[i]!),
      })),
    );
  return run;
}

function specOf({ name, dtype, shape }: ValueInfo, file: string): TensorSpec {
  if (!Object.hasOwn(DTYPES, dtype))
    throw new DTypeError(
      `${file}: '${name}' is ${dtype}, which no tensor is. Served are ${Object.keys(DTYPES).join(', ')}.`,
    );
  if (!shape)
    throw new DTypeError(
      `${file}: '${name}' has no shape in the model. Give it one, or export the model again.`,
    );
  return {
    ...{ name, datatype: datatypeOf(dtype as DTypeName) },
    shape: shape.map((size) => (typeof size === 'number' ? size : -1)),
  };
}
