/** Training steps on random data: what `heddle bench` and `heddle profile` time. */
import { type DType, i32 } from '../core/dtype.js';
import { PhiloxStream } from '../core/philox.js';
import { sizeOf } from '../core/shape.js';
import type { Profile, ProfileOptions } from '../engine/profile.js';
import type { Module } from '../nn/index.js';
import type { BaseSettings, Optimizer } from '../optim/index.js';
import { autocast } from '../tensor/autocast.js';
import { tensor } from '../tensor/create.js';
import { type Jitted, jit } from '../tensor/jit.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import type { TrainingProgram } from '../train/programs.js';
import type { Workload } from './workload.js';

/** What training data of one kind looks like. */
export interface ExampleKind {
  /** Of an example's input. */
  readonly shape: readonly number[];
  /** Of an example's targets: default [], one label. */
  readonly targets?: readonly number[];
  readonly classes: number;
}

/** Those of the programs, and how many there are to train on: of a text, as many windows as in a long book. */
export const EXAMPLES = {
  images: { shape: [1, 28, 28], classes: 10, length: 60_000 },
  separable: { shape: [2], classes: 2, length: 2000 },
  quadrants: { shape: [2], classes: 2, length: 2000 },
  text: { shape: [128], targets: [128], classes: 100, length: 30_000 },
} as const satisfies Record<string, ExampleKind & { readonly length: number }>;

export interface TrainingStepsOptions {
  /** @param model whose parameters they are */
  readonly optimizer: (parameters: Tensor[], model: Module) => Optimizer<BaseSettings>;
  readonly batchSize: number;
  /** Default: that of the program's data. */
  readonly example?: ExampleKind;
  /** The dtype of products. Default: f32, all of it. */
  readonly autocast?: DType<'f16' | 'bf16'>;
  /** Called between `backward` and the optimizer's step. */
  readonly exchange?: (parameters: readonly Tensor[]) => void;
  /** Batches that `run` takes turns with. Default: 16, more than the caches of a processor remember. */
  readonly batches?: number;
}

/** A network that trains on random examples with random labels, one step at each call. */
export class TrainingSteps implements Workload {
  readonly #batches: readonly { readonly inputs: Float32Array | Int32Array; readonly labels: Int32Array }[];
  readonly #inputs: AnyTensor;
  readonly #labels: Tensor;
  /** The shapes of what is trained. */
  readonly shapes: readonly (readonly number[])[];
  readonly #step: Jitted<[AnyTensor, Tensor], AnyTensor>;
  #steps = 0;

  constructor(program: TrainingProgram, options: TrainingStepsOptions) {
    const { optimizer: make, batchSize, batches = 16 } = options;
    const { shape, targets = [], classes }: ExampleKind = options.example ?? EXAMPLES[program.data];
    const random = new PhiloxStream(1);
    const integers = (size: number): Int32Array =>
      Int32Array.from({ length: batchSize * size }, () => random.below(classes));
    const floats = (size: number): Float32Array =>
      random.fill(new Float32Array(batchSize * size), (stream) => stream.uniform());
    this.#batches = Array.from({ length: batches }, () => ({
      inputs: program.data === 'text' ? integers(sizeOf(shape)) : floats(sizeOf(shape)),
      labels: integers(sizeOf(targets)),
    }));
    const { inputs, labels } = this.#batches[0]!;
    this.#inputs = tensor(inputs, { shape: [batchSize, ...shape] });
    this.#labels = tensor(labels, { shape: [batchSize, ...targets], dtype: i32 });
    const model = program.build();
    const parameters = model.parameters();
    this.shapes = parameters.map(({ shape }) => shape);
    const optimizer = make(parameters, model);
    const loss = program.loss('mean');
    const { autocast: dtype, exchange } = options;
    const lossOf = (x: AnyTensor, y: Tensor): Tensor => loss(model.forward(x as Tensor), y) as Tensor;
    this.#step = jit((x: AnyTensor, y: Tensor) => {
      const value = dtype ? autocast(dtype, () => lossOf(x, y)) : lossOf(x, y);
      value.backward();
      exchange?.(parameters);
      optimizer.step();
      return value;
    });
  }

  /** Write the next batch and train on it; returns the loss. */
  next(): AnyTensor {
    const { inputs, labels } = this.#batches[this.#steps++ % this.#batches.length]!;
    return this.#step(this.#inputs.write(inputs), this.#labels.write(labels));
  }

  /** Write the next batch and train on it. */
  run(): void {
    this.next().dispose();
  }

  /** Train on the batch that is on the device. */
  again(): void {
    this.#step(this.#inputs, this.#labels).dispose();
  }

  /** That many steps on the batch that is on the device, without the host between them. */
  repeat(times: number): void {
    this.#step.repeat(times, this.#inputs, this.#labels).dispose();
  }

  /** Device time of a step on the batch that is on the device. */
  profile(options?: ProfileOptions): Promise<Profile> {
    return this.#step.profile([this.#inputs, this.#labels], options);
  }

  /** Kernel launches of a step; 0 before the first. */
  get launches(): number {
    return this.#step.launches;
  }

  dispose(): void {
    this.#step.dispose();
    this.#inputs.dispose();
    this.#labels.dispose();
  }
}
