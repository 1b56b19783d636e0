/** Batch norms after a layer, moved into its weights: B. Jacob et al., Quantization and training … (2018), section 3.2. */
import type { Module } from '../nn/module.js';
import { BatchNorm } from '../nn/normalization.js';
import type { Tensor } from '../tensor/tensor.js';
import { type HostWeights, isQuantizable, type QuantizableLayer } from './layers.js';

/** The batch norms of a model that take just what a layer gives, by that layer. */
export type Folds = ReadonlyMap<QuantizableLayer, BatchNorm>;

/**
 * Which batch norms can be folded, found out by calling the model: a layer and a batch norm that are called once each, the one on
 * the result of the other.
 * @param call runs the model's forward
 */
export function foldsOf(model: Module, call: () => void): Folds {
  const makers = new Map<unknown, QuantizableLayer>();
  const folds = new Map<QuantizableLayer, BatchNorm>();
  const calls = new Map<Module, number>();
  const hooks = [...model.namedModules()].flatMap(([, module]) => {
    if (module instanceof BatchNorm)
      return module.registerForwardPreHook((_, [x]) => {
        calls.set(module, (calls.get(module) ?? 0) + 1);
        const maker = makers.get(x);
        if (maker) folds.set(maker, module);
        return undefined;
      });
    if (!isQuantizable(module)) return [];
    return module.registerForwardHook((_, __, y) => {
      calls.set(module, (calls.get(module) ?? 0) + 1);
      makers.set(y, module);
      return undefined;
    });
  });
  try {
    call();
  } finally {
    for (const hook of hooks) hook.remove();
  }
  return new Map([...folds].filter(([layer, norm]) => calls.get(layer) === 1 && calls.get(norm) === 1));
}

/** A layer's weights and bias, those of the batch norm after it included. */
export async function foldedWeights(
  layer: QuantizableLayer,
  norm: BatchNorm | undefined,
): Promise<HostWeights> {
  const values = async (t: Tensor): Promise<Float32Array> => Float32Array.from(await t.detach().data());
  const weight = await values(layer.weight as Tensor);
  const shape = layer.weight.shape;
  const bias = layer.bias && (await values(layer.bias as Tensor));
  if (!norm) return { weight, shape, bias };
  const [mean, variance] = [await values(norm.runningMean), await values(norm.runningVar)];
  const factor = norm.weight && (await values(norm.weight));
  const shift = norm.bias && (await values(norm.bias));
  const each = weight.length / shape[0]!;
  const factors = variance.map((v, o) => (factor?.[o] ?? 1) / Math.sqrt(v + norm.eps));
  return {
    weight: weight.map((w, i) => w * factors[Math.floor(i / each)]!),
    shape,
    bias: factors.map((f, o) => ((bias?.[o] ?? 0) - mean[o]!) * f + (shift?.[o] ?? 0)),
  };
}
