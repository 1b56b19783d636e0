/** What a model takes and gives, as the protocol describes it. */
import type { Datatype } from './datatypes.js';

/** An input or an output of a model. */
export interface TensorSpec {
  readonly name: string;
  readonly datatype: Datatype;
  /** −1 is a size that a request chooses: in a batched model the first one is the batch. */
  readonly shape: readonly number[];
  /** Of token numbers: every value must be at least 0 and below this. */
  readonly below?: number;
}

/** How an image becomes the input of a model: the options of `readImages` in heddle-data. */
export interface ImageInput {
  readonly size: readonly [height: number, width: number];
  readonly channels: 1 | 3;
  readonly resize: 'squash' | 'crop' | 'pad';
  readonly normalize: { readonly mean: number | readonly number[]; readonly std: number | readonly number[] };
}

/** Everything that requests are checked against. */
export interface ModelSpec {
  /** Where the model comes from, in the words of the protocol: heddle_run, onnx_heddle, heddle_engine. */
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Whether the first dimension of all inputs and outputs is the batch, so that requests can share a run. */
  readonly batched: boolean;
  /** Of a classifier: what the classes are called. */
  readonly classes?: readonly string[];
  /** Of a classifier of images. */
  readonly image?: ImageInput;
  /** Whether it can say where in an image it finds the evidence for a class. */
  readonly explains?: boolean;
}

/** Metadata of a tensor as both protocols list it. */
export const formatSpec = (shape: readonly number[]): string => `[${shape.join(', ')}]`;
