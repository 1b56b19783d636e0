/** An engine, as a model that is served. */
import type { Engine, EngineValue } from 'heddle/inference';
import { datatypeOf } from '../protocol/datatypes.js';
import type { ModelSpec, TensorSpec } from '../protocol/model-spec.js';
import type { HostTensor, ServedModel } from './served-model.js';

/** The sizes of batches to compile programs for: powers of two, and the largest. */
export function batchSizes(maxBatchSize: number): readonly number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(maxBatchSize)) }, (_, i) => 2 ** i);
  return [...powers, maxBatchSize];
}

/** Inputs and outputs of an engine, with the batch as their first dimension. */
export const engineTensors = ({
  inputs,
  outputs,
}: Engine): Pick<ModelSpec, 'inputs' | 'outputs' | 'batched'> => ({
  inputs: inputs.map(specOf),
  outputs: outputs.map(specOf),
  batched: true,
});

const specOf = ({ name, dtype, shape }: EngineValue): TensorSpec => ({
  ...{ name, datatype: datatypeOf(dtype.name), shape: [-1, ...shape] },
});

/** Runs batches by an engine. */
export const engineRun =
  (engine: Engine): ServedModel['run'] =>
  async (inputs: readonly HostTensor[]): Promise<readonly HostTensor[]> => {
    const rows = inputs[0]!.shape[0]!;
    const outputs = await engine.runArrays(
      inputs.map(({ values }) => values),
      rows,
    );
    return outputs.map((values, i) => ({ shape: [rows, ...engine.outputs[i]!.shape], values }));
  };
