/** How the ops of sequences.json are called. */
import * as F from '../../src/index.js';
import type { Tensor } from '../../src/tensor/tensor.js';

type Inputs = Readonly<Record<string, Tensor>>;
// biome-ignore lint/suspicious/noExplicitAny: option values come from a file
type Options = Readonly<Record<string, any>>;

export const SEQUENCES: Readonly<Record<string, (inputs: Inputs, options: Options) => Tensor>> = {
  embedding: ({ indices, weight }, options) => F.embedding(indices!, weight!, options),
};
