/** An engine, as a model that is served. */
import type { Engine, EngineValue } from 'heddle/inference';
import { concatBytes } from 'heddle/internal/core/bytes.js';
import type { TypedArray } from 'heddle/internal/core/dtype.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { decode, encode } from 'heddle/internal/engine/realize.js';
import { datatypeOf } from '../protocol/datatypes.js';
import type { ModelSpec, TensorSpec } from '../protocol/model-spec.js';
import type { ServedModel } from './served-model.js';

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

/** Runs batches by an engine, each in the parts that take the least time together. Every program has run when this returns. */
export async function engineRun(engine: Engine): Promise<ServedModel['run']> {
  const split = cheapestSplit(await timePrograms(engine));
  return async (inputs) => {
    const rows = inputs[0]!.shape[0]!;
    const counts = split(rows);
    let first = 0;
    const parts = await Promise.all(
      counts.map((count) => {
        const from = first;
        first += count;
        return engine.runArrays(
          inputs.map(({ values }) => rowsOf(values, rows, from, count)),
          count,
        );
      }),
    );
    return engine.outputs.map(({ shape, dtype }, i) => ({
      shape: [rows, ...shape],
      values:
        parts.length === 1
          ? parts[0]![i]!
          : decode(concatBytes(parts.map((outputs) => encode(outputs[i]!, dtype))), dtype),
    }));
  };
}

/** What a run of so many rows takes. */
export interface ProgramTime {
  readonly rows: number;
  readonly ms: number;
}

/**
 * How many rows to run together, again and again, until a batch is done: a program that has more rows than are left is padded. Whether
 * padding or a further run costs less depends on the model and the device, so it is decided by measured times.
 * @param times of each program
 * @returns for a number of rows, those of each part
 */
export function cheapestSplit(times: readonly ProgramTime[]): (rows: number) => readonly number[] {
  const best: { readonly ms: number; readonly first: number }[] = [{ ms: 0, first: 0 }];
  return (rows) => {
    for (let left = best.length; left <= rows; left++) {
      const choices = times.map((own) => {
        const first = Math.min(own.rows, left);
        return { ms: own.ms + best[left - first]!.ms, first };
      });
      best.push(choices.reduce((a, b) => (b.ms < a.ms ? b : a)));
    }
    const parts: number[] = [];
    for (let left = rows; left > 0; left -= best[left]!.first) parts.push(best[left]!.first);
    return parts;
  };
}

/** Each program runs for so long before it is timed, and then again; a longer one runs once. */
const TIMED_MS = 20;

/** The least time of each program, on zeros. */
async function timePrograms(engine: Engine): Promise<readonly ProgramTime[]> {
  const times: ProgramTime[] = [];
  for (const rows of engine.batchSizes) {
    const zeros = engine.inputs.map(({ dtype, shape }) =>
      decode(new Uint8Array(rows * sizeOf(shape) * dtype.bytes), dtype),
    );
    let least = Number.POSITIVE_INFINITY;
    const began = performance.now();
    for (let now = began; now < began + 2 * TIMED_MS; ) {
      await engine.runArrays(zeros, rows);
      const took = performance.now() - now;
      now += took;
      least = Math.min(least, took);
    }
    times.push({ rows, ms: least });
  }
  return times;
}

/** Some rows of a batch, in the same memory. */
function rowsOf(values: TypedArray, rows: number, first: number, count: number): TypedArray {
  const each = values.length / rows;
  return count === rows ? values : values.subarray(first * each, (first + count) * each);
}
