/** `heddle look` on runs as `heddle train` writes them, and its reports as a browser shows them. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { loadImages, useDevice } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import sharp from 'sharp';
import { runCurves } from '../src/index.js';
import { look } from '../src/run/look.js';
import type { LookOptions } from '../src/run/options.js';

const MAIN = fileURLToPath(new URL('../../../heddle/bin/heddle.js', import.meta.url));
const CHROMIUM = '/usr/bin/chromium';
useDevice('cpu');
const folder = await mkdtemp(join(tmpdir(), 'heddle-look-'));
let browser: Browser | undefined;
after(async () => {
  await browser?.close();
  await closeDevices();
  await rm(folder, { recursive: true });
});

/** In a process of its own. */
const heddle = (...args: string[]): Promise<string> =>
  new Promise((resolve, reject) =>
    execFile(process.execPath, [MAIN, ...args], { cwd: folder }, (error, out, err) =>
      error ? reject(new Error(err)) : resolve(out),
    ),
  );

const at = (...path: string[]): string => join(folder, ...path);

/** `heddle look` in this process. @returns what it prints */
async function looks(names: readonly string[], options: LookOptions): Promise<string> {
  const lines: string[] = [];
  await look(
    names.map((name) => at(name)),
    options,
    (line) => lines.push(line),
  );
  return lines.join('\n').replaceAll(`${folder}/`, '');
}

/** The first images of MNIST, as four IDX files. */
async function smallMnist(path: string, count: number): Promise<void> {
  const { train, test } = await loadImages('mnist');
  const idx = (sizes: readonly number[], bytes: Uint8Array): Buffer =>
    Buffer.concat([
      Buffer.of(0, 0, 8, sizes.length),
      ...sizes.map((n) => Buffer.of(0, 0, n >> 8, n & 255)),
      bytes,
    ]);
  await mkdir(path);
  for (const [name, { inputs, labels }] of [
    ['train', train],
    ['t10k', test],
  ] as const) {
    await writeFile(
      join(path, `${name}-images-idx3-ubyte`),
      idx([count, 28, 28], inputs.slice(0, 784 * count) as Uint8Array),
    );
    await writeFile(
      join(path, `${name}-labels-idx1-ubyte`),
      idx([count], Uint8Array.from(labels.slice(0, count))),
    );
  }
}

before(async () => {
  await smallMnist(at('digits'), 400);
  const train = ['--no-progress', '--log-every', '2', '--epochs', '2', '--device', 'cpu'];
  await heddle('train', 'lenet5', '--data', at('digits'), '--out', 'lenet', ...train);
  for (const [name, lr] of [
    ['fast', '1'],
    ['slow', '0.01'],
  ] as const)
    await heddle('train', 'perceptron', '--lr', lr, '--out', name, ...train);
});

const read = (...path: string[]): string => readFileSync(at(...path), 'utf8');

test('a convolutional run: every picture, and the report', async () => {
  const out = await looks(['lenet'], { png: true });
  const files = readdirSync(at('lenet/look')).sort();
  const pictures = [
    ...['confusion', 'curves-learning-rate', 'curves-loss', 'curves-test-accuracy', 'embedding'],
    ...[
      'features-conv1',
      'features-conv2',
      'filters-conv1',
      'gradcam',
      'gradcam-mistakes',
      'histograms',
      'mistakes',
    ],
  ];
  assert.deepEqual(
    files,
    [...pictures.flatMap((name) => [`${name}.png`, `${name}.svg`]), 'report.html'].sort(),
  );
  for (const name of pictures) assert(out.includes(join('lenet/look', `${name}.svg and .png`)), name);
  const { width } = await sharp(at('lenet/look/gradcam.png')).metadata();
  assert.equal(width, 2 * 720);

  // The figures are those of the run.
  const html = read('lenet/look/report.html');
  const best = read('lenet/metrics.jsonl')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).test.accuracy as number);
  assert(
    html.includes(
      `<strong>${(100 * Math.max(...best)).toFixed(2)} %</strong><span>test accuracy of these weights`,
    ),
  );
  const counts = [...read('lenet/look/confusion.svg').matchAll(/>(\d+)<\/text>/g)].map(([, n]) => Number(n));
  // Besides the cells, the names of the classes along both axes
  assert.equal(
    counts.reduce((a, b) => a + b, 0),
    400 + 2 * 45,
  );
  for (const text of ['Adam'.toLowerCase(), '61,706', 'conv2: Conv2d', 'precision'])
    assert(html.includes(text), text);
  assert.doesNotMatch(html, /(?:src|href)="(?!data:|#)|<script|url\(http/);
  const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
});

test('the curves of runs are those of their logs', () => {
  const [loss] = runCurves([at('lenet')]);
  const lines = read('lenet/log.jsonl')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event === 'step');
  assert.deepEqual(
    loss!.curves[0]!.points.map(([, y]) => y),
    lines.map((line) => line.loss),
  );
  assert.deepEqual(loss!.curves[0]!.points.at(-1)![0], 2);
  const both = runCurves(['fast', 'slow'].map((name) => at(name)));
  assert.deepEqual(
    both.map(({ title }) => title),
    ['Training loss', 'Test loss', 'Test accuracy', 'Learning rate'],
  );
  assert(both.every(({ curves }) => curves.length === 2));
});

test('a run without images says what it leaves out; runs are compared', async () => {
  const out = await looks(['fast'], { out: at('pictures') });
  assert.match(out, /^mistakes +left out: its inputs are not images$/m);
  assert.match(out, /^gradcam +left out: the network has no convolution over images$/m);
  const report = read('pictures/report.html');
  assert.match(report, /<dt>Grad-CAM<\/dt><dd>the network has no convolution over images<\/dd>/);
  assert.match(await heddle('look', 'fast', 'slow'), /^report +look\/report\.html$/m);
  const compared = read('look/report.html');
  assert.match(compared, /<th scope="row">lr<\/th><td>1<\/td><td>0\.01<\/td>/);
  assert.equal(compared.match(/<figure>/g)!.length, 4);
});

test('an image of one’s own, a layer by name; and what is wrong is said', async () => {
  const white = at('white.png');
  await sharp({ create: { width: 300, height: 200, channels: 3, background: '#fff' } })
    .png()
    .toFile(white);
  const only = ['features', 'gradcam'];
  await looks(['lenet'], { only, layer: 'conv2', image: white, out: at('mine') });
  assert.deepEqual(readdirSync(at('mine')).sort(), ['features-conv2.svg', 'gradcam.svg', 'report.html']);
  await writeFile(at('torn.png'), 'no image');
  await cp(at('fast'), at('none'), { recursive: true });
  for (const name of ['best', 'weights']) await rm(at('none', `${name}.safetensors`));
  const wrong: readonly (readonly [runs: string[], options: LookOptions, message: RegExp])[] = [
    [['nowhere'], {}, /nowhere is not the folder of a run/],
    [['none'], { only: ['confusion'] }, /there are no such weights yet/],
    [['lenet'], { layer: 'conv_1', only }, /unknown layer 'conv_1'\. Did you mean 'conv1'\?/],
    [['lenet'], { only: ['grad-cam'] }, /unknown picture 'grad-cam'\. Did you mean 'gradcam'\?/],
    [['lenet'], { only, layer: 'fc1' }, /'fc1' gives \(1,120\), expected maps/],
    [['lenet'], { only, image: at('me.png') }, /me\.png: no such file\. Expected an image/],
    [['lenet'], { only, image: at('torn.png') }, /torn\.png: cannot read it as an image/],
    [['lenet'], { only, image: 'test:400' }, /the test set has the examples 0 to 399/],
    [['fast'], { only, image: white }, /is not about images: leave --image .*white\.png out/],
    [['fast'], { only: ['gradcam'] }, /--only gradcam: the network has no convolution/],
    [['fast', 'slow'], { only: ['filters'] }, /several runs are compared by their curves/],
  ];
  for (const [runs, options, message] of wrong)
    await assert.rejects(looks(runs, { out: at('wrong'), ...options }), message);
  // Curves need no weights.
  assert.match(await looks(['none'], { only: ['curves'] }), /^report /m);
});

test('the reports in a browser: alone, on light and dark ground, on a phone, for everyone', async (t) => {
  const playwright = await import('playwright-core').catch(() => undefined);
  if (!playwright || !existsSync(CHROMIUM))
    return t.skip(`${playwright ? CHROMIUM : 'playwright-core'} is not installed`);
  browser = await playwright.chromium.launch({
    executablePath: CHROMIUM,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  });
  const axe = readFileSync(
    createRequire(new URL('../../../../docs/package.json', import.meta.url)).resolve('axe-core'),
    'utf8',
  );
  const opened = async (
    path: string,
    options: BrowserContextOptions,
    look: (page: Page) => Promise<void>,
  ): Promise<void> => {
    const context = await browser!.newContext(options);
    const page = await context.newPage();
    const said: string[] = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error)));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) said.push(`asks for ${request.url()}`);
    });
    await page.goto(pathToFileURL(at(path)).href);
    await look(page);
    assert.deepEqual(said, [], path);
    await context.close();
  };
  for (const path of ['lenet/look/report.html', 'look/report.html'])
    for (const colorScheme of ['light', 'dark'] as const) {
      await opened(path, { colorScheme, viewport: { width: 360, height: 740 } }, async (page) => {
        assert.equal(
          await page.evaluate('document.documentElement.scrollWidth'),
          360,
          `${path} scrolls to the side`,
        );
        await page.evaluate(axe);
        const { violations } = (await page.evaluate('axe.run()')) as {
          violations: { id: string; nodes: { html: string }[] }[];
        };
        assert.deepEqual(
          violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html}`),
          [],
          `${path}, ${colorScheme}`,
        );
        const [ground, text] = (await page.evaluate(
          `[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg text')).fill]`,
        )) as [string, string];
        assert.deepEqual(
          [ground, text],
          {
            light: ['rgb(255, 255, 255)', 'rgb(36, 41, 47)'],
            dark: ['rgb(27, 27, 31)', 'rgb(223, 223, 214)'],
          }[colorScheme],
        );
      });
    }
  // A picture alone, as a page shows it by <img>
  await opened('lenet/look/curves-loss.svg', { colorScheme: 'dark' }, async (page) => {
    const fill = await page.evaluate(`getComputedStyle(document.querySelector('text')).fill`);
    assert.match(String(fill), /^rgb\((168, 168, 173|223, 223, 214)\)$/);
  });
});
