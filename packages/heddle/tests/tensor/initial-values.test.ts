/** Initial values are the numbers of the generator, one after the other and to the last bit, whoever draws them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PhiloxStream } from '../../src/core/philox.js';
import { bf16, type DType, f32, f64, manualSeed, nn, tensor, useDevice, zeros } from '../../src/index.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { type Distribution, draw, drawKernel } from '../../src/tensor/initial-values.js';
import { DEVICES } from '../cases/case-runner.js';

/** Where blocks are counted in two words. @param from words into a block */
function streamAt(from: number): PhiloxStream {
  const stream = new PhiloxStream(2 ** 40 + 7, 0xffffffff);
  stream.position = 2 ** 34 - 8 + from;
  return stream;
}

/** More than two launches of the kernel, and not whole blocks. */
const MANY = 2 ** 19 + 3;

for (const device of DEVICES)
  for (const [distribution, dtype, from] of [
    ['uniform', f32, 0],
    ['uniform', f64, 3],
    ['normal', f32, 2],
    ['normal', f64, 0],
    ['normal', bf16, 0],
    // Each number lies in two blocks.
    ['normal', f32, 1],
  ] as [Distribution, DType, number][])
    test(`${device}: ${distribution} numbers of ${dtype.name}, from word ${from} on`, async () => {
      useDevice(device);
      const [stream, plain] = [streamAt(from), streamAt(from)];
      // Once the kernel is there, it draws fewer numbers, too.
      for (const size of [MANY, 5001]) {
        const drawn = zeros([size], { dtype });
        draw(drawn, stream, { distribution, offset: -3, scale: 0.125 });
        const wanted = plain.fill(new Float64Array(size), () => -3 + 0.125 * plain[distribution]());
        assert.deepEqual(await drawn.data(), await tensor(wanted, { dtype }).data());
        assert.equal(stream.position, plain.position);
      }
    });

for (const [distribution, dtype, T] of [
  ['uniform', f32, Float32Array],
  ['normal', f32, Float32Array],
  ['normal', f64, Float64Array],
] as const)
  test(`the kernel draws ${distribution} numbers of ${dtype.name} as the host does`, () => {
    const plain = streamAt(0);
    const [from, end, size] = [3, 997, 1000];
    const values = new T(size);
    const { key, position, stream } = plain;
    const state = Uint32Array.of(...key, (position / 4) >>> 0, position / 2 ** 34, stream, from, end);
    const scaling = Float64Array.of(-3, 0.125);
    simulate(drawKernel(dtype, distribution), { grid: 8, block: 128 }, { values, state, scaling });
    const wanted = new T(size);
    for (let i = from; i < end; i++) wanted[i] = -3 + 0.125 * plain[distribution]();
    assert.deepEqual(values, wanted);
  });

test('normal numbers are right to the last bits, also at the ends', () => {
  const exact = (a: number, b: number): number =>
    Math.sqrt(-2 * Math.log(1 - a * 2 ** -24)) * Math.cos(2 * Math.PI * b * 2 ** -24);
  const words: number[] = [];
  const stream = new (class extends PhiloxStream {
    override next(): number {
      return words.shift()! << 8;
    }
  })(0);
  const ends = [0, 1, 2, 2 ** 22, 2 ** 23 - 1, 2 ** 23, 3 * 2 ** 22, 2 ** 24 - 2, 2 ** 24 - 1];
  const random = new PhiloxStream(5);
  const between = Array.from({ length: 20_000 }, () => random.below(2 ** 24));
  const pairs = [
    ...ends.flatMap((a) => ends.map((b) => [a, b])),
    ...between.map((a, i) => [a, between.at(-i)!]),
  ];
  for (const [a, b] of pairs as [number, number][]) {
    words.push(a, b);
    const wanted = exact(a, b);
    // What the cosine is taken of here, up to 2π, is rounded to a multiple of 2⁻⁵⁰.
    const unit = 2 ** -51 * Math.abs(wanted) + 2 ** -50 * exact(a, 0);
    const found = stream.normal();
    assert.ok(Math.abs(found - wanted) <= unit, `${a}, ${b}: ${found} instead of ${wanted}`);
  }
});

test('parameters of a large layer are drawn from the seed, and the next layer from there on', async () => {
  useDevice('cpu');
  const made = async () => {
    manualSeed(5);
    const [first, second] = [new nn.Linear(1024, 1027), new nn.Linear(4, 3)];
    return [await first.weight.data(), await second.weight.data()];
  };
  const [large, small] = await made();
  const host = new PhiloxStream(5, 0xffffffff);
  const uniform = (bound: number) => Math.fround(-bound + 2 * bound * host.uniform());
  assert.deepEqual(
    large,
    Float32Array.from({ length: 1024 * 1027 }, () => uniform(1 / 32)),
  );
  for (let i = 0; i < 1027; i++) host.next();
  assert.deepEqual(
    small,
    Float32Array.from({ length: 12 }, () => uniform(1 / 2)),
  );
  assert.deepEqual(await made(), [large, small]);
  const wide = nn.init.normal(zeros([512, 513], { dtype: f64 }), { mean: 2, std: 0.5 });
  const values = await wide.data();
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  assert.ok(Math.abs(mean - 2) < 0.005, `mean ${mean}`);
});
