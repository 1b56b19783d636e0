/** A function on examples that a worker can import, too. */
import type { ExampleMap } from '../../src/data/index.js';

/** Three values of the two of an example: the example, its number, another one drawn for it. */
export const widened: ExampleMap = async (input, { random, label }) => [
  input[0]!,
  input[1]! + label,
  random.uniform(),
];

export const MODULE = import.meta.url;
