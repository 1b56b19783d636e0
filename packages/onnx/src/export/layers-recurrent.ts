/** Recurrent layers as ONNX operators: one for each layer of a stack, both directions in one. */
import { type AnyTensor, cat, nn, stack, zeros } from 'heddle';
import { int, text, texts } from './graph-writer.js';
import type { LayerExport, LayerIo } from './layer-export.js';

/** The order of the gates in ONNX, as their places in PyTorch's and Heddle's. */
interface Kind {
  readonly opType: 'RNN' | 'GRU' | 'LSTM';
  readonly gates: readonly number[];
  readonly states: number;
}

const RNN: Kind = { opType: 'RNN', gates: [0], states: 1 };
/** r, z, n → z, r, h */
const GRU: Kind = { opType: 'GRU', gates: [1, 0, 2], states: 1 };
/** i, f, g, o → i, o, f, c */
const LSTM: Kind = { opType: 'LSTM', gates: [0, 3, 1, 2], states: 2 };

/** The blocks of rows of a weight or bias in another order. */
function reordered(t: AnyTensor, gates: readonly number[]): AnyTensor {
  const rows = t.shape[0]! / gates.length;
  return gates.length === 1 ? t : cat(gates.map((gate) => t.at(`${gate * rows}:${(gate + 1) * rows}`)));
}

/** The parameters of layer k of a stack as the operator takes them: weights, weights of the state, biases. */
function parameters(call: LayerIo<nn.Recurrent>, { gates }: Kind, k: number): string[] {
  const { io, module, path } = call;
  const { weights, hiddenSize } = module;
  const directions = module.bidirectional ? ['', 'Reverse'] : [''];
  const of = (name: string, direction: string): AnyTensor =>
    reordered(weights[`${name}L${k}${direction}`] ?? zeros([gates.length * hiddenSize]), gates);
  const all = (name: string): AnyTensor => stack(directions.map((direction) => of(name, direction)));
  const biases = cat([all('biasIh'), all('biasHh')], 1);
  return Object.entries({ W: all('weightIh'), R: all('weightHh'), B: biases }).map(([name, tensor]) =>
    io.tensor(tensor, `${path === '' ? '' : `${path}.`}${name}${k}`),
  );
}

/** Write the layers of a stack. @returns the output, then the states after the last step */
function write(call: LayerIo<nn.Recurrent>, kind: Kind): string[] {
  const { io, module, inputs, values } = call;
  const { numLayers, hiddenSize, batchFirst, bidirectional } = module;
  const directions = bidirectional ? 2 : 1;
  const [sequence, ...states] = values as [string, ...string[]];
  const swap = (value: string): string => (batchFirst ? io.transpose(value, [1, 0, 2]) : value);
  const [steps, batch] = io.traces
    .sizes(inputs[0]!)
    .slice(0, 2)
    .map((size, i, both) => (batchFirst ? both[1 - i]! : size));
  const fixed = (n: number) => steps!.map(() => n);
  const isRelu = module instanceof nn.RNN && module.nonlinearity === 'relu';
  let x = swap(sequence);
  const ends: string[][] = [];
  for (let k = 0; k < numLayers; k++) {
    const rows = [k * directions, (k + 1) * directions] as const;
    const first = states.map((state) =>
      numLayers === 1 ? state : io.add('Slice', [state, io.integers([rows[0]]), io.integers([rows[1]])]),
    );
    const outputs = io.writer.all(
      kind.opType,
      [x, ...parameters(call, kind, k), undefined, ...first],
      {
        hidden_size: int(hiddenSize),
        direction: bidirectional ? text('bidirectional') : undefined,
        linear_before_reset: kind === GRU ? int(1) : undefined,
        activations: isRelu ? texts(Array.from({ length: directions }, () => 'Relu')) : undefined,
      },
      1 + kind.states,
    );
    // (T, directions, N, H) → (T, N, directions·H)
    const own = [steps!, batch!, fixed(directions), fixed(hiddenSize)];
    const both = io.transpose(outputs[0]!, [0, 2, 1, 3]);
    x = io.reshape(both, own, [steps!, batch!, fixed(directions * hiddenSize)]);
    ends.push(outputs.slice(1));
  }
  const last = Array.from({ length: kind.states }, (_, i) => {
    const of = ends.map((end) => end[i]!);
    return of.length === 1 ? of[0]! : io.add('Concat', of, { axis: int(0) });
  });
  return [swap(x), ...last];
}

const recurrent = <M extends nn.Recurrent>(
  layer: new (...args: never[]) => M,
  kind: Kind,
): LayerExport<M> => ({
  layer,
  fits: (_, inputs) =>
    inputs[0]!.shape.length === 3 &&
    inputs[0]!.dtype.name === 'f32' &&
    (inputs.length === 1 || inputs.length === 1 + kind.states),
  write: (call) => write(call, kind),
});

export const RECURRENT: readonly LayerExport[] = [
  recurrent(nn.RNN, RNN),
  recurrent(nn.GRU, GRU),
  recurrent(nn.LSTM, LSTM),
] as unknown as readonly LayerExport[];
