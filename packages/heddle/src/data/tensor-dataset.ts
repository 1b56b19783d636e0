/** Examples in tensors: inputs and targets of any number, shape and dtype. */
import { anArrayLike, integerFrom, requireArgument } from '../core/arguments.js';
import { DataError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import { tensor } from '../tensor/create.js';
import { noGrad, realize } from '../tensor/modes.js';
import type { AnyTensor } from '../tensor/tensor.js';
import { type Batched, mapBatched, namedIn } from './batched.js';

/** A batch of a `TensorDataset`. */
export interface TensorBatch<Inputs = Batched, Targets = Batched> {
  /** What the model gets. */
  readonly inputs: Inputs;
  /** What the loss compares its outputs with. */
  readonly targets: Targets;
  /** Examples in this batch: the loader's `batchSize`, or fewer in the last one. */
  readonly size: number;
  /** 0 for the first batch of the epoch. */
  readonly index: number;
}

/**
 * Examples in the memory of the device. Each tensor has one row per example; batches are gathered there, and have the
 * structure of what is given: a tensor, an array of tensors, or a record of them.
 * @example
 * ```ts
 * import { randn, TensorDataset } from 'heddle';
 *
 * console.log(new TensorDataset(randn([100, 3]), randn([100, 1])).length); // → 100
 * ```
 */
export class TensorDataset<Inputs extends Batched = Batched, Targets extends Batched = Batched> {
  /** How many examples there are. */
  readonly length: number;
  /** What the model gets, of all examples. An array becomes several arguments of `forward`, a record one. */
  readonly inputs: Inputs;
  /** What the loss compares the model's outputs with, of all examples. */
  readonly targets: Targets;

  /**
   * @param inputs tensors (N, …) of any dtype · @param targets tensors (N, …) of any dtype
   * @throws ArgumentError for what is not made of tensors; DataError if they have different numbers of rows
   */
  constructor(inputs: Inputs, targets: Targets) {
    const named = [...namedIn('inputs', inputs), ...namedIn('targets', targets)];
    const [first] = named;
    for (const [name, { shape }] of named)
      if (shape.length === 0 || shape[0] !== first![1].shape[0])
        throw new DataError(
          `${name} has the shape ${formatShape(shape)}, ${first![0]} ${formatShape(first![1].shape)}: the first size is the number of examples, and must be the same.`,
        );
    this.length = first?.[1].shape[0] ?? 0;
    this.inputs = inputs;
    this.targets = targets;
    realize(...named.map(([, t]) => t));
  }

  /** The examples of these numbers, one after the other. */
  select(indices: ArrayLike<number>): TensorDataset<Inputs, Targets> {
    requireArgument('select', 'indices', indices, anArrayLike);
    for (let i = 0; i < indices.length; i++)
      requireArgument('select', `index ${i}`, indices[i], integerFrom(0, this.length - 1));
    const { inputs, targets } = examplesAt(this, tensor(Int32Array.from(indices)));
    return new TensorDataset(inputs, targets);
  }

  /** The examples `begin` up to but without `end`. */
  slice(begin: number, end: number = this.length): TensorDataset<Inputs, Targets> {
    requireArgument('slice', 'begin', begin, integerFrom(0, this.length));
    requireArgument('slice', 'end', end, integerFrom(begin, this.length));
    return this.select(Int32Array.from({ length: end - begin }, (_, i) => begin + i));
  }
}

/** The examples of these numbers, i32 (n). */
export function examplesAt<Inputs extends Batched, Targets extends Batched>(
  { inputs, targets }: TensorDataset<Inputs, Targets>,
  rows: AnyTensor,
): Pick<TensorBatch<Inputs, Targets>, 'inputs' | 'targets'> {
  return noGrad(() => ({
    inputs: mapBatched(inputs, (t) => rowsOf(t, rows)) as Inputs,
    targets: mapBatched(targets, (t) => rowsOf(t, rows)) as Targets,
  }));
}

/** By `gather`: `at` would also take positions from the back, and they would become a launch of their own. */
function rowsOf(t: AnyTensor, rows: AnyTensor): AnyTensor {
  const [, ...shape] = t.shape;
  const [size] = rows.shape as [number];
  if (shape.length === 0) return t.gather(0, rows);
  return t.gather(0, rows.reshape([size, ...shape.map(() => 1)]).expand([size, ...shape]));
}
