/** Engines: models compiled for inference. */
import { aList, aString, integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import { concatBytes } from '../core/bytes.js';
import type { TypedArray } from '../core/dtype.js';
import { ArgumentError, DeviceError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape, sizeOf } from '../core/shape.js';
import { leafOf } from '../engine/ownership.js';
import { PROFILE, type Profile, type ProfileOptions } from '../engine/profile.js';
import { bufferOf, decode, encode, realize } from '../engine/realize.js';
import { reclaim, requireOn } from '../engine/storage.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import type { Device } from '../runtime/device.js';
import { cat } from '../tensor/create.js';
import { type AnyTensor, requireTensor, Tensor } from '../tensor/tensor.js';
import { saveEngine } from './engine-file.js';
import type { BatchProgram, EngineParts, EngineValue } from './engine-parts.js';
import type { EnginePrecision } from './trace-model.js';

/** Examples of a batch that run together: `count` from `first` on. */
interface BatchPart extends Pick<BatchProgram, 'program'> {
  readonly first: number;
  readonly count: number;
}

/**
 * A model compiled for inference: a program for each batch size, with the weights within. Made by `compile` or `loadEngine`. Calls
 * may overlap: each has run before the next one begins.
 */
export class Engine {
  /** What it takes. */
  readonly inputs: readonly EngineValue[];
  /** What it gives. */
  readonly outputs: readonly EngineValue[];
  /** How products are computed, and what weights are stored as. */
  readonly precision: EnginePrecision;
  /** The batches that it has programs for, smallest first. Smaller ones are padded to the next of them, larger ones split. */
  readonly batchSizes: readonly number[];
  readonly #device: Device;
  #programs: readonly BatchProgram[];

  /** @internal */
  constructor({ inputs, outputs, precision, device, programs }: EngineParts) {
    this.inputs = inputs;
    this.outputs = outputs;
    this.precision = precision;
    this.batchSizes = programs.map(({ batch }) => batch);
    this.#device = device;
    this.#programs = programs;
  }

  /** The name of the device that it runs on. */
  get device(): string {
    return this.#device.name;
  }

  /** Kernel launches of each program, in the order of `batchSizes`. */
  get launches(): readonly number[] {
    return this.#programs.map(({ program }) => program.launches);
  }

  /**
   * Run on a batch of tensors, in the order of `inputs`, each with the batch as its first dimension.
   * @returns the outputs, in the order of `outputs`
   * @throws ArgumentError, ShapeError, DTypeError; DeviceError for tensors of another device
   */
  async run(...inputs: AnyTensor[]): Promise<AnyTensor[]> {
    const batch = this.#batchOf(inputs);
    const parts = this.#partsOf(batch).map(({ program, first, count }) => {
      const nodes = inputs.map(({ node }) => (count === batch ? node : rowsOf(node, first, count)));
      realize(nodes);
      const buffers = nodes.map(bufferOf);
      requireOn(this.#device, buffers);
      nodes.forEach((node, i) => {
        program.copy(i, buffers[i]!, node.size * node.dtype.bytes);
      });
      program.run();
      return this.outputs.map(({ shape, dtype }, i) => {
        const type = { shape: [count, ...shape], dtype };
        return new Tensor(leafOf(program.take(i, sizeOf(type.shape) * dtype.bytes), type, false));
      });
    });
    await reclaim();
    if (parts.length === 1) return parts[0]!;
    return this.outputs.map((_, i) => cat(parts.map((part) => part[i]!)));
  }

  /**
   * Run on the elements of a batch, one array for each input: the way of services. The inputs are written to the program's memory,
   * and may be reused once this has returned.
   * @param inputs in the order of `inputs`, `batch` examples one after the other; f16 and bf16 as f32
   * @returns the elements of each output
   * @throws ArgumentError, ShapeError; DTypeError for values that an integer type does not have
   */
  async runArrays(inputs: readonly TypedArray[], batch: number): Promise<TypedArray[]> {
    requireArgument('runArrays', 'inputs', inputs, aList);
    requireArgument('runArrays', 'batch', batch, integerFrom(1));
    this.#requireCount('runArrays', inputs.length);
    const bytes = this.inputs.map(({ name, dtype, shape }, i) => {
      const values = inputs[i]!;
      if (!ArrayBuffer.isView(values))
        throw new ArgumentError(`[runArrays] ${name} is not a typed array, such as new Float32Array(…).`);
      if (values.length !== batch * sizeOf(shape))
        throw new ShapeError(
          `[runArrays] ${name} has ${values.length} elements, a batch of ${batch} of ${formatShape(shape)} has ${batch * sizeOf(shape)}.`,
        );
      return encode(values, dtype);
    });
    // All is queued before anything is awaited: the next call finds memory that is read already.
    const reads = this.#partsOf(batch).flatMap(({ program, first, count }) => {
      bytes.forEach((all, i) => {
        const each = all.byteLength / batch;
        program.write(i, count === batch ? all : all.subarray(first * each, (first + count) * each));
      });
      program.run();
      return this.outputs.map(({ shape, dtype }, i) => program.read(i, count * sizeOf(shape) * dtype.bytes));
    });
    const parts = await Promise.all(reads);
    const { outputs } = this;
    return outputs.map(({ dtype }, i) => {
      const own =
        parts.length === outputs.length
          ? parts[i]!
          : concatBytes(parts.filter((_, at) => at % outputs.length === i));
      return decode(own, dtype);
    });
  }

  /**
   * Device time of a run on a batch of zeros, or of what was last run, and of each of its launches.
   * @param batch one of `batchSizes`
   * @throws ArgumentError for another batch, or unknown options
   */
  async profile(batch: number, options: ProfileOptions = {}): Promise<Profile> {
    requireArgument('profile', 'batch', batch, integerFrom(1));
    requireOptions('profile', options, PROFILE);
    this.#requireLive();
    const known = this.#programs.find((p) => p.batch === batch);
    if (known) return known.program.profile(options);
    throw new ArgumentError(
      `[profile] there is no program for a batch of ${batch}. Expected one of: ${this.batchSizes.join(', ')}.`,
    );
  }

  /**
   * Write the engine to a file that `loadEngine` reads: the weights as its kernels take them, and the compiled programs.
   * @throws FileError
   */
  async save(path: string): Promise<void> {
    requireArgument('save', 'path', path, aString);
    this.#requireLive();
    const { inputs, outputs, precision } = this;
    await saveEngine(path, { inputs, outputs, precision, device: this.#device, programs: this.#programs });
  }

  /** Give the memory back. The engine must not be used afterwards. */
  dispose(): void {
    for (const { program } of this.#programs) program.dispose();
    this.#programs = [];
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The batch as the programs take it, one after the other. */
  #partsOf(batch: number): BatchPart[] {
    this.#requireLive();
    const parts: BatchPart[] = [];
    for (let first = 0; first < batch; ) {
      const left = batch - first;
      const chosen = this.#programs.find((p) => p.batch >= left) ?? this.#programs.at(-1)!;
      const count = Math.min(left, chosen.batch);
      parts.push({ program: chosen.program, first, count });
      first += count;
    }
    return parts;
  }

  /** The batch that all of these have. */
  #batchOf(inputs: readonly AnyTensor[]): number {
    this.#requireCount('run', inputs.length);
    requireTensor('run', this.inputs[0]!.name, inputs[0]);
    const batch = inputs[0].shape[0] ?? 0;
    this.inputs.forEach(({ name, dtype, shape }, i) => {
      const x = inputs[i]!;
      requireTensor('run', name, x);
      if (x.dtype !== dtype)
        throw new DTypeError(
          `[run] ${name} is ${x.dtype.name}, must be ${dtype.name}. Convert with .cast(${dtype.name}).`,
        );
      if (!sameShape(x.shape, [batch, ...shape]) || batch === 0)
        throw new ShapeError(
          `[run] ${name} is ${formatShape(x.shape)}, must be ${formatShape([batch || 1, ...shape])}: the batch, then ${formatShape(shape)}.`,
        );
    });
    return batch;
  }

  #requireLive(): void {
    if (this.#programs.length === 0) throw new DeviceError('This engine has been disposed of.');
  }

  #requireCount(op: string, count: number): void {
    if (count === this.inputs.length) return;
    const names = this.inputs.map(({ name }) => name).join(', ');
    throw new ArgumentError(
      `[${op}] ${count} inputs were given, the engine takes ${this.inputs.length}: ${names}.`,
    );
  }
}

const rowsOf = (node: GraphNode, first: number, count: number): GraphNode =>
  b.slice(
    node,
    node.shape.map((_, i) => (i === 0 ? first : 0)),
    [count, ...node.shape.slice(1)],
  );
