/** From the output of a classifier to labels. */

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
