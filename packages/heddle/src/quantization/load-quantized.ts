/** Quantized models in files. */
import { aString, instance, requireArgument } from '../core/arguments.js';
import { i8 } from '../core/dtype.js';
import { FileError } from '../core/errors.js';
import { loadTensors, type StoredMetadata } from '../io/index.js';
import { Module } from '../nn/module.js';
import { BatchNorm } from '../nn/normalization.js';
import { zeros } from '../tensor/create.js';
import { isQuantizable, type QuantizableLayer, QuantizedLayer } from './layers.js';
import { FORMAT, QuantizedModule, type StoredFolds } from './quantized-module.js';

/**
 * Read a quantized model from a file: what `save` of a quantized model, or `heddle quantize`, wrote.
 * @param model of the architecture that was quantized. Layers that stay in floating point get their weights from the file; the
 *   model's own weights of quantized layers are not used
 * @example
 * ```ts
 * import { manualSeed, nn, randn } from 'heddle';
 * import { loadQuantized, quantize } from 'heddle/quantization';
 *
 * manualSeed(0);
 * const build = () => new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const quantized = await quantize(build(), [randn([64, 4])]);
 * await quantized.save('quantized.safetensors');
 * const loaded = await loadQuantized(build(), 'quantized.safetensors');
 * console.log([...loaded.layers.keys()]); // → [ '0', '2' ]
 * ```
 * @throws FileError for a file that holds no quantized model, or one of another architecture; what `Module.loadStateDict` throws
 */
export async function loadQuantized(model: Module, path: string): Promise<QuantizedModule> {
  requireArgument('loadQuantized', 'model', model, instance(Module, 'a Module'));
  requireArgument('loadQuantized', 'path', path, aString);
  const { tensors, metadata } = await loadTensors(path);
  const modules = new Map(model.namedModules());
  const layers = new Map<string, QuantizedLayer>();
  const folds = new Map<QuantizableLayer, BatchNorm>();
  for (const [name, norm] of Object.entries(foldsOf(path, metadata))) {
    const layer = modules.get(name);
    if (!layer || !isQuantizable(layer))
      throw new FileError(
        path,
        `quantizes '${name}', which is ${layer ? layer.constructor.name : 'no layer'} in the model: give the architecture that was quantized.`,
      );
    const folded = norm === null ? undefined : modules.get(norm);
    if (folded instanceof BatchNorm) folds.set(layer, folded);
    else if (norm !== null)
      throw new FileError(
        path,
        `has '${norm}' folded into '${name}', which is no batch norm in the model: give the architecture that was quantized.`,
      );
    const outputs = layer.weight.shape[0]!;
    const bytes = {
      weight: zeros(layer.weight.shape, { dtype: i8 }),
      weightScale: zeros([outputs]),
      inputScale: zeros([]),
      outputScale: Object.hasOwn(tensors, `${name}.outputScale`) ? zeros([]) : undefined,
      bias: Object.hasOwn(tensors, `${name}.bias`) ? zeros([outputs]) : undefined,
    };
    layers.set(name, new QuantizedLayer(layer, bytes));
  }
  const quantized = new QuantizedModule(model, layers, folds);
  quantized.loadStateDict(tensors);
  return quantized;
}

/** @throws FileError for metadata of other files */
function foldsOf(path: string, { format, folds }: StoredMetadata): StoredFolds {
  if (format !== FORMAT)
    throw new FileError(
      path,
      `is no quantized model of format ${FORMAT}${format ? `, but of ${format}` : ''}. Write one with quantized.save(path).`,
    );
  try {
    const parsed: unknown = JSON.parse(folds ?? '');
    if (typeof parsed === 'object' && parsed !== null) return parsed as StoredFolds;
  } catch {
    // Said below.
  }
  throw new FileError(path, 'does not say which layers it quantizes: its metadata are damaged.');
}
