/** TensorBoard's files, read by another reader: frames, checks and the fields of the messages. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { inflateSync } from 'node:zlib';
import {
  crossEntropy,
  data,
  fit,
  Loader,
  nn,
  ones,
  optim,
  SummaryWriter,
  tensor,
  tensorBoard,
  u8,
} from '../../src/index.js';
import { crc32, crc32c } from '../../src/io/crc32.js';

const folder = await mkdtemp(join(tmpdir(), 'heddle-events-'));
after(() => rm(folder, { recursive: true }));

/** Fields of a message by number: the last of each, as far as it is read here. */
function fields(bytes: Buffer): Map<number, Buffer | number> {
  const found = new Map<number, Buffer | number>();
  let at = 0;
  const varint = (): number => {
    let [value, factor] = [0, 1];
    for (; ; factor *= 128) {
      const byte = bytes[at++]!;
      value += (byte % 128) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const [field, type] = [Math.floor(tag / 8), tag % 8];
    if (type === 0) {
      found.set(field, varint());
      continue;
    }
    const length = type === 1 ? 8 : type === 5 ? 4 : varint();
    const value = bytes.subarray(at, at + length);
    found.set(field, type === 1 ? value.readDoubleLE() : type === 5 ? value.readFloatLE() : value);
    at += length;
  }
  return found;
}

const unmasked = (masked: number): number => {
  const rotated = (masked - 0xa282ead8) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
};

async function eventsIn(path: string): Promise<Map<number, Buffer | number>[]> {
  const [name] = await readdir(path);
  assert.match(name!, /^events\.out\.tfevents\.\d{10}\./);
  const bytes = await readFile(join(path, name!));
  const events: Map<number, Buffer | number>[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    assert.equal(unmasked(bytes.readUInt32LE(at + 8)), crc32c(bytes.subarray(at, at + 8)));
    const content = bytes.subarray(at + 12, at + 12 + length);
    assert.equal(unmasked(bytes.readUInt32LE(at + 12 + length)), crc32c(content));
    events.push(fields(content));
    at += 16 + length;
  }
  return events;
}

/** Tag, step, and the value's own fields. */
const shown = (event: Map<number, Buffer | number>): [string, number, Map<number, Buffer | number>] => {
  const value = fields(fields(event.get(5) as Buffer).get(1) as Buffer);
  return [String(value.get(1)), event.get(2) as number, value];
};
const doublesOf = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 8 }, (_, i) => bytes.readDoubleLE(8 * i));

test('checks have the values that their definitions give for 123456789', () => {
  const digits = Buffer.from('123456789');
  assert.deepEqual([crc32(digits), crc32c(digits)], [0xcbf43926, 0xe3069283]);
});

test('scalars, histograms and images', async () => {
  const path = join(folder, 'all');
  const writer = new SummaryWriter(path);
  writer.addScalar('loss', 0.25, 300);
  await writer.addHistogram('weights', tensor([-1, 0, 0.5, 2, Number.NaN]), 301);
  const image = tensor([
    [
      [1, 0, 0.5],
      [0, 0, 0],
    ],
    [
      [0, 1, 0.5],
      [0, 0, 2],
    ],
    [
      [0, 0, 0.5],
      [-1, 0, 1],
    ],
  ]);
  await writer.addImage('picture', image, 2 ** 40);
  await writer.addImage('grey', tensor([[7, 255]], { dtype: u8 }), 0);
  const [version, ...events] = await eventsIn(path);
  assert.equal(String(version!.get(3)), 'brain.Event:2');
  assert.ok(Math.abs((version!.get(1) as number) - Date.now() / 1000) < 60);
  const [scalar, histogram, picture, grey] = events.map(shown);
  assert.deepEqual([scalar![0], scalar![1], scalar![2].get(2)], ['loss', 300, 0.25]);
  const h = fields(histogram![2].get(5) as Buffer);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((i) => h.get(i)),
    [-1, 2, 4, 1.5, 5.25],
  );
  const [limits, counts] = [doublesOf(h.get(6) as Buffer), doublesOf(h.get(7) as Buffer)];
  assert.equal(limits.length, 30);
  assert.deepEqual(
    counts.flatMap((n, i) => (n > 0 ? [[i, n]] : [])),
    [
      [0, 1],
      [10, 1],
      [15, 1],
      [29, 1],
    ],
  );
  const p = fields(picture![2].get(4) as Buffer);
  assert.deepEqual([picture![1], p.get(1), p.get(2), p.get(3)], [2 ** 40, 2, 3, 3]);
  const pixels = (png: Buffer): number[] => {
    const begin = png.indexOf('IDAT') + 4;
    return [...inflateSync(png.subarray(begin, begin + png.readUInt32BE(begin - 8)))];
  };
  assert.deepEqual(pixels(p.get(4) as Buffer), [
    ...[0, 255, 0, 0, 0, 255, 0, 128, 128, 128],
    ...[0, 0, 0, 0, 0, 0, 0, 0, 255, 255],
  ]);
  assert.deepEqual(pixels(fields(grey![2].get(4) as Buffer).get(4) as Buffer), [0, 7, 255]);
  await assert.rejects(
    writer.addImage('x', ones([2, 3, 3]), 0),
    /\[addImage\] image has the shape \(2,3,3\)/,
  );
});

test('a callback writes a training', async () => {
  const path = join(folder, 'training');
  const model = new nn.Linear(2, 2);
  const { train, test: validation } = data.separablePoints({ trainLength: 40, testLength: 20 });
  const { epochs } = await fit(model, {
    train: new Loader(train, { batchSize: 4 }),
    validation: new Loader(validation, { batchSize: 20 }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.5 }),
    loss: crossEntropy,
    epochs: 2,
    readEvery: 1,
    resident: false,
    callbacks: [tensorBoard(path, { histograms: model })],
    logEvery: 4,
  });
  const events = (await eventsIn(path)).slice(1).map(shown);
  const at = (tag: string): number[] => events.flatMap(([name, step]) => (name === tag ? [step] : []));
  for (const tag of ['train/loss', 'train/lr', 'train/examplesPerSecond'])
    assert.deepEqual(at(tag), [4, 8, 12, 16, 20]);
  for (const tag of ['epoch/loss', 'validation/loss', 'weight', 'bias']) assert.deepEqual(at(tag), [10, 20]);
  const losses = events.filter(([tag]) => tag === 'epoch/loss').map(([, , value]) => value.get(2));
  assert.deepEqual(
    losses,
    epochs.map(({ loss }) => Math.fround(loss)),
  );
});
