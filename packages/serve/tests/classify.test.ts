/** Classification of images over REST, and the page to try a model, in headless Chromium. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type nn, noGrad, softmax, type Tensor, useDevice } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { readImages } from 'heddle-data';
import type { Browser, Page } from 'playwright-core';
import sharp, { type Sharp } from 'sharp';
import { type RunningService, serve } from '../src/index.js';
import { lenetRun, pointsRun, temporaryFolder } from './models.js';

const CHROMIUM = '/usr/bin/chromium';
const NORMALIZE = { mean: 0.1307, std: 0.3081 };
useDevice('cpu');
const folder = await temporaryFolder();
let service: RunningService;
let lenet: nn.Layer;
let browser: Browser | undefined;

before(async () => {
  lenet = await lenetRun(join(folder, 'lenet'));
  await lenetRun(join(folder, 'other'), 2);
  await pointsRun(join(folder, 'points'));
  await writeFile(join(folder, 'lenet', 'settings.json'), '{ "maxBatchSize": 4 }');
  await writeFile(join(folder, 'other', 'settings.json'), '{ "maxBatchSize": 1 }');
  service = await serve(folder, {
    port: 0,
    grpcPort: null,
    device: 'cpu',
    logLevel: 'silent',
    maxImagePixels: 100_000,
  });
});
after(async () => {
  await browser?.close();
  await service?.close();
  await closeDevices();
});

/** A picture of a bar, so many pixels wide and high. */
const bar = (width: number, height: number): Sharp =>
  sharp({ create: { width, height, channels: 3, background: '#000' } }).composite([
    {
      input: {
        create: {
          width: Math.ceil(width / 8),
          height: Math.ceil(height / 2),
          channels: 3,
          background: '#fff',
        },
      },
    },
  ]);

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON text says is what the tests look at
  readonly json: any;
}

async function classify(body: Uint8Array | string, query = '', model = 'lenet'): Promise<Answer> {
  const response = await fetch(`${service.url}/v1/models/${model}/classify${query}`, {
    method: 'POST',
    body: body as BodyInit,
  });
  return { status: response.status, json: await response.json() };
}

test('JPEG, PNG and WebP become the classes that the network gives', async () => {
  for (const make of ['jpeg', 'png', 'webp'] as const) {
    const bytes = await bar(56, 56)[make]().toBuffer();
    const input = await readImages([bytes], {
      size: 28,
      channels: 1,
      resize: 'squash',
      normalize: NORMALIZE,
    });
    const expected = [...(await noGrad(() => softmax(lenet.forward(input as Tensor), 1)).data())];
    const { status, json } = await classify(bytes, '?top=3');
    assert.equal(status, 200, json.error);
    assert.equal(json.classes.length, 3);
    assert.equal(json.gradcam, undefined);
    const order = expected.map((share, index) => ({ share, index })).sort((a, b) => b.share - a.share);
    for (const [i, { index, label, confidence }] of json.classes.entries()) {
      assert.equal(index, order[i]!.index);
      assert.equal(label, String(index));
      assert.ok(Math.abs(confidence - order[i]!.share) < 1e-5);
    }
  }
});

test('Grad-CAM comes as a picture', async () => {
  const { json } = await classify(await bar(28, 28).png().toBuffer(), '?gradcam=true&top=1');
  assert.deepEqual(Object.keys(json.gradcam), ['layer', 'target', 'image']);
  assert.equal(json.gradcam.layer, 'conv2');
  assert.equal(json.gradcam.target, json.classes[0].index);
  const [, base64] = json.gradcam.image.split(',');
  const { width, height, format } = await sharp(Buffer.from(base64, 'base64')).metadata();
  assert.deepEqual([format, width, height], ['png', 224, 224]);
});

test('what is no image, or too large a one, is refused', async () => {
  const png = await bar(28, 28).png().toBuffer();
  const refuse = async (
    body: Uint8Array | string,
    status: number,
    message: RegExp,
    query = '',
    model = 'lenet',
  ) => {
    const found = await classify(body, query, model);
    assert.equal(found.status, status, found.json.error);
    assert.match(found.json.error, message);
  };
  await refuse('', 400, /image is empty/);
  await refuse('GIF89a', 415, /no image that is read here\. Expected JPEG, PNG, WebP/);
  await refuse('<svg xmlns="http://www.w3.org/2000/svg"/>', 415, /no image/);
  await refuse(png.subarray(0, 60), 400, /is damaged/);
  await refuse(Buffer.concat([png.subarray(0, 8), Buffer.alloc(100)]), 400, /is damaged|not an image/);
  // A few hundred bytes that would be 36 MiB of pixels.
  const bomb = await sharp({ create: { width: 3000, height: 3000, channels: 4, background: '#000' } })
    .png()
    .toBuffer();
  assert.ok(bomb.length < 200_000);
  await refuse(bomb, 413, /has 3000 × 3000 pixels, more than maxPixels, which is 100000/);
  await refuse(png, 400, /top is '0', must be an integer from 1 to 1000/, '?top=0');
  await refuse(png, 400, /gradcam is 'yes', must be true or false/, '?gradcam=yes');
  await refuse(png, 400, /parameter 'to' is unknown/, '?to=3');
  await refuse(png, 400, /does not say how an image becomes its input/, '', 'points');
  await refuse(png, 404, /there is no model 'lenat'/, '', 'lenat');
  assert.equal((await classify(png)).status, 200, 'the service goes on');
});

const noBrowser = existsSync(CHROMIUM) ? false : `needs ${CHROMIUM}`;
/** A page in Chromium, and what its console and network complain of. */
async function open(options: object = {}): Promise<{ page: Page; complaints: string[] }> {
  const { chromium } = createRequire(import.meta.url)('playwright-core') as typeof import('playwright-core');
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  const page = await browser.newPage(options);
  const complaints: string[] = [];
  page.on('console', (line) => line.type() === 'error' && complaints.push(line.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(service.url);
  await page.waitForFunction(() => document.querySelectorAll('#model option').length > 0);
  return { page, complaints };
}

test('the page shows the answer to a file and to a drawing', { skip: noBrowser }, async () => {
  const { page, complaints } = await open();
  assert.deepEqual(await page.locator('#model option').allTextContents(), ['lenet', 'other']);
  const png = await bar(28, 28).png().toBuffer();
  await page.setInputFiles('#file', { name: 'bar.png', mimeType: 'image/png', buffer: png });
  await page.waitForSelector('#classes li');
  const { json } = await classify(png, '?top=5');
  const shown = (await page.locator('#classes li span:first-child').allTextContents()).join();
  assert.equal(shown, json.classes.map(({ label }: { label: string }) => label).join());
  await page.waitForSelector('#heat-figure:not([hidden])');
  assert.match((await page.locator('#heat-caption').textContent()) ?? '', /Grad-CAM of conv2/);

  await page.click('#tab-draw');
  const box = (await page.locator('#canvas').boundingBox())!;
  const answered = page.waitForResponse(/classify/);
  await page.mouse.move(box.x + 60, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 60, box.y + 200, { steps: 5 });
  await page.mouse.up();
  const drawn = (await (await answered).json()) as { classes: { label: string }[] };
  await page.waitForFunction(
    (label) => document.querySelector('#classes li span')?.textContent === label,
    drawn.classes[0]!.label,
  );
  await page.selectOption('#model', 'other');
  await page.waitForResponse(/models\/other\/classify/);
  assert.deepEqual(complaints, []);
  await page.close();
});

test('the page says what the service refuses', { skip: noBrowser }, async () => {
  const { page } = await open();
  await page.setInputFiles('#file', {
    name: 'x.png',
    mimeType: 'image/png',
    buffer: Buffer.from('no image'),
  });
  await page.waitForSelector('#message.error');
  assert.match((await page.locator('#message').textContent()) ?? '', /no image that is read here/);
  await page.close();
});

test('the page fits a phone, and has both colour schemes', { skip: noBrowser }, async () => {
  const grounds = new Set<string>();
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page } = await open({ viewport: { width: 360, height: 740 }, colorScheme });
    const [width, ground] = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      getComputedStyle(document.documentElement).backgroundColor,
    ]);
    assert.equal(width, 360);
    grounds.add(String(ground));
    await page.close();
  }
  assert.equal(grounds.size, 2);
});
