/** From the output of a classifier to labels. */

import { shown } from 'heddle/internal/core/arguments.js';
import type { OutputTensor } from '../batching/batcher.js';
import { invalid } from '../errors.js';
import { valuesOf } from '../protocol/datatypes.js';
import { formatSpec, type TensorSpec } from '../protocol/model-spec.js';

/** A class, and how sure the model is of it. */
export interface RankedClass {
  /** Its place among the model's classes. */
  readonly index: number;
  readonly label: string;
  /** The probability that the model gives to it. */
  readonly confidence: number;
}

/** What the output of a classifier is. */
export type Scores = 'logits' | 'probabilities';

/** The likeliest classes first. @param outputs of one image; a single one is that of the second of two classes */
export function rankedClasses(
  outputs: Float32Array,
  scores: Scores,
  classes: readonly string[] | undefined,
  count: number,
): readonly RankedClass[] {
  const confidences = scores === 'logits' ? probabilities(outputs) : twoSided(outputs, 1);
  return [...confidences]
    .map((confidence, index) => ({ index, label: classes?.[index] ?? String(index), confidence }))
    .sort((a, b) => b.confidence - a.confidence)
    .slice(0, count);
}

/** Softmax; of one logit, the sigmoid of both classes. */
function probabilities(logits: Float32Array): Float32Array {
  const both = twoSided(logits, 0);
  const most = both.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const shares = both.map((logit) => Math.exp(logit - most));
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / sum);
}

/** Outputs of both classes of a model with one output: logits 0 and x, probabilities 1 − x and x. */
const twoSided = (outputs: Float32Array, whole: 0 | 1): Float32Array =>
  outputs.length === 1 ? Float32Array.of(whole === 1 ? 1 - outputs[0]! : 0, outputs[0]!) : outputs;

/**
 * The classification extension: of each example the classes of the largest values, as texts of value, index and, if the classes have
 * names, label.
 * @throws ServiceError for an output that is not one row of numbers for each example
 */
export function classificationOf(
  { name, datatype }: TensorSpec,
  { shape, bytes }: OutputTensor,
  classes: readonly string[] | undefined,
  count: number,
): { readonly shape: readonly number[]; readonly strings: readonly string[] } {
  const [rows, width] = shape;
  if (shape.length !== 2 || rows === undefined || !width)
    throw invalid(
      `the output '${name}' has the shape ${formatSpec(shape)}, classification is of outputs of [n, classes].`,
    );
  const values = valuesOf(datatype, bytes).map(Number);
  const most = Math.min(count, width);
  const strings = Array.from({ length: rows }, (_, row) =>
    values
      .slice(row * width, (row + 1) * width)
      .map((value, index) => ({ value, index }))
      .sort((a, b) => b.value - a.value)
      .slice(0, most)
      .map(({ value, index }) => [value, index, ...(classes ? [classes[index] ?? ''] : [])].join(':')),
  ).flat();
  return { shape: [rows, most], strings };
}

/** The parameter `classification` of an output: how many classes; undefined without it. @throws ServiceError */
export function classificationParameter(name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const count = typeof value === 'bigint' ? Number(value) : value;
  if (Number.isSafeInteger(count) && (count as number) >= 1) return count as number;
  throw invalid(`classification of the output '${name}' is ${shown(value)}, must be an integer ≥ 1.`);
}
