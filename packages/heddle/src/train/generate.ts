/** Text from a language model, one token after the other. */
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import type { Shape } from '../core/shape.js';
import { tensor } from '../tensor/create.js';
import { jit } from '../tensor/jit.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import type { GPT } from './gpt.js';

/** How tokens are chosen. */
export interface SamplingOptions {
  /** Logits are divided by it: below 1 likely tokens become likelier; at 0 the likeliest is taken. */
  readonly temperature: number;
  /** How many of the likeliest tokens are drawn from. Default: all. */
  readonly topK?: number | undefined;
  /** Seeds the draws: the same model, prompt and seed give the same text. */
  readonly seed: number;
}

/**
 * The numbers of the tokens that follow a prompt, without an end. The model is in evaluation mode. Keys and values
 * of its layers are kept from token to token; when `context` of them are there, the later half is read again.
 * @param prompt at least one token; of a longer one than `context` the end is read
 */
export async function* generate(
  model: GPT,
  prompt: Int32Array,
  options: SamplingOptions,
): AsyncGenerator<number, never, undefined> {
  if (prompt.length === 0) throw new ArgumentError('[generate] prompt is empty, must have a token.');
  const { context } = model;
  const random = new PhiloxStream(options.seed);
  const caches = model.cache();
  const token = tensor(Int32Array.of(0), { shape: [1, 1] });
  const step = jit((x: Tensor<Shape, 'i32'>) => noGrad(() => model.forward(x, caches).reshape([-1])));
  try {
    let seen = Array.from(prompt.subarray(-context));
    let read = 0;
    for (;;) {
      for (; read < seen.length - 1; read++) step(token.write([seen[read]!])).dispose();
      const logits = step(token.write([seen[read++]!]));
      const next = draw((await logits.data()) as Float32Array, options, random);
      logits.dispose();
      yield next;
      seen.push(next);
      if (seen.length <= context) continue;
      seen = seen.slice(-Math.max(1, Math.floor(context / 2)));
      read = 0;
      for (const cache of caches) cache.reset();
    }
  } finally {
    step.dispose();
    token.dispose();
    for (const { keys, values, length } of caches) for (const held of [keys, values, length]) held.dispose();
  }
}

/** The place of one of the logits, drawn by their softmax. */
export function draw(
  logits: Float32Array,
  { temperature, topK = logits.length }: Omit<SamplingOptions, 'seed'>,
  random: PhiloxStream,
): number {
  const ranked = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]!);
  if (temperature === 0) return ranked[0]!;
  const chosen = ranked.slice(0, topK);
  const weights = chosen.map((place) => Math.exp((logits[place]! - logits[ranked[0]!]!) / temperature));
  let rest = random.uniform() * weights.reduce((sum, weight) => sum + weight, 0);
  const at = weights.findIndex((weight) => {
    rest -= weight;
    return rest < 0;
  });
  return chosen[at < 0 ? chosen.length - 1 : at]!;
}
