/** Recurrent networks. Formulas, options and names are PyTorch's. */
import {
  aBoolean,
  integerFrom,
  oneOf,
  type Rules,
  requireOptions,
  shown,
  within,
} from '../core/arguments.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { requireTensor } from '../tensor/checks.js';
import { cat, stack, zeros } from '../tensor/create.js';
import { dropout } from '../tensor/functional-layers.js';
import { type RecurrentWeights, recurrentLayer } from '../tensor/functional-recurrent.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** Options of the layers `GRU` and `LSTM`. */
export interface RecurrentOptions {
  /** How many layers there are, one on the outputs of the other; default 1. */
  readonly numLayers?: number;
  /** Whether there are biases; default true. */
  readonly bias?: boolean;
  /** Whether tensors are (N, T, features) instead of (T, N, features), T being the steps; default false. */
  readonly batchFirst?: boolean;
  /** The probability that an output of a layer below the last becomes 0 in training; default 0. */
  readonly dropout?: number;
  /** Whether each layer has another part that goes from the last step to the first; default false. */
  readonly bidirectional?: boolean;
}

/** Options of the layer `RNN`. */
export interface RnnOptions extends RecurrentOptions {
  /** The activation function; default 'tanh'. */
  readonly nonlinearity?: 'tanh' | 'relu';
}

/** Options of the layers `GRUCell` and `LSTMCell`. */
export interface CellOptions {
  /** Whether there are biases; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `RNNCell`. */
export interface RnnCellOptions extends CellOptions {
  /** The activation function; default 'tanh'. */
  readonly nonlinearity?: 'tanh' | 'relu';
}

const RECURRENT: Rules<RecurrentOptions> = {
  numLayers: integerFrom(1, 1000),
  bias: aBoolean,
  batchFirst: aBoolean,
  dropout: within(0, 1),
  bidirectional: aBoolean,
};
const RNN_OPTIONS: Rules<RnnOptions> = { ...RECURRENT, nonlinearity: oneOf('tanh', 'relu') };
const CELL: Rules<CellOptions> = { bias: aBoolean };
const RNN_CELL: Rules<RnnCellOptions> = { ...CELL, nonlinearity: oneOf('tanh', 'relu') };

/** What a step of a recurrent network computes; 'tanh' and 'relu' are those of an `RNN`. */
export type RecurrentKind = 'tanh' | 'relu' | 'gru' | 'lstm';
const GATES: Readonly<Record<RecurrentKind, number>> = { tanh: 1, relu: 1, gru: 3, lstm: 4 };

/** Drawn from U(±1/√hiddenSize), as PyTorch's. */
function weightsOf(kind: RecurrentKind, inputs: number, hidden: number, bias: boolean): RecurrentWeights {
  const rows = GATES[kind] * hidden;
  return {
    weightIh: uniformParameter([rows, inputs], hidden),
    weightHh: uniformParameter([rows, hidden], hidden),
    biasIh: bias ? uniformParameter([rows], hidden) : undefined,
    biasHh: bias ? uniformParameter([rows], hidden) : undefined,
  };
}

/** The base of recurrent layers. */
export abstract class Recurrent extends Module {
  /**
   * By PyTorch's names: of layer k `weightIhL{k}` (gates·hiddenSize, features), `weightHhL{k}` (gates·hiddenSize,
   * hiddenSize), `biasIhL{k}` and `biasHhL{k}` (gates·hiddenSize); of the other direction with `Reverse` at the end.
   */
  readonly weights: Readonly<Record<string, Tensor>>;
  /** The features of each step. */
  readonly inputSize: number;
  /** The features of the state. */
  readonly hiddenSize: number;
  /** How many layers there are. */
  readonly numLayers: number;
  /** Whether tensors are (N, T, features) instead of (T, N, features). */
  readonly batchFirst: boolean;
  /** The probability that an output of a layer below the last becomes 0 in training. */
  readonly dropout: number;
  /** Whether each layer has another part that goes from the last step to the first. */
  readonly bidirectional: boolean;
  readonly #kind: RecurrentKind;

  constructor(
    name: string,
    kind: RecurrentKind,
    inputSize: number,
    hiddenSize: number,
    options: RecurrentOptions,
  ) {
    super();
    requireSize(name, 'inputSize', inputSize);
    requireSize(name, 'hiddenSize', hiddenSize);
    const { numLayers = 1, bias = true, batchFirst = false, dropout = 0, bidirectional = false } = options;
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.numLayers = numLayers;
    this.batchFirst = batchFirst;
    this.dropout = dropout;
    this.bidirectional = bidirectional;
    this.#kind = kind;
    const directions = bidirectional ? ['', 'Reverse'] : [''];
    const entries = Array.from({ length: numLayers }, (_, k) =>
      directions.map((direction) => {
        const features = k === 0 ? inputSize : hiddenSize * directions.length;
        const own = Object.entries(weightsOf(kind, features, hiddenSize, bias));
        return own.flatMap(([key, t]) => (t ? [[`${key}L${k}${direction}`, t] as const] : []));
      }),
    );
    this.weights = Object.fromEntries(entries.flat(2));
  }

  /** @internal */
  protected override state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this.weights);
  }

  #weights(layer: number, direction: string): RecurrentWeights {
    const of = (name: string): Tensor => this.weights[`${name}L${layer}${direction}`]!;
    return {
      ...{ weightIh: of('weightIh'), weightHh: of('weightHh') },
      ...{ biasIh: of('biasIh'), biasHh: of('biasHh') },
    };
  }

  /** @internal The outputs, and the last states, as the first ones come: (layers·directions, N, hiddenSize). */
  protected run(input: Tensor, first: readonly Tensor[] | undefined, states: number): [Tensor, Tensor[]] {
    const name = this.constructor.name;
    requireTensor(name, 'input', input);
    const { inputSize, hiddenSize, numLayers, batchFirst, bidirectional } = this;
    const hasBatch = input.ndim === 3;
    if ((!hasBatch && input.ndim !== 2) || input.shape.at(-1) !== inputSize)
      throw new ShapeError(
        `[${name}] input is ${formatShape(input.shape)}, must be (${batchFirst ? 'N,T' : 'T,N'},${inputSize}), or (T,${inputSize}) without a batch.`,
      );
    const rows = !hasBatch ? input.unsqueeze(1) : batchFirst ? input.transpose(0, 1) : input;
    const [steps, batch] = rows.shape as [number, number, number];
    if (steps === 0)
      throw new ShapeError(`[${name}] input is ${formatShape(input.shape)}: there is no step in it.`);
    const parts = numLayers * (bidirectional ? 2 : 1);
    const given = hasBatch ? [parts, batch, hiddenSize] : [parts, hiddenSize];
    for (const [i, state] of (first ?? []).entries()) {
      requireTensor(name, `state ${i}`, state);
      if (!sameShape(state.shape, given))
        throw new ShapeError(
          `[${name}] the state before the first step is ${formatShape(state.shape)}, must be ${formatShape(given)}.`,
        );
    }
    const before = (part: number): Tensor[] =>
      first
        ? first.map((s) => s.at(part).reshape([batch, hiddenSize]))
        : Array.from({ length: states }, () => zeros([batch, hiddenSize]));
    const last: (readonly Tensor[])[] = [];
    let x = rows;
    for (let k = 0; k < numLayers; k++) {
      const taken = k === 0 ? x : dropout(x, { p: this.dropout, training: this.training });
      const outputs = (bidirectional ? ['', 'Reverse'] : ['']).map((direction, i) => {
        const weights = this.#weights(k, direction);
        const { output, last: end } = recurrentLayer(
          this.#kind,
          taken,
          weights,
          before(last.length),
          i === 1,
        );
        last.push(end);
        return output;
      });
      x = outputs.length === 1 ? outputs[0]! : (cat(outputs, -1) as Tensor);
    }
    const ends = Array.from(
      { length: states },
      (_, i) => stack(last.map((s) => s[i]!)).reshape(given) as Tensor,
    );
    const output = !hasBatch ? x.squeeze(1) : batchFirst ? x.transpose(0, 1) : x;
    return [output, ends];
  }
}

/** The states of an LSTM: h and c. */
export type LstmState = readonly [h: Tensor, c: Tensor];

/** @throws ArgumentError */
function requirePair(name: string, state: unknown): void {
  if (state !== undefined && !(Array.isArray(state) && state.length === 2))
    throw new ArgumentError(`[${name}] the state is ${shown(state)}, must be two tensors [h, c].`);
}

/** h′ = tanh(Wᵢₕ·x + bᵢₕ + Wₕₕ·h + bₕₕ), or relu of that, step by step. */
export class RNN extends Recurrent {
  /** The activation function. */
  readonly nonlinearity: 'tanh' | 'relu';

  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: RnnOptions = {}) {
    requireOptions('RNN', options, RNN_OPTIONS);
    const { nonlinearity = 'tanh' } = options;
    super('RNN', nonlinearity, inputSize, hiddenSize, options);
    this.nonlinearity = nonlinearity;
  }

  /**
   * @param input (T, N, inputSize), with `batchFirst` (N, T, inputSize); without a batch (T, inputSize)
   * @param h (layers·directions, N, hiddenSize) before the first step; default zeros
   * @returns [output, h]: (T, N, directions·hiddenSize), likewise, and h after the last step
   * @throws ShapeError, DTypeError
   */
  forward(input: Tensor, h?: Tensor): [output: Tensor, h: Tensor] {
    const [output, [end]] = this.run(input, h === undefined ? undefined : [h], 1);
    return [output, end!];
  }
}

/**
 * r = σ(Wᵢᵣ·x + bᵢᵣ + Wₕᵣ·h + bₕᵣ), z likewise, n = tanh(Wᵢₙ·x + bᵢₙ + r·(Wₕₙ·h + bₕₙ)), h′ = (1 − z)·n + z·h (Cho and
 * others, 2014; with the reset after the product). Blocks of weights are in the order r, z, n.
 */
export class GRU extends Recurrent {
  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    requireOptions('GRU', options, RECURRENT);
    super('GRU', 'gru', inputSize, hiddenSize, options);
  }

  /**
   * @param input (T, N, inputSize), with `batchFirst` (N, T, inputSize); without a batch (T, inputSize)
   * @param h (layers·directions, N, hiddenSize) before the first step; default zeros
   * @returns [output, h]: (T, N, directions·hiddenSize), likewise, and h after the last step
   * @throws ShapeError, DTypeError
   */
  forward(input: Tensor, h?: Tensor): [output: Tensor, h: Tensor] {
    const [output, [end]] = this.run(input, h === undefined ? undefined : [h], 1);
    return [output, end!];
  }
}

/**
 * i, f, o = σ(W·x + b + W·h + b), g = tanh of such a sum, c′ = f·c + i·g, h′ = o·tanh(c′) (Hochreiter and Schmidhuber,
 * 1997; Gers and others, 2000). Blocks of weights are in the order i, f, g, o.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const layer = new nn.LSTM(16, 32, { batchFirst: true });
 * const [output] = layer.forward(randn([4, 10, 16]));
 * console.log(output.shape); // → [ 4, 10, 32 ]
 * ```
 */
export class LSTM extends Recurrent {
  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    requireOptions('LSTM', options, RECURRENT);
    super('LSTM', 'lstm', inputSize, hiddenSize, options);
  }

  /**
   * @param input (T, N, inputSize), with `batchFirst` (N, T, inputSize); without a batch (T, inputSize)
   * @param state [h, c] before the first step, (layers·directions, N, hiddenSize) each; default zeros
   * @returns [output, [h, c]]: (T, N, directions·hiddenSize), likewise, and the state after the last step
   * @throws ShapeError, DTypeError, ArgumentError
   */
  forward(input: Tensor, state?: LstmState): [output: Tensor, state: LstmState] {
    requirePair('LSTM', state);
    const [output, [h, c]] = this.run(input, state, 2);
    return [output, [h!, c!]];
  }
}

/** The base of the cells of recurrent networks. */
export abstract class RecurrentCell extends Module {
  /** (gates·hiddenSize, inputSize) */
  readonly weightIh: Tensor;
  /** (gates·hiddenSize, hiddenSize) */
  readonly weightHh: Tensor;
  /** (gates·hiddenSize); undefined with `bias: false`. */
  readonly biasIh: Tensor | undefined;
  /** (gates·hiddenSize); undefined with `bias: false`. */
  readonly biasHh: Tensor | undefined;
  readonly #kind: RecurrentKind;

  constructor(
    name: string,
    kind: RecurrentKind,
    inputSize: number,
    hiddenSize: number,
    { bias = true }: CellOptions,
  ) {
    super();
    requireSize(name, 'inputSize', inputSize);
    requireSize(name, 'hiddenSize', hiddenSize);
    const { weightIh, weightHh, biasIh, biasHh } = weightsOf(kind, inputSize, hiddenSize, bias);
    this.weightIh = weightIh as Tensor;
    this.weightHh = weightHh as Tensor;
    this.biasIh = biasIh as Tensor | undefined;
    this.biasHh = biasHh as Tensor | undefined;
    this.#kind = kind;
  }

  /** @internal The states after a step. */
  protected run(input: Tensor, first: readonly Tensor[] | undefined, states: number): Tensor[] {
    const name = this.constructor.name;
    requireTensor(name, 'input', input);
    const [inputs, size] = [this.weightIh.shape[1]!, this.weightHh.shape[1]!];
    if ((input.ndim !== 2 && input.ndim !== 1) || input.shape.at(-1) !== inputs)
      throw new ShapeError(
        `[${name}] input is ${formatShape(input.shape)}, must be (N,${inputs}), or (${inputs}) without a batch.`,
      );
    const rows = input.reshape([1, input.size / inputs, inputs]);
    const given = [...input.shape.slice(0, -1), size];
    for (const [i, state] of (first ?? []).entries()) {
      requireTensor(name, `state ${i}`, state);
      if (!sameShape(state.shape, given))
        throw new ShapeError(
          `[${name}] the state is ${formatShape(state.shape)}, must be ${formatShape(given)}.`,
        );
    }
    const shape = [rows.shape[1]!, size];
    const before = first
      ? first.map((s) => s.reshape(shape))
      : Array.from({ length: states }, () => zeros(shape));
    return recurrentLayer(this.#kind, rows, this, before as Tensor[]).last.map((s) => s.reshape(given));
  }
}

/** A step of `RNN`. */
export class RNNCell extends RecurrentCell {
  /** The activation function. */
  readonly nonlinearity: 'tanh' | 'relu';

  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: RnnCellOptions = {}) {
    requireOptions('RNNCell', options, RNN_CELL);
    const { nonlinearity = 'tanh' } = options;
    super('RNNCell', nonlinearity, inputSize, hiddenSize, options);
    this.nonlinearity = nonlinearity;
  }

  /** @param input (N, inputSize) or (inputSize) · @param h (N, hiddenSize) or (hiddenSize), default zeros · @returns h after the step */
  forward(input: Tensor, h?: Tensor): Tensor {
    return this.run(input, h === undefined ? undefined : [h], 1)[0]!;
  }
}

/** A step of `GRU`. */
export class GRUCell extends RecurrentCell {
  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: CellOptions = {}) {
    requireOptions('GRUCell', options, CELL);
    super('GRUCell', 'gru', inputSize, hiddenSize, options);
  }

  /** @param input (N, inputSize) or (inputSize) · @param h (N, hiddenSize) or (hiddenSize), default zeros · @returns h after the step */
  forward(input: Tensor, h?: Tensor): Tensor {
    return this.run(input, h === undefined ? undefined : [h], 1)[0]!;
  }
}

/** A step of `LSTM`. */
export class LSTMCell extends RecurrentCell {
  /** @throws ArgumentError */
  constructor(inputSize: number, hiddenSize: number, options: CellOptions = {}) {
    requireOptions('LSTMCell', options, CELL);
    super('LSTMCell', 'lstm', inputSize, hiddenSize, options);
  }

  /** @param input (N, inputSize) or (inputSize) · @param state [h, c], (N, hiddenSize) or (hiddenSize) each, default zeros · @returns [h, c] after the step */
  forward(input: Tensor, state?: LstmState): LstmState {
    requirePair('LSTMCell', state);
    const [h, c] = this.run(input, state, 2);
    return [h!, c!];
  }
}
