/** The language model: what a character can depend on, generation, and that it learns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShapeError } from '../../src/core/errors.js';
import { PhiloxStream } from '../../src/core/philox.js';
import type { Shape } from '../../src/core/shape.js';
import { Loader, TextDataset, Vocabulary } from '../../src/data/index.js';
import { fit, jit, manualSeed, nn, noGrad, optim, type Tensor, tensor } from '../../src/index.js';
import { draw, generate, type SamplingOptions } from '../../src/train/generate.js';
import { GPT } from '../../src/train/gpt.js';
import { PROGRAMS } from '../../src/train/programs.js';
import { assertClose } from '../close.js';

/** With larger weights than at the beginning, so that logits differ. */
const made = (): GPT => {
  manualSeed(5);
  const model = new GPT(11, { context: 16, dim: 12, heads: 3, depth: 2, dropout: 0.1 }).eval();
  for (const parameter of model.parameters())
    if (parameter.ndim === 2) nn.init.normal(parameter, { std: 0.3 });
  return model;
};
const row = (codes: readonly number[]): Tensor<Shape, 'i32'> =>
  tensor(Int32Array.from(codes), { shape: [1, codes.length] });
const model = made();
const whole = jit((x: Tensor<Shape, 'i32'>) => noGrad(() => model.forward(x)));
/** The logits after each character. Those that fill the context up do not change them, as the first test shows. */
const logitsOf = async (codes: readonly number[]): Promise<number[][]> => {
  const logits = whole(row([...codes, ...Array(16 - codes.length).fill(0)]));
  return ((await logits.squeeze(0).array()) as number[][]).slice(0, codes.length);
};

test('a later character does not change earlier logits', async () => {
  const codes = [3, 1, 4, 1, 5, 9, 2, 6];
  const [before, after] = [await logitsOf(codes), await logitsOf(codes.with(5, 10))];
  assert.deepEqual(after.slice(0, 5), before.slice(0, 5));
  for (let i = 5; i < 8; i++) assert.notDeepEqual(after[i], before[i]);
  assert.throws(
    () => model.forward(row(Array(17).fill(0))),
    (e) => e instanceof ShapeError && /\(1,17\), must be \(N,L\) with L ≤ 16/.test(e.message),
  );
});

test('logits with a cache are those without', async () => {
  const codes = Array.from({ length: 16 }, (_, i) => (7 * i * i + 3) % 11);
  const expected = await logitsOf(codes);
  const caches = model.cache();
  const step = jit((x: Tensor<Shape, 'i32'>) => noGrad(() => model.forward(x, caches)));
  for (const [i, code] of codes.entries())
    assertClose(
      await step(row([code])).data(),
      Float32Array.from(expected[i]!),
      `logits after character ${i}`,
    );
});

const taken = async (
  prompt: readonly number[],
  count: number,
  options: Partial<SamplingOptions> = {},
  from = model,
): Promise<number[]> => {
  const codes: number[] = [];
  for await (const code of generate(from, Int32Array.from(prompt), {
    temperature: 1,
    seed: 1,
    ...options,
  })) {
    codes.push(code);
    if (codes.length === count) break;
  }
  return codes;
};

test('generation goes on beyond the context, and another seed gives another text', async () => {
  const argmax = (logits: readonly number[]): number => logits.indexOf(Math.max(...logits));
  // Without a cache: what it sees is cut to the later half whenever it would be longer than the context.
  const prompt = Array.from({ length: 20 }, (_, i) => (i * i) % 11);
  let seen = prompt.slice(-16);
  const expected: number[] = [];
  for (let i = 0; i < 20; i++) {
    const next = argmax((await logitsOf(seen)).at(-1)!);
    expected.push(next);
    seen = seen.length < 16 ? [...seen, next] : [...seen, next].slice(-8);
  }
  assert.deepEqual(await taken(prompt, 20, { temperature: 0 }), expected);
  assert.notDeepEqual(await taken([3], 12, { seed: 1 }), await taken([3], 12, { seed: 2 }));
});

test('characters are drawn by their softmax, from the likeliest', () => {
  const logits = Float32Array.of(0.1, 1, 0.4, -2, 0.7);
  const share = (temperature: number, topK?: number): number[] => {
    const random = new PhiloxStream(2);
    const counts = Array(5).fill(0);
    for (let i = 0; i < 4000; i++) counts[draw(logits, { temperature, topK }, random)]++;
    return counts.map((count) => count / 4000);
  };
  for (const [temperature, allowed] of [
    [1, [0, 1, 2, 3, 4]],
    [0.3, [0, 1, 2, 3, 4]],
    [2, [1, 4]],
    [0, [1]],
  ] as const) {
    const weights = Array.from(logits, (logit, i) =>
      allowed.some((place) => place === i) ? Math.exp((logit - 1) / (temperature || 1)) : 0,
    );
    const sum = weights.reduce((a, b) => a + b, 0);
    for (const [i, found] of share(temperature, allowed.length).entries()) {
      const p = weights[i]! / sum;
      assert.ok(Math.abs(found - p) <= 4 * Math.sqrt((p * (1 - p)) / 4000), `${i}: ${found}, expected ${p}`);
    }
  }
});

test('a loss is of a character, an accuracy of the characters of an example', async () => {
  // Of two texts of three characters among four; in each row one character has 3/4 of the probability.
  const likely = [0, 1, 2, 3, 0, 0];
  const logits = tensor(
    likely.flatMap((best) => [0, 1, 2, 3].map((code) => (code === best ? Math.log(9) : 0))),
    { shape: [2, 3, 4] },
  );
  const right = tensor(Int32Array.from(likely), { shape: [2, 3] });
  const half = tensor(Int32Array.of(0, 1, 2, 1, 1, 0), { shape: [2, 3] });
  const { loss, metric } = PROGRAMS.gpt;
  assertClose(await loss('mean')(logits, right).data(), [Math.log(4 / 3)], 'the mean over the examples');
  assertClose(await loss('sum')(logits, right).data(), [2 * Math.log(4 / 3)], 'the sum over the examples');
  assertClose(await metric(logits, half).data(), [1 + 1 / 3], 'all of the first, one of the second');
});

test('it learns a text by heart, and writes it', async () => {
  const verse = 'the quick brown fox jumps over the lazy dog while seven wizards box. ';
  const vocabulary = new Vocabulary(verse);
  const text = new TextDataset(vocabulary.encode(verse.repeat(16)), 16);
  manualSeed(5);
  const model = new GPT(vocabulary.size, { context: 16, dim: 32, heads: 2, depth: 1, dropout: 0 });
  const { epochs } = await fit(model, {
    train: new Loader(text, { batchSize: 23, shuffle: true }),
    optimizer: new optim.AdamW(model.parameters(), { lr: 2e-2 }),
    loss: PROGRAMS.gpt.loss('mean'),
    schedule: optim.schedules.cosine(),
    clipGradNorm: 1,
    epochs: 50,
  });
  assert.ok(epochs.at(-1)!.loss < 0.2, `${epochs.at(-1)!.loss} nats per character`);
  const codes = await taken([...vocabulary.encode('the quick')], 60, { temperature: 0 }, model.eval());
  assert.ok(verse.repeat(2).startsWith(`the quick${vocabulary.decode(codes)}`), vocabulary.decode(codes));
});
