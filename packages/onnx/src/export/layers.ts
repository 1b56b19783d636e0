/**
 * Layers that ONNX has an operator for. Engines are fast where they find those: a batch normalization, an LSTM, a Gelu, instead
 * of what it is composed of. A layer that is not here, or that does not fit its record, is written as its forward computes it.
 */
import type { nn } from 'heddle';
import type { GraphNode } from 'heddle/internal/graph/node.js';
import type { Emission } from './emission.js';
import type { LayerExport } from './layer-export.js';
import { ACTIVATIONS } from './layers-activation.js';
import { IMAGES } from './layers-image.js';
import { NORMALIZATIONS } from './layers-normalization.js';
import { RECURRENT } from './layers-recurrent.js';
import type { LayerCall, layerCallOf } from './trace-model.js';

const LAYERS: ReadonlyMap<unknown, LayerExport> = new Map(
  [...ACTIVATIONS, ...IMAGES, ...NORMALIZATIONS, ...RECURRENT].map((record) => [record.layer, record]),
);

/** Whether the call of a layer becomes operators of its own. */
export const isWhole =
  (opset: number) =>
  (module: nn.Module, inputs: readonly GraphNode[]): boolean => {
    const record = LAYERS.get(module.constructor);
    if (!record || (record.since ?? 0) > opset) return false;
    return record.fits?.(module, inputs) ?? inputs.length === 1;
  };

const written = new WeakMap<LayerCall, readonly string[]>();

/** Write the call of a layer, the first time one of its results is asked for. @returns that result */
export function writeLayer(
  io: Emission,
  node: GraphNode,
  { call, output }: NonNullable<ReturnType<typeof layerCallOf>>,
): string {
  let values = written.get(call);
  if (!values) {
    const { module, path } = call;
    const inputs = node.src;
    io.writer.within = call;
    values = LAYERS.get(module.constructor)!.write({
      ...{ io, module, path, inputs },
      values: inputs.map((input) => io.value(input)),
    });
    written.set(call, values);
  }
  return values[output]!;
}
