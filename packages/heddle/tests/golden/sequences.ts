/** How the ops and layers of sequences.json are called. */
import * as F from '../../src/index.js';
import { bool, nn } from '../../src/index.js';
import type { Tensor } from '../../src/tensor/tensor.js';

type Inputs = Readonly<Record<string, Tensor>>;
// biome-ignore lint/suspicious/noExplicitAny: option values come from a file
type Options = Readonly<Record<string, any>>;

/** The module with those of the inputs as its parameters that have their names. */
function holding<M extends nn.Module>(module: M, inputs: Inputs): M {
  for (const name of Object.keys(module.stateDict())) {
    const value = inputs[name];
    if (!value) throw new Error(`the file has no ${name}`);
    const path = name.split('.');
    const last = path.pop()!;
    // biome-ignore lint/suspicious/noExplicitAny: parameters are found by their names
    const owner = path.reduce((at: any, key) => at[key], module);
    owner[last] = value;
  }
  return module;
}

/** Bools are stored as i32. */
const masks = (inputs: Inputs, ...names: readonly string[]): Inputs =>
  Object.fromEntries(
    names.flatMap((name) => {
      const mask = inputs[name];
      return mask ? [[name, mask.dtype.kind === 'float' ? mask : mask.cast(bool)]] : [];
    }),
  ) as Inputs;

export const SEQUENCES: Readonly<Record<string, (inputs: Inputs, options: Options) => Tensor>> = {
  embedding: ({ indices, weight }, options) => F.embedding(indices!, weight!, options),
  scaledDotProductAttention: (inputs, options) =>
    F.scaledDotProductAttention(inputs.q!, inputs.k!, inputs.v!, { ...options, ...masks(inputs, 'mask') }),
  MultiheadAttention: (inputs, { embedDim, numHeads, ...options }) =>
    holding(new nn.MultiheadAttention(embedDim, numHeads, options), inputs).forward(
      inputs.query!,
      inputs.key,
      inputs.value,
      masks(inputs, 'keyPaddingMask', 'attnMask'),
    ),
  TransformerEncoderLayer: (inputs, { dModel, nhead, ...options }) =>
    holding(new nn.TransformerEncoderLayer(dModel, nhead, options), inputs).forward(inputs.src!),
  TransformerEncoder: (inputs, { dModel, nhead, numLayers, norm, ...options }) =>
    holding(
      new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(dModel, nhead, options), numLayers, {
        norm: norm ? new nn.LayerNorm(dModel) : undefined,
      }),
      inputs,
    ).forward(inputs.src!, { ...masks(inputs, 'srcKeyPaddingMask'), isCausal: true }),
  TransformerDecoder: (inputs, { dModel, nhead, numLayers, ...options }) =>
    holding(
      new nn.TransformerDecoder(() => new nn.TransformerDecoderLayer(dModel, nhead, options), numLayers),
      inputs,
    ).forward(inputs.tgt!, inputs.memory!, {
      ...masks(inputs, 'memoryKeyPaddingMask'),
      tgtIsCausal: true,
    }),
};
