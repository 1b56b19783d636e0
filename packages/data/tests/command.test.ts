/** `heddle train` on folders of images, as users run it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { ArrayDataset, loadImages } from 'heddle/data';
import { temporaryFolder, writePicture } from './image-files.js';

const MAIN = join(dirname(createRequire(import.meta.url).resolve('heddle/package.json')), 'bin', 'heddle.js');

const folder = temporaryFolder();

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function heddle(...args: string[]): Ended {
  const { HEDDLE_DEBUG: _, FORCE_COLOR: __, ...rest } = process.env;
  const env = { ...rest, HEDDLE_DEVICE: 'cpu' };
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    ...{ cwd: folder, env, encoding: 'utf8' },
  });
  return { code: status, out: stdout, err: stderr };
}

function succeeds(...args: string[]): string {
  const { code, out, err } = heddle(...args);
  assert.equal(code, 0, `${out}${err}`);
  return out;
}

const NAMES = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

/** The first digits of MNIST in files: every other one a JPEG. */
before(async () => {
  const { train } = await loadImages('mnist');
  const { inputs, labels } = train.slice(0, 1500);
  assert.ok(train instanceof ArrayDataset);
  for (const [i, label] of labels.entries())
    await writePicture(join(folder, 'digits', NAMES[label]!, `${i}.${i % 2 ? 'jpg' : 'png'}`), {
      ...{ width: 28, height: 28, channels: 1 },
      at: (x, y) => inputs[784 * i + 28 * y + x]!,
    });
});

test('a folder of images becomes a trained network that tells what is on others', () => {
  const out = succeeds('train', 'mlp', '--data', 'digits', '--epochs', '6', '--out', 'run');
  assert.match(
    out,
    /^data {5}digits \(10 classes, 28 × 28 in shades of grey\): 1,201 to train on, 299 to test$/m,
  );
  const [, accuracy] = /^accuracy (\S+) % on the test set/m.exec(out)!;
  assert.ok(Number(accuracy) > 88, out);
  assert.match(out, /^ {2}npx heddle predict run <image> …$/m);
  assert.match(succeeds('eval', 'run', '--weights', 'last'), new RegExp(`^accuracy   ${accuracy} %$`, 'm'));
  // The network is used without the images that it was trained on.
  renameSync(join(folder, 'digits'), join(folder, 'elsewhere'));
  const [first, second] = succeeds('predict', 'run', 'elsewhere/five/0.png', 'elsewhere/zero/1.jpg').split(
    '\n',
  );
  assert.match(first!, /^elsewhere\/five\/0\.png {3}five \d+\.\d\d % {3}/);
  assert.match(second!, /^elsewhere\/zero\/1\.jpg {3}zero /);
  assert.match(succeeds('eval', 'run', '--data', 'elsewhere'), /^data {7}elsewhere /m);
  renameSync(join(folder, 'elsewhere'), join(folder, 'digits'));
  const text = heddle('predict', 'run', 'gone.jpg');
  assert.deepEqual(
    [text.code, text.err],
    [1, 'heddle: gone.jpg: no such file. Check the path; a link may lead nowhere.\n'],
  );
});

test('colour images of other sizes train the convolutional networks; damaged ones are left out where told', async () => {
  for (let i = 0; i < 12; i++)
    await writePicture(join(folder, 'photos', i % 2 ? 'red' : 'blue', `${i}.jpg`), {
      ...{ width: 40 + i, height: 30 },
      at: (x, y, channel) => (channel === (i % 2 ? 0 : 2) ? 200 : (x * y + i) % 60),
    });
  const whole = readFileSync(join(folder, 'photos/red/1.jpg'));
  writeFileSync(join(folder, 'photos/red/cut.jpg'), whole.subarray(0, whole.length - 200));
  const args = ['train', 'lenet5', '--data', 'photos', '--size', '16x20', '--batch-size', '4'];
  const refused = heddle(...args, '--out', 'none');
  assert.equal(refused.code, 1);
  assert.match(refused.err, /^heddle: photos\/red\/cut\.jpg: is damaged or cannot be read \(/);
  const out = succeeds(...args, '--epochs', '4', '--skip-damaged', '--out', 'colours');
  assert.match(out, /^left out: photos\/red\/cut\.jpg: is damaged/m);
  assert.match(out, /2 classes, 16 × 20 in colour\): 10 to train on, 2 to test$/m);
  assert.match(succeeds('predict', 'colours', 'photos/red/3.jpg'), /^red /);
  const resumed = heddle('train', '--resume', 'colours');
  assert.equal(resumed.code, 0, resumed.err);
  const { data } = JSON.parse(readFileSync(join(folder, 'colours/config.json'), 'utf8'));
  assert.deepEqual(
    [data.inputShape, data.classNames, data.files.skipDamaged],
    [[3, 16, 20], ['blue', 'red'], true],
  );
  // What each channel is normalized by goes with the run: red, green and blue differ.
  const { mean, std } = data.files.format.normalize;
  assert.deepEqual([mean.length, std.length], [3, 3]);
  assert.ok(mean[0] > 2 * mean[1] && mean[2] > 2 * mean[1], `${mean}`);
  const config = readFileSync(join(folder, 'colours/config.json'), 'utf8');
  const predicted = () => succeeds('predict', 'colours', 'photos/red/3.jpg');
  const before = predicted();
  const other = JSON.parse(config);
  other.data.files.format.normalize.mean = [mean[0] - 5, mean[1], mean[2]];
  writeFileSync(join(folder, 'colours/config.json'), JSON.stringify(other));
  assert.notEqual(predicted(), before);
  assert.equal(heddle('train', 'mlp', '--size', '16').code, 2);
});
