/** A model's layers while it computes: what they take and give. */
import { type AnyTensor, ArgumentError, nn, noGrad, type Tensor } from 'heddle';
import { unknownName } from 'heddle/internal/core/arguments.js';

/** A call of a layer. */
export interface LayerCall {
  /** The dotted name. */
  readonly name: string;
  readonly layer: nn.Module;
  readonly input: Tensor;
  readonly output: Tensor;
}

/** The layer of that name. @throws ArgumentError naming the nearest */
export function layerNamed(op: string, model: nn.Module, name: string): nn.Module {
  const layers = new Map(model.namedModules());
  const layer = layers.get(name);
  if (!layer || name === '')
    throw new ArgumentError(unknownName(op, 'layer', name, [...layers.keys()].filter(Boolean)));
  return layer;
}

/** Do something in evaluation mode and without gradients of parameters; the modes are put back. */
export async function judged<T>(model: nn.Module, body: () => Promise<T>): Promise<T> {
  const modes = [...model.namedModules()].map(([, module]) => [module, module.training] as const);
  model.eval();
  try {
    return await body();
  } finally {
    for (const [module, training] of modes) module.training = training;
  }
}

const isTensor = (value: unknown): value is Tensor =>
  typeof value === 'object' && value !== null && 'shape' in value && 'dtype' in value;

/**
 * Run a model and note the calls of its layers that take a tensor and give one, in their order. Nothing is computed yet.
 * @param of which layers; default: all
 */
export function traceCalls(
  model: nn.Layer,
  input: Tensor,
  of: (layer: nn.Module) => boolean = () => true,
): { readonly calls: readonly LayerCall[]; readonly output: Tensor } {
  const calls: LayerCall[] = [];
  const hooks = [...model.namedModules()].flatMap(([name, module]) =>
    name !== '' && of(module)
      ? [
          module.registerForwardHook((layer, [first], output) => {
            if (isTensor(first) && isTensor(output)) calls.push({ name, layer, input: first, output });
            return undefined;
          }),
        ]
      : [],
  );
  try {
    return { calls, output: noGrad(() => model.forward(input)) };
  } finally {
    for (const hook of hooks) hook.remove();
  }
}

/** An image with a batch of one, or a batch as it is. @throws ArgumentError */
export function batchOf(op: string, images: Tensor): Tensor {
  if (images.ndim === 3) return images.unsqueeze(0);
  if (images.ndim === 4) return images;
  throw new ArgumentError(
    `[${op}] the image is (${images.shape.join(',')}), must be (C,H,W), or (N,C,H,W) for several.`,
  );
}

/** A size of a picture in words: 5 × 5 */
export const sizeText = (sizes: readonly number[]): string => sizes.join(' × ');

/** Values of a tensor as numbers. */
export const valuesOf = async (tensor: AnyTensor): Promise<Float64Array> =>
  Float64Array.from(await tensor.data(), Number);

/** Convolutions over images. */
export const isConvolution = (layer: nn.Module): layer is nn.Conv2d => layer instanceof nn.Conv2d;
