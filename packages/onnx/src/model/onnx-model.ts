/** Imported models: modules whose forward computes the graph of an ONNX file. */
import {
  type AnyTensor,
  ArgumentError,
  DTypeError,
  FileError,
  type Jitted,
  jit,
  nn,
  noGrad,
  type Tensor,
} from 'heddle';
import { aFunction, aString, type Rules, requireOptions } from 'heddle/internal/core/arguments.js';
import { requireTensor } from 'heddle/internal/tensor/checks.js';
import type { ElementType } from '../file/element-types.js';
import { type ModelFile, readModel } from '../file/model-file.js';
import { OPERATORS } from '../operators/table.js';
import { type Datum, Sequence, Value } from '../values/value.js';
import { Evaluation, ValueNeeded, withoutReading, withReading } from './evaluate.js';
import { type Initializers, readInitializers, usesOf } from './initializers.js';
import { type Plan, Planner } from './plan.js';
import { infoOf, inputValue, type OnnxValueInfo } from './signature.js';

/** Options of `loadOnnx`. */
export interface LoadOnnxOptions {
  /** Where the files of external data are, for a model that is given by its bytes. Default: the folder of the model's file. */
  readonly folder?: string;
  /**
   * Which weights are parameters, to be trained, by name and shape; others are buffers. Asked for floats of at least one
   * dimension that are no running statistics. Default: all of these.
   */
  readonly trainable?: (name: string, shape: readonly number[]) => boolean;
}

const LOAD: Rules<LoadOnnxOptions> = { folder: aString, trainable: aFunction };

/** What a model gives: its one output, or all of them. */
export type OnnxOutputs = Tensor | readonly Tensor[];

type Info = OnnxValueInfo & { readonly type: ElementType | undefined };

/** What a model is made of. */
interface Parts extends Initializers {
  readonly planner: Planner;
  readonly plan: Plan;
  readonly inputs: readonly Info[];
  readonly outputs: readonly Info[];
}

/**
 * A model of an ONNX file. Its weights are parameters under the names of the file, so that it can be trained on, and
 * `stateDict` and `loadStateDict` work; running statistics of batch normalization stay as they are.
 *
 * Made by `loadOnnx`. `Outputs` is a Tensor for a model with one output, else an array of them.
 */
export class OnnxModel<Outputs extends OnnxOutputs = Tensor> extends nn.Module {
  /** The inputs, in the order in which `forward` takes them. */
  readonly inputs: readonly OnnxValueInfo[];
  /** The outputs, in the order in which `forward` gives them. */
  readonly outputs: readonly OnnxValueInfo[];
  readonly #parts: Parts;
  #program: Jitted<AnyTensor[], readonly AnyTensor[]> | undefined;
  /** Whether the graph depends on values that must be read, as far as `run` has found out. */
  #reads = false;

  /** @internal */
  constructor(parts: Parts) {
    super();
    const plain = ({ name, dtype, shape }: Info): OnnxValueInfo => ({ name, dtype, shape });
    this.inputs = parts.inputs.map(plain);
    this.outputs = parts.outputs.map(plain);
    this.#parts = parts;
  }

  /** The weights by the names of the file. */
  protected override state(): Iterable<readonly [string, unknown]> {
    return this.#parts.tensors;
  }

  /**
   * Record the graph: one tensor for each of `inputs`. Works within `jit`, and gradients flow to the weights.
   * @throws ShapeError, DTypeError for inputs that do not fit · DTypeError if shapes depend on values: see `run`
   */
  forward(...inputs: AnyTensor[]): Outputs {
    const outputs = withoutReading(this.#evaluate(this.#given(inputs)));
    return this.#result(outputs) as Outputs;
  }

  /**
   * Compute the outputs without gradients, as a program for each shape of the inputs. What shapes depend on is read from the
   * device: such models run step by step.
   * @throws ShapeError, DTypeError for inputs that do not fit
   */
  async run(...inputs: AnyTensor[]): Promise<Outputs> {
    const given = this.#given(inputs);
    if (!this.#reads) {
      try {
        this.#program ??= jit((...traced: AnyTensor[]) =>
          noGrad(() => this.#tensors(withoutReading(this.#evaluate(this.#given(traced))))),
        ) as Jitted<AnyTensor[], readonly AnyTensor[]>;
        const outputs = this.#program(...inputs) as readonly Tensor[];
        return (outputs.length === 1 ? outputs[0]! : outputs) as Outputs;
      } catch (error) {
        if (!(error instanceof ValueNeeded)) throw error;
        this.#reads = true;
      }
    }
    return this.#result(await withReading(this.#evaluate(given))) as Outputs;
  }

  /** @internal Compute the outputs of values, which may be of types that have no tensors. */
  async runValues(inputs: readonly Datum[]): Promise<readonly Datum[]> {
    const { plan } = this.#parts;
    const names = this.inputs.map(({ name }) => name);
    const given = new Map(inputs.map((x, i) => [names[i]!, x] as const));
    return withReading(new Evaluation(this.#parts.planner).run(plan, this.#scope(given)));
  }

  #evaluate(given: ReadonlyMap<string, Datum>) {
    return new Evaluation(this.#parts.planner).run(this.#parts.plan, this.#scope(given));
  }

  #scope(given: ReadonlyMap<string, Datum>): ReadonlyMap<string, Datum> {
    const weights = [...this.#parts.tensors].map(([name, t]) => [name, Value.of(t)] as const);
    return new Map<string, Datum>([...this.#parts.constants, ...weights, ...given]);
  }

  #given(inputs: readonly AnyTensor[]): Map<string, Value> {
    const infos = this.#parts.inputs;
    if (inputs.length !== infos.length)
      throw new ArgumentError(
        `[onnx] the model takes ${infos.length} inputs (${infos.map(({ name }) => name).join(', ')}), got ${inputs.length}.`,
      );
    const sizes = new Map<string, number>();
    return new Map(
      inputs.map((x, i) => {
        requireTensor('onnx', `the input '${infos[i]!.name}'`, x);
        return [infos[i]!.name, inputValue(x, infos[i]!, sizes)] as const;
      }),
    );
  }

  #tensors(outputs: readonly Datum[]): readonly Tensor[] {
    return outputs.map((output, i) => {
      const { name } = this.outputs[i]!;
      if (!output) throw new DTypeError(`[onnx] the output '${name}' has no value.`);
      if (output instanceof Sequence)
        throw new DTypeError(`[onnx] the output '${name}' is a sequence, of which there are no tensors.`);
      return output.tensor as Tensor;
    });
  }

  #result(outputs: readonly Datum[]): OnnxOutputs {
    const tensors = this.#tensors(outputs);
    return tensors.length === 1 ? tensors[0]! : tensors;
  }
}

/**
 * Read an ONNX model: of opsets 7 to 28, external data included.
 * @param source the path of the file, or its bytes
 * @example
 * ```ts no-run
 * import { randn } from 'heddle';
 * import { loadOnnx } from 'heddle-onnx';
 *
 * const model = await loadOnnx('resnet18.onnx');
 * const logits = await model.run(randn([1, 3, 224, 224]));
 * console.log(model.inputs, logits.shape, model.parameters().length);
 * ```
 * @throws FileError for a file that is missing, damaged or not allowed, or that uses operators which are not supported: all of
 *   these are named · DTypeError for element types that the library does not compute with
 */
export async function loadOnnx<Outputs extends OnnxOutputs = Tensor>(
  source: string | Uint8Array,
  options: LoadOnnxOptions = {},
): Promise<OnnxModel<Outputs>> {
  requireOptions('loadOnnx', options, LOAD);
  const read = await readModel(source);
  return importModel<Outputs>({ ...read, folder: options.folder ?? read.folder }, options.trainable);
}

async function importModel<Outputs extends OnnxOutputs>(
  file: ModelFile,
  trainable: LoadOnnxOptions['trainable'] = () => true,
): Promise<OnnxModel<Outputs>> {
  const { model, path } = file;
  const graph = model.graph!;
  const initialized = new Set(graph.initializer.map(({ name }) => name));
  requireUnique(initialized.size, graph.initializer.length, path, 'initializers');
  // Up to IR version 3 initializers are inputs as well.
  const inputs = graph.input.filter(({ name }) => !initialized.has(name)).map((i) => infoOf(i, path));
  requireUnique(new Set(inputs.map(({ name }) => name)).size, inputs.length, path, 'inputs');
  const planner = new Planner(model, path);
  const plan = planner.plan(model, [...initialized, ...inputs.map(({ name }) => name)]);
  const names = new Map(Object.entries(OPERATORS).map(([name, record]) => [record, name]));
  const uses = usesOf(plan, ({ operator }) => (operator ? names.get(operator)! : ''));
  const initializers = await readInitializers(file, uses, trainable);
  const outputs = graph.output.map((o) => infoOf(o, path));
  return new OnnxModel<Outputs>({ planner, plan, inputs, outputs, ...initializers });
}

function requireUnique(different: number, all: number, path: string, what: string): void {
  if (different !== all) throw new FileError(path, `has two ${what} of one name. Names must be unique.`);
}
