/** `heddle data` on a folder of images, as users run it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { encodeNpy, encodeNpz } from 'heddle/io';
import sharp from 'sharp';
import { temporaryFolder, writePicture } from './image-files.js';

const MAIN = join(dirname(createRequire(import.meta.url).resolve('heddle/package.json')), 'bin', 'heddle.js');

const folder = temporaryFolder();
const COLOURS = { blue: [20, 60, 240], red: [200, 40, 10] } as const;

/** Five images of each class, in one colour. */
before(async () => {
  for (const [name, colour] of Object.entries(COLOURS))
    for (let i = 0; i < 5; i++)
      await writePicture(join(folder, 'colours', name, `${i}.png`), {
        ...{ width: 8, height: 6, channels: 3 },
        at: (_x, _y, c) => colour[c]!,
      });
});

function heddle(...args: string[]): {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
} {
  const { HEDDLE_DEBUG: _, FORCE_COLOR: __, ...rest } = process.env;
  const env = { ...rest, HEDDLE_DEVICE: 'cpu' };
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'data', ...args], {
    ...{ cwd: folder, env, encoding: 'utf8' },
  });
  return { code: status, out: stdout, err: stderr };
}

test('stats says how many examples there are of each class, and what each channel is like', () => {
  const { code, out, err } = heddle('stats', 'colours', '--json');
  assert.equal(code, 0, err);
  const { classes, channels, inputShape, normalize } = JSON.parse(out);
  assert.deepEqual(classes, [
    { name: 'blue', train: 4, test: 1 },
    { name: 'red', train: 4, test: 1 },
  ]);
  assert.deepEqual(inputShape, [3, 6, 6]);
  const close = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6, `${a}, expected ${b}`);
  for (const [c, { mean, std, min, max }] of channels.entries()) {
    const [a, b] = [COLOURS.blue[c]! / 255, COLOURS.red[c]! / 255];
    close(mean, (a + b) / 2);
    close(std, Math.abs(a - b) / 2);
    close(min, Math.min(a, b));
    close(max, Math.max(a, b));
    assert.equal(normalize.mean[c], Number(mean.toPrecision(5)));
  }
  const text = heddle('stats', 'colours').out;
  assert.match(text, /^red {8}4 {5}1$/m);
  assert.match(text, / {2}normalize: \{ mean: \[0\.43137, 0\.19608, 0\.4902\], std: \[/);
});

/** The images of a sheet, with what is written under them. */
async function tilesOf(svg: string) {
  const urls = [...svg.matchAll(/href="data:image\/png;base64,([^"]+)"/g)].map(([, text]) => text!);
  const captions = [...svg.matchAll(/>(blue|red)</g)].map(([, name]) => name as keyof typeof COLOURS);
  assert.equal(urls.length, captions.length);
  return Promise.all(
    urls.map(async (url, i) => {
      const { data, info } = await sharp(Buffer.from(url, 'base64'))
        .removeAlpha()
        .raw()
        .toBuffer({ resolveWithObject: true });
      const colours = new Set<string>();
      for (let at = 0; at < data.length; at += info.channels)
        colours.add([...data.subarray(at, at + 3)].join());
      return { name: captions[i]!, colours };
    }),
  );
}

test('look draws a batch with its classes, as the network gets it', async () => {
  const { code, err } = heddle('look', 'colours', '-n', '6', '--out', 'sheet.svg');
  assert.equal(code, 0, err);
  const tiles = await tilesOf(readFileSync(join(folder, 'sheet.svg'), 'utf8'));
  assert.equal(tiles.length, 6);
  for (const { name, colours } of tiles) assert.deepEqual([...colours], [COLOURS[name].join()]);

  assert.equal(heddle('look', 'colours', '--out', 'sheet.png').code, 0);
  const { data, info } = await sharp(join(folder, 'sheet.png'))
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const seen = { blue: 0, red: 0 };
  for (let at = 0; at < data.length; at += info.channels)
    for (const [name, colour] of Object.entries(COLOURS))
      if (colour.every((v, c) => data[at + c] === v)) seen[name as keyof typeof COLOURS]++;
  assert.ok(seen.blue > 10_000);
  // There are four of each.
  assert.ok(Math.abs(seen.red / seen.blue - 1) < 0.05, JSON.stringify(seen));
});

test('look varies images as a recipe does: what comes in is the mean colour', async () => {
  const { code, err } = heddle('look', 'colours', '--augment', '--seed', '2', '--out', 'varied.svg');
  assert.equal(code, 0, err);
  const svg = readFileSync(join(folder, 'varied.svg'), 'utf8');
  assert.match(svg, /varied as for resnet18/);
  const tiles = await tilesOf(svg);
  const mean = COLOURS.blue.map((v, c) => Math.round((v + COLOURS.red[c]!) / 2)).join();
  for (const { name, colours } of tiles)
    for (const colour of colours) assert.ok(colour === COLOURS[name].join() || colour === mean, colour);
  assert.ok(tiles.some(({ colours }) => colours.size === 2));
});

test('what cannot be drawn is refused', () => {
  const refuse = (message: RegExp, ...args: string[]) => {
    const { code, err } = heddle(...args);
    assert.notEqual(code, 0);
    assert.match(err, message);
  };
  refuse(
    /sheet\.txt: the picture is a PNG or an SVG\. End its name with \.png or \.svg\./,
    'look',
    'colours',
    '--out',
    'sheet.txt',
  );
  refuse(
    /cnn is trained on images as they are: leave --augment out/,
    'look',
    'colours',
    '--augment',
    '--program',
    'cnn',
  );
  refuse(/nowhere: no such folder/, 'stats', 'nowhere');
});

test('stats of tables and arrays say what each column holds', () => {
  writeFileSync(join(folder, 'houses.csv'), 'rooms,place\n2,town\n,coast\n4,town\n6,NA\n');
  const { code, out, err } = heddle('stats', 'houses.csv');
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^data {2}houses\.csv\nrows {2}4\n/);
  assert.match(out, /^rooms +1 +4 +1\.633 +2 +6$/m);
  assert.match(out, /^place +1 +2 +town \(2\), coast \(1\)$/m);
  const { rows, columns } = JSON.parse(heddle('stats', 'houses.csv', '--json').out);
  assert.deepEqual(
    [rows, columns[0].numbers.missing, columns[1].categories],
    [
      4,
      1,
      [
        { name: 'town', count: 2 },
        { name: 'coast', count: 1 },
      ],
    ],
  );
  writeFileSync(join(folder, 'houses.tsv'), 'a\tb\n1\t2\n');
  assert.match(heddle('stats', 'houses.tsv').out, /^b +0 +2 +0 +2 +2$/m);
  const halves = { dtype: 'f16', shape: [2], data: Uint8Array.of(0, 0x3c, 0, 0x40) } as const;
  writeFileSync(join(folder, 'x.npy'), encodeNpy(halves));
  assert.match(heddle('stats', 'x.npy').out, /^x\.npy +f16 +\(2\) +0 +1\.5 +0\.5 +1 +2$/m);
  const bytes = { dtype: 'u8', shape: [1, 3], data: Uint8Array.of(1, 2, 6) } as const;
  writeFileSync(join(folder, 'x.npz'), encodeNpz({ halves, bytes }));
  assert.match(heddle('stats', 'x.npz').out, /^bytes +u8 +\(1,3\) +0 +3 +2\.1602 +1 +6$/m);
  writeFileSync(join(folder, 'bad.csv'), 'a,b\n1\n');
  assert.match(heddle('stats', 'bad.csv').err, /^heddle: bad\.csv:2: /);
  assert.match(heddle('stats', 'houses.csv', '--size', '4').err, /leave --size and --resize out/);
});
