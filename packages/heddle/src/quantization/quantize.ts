/** From a trained model to one that computes in bytes. */
import {
  aBoolean,
  aString,
  instance,
  listOf,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { evaluating } from '../nn/evaluating.js';
import { Module } from '../nn/module.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { batchesOf, type LabeledBatch, type QuantizationBatches } from './batches.js';
import { type Folds, foldedWeights, foldsOf } from './fold.js';
import {
  bytesOf,
  isQuantizable,
  type LayerScales,
  type QuantizableLayer,
  QuantizedLayer,
  scaleOf,
} from './layers.js';
import { type CalibrationMethod, Magnitudes, rangeOf } from './observe.js';
import { QuantizedModule } from './quantized-module.js';
import { addedLayers } from './sums.js';

/** Options of `quantize`. */
export interface ModuleQuantizationOptions {
  /** How the range of each layer's inputs is chosen (default percentile). */
  readonly method?: CalibrationMethod;
  /** With method percentile: the percentage of an input's values that are within its range, default 99.99. */
  readonly percentile?: number;
  /** Whether each output's weights have a scale of their own (default true), or a layer's weights one. */
  readonly perChannel?: boolean;
  /** Names of layers that stay in floating point; those of a module keep all below it. */
  readonly keep?: readonly string[];
}

const OPTIONS: Rules<ModuleQuantizationOptions> = {
  method: oneOf('minmax', 'percentile', 'entropy'),
  percentile: within(50, 100),
  perChannel: aBoolean,
  keep: listOf(aString),
};

/** The layers that are to be quantized, by name. @throws ArgumentError where there is none, or `keep` names none */
export function quantizableLayers(
  op: string,
  model: Module,
  keep: readonly string[],
): Map<string, QuantizableLayer> {
  const names = [...model.namedModules()].map(([name]) => name);
  const stray = keep.find((name) => !names.includes(name));
  if (stray !== undefined)
    throw new ArgumentError(
      `[${op}] keep names '${stray}', which is no layer of the model: ${names.filter(Boolean).join(', ')}.`,
    );
  const isKept = (name: string): boolean => keep.some((k) => name === k || name.startsWith(`${k}.`));
  const layers = new Map<string, QuantizableLayer>();
  for (const [name, module] of model.namedModules())
    if (isQuantizable(module) && !isKept(name)) layers.set(name, module);
  if (layers.size === 0)
    throw new ArgumentError(
      `[${op}] the model has no Linear or Conv2d to quantize${keep.length > 0 ? ' besides those that it keeps' : ''}.`,
    );
  return layers;
}

/**
 * A trained model with 8-bit weights and activations. Each `Linear` and `Conv2d` rounds its weights to i8, symmetrically and with a
 * scale for each output, and its inputs to i8 with one scale, which is taken from the inputs that `batches` bring it. Batch norms
 * behind such layers are folded into their weights; everything between is computed in floating point. Of two layers whose results are
 * added the later one rounds its result as well. The model stays as it is.
 * @param model is called in evaluation mode
 * @param batches some hundred examples of the training data, as the model takes them
 * @example
 * ```ts
 * import { manualSeed, nn, randn } from 'heddle';
 * import { quantize } from 'heddle/quantization';
 *
 * manualSeed(0);
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const quantized = await quantize(model, [randn([64, 4])], { method: 'minmax' });
 * console.log([...quantized.layers.keys()], quantized.layers.get('0')!.weight.dtype.name); // → [ '0', '2' ] i8
 * ```
 * @throws ArgumentError, and what `forward` throws for such inputs
 */
export async function quantize(
  model: Module,
  batches: QuantizationBatches,
  options: ModuleQuantizationOptions = {},
): Promise<QuantizedModule> {
  requireArgument('quantize', 'model', model, instance(Module, 'a Module'));
  requireOptions('quantize', options, OPTIONS);
  const { method = 'percentile', percentile = 99.99, perChannel = true, keep = [] } = options;
  const layers = quantizableLayers('quantize', model, keep);
  const examples = await batchesOf('quantize', batches);
  const folds = evaluating(model, () => noGrad(() => foldsOf(model, () => run(model, examples[0]!))));
  const seen = await observe(model, layers, folds, examples);
  const ofRange = (magnitudes: Magnitudes): number => scaleOf(rangeOf(magnitudes, method, percentile));
  const scales = new Map(
    [...seen].map(([name, { input, output }]) => {
      return [name, { input: ofRange(input), output: output && ofRange(output) }] as const;
    }),
  );
  return quantizedBy(model, layers, folds, scales, perChannel);
}

const run = (model: Module, { inputs }: LabeledBatch): unknown =>
  (model.forward as (x: Tensor) => unknown)(inputs);

/** Of a layer's inputs, and of its outputs where they are rounded as well. */
interface Seen {
  readonly input: Magnitudes;
  readonly output: Magnitudes | undefined;
}

/** The magnitudes of what layers round, over all batches. @throws ArgumentError for a layer that is never called */
async function observe(
  model: Module,
  layers: ReadonlyMap<string, QuantizableLayer>,
  folds: Folds,
  batches: readonly LabeledBatch[],
): Promise<Map<string, Seen>> {
  const seen = new Map<string, Seen>();
  for (const batch of batches) {
    const { inputs, outputs, result } = called(model, layers, folds, batch);
    const added = addedLayers(result, outputs);
    for (const [name, x] of inputs) {
      const output = added.has(name) ? new Magnitudes() : undefined;
      const magnitudes = seen.get(name) ?? { input: new Magnitudes(), output };
      seen.set(name, magnitudes);
      magnitudes.input.add(await x.data(), name);
    }
    for (const [name, y] of outputs) {
      const { output } = seen.get(name)!;
      output?.add(await y.data(), name);
    }
  }
  const unseen = [...layers.keys()].filter((name) => !seen.has(name));
  if (unseen.length > 0)
    throw new ArgumentError(
      `[quantize] the model does not call ${unseen.join(', ')}: their inputs are not known. Name them in keep.`,
    );
  return seen;
}

/** What the layers of a model take and give, in the order of their calls, batch norms folded into them included. */
function called(
  model: Module,
  layers: ReadonlyMap<string, QuantizableLayer>,
  folds: Folds,
  batch: LabeledBatch,
) {
  const inputs: (readonly [string, Tensor])[] = [];
  const outputs: (readonly [string, Tensor])[] = [];
  const hooks = [...layers].flatMap(([name, layer]) => [
    layer.registerForwardPreHook((_, [x]) => {
      inputs.push([name, x as Tensor]);
      return undefined;
    }),
    (folds.get(layer) ?? layer).registerForwardHook((_, __, y) => {
      outputs.push([name, y as Tensor]);
      return undefined;
    }),
  ]);
  try {
    const result = evaluating(model, () => noGrad(() => run(model, batch)));
    return { inputs, outputs, result };
  } finally {
    for (const hook of hooks) hook.remove();
  }
}

/** @internal The model with these scales of its layers. */
export async function quantizedBy(
  model: Module,
  layers: ReadonlyMap<string, QuantizableLayer>,
  folds: Folds,
  scales: ReadonlyMap<string, LayerScales>,
  perChannel: boolean,
): Promise<QuantizedModule> {
  const made = new Map<string, QuantizedLayer>();
  for (const [name, layer] of layers) {
    const host = await foldedWeights(layer, folds.get(layer));
    made.set(name, new QuantizedLayer(layer, bytesOf(host, scales.get(name)!, perChannel)));
  }
  return new QuantizedModule(model, made, folds);
}
