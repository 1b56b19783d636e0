/** A model in which some layers compute in bytes. */
import { aString, instance, listOf, oneOf, requireArgument } from '../core/arguments.js';
import { evaluating } from '../nn/evaluating.js';
import { Module } from '../nn/module.js';
import { BatchNorm } from '../nn/normalization.js';
import type { Tensor } from '../tensor/tensor.js';
import { saveWeights } from '../train/weights.js';
import type { Folds } from './fold.js';
import type { QuantizableLayer, QuantizedLayer } from './layers.js';
import { type Forward, withForwards } from './replace.js';
import { withSumsOfBytes } from './sums.js';

/** What files of quantized models name themselves. */
export const FORMAT = 'heddle-quantized-1';

/** In such a file's metadata: by the name of each quantized layer, that of the batch norm folded into it. */
export type StoredFolds = Readonly<Record<string, string | null>>;

/**
 * The model that `quantize` makes: the original's `forward`, in evaluation mode, in which the layers compute in bytes, what is folded
 * into them nothing, and sums take the values that a layer rounds to bytes as these bytes. Its state are the quantized layers and those that stay in floating point, by the original's names.
 */
export class QuantizedModule extends Module {
  /** The quantized layers, by their names in the original. */
  readonly layers: ReadonlyMap<string, QuantizedLayer>;
  readonly #model: Module;
  readonly #folds: Folds;
  readonly #forwards: ReadonlyMap<Module, Forward>;

  /** @internal Made by `quantize` and `loadQuantized`. */
  constructor(model: Module, layers: ReadonlyMap<string, QuantizedLayer>, folds: Folds) {
    super();
    this.layers = layers;
    this.#model = model;
    this.#folds = folds;
    const originals = new Map(model.namedModules());
    const forwards = new Map<Module, Forward>();
    for (const [name, quantized] of layers) {
      const layer = originals.get(name)!;
      forwards.set(layer, (x) => quantized.forward(x));
      const norm = folds.get(layer as QuantizableLayer);
      if (norm) forwards.set(norm, (x) => x);
    }
    this.#forwards = forwards;
    this.training = false;
  }

  protected override *state(): Iterable<readonly [string, unknown]> {
    yield* this.layers;
    const replaced = new Set([...this.#forwards.keys()].flatMap((m) => Object.values(m.stateDict())));
    for (const [name, value] of Object.entries(this.#model.stateDict()))
      if (!replaced.has(value)) yield [name, value];
  }

  /** @internal Whether it computes what this model does. */
  isOf(model: Module): boolean {
    requireArgument('isOf', 'model', model, instance(Module, 'a Module'));
    return model === this.#model;
  }

  /** @internal The modules of the original whose outputs the layers' are: themselves, or what is folded into them. */
  get originals(): ReadonlyMap<string, Module> {
    const named = new Map(this.#model.namedModules());
    return new Map(
      [...this.layers.keys()].map((name) => {
        const layer = named.get(name) as QuantizableLayer;
        return [name, this.#folds.get(layer) ?? layer];
      }),
    );
  }

  /** What the original computes of these inputs, with the quantized layers in place of its own. */
  forward(...inputs: readonly Tensor[]): Tensor {
    const forward = (): Tensor =>
      (this.#model.forward as (...inputs: readonly Tensor[]) => Tensor)(...inputs);
    return withSumsOfBytes(withForwards(this.#forwards, () => evaluating(this.#model, forward)));
  }

  /**
   * Write the quantized layers and those that stay in floating point, atomically, for `loadQuantized`.
   * @param path ends in .safetensors
   * @throws ArgumentError, FileError
   */
  async save(path: string): Promise<void> {
    requireArgument('save', 'path', path, aString);
    const names = new Map([...this.#model.namedModules()].map(([name, module]) => [module, name]));
    const folds: StoredFolds = Object.fromEntries(
      [...this.originals].map(([name, last]) => [name, last instanceof BatchNorm ? names.get(last)! : null]),
    );
    await saveWeights(this, path, { metadata: { format: FORMAT, folds: JSON.stringify(folds) } });
  }

  /**
   * The same model with these layers back in floating point.
   * @throws ArgumentError for a name that is no quantized layer's
   */
  keeping(names: readonly string[]): QuantizedModule {
    requireArgument('keeping', 'names', names, listOf(oneOf(...this.layers.keys())));
    const layers = new Map([...this.layers].filter(([name]) => !names.includes(name)));
    return new QuantizedModule(this.#model, layers, this.#folds);
  }
}
