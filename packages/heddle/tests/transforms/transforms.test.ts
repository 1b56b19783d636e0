/** Transforms draw as they say, for every image by itself, and take what they say they take. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  data,
  f16,
  full,
  i32,
  jit,
  manualSeed,
  ones,
  rand,
  transforms as T,
  tensor,
  zeros,
} from '../../src/index.js';
import { betaOf, betaTable } from '../../src/transforms/beta.js';
import { HostPixels } from '../../src/transforms/host-pixels.js';

const IMAGES = 800;
/** Images of one pixel row, left 0 and right 1: what became of each is one number. */
const halves = tensor([0, 1], { shape: [1, 1, 1, 2] }).expand([IMAGES, 1, 1, 2]);
const stream = (index: number) => new data.EpochRandom(5, 2).of(index);

/** On the device, and on the host image by image. */
async function made(transform: T.Transform, [c, h, w]: readonly [number, number, number], value = 0.5) {
  const onDevice = [...(await transform(full([IMAGES, c, h, w], value)).data())];
  const image = { data: new Float32Array(c * h * w).fill(value), shape: [c, h, w] };
  const onHost = Array.from({ length: IMAGES }, (_, i) => [...transform.image(image, stream(i)).data]).flat();
  return { onDevice, onHost };
}
const meanOf = (values: readonly number[]) => values.reduce((sum, v) => sum + v, 0) / values.length;

test('what has a probability happens as often', async () => {
  manualSeed(1);
  const flip = T.randomHorizontalFlip({ p: 0.25 });
  const flipped = await flip(halves).at(':', 0, 0, 0).sum().item();
  // Four standard deviations of a binomial distribution.
  const allowed = 4 * Math.sqrt(IMAGES * 0.25 * 0.75);
  assert.ok(Math.abs(flipped - IMAGES / 4) < allowed, `${flipped} of ${IMAGES}`);
  const pair = { data: Float32Array.of(0, 1), shape: [1, 1, 2] };
  let onHost = 0;
  for (let i = 0; i < IMAGES; i++) onHost += flip.image(pair, stream(i)).data[0]!;
  assert.ok(Math.abs(onHost - IMAGES / 4) < allowed, `${onHost} of ${IMAGES}`);
});

test('amounts fill their range evenly, and parts have the area that is drawn', async () => {
  manualSeed(2);
  const { onDevice, onHost } = await made(T.colorJitter({ brightness: [0.5, 1.5] }), [1, 1, 1]);
  for (const values of [onDevice, onHost]) {
    assert.ok(Math.min(...values) >= 0.25 && Math.min(...values) < 0.27);
    assert.ok(Math.max(...values) <= 0.75 && Math.max(...values) > 0.73);
    assert.ok(Math.abs(meanOf(values) - 0.5) < (4 * 0.5) / Math.sqrt(12 * IMAGES));
  }
  const erased = await made(
    T.randomErasing({ p: 1, scale: [0.1, 0.3], ratio: [0.5, 2], value: 1 }),
    [1, 20, 20],
    0,
  );
  for (const values of [erased.onDevice, erased.onHost])
    assert.ok(Math.abs(meanOf(values) - 0.2) < 0.02, `${meanOf(values)}`);
  const noise = await made(
    T.randomErasing({ p: 1, scale: [0.5, 0.5], ratio: [1, 1], value: 'random' }),
    [1, 2, 2],
    9,
  );
  for (const values of [noise.onDevice, noise.onHost]) {
    const drawn = values.filter((v) => v !== 9);
    assert.equal(drawn.length, IMAGES);
    assert.ok(Math.abs(meanOf(drawn)) < 0.15 && Math.abs(meanOf(drawn.map((v) => v * v)) - 1) < 0.25);
  }
});

test('Beta(α, α) has its quantiles', () => {
  const u = Float32Array.from({ length: 201 }, (_, i) => i / 200);
  const of = (alpha: number) => [
    ...betaOf(new HostPixels(u, [1, 1, u.length]), alpha, betaTable(alpha)).data,
  ];
  const check = (alpha: number, error: (x: number, u: number) => number): void => {
    for (const [i, x] of of(alpha).entries())
      assert.ok(Math.abs(error(x, u[i]!)) < 1e-5, `${alpha}, ${i}: ${x}`);
  };
  check(1, (x, u) => x - u);
  // The arcsine distribution, and that of the middle one of three.
  check(0.5, (x, u) => x - Math.sin((Math.PI * u) / 2) ** 2);
  check(2, (x, u) => x * x * (3 - 2 * x) - u);
  // Nothing is lost where nearly all is at the ends.
  assert.ok(of(0.01).every((x) => x >= 0 && x <= 1));
});

test('mixUp and cutMix mix each image and its target with those before it', async () => {
  manualSeed(4);
  const values = tensor([0, 1, 2, 3], { shape: [4, 1, 1, 1] }).expand([4, 1, 6, 5]);
  const labels = tensor([0, 1, 2, 0], { dtype: i32 });
  for (const make of [T.mixUp, T.cutMix]) {
    const mix = make({ alpha: 0.8, numClasses: 3 });
    const step = jit((x: typeof values, y: typeof labels) => mix(x, y));
    const seen = new Set<number>();
    for (let run = 0; run < 5; run++) {
      const [images, targets] = step(values, labels);
      const share = await targets.at(1, 1).item();
      seen.add(share);
      const rows = (await targets.array()) as number[][];
      const expected = [
        [1, 0, 0],
        [1 - share, share, 0],
        [0, 1 - share, share],
        [share, 0, 1 - share],
      ];
      for (const [i, v] of rows.flat().entries()) assert.ok(Math.abs(v - expected.flat()[i]!) < 1e-6);
      // Each image's mean, of its own value i and the one before.
      const means = [...(await images.mean([1, 2, 3]).data())];
      const own = [3 - 3 * share, share, 1 + share, 2 + share];
      for (const [i, v] of means.entries())
        assert.ok(Math.abs(v - own[i]!) < 1e-5, `${v}, expected ${own[i]}`);
    }
    assert.ok(seen.size > 1);
    const image = (value: number) => ({ data: new Float32Array(30).fill(value), shape: [1, 6, 5] });
    const host = mix.images([image(0), image(1)], [0, Float32Array.of(0, 0.5, 0.5)], stream(1));
    const share = host.targets[0]![0]!;
    assert.deepEqual(
      [...host.targets[1]!].map((v) => v.toFixed(5)),
      [1 - share, share / 2, share / 2].map((v) => v.toFixed(5)),
    );
    assert.ok(Math.abs(meanOf([...host.images[1]!.data]) - share) < 1e-6);
  }
});

test('batches may be empty, of 16 bits and of any size; bytes are numbers from 0 to 1', async () => {
  const all = T.compose([
    T.randomCrop([5, 3]),
    T.randomAffine(10, { interpolation: 'bilinear' }),
    T.colorJitter({ contrast: 0.5 }),
    T.randomErasing(),
  ]);
  assert.deepEqual(await all(zeros([0, 3, 7, 11])).array(), []);
  const varied = all(rand([2, 3, 7, 11]).cast(f16));
  assert.equal(varied.dtype, f16);
  assert.deepEqual(varied.shape, [2, 3, 5, 3]);
  assert.ok((await varied.data()).every((v) => v >= 0 && v <= 1));
  assert.deepEqual((await T.randomCrop(1)(ones([1, 1, 1, 1])).data())[0], 1);
  const { data: numbers, shape } = T.centerCrop([1, 3]).image(
    { data: Uint8Array.of(51, 255), shape: [1, 1, 2] },
    stream(0),
  );
  assert.deepEqual([...numbers], [Math.fround(0.2), 1, 0]);
  assert.deepEqual(shape, [1, 1, 3]);
});

test('an image that is turned by any angle is as large as it needs, on the host', () => {
  const turned = T.randomRotation([10, 80], { expand: true });
  const image = { data: new Float32Array(40).fill(1), shape: [1, 4, 10] };
  const sizes = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const { shape, data: numbers } = turned.image(image, stream(i));
    sizes.add(shape.join());
    // Nothing is cut off: about as many ones as there were.
    const sum = numbers.reduce((a, b) => a + b, 0);
    assert.ok(Math.abs(sum - 40) <= 8, `${shape}: ${sum}`);
  }
  assert.ok(sizes.size >= 4, [...sizes].join(' '));
});

test('the same stream gives the same image; on the device the same seed', async () => {
  const vary = T.compose([T.randomCrop(6, { padding: 2 }), T.randomRotation(20), T.randomErasing({ p: 1 })]);
  const image = { data: Float32Array.from({ length: 36 }, (_, i) => i), shape: [1, 6, 6] };
  assert.deepEqual(vary.image(image, stream(3)), vary.image(image, stream(3)));
  assert.notDeepEqual(vary.image(image, stream(3)), vary.image(image, stream(4)));
  const batch = rand([3, 1, 6, 6]);
  const draw = async () => {
    manualSeed(8);
    return [...(await vary(batch).data())];
  };
  assert.deepEqual(await draw(), await draw());
});

test('what does not fit is refused', () => {
  const image = { data: new Float32Array(8), shape: [2, 2, 2] };
  const refuse = (f: () => unknown, message: RegExp) => assert.throws(f, { message });
  refuse(
    () => T.randomCrop(5)(zeros([1, 1, 4, 4])),
    /^\[randomCrop\] the part is 5×5, larger than the images of 4×4 with their padding/,
  );
  refuse(
    () => T.randomCrop(4, { padding: 4, paddingMode: 'reflect' })(zeros([1, 1, 4, 4])),
    /a padding of 4 by paddingMode 'reflect' must be at most 3/,
  );
  refuse(
    () => T.randomRotation(30, { expand: true })(zeros([2, 1, 4, 4])),
    /^\[randomRotation\] expand gives each image a size of its own, and the images of a batch have one/,
  );
  refuse(
    () => T.randomRotation(30, { expand: true, center: [1, 2] }),
    /^\[randomRotation\] center is \[1, 2\] and expand true: .* Leave one out\.$/,
  );
  refuse(
    () => T.randomAffine(30, { interpolation: 'bicubic' as 'nearest' }),
    /must be 'nearest' or 'bilinear'/,
  );
  refuse(
    () => T.colorJitter({ hue: 0.1 })(zeros([1, 2, 4, 4])),
    /^\[colorJitter\] the images have 2 channels, must be grey \(1\) or RGB \(3\)/,
  );
  refuse(() => T.grayscale().image(image, stream(0)), /^\[grayscale\] the images have 2 channels/);
  refuse(
    () => T.normalize([1, 2, 3], 1).image(image, stream(0)),
    /^\[normalize\] mean has 3 numbers, the images have 2 channels/,
  );
  refuse(
    () => T.cutout(2).image({ data: new Float32Array(7), shape: [2, 2, 2] }, stream(0)),
    /^\[cutout\] image has 7 values, its shape \(2,2,2\) takes 8/,
  );
  refuse(() => T.cutout(2)(zeros([2, 2])), /^\[cutout\] images/);
  refuse(
    () => T.mixUp()(zeros([2, 1, 2, 2]), zeros([2], { dtype: i32 })),
    /^\[mixUp\] targets are labels: say how many classes there are/,
  );
  refuse(
    () => T.cutMix({ numClasses: 2 })(zeros([2, 1, 2, 2]), zeros([3], { dtype: i32 })),
    /^\[cutMix\] targets are i32 \(3\), must be labels \(2\)/,
  );
});
