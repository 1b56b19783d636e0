import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DataError } from 'heddle';
import { Loader } from 'heddle/data';
import {
  type DamagedImage,
  type ImageFolder,
  imageFolder,
  imageSplits,
  imageStatistics,
  readImages,
} from 'heddle-data';
import sharp from 'sharp';
import { mayBeTurned } from '../src/images/exif.js';
import { claimedPng, type Picture, temporaryFolder, writePicture } from './image-files.js';

const batchOf = async (folder: ImageFolder, indices: readonly number[]) => {
  const features = folder.inputShape.reduce((a, b) => a * b);
  const inputs = new Float32Array(indices.length * features);
  const labels = new Int32Array(indices.length);
  await folder.batchInto(indices, inputs, labels);
  return { inputs, labels };
};

/** Two classes, of three and of two images, each of one colour. */
async function colours(root = temporaryFolder()): Promise<string> {
  const plain = (red: number, blue: number): Picture => ({
    ...{ width: 6, height: 4 },
    at: (_, __, channel) => [red, 10, blue][channel]!,
  });
  await writePicture(join(root, 'warm', '1.png'), plain(200, 0));
  await writePicture(join(root, 'warm', 'more', 'deep', '2.webp'), plain(210, 0));
  await writePicture(join(root, 'warm', '3.JPG'), plain(220, 0));
  await writePicture(join(root, 'cold', 'a.jpeg'), plain(0, 200));
  await writePicture(join(root, 'cold', 'b.png'), plain(0, 210));
  writeFileSync(join(root, 'readme.txt'), 'not an image');
  mkdirSync(join(root, '.hidden'));
  return root;
}

test('classes are folders, labels the places of their sorted names, inputs planes', async () => {
  const folder = await imageFolder(await colours());
  assert.deepEqual(folder.classNames, ['cold', 'warm']);
  assert.deepEqual(folder.files, [
    'cold/a.jpeg',
    'cold/b.png',
    'warm/1.png',
    'warm/3.JPG',
    'warm/more/deep/2.webp',
  ]);
  assert.deepEqual([...folder.labels], [0, 0, 1, 1, 1]);
  assert.deepEqual(folder.inputShape, [3, 4, 4]);
  const { inputs, labels } = await batchOf(folder, [4, 1]);
  assert.deepEqual([...labels], [1, 0]);
  const expected = [210, 10, 0, 0, 10, 210].flatMap((byte) => Array(16).fill(Math.fround(byte / 255)));
  assert.deepEqual([...inputs], expected);
  const normalized = await imageFolder(folder.root, { normalize: { mean: 0.5, std: 0.25 }, size: [2, 3] });
  assert.deepEqual(normalized.inputShape, [3, 2, 3]);
  assert.equal((await batchOf(normalized, [1])).inputs[12], Math.fround((210 / 255 - 0.5) / 0.25));
});

test('every pixel goes to its place, for widths that are and are not multiples of four', async () => {
  const root = temporaryFolder();
  for (const [width, height] of [
    [8, 3],
    [5, 3],
  ] as const) {
    const at: Picture['at'] = (x, y, channel) => 64 * channel + 8 * y + x;
    await writePicture(join(root, `${width}`, 'one', 'x.png'), { width, height, at });
    const folder = await imageFolder(join(root, `${width}`), { size: [height, width] });
    const { inputs } = await batchOf(folder, [0]);
    const expected = [0, 1, 2].flatMap((channel) =>
      Array.from({ length: width * height }, (_, i) =>
        Math.fround(at(i % width, Math.floor(i / width), channel) / 255),
      ),
    );
    assert.deepEqual([...inputs], expected);
    assert.deepEqual(
      [...(await folder.load()).inputs],
      expected.map((v) => Math.round(v * 255)),
    );
  }
});

test('an image of another shape is cropped, squashed or padded; grey and transparent ones fit', async () => {
  const root = temporaryFolder();
  // Black, white, black, a third each.
  const at: Picture['at'] = (x) => (x >= 4 && x < 8 ? 255 : 0);
  await writePicture(join(root, 'all', '1.png'), { width: 12, height: 4, channels: 1, at });
  const middle = async (resize: 'crop' | 'squash' | 'pad') => {
    const folder = await imageFolder(root, { size: 4, resize });
    assert.deepEqual(folder.inputShape, [1, 4, 4]);
    return (await batchOf(folder, [0])).inputs;
  };
  assert.deepEqual([...(await middle('crop'))], Array(16).fill(1));
  const squashed = await middle('squash');
  assert.ok(squashed[0]! < 0.2 && squashed[1]! + squashed[2]! > 0.9, `${squashed.slice(0, 4)}`);
  const padded = await middle('pad');
  assert.deepEqual([...padded.slice(0, 4), ...padded.slice(12)], Array(8).fill(0));
  await writePicture(join(root, 'all', '2.png'), {
    width: 4,
    height: 4,
    channels: 4,
    at: (_, __, c) => 50 * c,
  });
  const colour = await imageFolder(root, { size: 4, channels: 3 });
  const { inputs } = await batchOf(colour, [0, 1]);
  assert.deepEqual([...inputs.slice(0, 48)], Array(48).fill(1));
  assert.deepEqual(
    [48, 64, 80].map((i) => Math.round(inputs[i]! * 255)),
    [0, 50, 100],
  );
});

test('statistics are of each channel, and normalize it', async () => {
  const root = temporaryFolder();
  for (const [name, colour] of Object.entries({ a: [0, 40, 200], b: [51, 80, 200] }))
    await writePicture(join(root, 'all', `${name}.png`), {
      ...{ width: 2, height: 2 },
      at: (_, __, channel) => colour[channel]!,
    });
  const folder = await imageFolder(root);
  const { mean, std } = await folder.statistics();
  const rounded = (values: unknown) => (values as number[]).map((v) => Math.round(255 * v * 1e6) / 1e6);
  assert.deepEqual(
    [rounded(mean), rounded(std)],
    [
      [25.5, 60, 0],
      [25.5, 20, 255],
    ],
  );
  const { inputs } = await batchOf(folder.normalized({ mean, std }), [0, 1]);
  assert.deepEqual(
    [0, 4, 12, 16].map((i) => Math.round(1e6 * inputs[i]!) / 1e6),
    [-1, -1, 1, 1],
  );
});

test('a photo is turned as its EXIF orientation says', async () => {
  const root = temporaryFolder();
  mkdirSync(join(root, 'all'));
  const raw = { width: 64, height: 32, channels: 1 } as const;
  const half = Uint8Array.from({ length: 64 * 32 }, (_, i) => (i % 64 < 32 ? 255 : 0));
  for (const ending of ['png', 'jpg', 'webp'])
    await sharp(half, { raw })
      .withMetadata({ orientation: 6 })
      .webp({ force: false })
      .toFile(join(root, 'all', `1.${ending}`));
  const folder = await imageFolder(root, { channels: 1, size: [8, 4] });
  const { inputs } = await batchOf(folder, [0, 1, 2]);
  const turned = [...Array(16).fill(1), ...Array(16).fill(0)];
  assert.deepEqual([...inputs].map(Math.round), [...turned, ...turned, ...turned]);
  const plain = await sharp(half, { raw }).jpeg().toBuffer();
  assert.equal(mayBeTurned(plain), false);
  assert.equal(mayBeTurned(readFileSync(join(root, 'all', '1.jpg'))), true);
  for (let end = 0; end < 20; end++) assert.equal(mayBeTurned(plain.subarray(0, end)), true, `${end} bytes`);
});

test('a file that is too large to be read as a whole is read piece by piece', async () => {
  const path = join(temporaryFolder(), 'x.png');
  // All but its beginning takes no room on the disk.
  writeFileSync(path, claimedPng(60_000, 60_000));
  truncateSync(path, 2 ** 31 + 1);
  await assert.rejects(readImages([path], { size: 4, channels: 3 }), {
    name: 'DataError',
    message: `${path}: has 60000 × 60000 pixels, more than maxPixels, which is 268435456. Make it smaller, or raise maxPixels.`,
  });
});

test('bytes stand for the same inputs, whatever the size', async () => {
  const normalize = { mean: [0.4, 0.5, 0.6], std: [0.3, 0.2, 0.1] };
  for (const [size, channels] of [
    [4, 3],
    [5, 3],
    [5, 1],
  ] as const) {
    const folder = await imageFolder(await colours(), {
      size,
      channels,
      ...(channels === 3 && { normalize }),
    });
    const { inputs, labels } = await batchOf(folder, [4, 0, 3]);
    const bytes = new Uint8Array(inputs.length);
    const again = new Int32Array(3);
    await folder.bytes.batchInto([4, 0, 3], bytes, again);
    assert.deepEqual(again, labels);
    const { tables } = folder.bytes;
    assert.deepEqual(
      Float32Array.from(bytes, (byte, i) => tables[Math.floor(i / size ** 2) % channels]![byte]!),
      inputs,
    );
  }
});

test('batches of the loader are the same with workers, and from memory', async () => {
  const folder = await imageFolder(await colours(), { normalize: { mean: 0.4, std: 0.3 } });
  const options = { batchSize: 2, shuffle: true, seed: 3 };
  const batches = async (dataset: ConstructorParameters<typeof Loader>[0], workers = 0) => {
    const seen: number[][] = [];
    for await (const { inputs, labels } of new Loader(dataset as ImageFolder, { ...options, workers }))
      seen.push([...inputs, ...labels]);
    return seen;
  };
  const expected = await batches(folder);
  assert.deepEqual(
    expected.map((batch) => batch.length),
    [98, 98, 49],
  );
  assert.deepEqual(await batches(folder, 2), expected);
  assert.deepEqual(await batches(await folder.load()), expected);
  assert.deepEqual(await batches(folder.select([0, 1, 2, 3, 4])), expected);
});

test('parts are the folders of their names, or held out of each class', async () => {
  const root = temporaryFolder();
  await colours(join(root, 'train'));
  await colours(join(root, 'val'));
  await writePicture(join(root, 'test', 'warm', '1.png'), { width: 4, height: 4 });
  const splits = await imageSplits(root, { size: 4 });
  assert.deepEqual([splits.train.length, splits.validation.length, splits.test.length], [5, 5, 1]);
  assert.deepEqual([...splits.test.labels], [1]);
  await writePicture(join(root, 'test', 'other', '1.png'), { width: 4, height: 4 });
  await assert.rejects(
    imageSplits(root),
    new DataError(
      `${join(root, 'test', 'other')}: 'other' is not one of the classes, which are cold, warm. Rename or remove the folder.`,
    ),
  );
  const held = await imageSplits(join(root, 'train'), { heldOut: 0.4 });
  assert.deepEqual(
    [[...held.train.labels], [...held.test.labels]],
    [
      [0, 1, 1],
      [0, 1],
    ],
  );
  assert.deepEqual([...held.train.files, ...held.test.files].sort(), [...splits.train.files]);
  assert.equal(held.validation, held.test);
  // A folder of vehicles has a class of that name.
  await writePicture(join(root, 'vehicles', 'train', '1.png'), { width: 4, height: 4 });
  await writePicture(join(root, 'vehicles', 'train', '2.png'), { width: 4, height: 4 });
  await writePicture(join(root, 'vehicles', 'bus', '1.png'), { width: 4, height: 4 });
  assert.deepEqual((await imageSplits(join(root, 'vehicles'))).classNames, ['bus', 'train']);
});

test('a folder that is not one of classes is refused, saying what to do', async () => {
  const root = temporaryFolder();
  const refused = async (of: string, message: string): Promise<void> =>
    assert.rejects(imageFolder(join(root, of)), (error: Error) => {
      assert.ok(error instanceof DataError, error.stack);
      assert.equal(error.message.replaceAll(root, '.'), message);
      return true;
    });
  await refused('none', './none: no such folder. Check the path.');
  await writePicture(join(root, 'flat', '1.png'), { width: 4, height: 4 });
  await refused(
    'flat',
    './flat: has no folder of a class. Expected a folder for each class with its images: ./flat/cat/1.jpg.',
  );
  await refused(
    'flat/1.png',
    './flat/1.png: is not a folder. Expected a folder with a folder for each class.',
  );
  await writePicture(join(root, 'empty', 'cat', '1.png'), { width: 4, height: 4 });
  mkdirSync(join(root, 'empty', 'dog'));
  await refused(
    'empty',
    './empty/dog: has no images, and a class needs at least one (.jpg, .jpeg, .png, .webp, .gif, .avif, .tif, .tiff). Add images, or remove the folder.',
  );
  await writePicture(join(root, 'case', 'Cat', '1.png'), { width: 4, height: 4 });
  await writePicture(join(root, 'case', 'cat', '1.png'), { width: 4, height: 4 });
  await refused(
    'case',
    "./case: the classes 'Cat' and 'cat' differ only by case. Give them distinct names, or move the images into one folder.",
  );
  mkdirSync(join(root, 'loop', 'cat', 'inner'), { recursive: true });
  symlinkSync(join(root, 'loop', 'cat'), join(root, 'loop', 'cat', 'inner', 'again'));
  await refused(
    'loop',
    './loop/cat/inner/again: this link leads back to ./loop/cat, which it is in: a circle. Remove the link.',
  );
  mkdirSync(join(root, 'self'));
  symlinkSync('self', join(root, 'self', 'self'));
  await refused('self', './self/self: this link leads in a circle. Remove it.');
  mkdirSync(join(root, 'bitmap', 'cat'), { recursive: true });
  writeFileSync(join(root, 'bitmap', 'cat', '1.bmp'), 'BM');
  await refused(
    'bitmap',
    './bitmap/cat/1.bmp: images of this kind cannot be decoded. Convert it to PNG or JPEG, or remove it.',
  );
});

test('a damaged image is named: in a batch, from a worker, and by verify', async () => {
  const root = await colours();
  const whole = await sharp(
    new Uint8Array(3 * 64 * 64).map((_, i) => i * 7),
    {
      raw: { width: 64, height: 64, channels: 3 },
    },
  )
    .jpeg()
    .toBuffer();
  const place = (name: string): string => join(root, 'cold', name);
  writeFileSync(place('c-cut.jpg'), whole.subarray(0, whole.length / 2));
  writeFileSync(place('d-empty.jpg'), '');
  writeFileSync(place('e-text.jpg'), 'hello');
  writeFileSync(place('f-large.png'), claimedPng(60_000, 60_000));
  symlinkSync('nowhere.png', join(root, 'warm', 'gone.png'));
  await assert.rejects(
    imageFolder(root),
    /gone\.png: this link leads to nothing that can be read\. Remove it\.$/,
  );
  rmSync(join(root, 'warm', 'gone.png'));
  const folder = await imageFolder(root, { size: 4 });
  const damaged = await folder.verify();
  assert.deepEqual(
    damaged.map(({ path, error }) => [
      error instanceof DataError,
      error.message.replace(path, '').replace(/\(Input .*?\)/, '()'),
    ]),
    [
      ': is damaged or cannot be read (VipsJpeg: premature end of JPEG image). Fetch it again, or remove it.',
      ': is empty, expected an image. Fetch it again, or remove it.',
      ': is not an image that can be decoded (). Expected JPEG, PNG or WebP.',
      ': has 60000 × 60000 pixels, more than maxPixels, which is 268435456. Make it smaller, or raise maxPixels.',
    ].map((message) => [true, message]),
  );
  assert.deepEqual(
    damaged.map(({ path }) => path),
    ['c-cut.jpg', 'd-empty.jpg', 'e-text.jpg', 'f-large.png'].map(place),
  );
  // What can be decoded is loaded in one go, as if the others were not there.
  const skipped: DamagedImage[] = [];
  const loaded = await folder.load({ onDamaged: (image) => skipped.push(image) });
  assert.deepEqual(
    skipped.map(({ index, error: { message } }) => [index, message]),
    damaged.map(({ index, error: { message } }) => [index, message]),
  );
  const gone = new Set(damaged.map(({ index }) => index));
  const rest = folder.select(Array.from(folder.files.keys()).filter((i) => !gone.has(i)));
  const others = await rest.load();
  assert.deepEqual([loaded.inputs, loaded.labels], [others.inputs, others.labels]);
  assert.deepEqual(imageStatistics(loaded), await rest.statistics());
  await assert.rejects(folder.load(), damaged[0]!.error);
  const inputs = new Float32Array(folder.length * 48);
  const labels = new Int32Array(folder.length);
  await assert.rejects(async () => folder.batchInto([0, 4, 3, 2], inputs, labels), damaged[2]!.error);
  const loader = new Loader(folder, { batchSize: 3, workers: 1 });
  await assert.rejects(
    async () => {
      for await (const _ of loader);
    },
    (error: Error) => error instanceof DataError && error.message.includes(damaged[0]!.error.message),
  );
  await assert.rejects(folder.load(), damaged[0]!.error);
  // What is cut off is grey where that is asked for.
  const lenient = await imageFolder(root, { size: 4, failOn: 'none' });
  assert.equal((await lenient.verify()).length, 3);
  assert.ok(readFileSync(place('f-large.png')).length < 300);
});

test('long work tells how far it is, and ends when told', async () => {
  const folder = await imageFolder(await colours());
  const told: string[] = [];
  await folder.load({ onProgress: (done, total) => told.push(`${done}/${total}`) });
  assert.deepEqual(told, ['1/5', '2/5', '3/5', '4/5', '5/5']);
  const controller = new AbortController();
  const ended = folder.verify({ signal: controller.signal, onProgress: () => controller.abort() });
  await assert.rejects(ended, { name: 'AbortError' });
});

test('options outside their range are refused', async () => {
  const root = await colours();
  await assert.rejects(imageFolder(root, { size: 0 }), {
    name: 'ArgumentError',
    message: '[imageFolder] size is 0, must be an integer ≥ 1, or [height, width].',
  });
  await assert.rejects(
    imageFolder(root, { resise: 'crop' } as object),
    /unknown option 'resise'. Did you mean 'resize'\?/,
  );
  await assert.rejects(imageFolder(root, { channels: 4 as 3 }), /channels is 4, must be 1 or 3\.$/);
});
