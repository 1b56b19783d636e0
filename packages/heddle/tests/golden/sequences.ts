/** How the ops and layers of sequences.json are called. */
import * as F from '../../src/index.js';
import { bool, nn } from '../../src/index.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import type { Inputs, Options, Run } from './golden.js';

/** The module with those of the inputs as its parameters that have their names. */
function holding<M extends nn.Module>(module: M, inputs: Inputs): M {
  for (const name of Object.keys(module.stateDict())) {
    const value = inputs[name];
    if (!value) throw new Error(`the file has no ${name}`);
    const path = name.split('.');
    const last = path.pop()!;
    const found = path.reduce<object>((at, key) => Reflect.get(at, key) as object, module);
    // A recurrent layer has its weights in a record.
    const owner = last in found ? found : (Reflect.get(found, 'weights') as object);
    Reflect.set(owner, last, value);
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

const flat = (...tensors: readonly Tensor[]): Tensor => F.cat(tensors.map((t) => t.flatten())) as Tensor;

const recurrent =
  (make: (inputs: number, size: number, options: Options) => nn.RNN | nn.GRU) =>
  (inputs: Inputs, { inputSize, hiddenSize, ...options }: Options): Tensor =>
    flat(...holding(make(inputSize, hiddenSize, options), inputs).forward(inputs.input!, inputs.h));

const states = ({ h, c }: Inputs): nn.LstmState | undefined => (h && c ? [h, c] : undefined);

export const SEQUENCES: Readonly<Record<string, Run>> = {
  RNN: recurrent((...args) => new nn.RNN(...args)),
  GRU: recurrent((...args) => new nn.GRU(...args)),
  LSTM: (inputs, { inputSize, hiddenSize, ...options }) => {
    const lstm = holding(new nn.LSTM(inputSize, hiddenSize, options), inputs);
    const [output, last] = lstm.forward(inputs.input!, states(inputs));
    return flat(output, ...last);
  },
  RNNCell: (inputs) => flat(holding(new nn.RNNCell(5, 4), inputs).forward(inputs.input!, inputs.h)),
  GRUCell: (inputs) => flat(holding(new nn.GRUCell(5, 4), inputs).forward(inputs.input!, inputs.h)),
  LSTMCell: (inputs) => flat(...holding(new nn.LSTMCell(5, 4), inputs).forward(inputs.input!, states(inputs))),
  ctcLoss: ({ logits, targets, inputLengths, targetLengths }, options) =>
    F.ctcLoss(logits!.logSoftmax(2), targets!, inputLengths!, targetLengths!, options),
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
