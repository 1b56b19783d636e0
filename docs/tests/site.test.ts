/** The documentation site: it builds, its links lead somewhere, and it reads well in a browser. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, posix } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { BASE, buildSite, built, builtPages, noBrowser, serve, startBrowser } from './site.js';

before(async () => {
  await buildSite();
});

const htmlOf = (page: string): string => readFileSync(join(built, page), 'utf8');
/** The article, without the navigation around it. */
const mainOf = (page: string): string => /<main[\s\S]*<\/main>/.exec(htmlOf(page))?.[0] ?? htmlOf(page);

test('every link within the site leads to a page and a heading of it', () => {
  const ids = new Map<string, Set<string>>();
  const idsOf = (page: string): Set<string> => {
    const known = ids.get(page) ?? new Set([...htmlOf(page).matchAll(/ id="([^"]*)"/g)].map((m) => m[1]!));
    ids.set(page, known);
    return known;
  };
  const broken: string[] = [];
  for (const page of builtPages()) {
    if (page === '404.html') continue;
    for (const [, href] of htmlOf(page).matchAll(/<a\b[^>]* href="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href!)) continue;
      const [path, anchor] = href!.replaceAll('&amp;', '&').split('#');
      const absolute = path === '' ? BASE + page : posix.resolve(posix.join(BASE, dirname(page)), path!);
      const wanted =
        absolute.slice(BASE.length) + (path!.endsWith('/') && absolute !== BASE.slice(0, -1) ? '/' : '');
      const target = [wanted, `${wanted}index.html`].find(
        (name) => name.includes('.') && existsSync(join(built, name)),
      );
      if (target === undefined) broken.push(`${page}: ${href}`);
      else if (anchor && target.endsWith('.html') && !idsOf(target).has(decodeURIComponent(anchor)))
        broken.push(`${page}: ${href}: there is no such heading`);
    }
  }
  assert.equal(broken.join('\n'), '');
});

test('nothing of a page is loaded from elsewhere', () => {
  for (const page of builtPages()) {
    const loaded = htmlOf(page).matchAll(
      /<(?:script|img|iframe|source|video)\b[^>]* src="([^"]*)"|<link\b[^>]* href="([^"]*)"/g,
    );
    for (const [, src, href] of loaded)
      assert.match((src ?? href)!, /^(?:\/heddle\/|data:)/, `${page} loads ${src ?? href}`);
  }
});

test('every page has one heading of the first level, and skips no level', () => {
  for (const page of builtPages()) {
    if (page === '404.html') continue;
    const levels = [...mainOf(page).matchAll(/<h([1-6])\b/g)].map((m) => Number(m[1]));
    assert.equal(levels.filter((level) => level === 1).length, 1, `${page} has one h1`);
    levels.forEach((level, i) => {
      assert.ok(level <= (levels[i - 1] ?? 0) + 1, `${page}: h${level} follows h${levels[i - 1]}`);
    });
  }
});

/** Pages of each kind, for what takes a browser some time. */
const LOOKED_AT = [
  'index.html',
  'start/first-program.html',
  'start/live.html',
  'guide/training.html',
  'kernels/index.html',
  'reference/api/losses.html',
  'reference/support.html',
  'performance/index.html',
  'design/index.html',
];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

/** What axe-core finds against WCAG 2 AA, contrast and order of headings included. */
const violations = (page: Page): Promise<readonly Violation[]> =>
  page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run: (context: object, options: object) => Promise<{ violations: Violation[] }> };
    };
    const runOnly = ['wcag2a', 'wcag2aa', 'best-practice'];
    return (await axe.run({ exclude: [['.VPLocalSearchBox']] }, { runOnly, resultTypes: ['violations'] }))
      .violations;
  });

test('in Chromium', { skip: noBrowser }, async (t) => {
  const site = await serve();
  const browser: Browser = await startBrowser();
  after(() => browser.close().then(site.close));
  const address = (page: string): string => site.address + page;

  for (const colorScheme of ['light', 'dark'] as const)
    await t.test(`pages read well, ${colorScheme}`, async () => {
      const page = await (
        await browser.newContext({ colorScheme, viewport: { width: 1280, height: 800 } })
      ).newPage();
      const complaints: string[] = [];
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(String(error)));
      page.on('request', (request) => {
        if (!request.url().startsWith(site.address) && !/^(data|blob):/.test(request.url()))
          complaints.push(request.url());
      });
      page.on('response', (response) => {
        if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
      });
      for (const name of LOOKED_AT) {
        await page.goto(address(name), { waitUntil: 'networkidle' });
        await page.evaluate(axe);
        for (const { id, nodes } of await violations(page))
          complaints.push(
            ...nodes.slice(0, 3).map((n) => `${id} at ${n.target.join(' ')}: ${n.failureSummary}`),
          );
        assert.equal(complaints.join('\n'), '', name);
      }
      await page.context().close();
    });

  await t.test('on a phone nothing is wider than the screen', async () => {
    const page = await (
      await browser.newContext({ viewport: { width: 360, height: 740 }, isMobile: true })
    ).newPage();
    for (const name of LOOKED_AT) {
      await page.goto(address(name));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 360, `${name} is ${width} wide`);
    }
    await page.context().close();
  });

  await t.test(
    'a kernel is edited and runs in the page, step by step, and its faults are shown',
    async () => {
      const page = await browser.newPage();
      await page.goto(address('start/live.html'), { waitUntil: 'networkidle' });
      const section = page.locator('[aria-label="A kernel in the simulator"]');
      await section.locator('.live-run').click();
      assert.equal(
        await section.locator('.live-result').textContent(),
        'y = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]',
      );
      await section.locator('input[type=range]').fill('16');
      assert.match(
        (await section.locator('.live-step').textContent())!,
        /Block 0: all threads .* \(line 5\)/,
      );
      const editor = section.locator('textarea');
      await editor.fill(
        (await editor.inputValue()).replace('tile[7 - threadIdx.x]', 'tile[threadIdx.x ^ 1] + x[i + 9]'),
      );
      await editor.press('Control+Enter');
      const error = section.locator('.live-error');
      await error.waitFor();
      assert.match((await error.textContent())!, /^Line 6: x\[16\] is outside 0 to 15/);
      await page.close();
    },
  );

  await t.test('LeNet-5 trains in the page, and then knows digits', async () => {
    const page = await browser.newPage();
    await page.goto(address('start/live.html'), { waitUntil: 'networkidle' });
    const section = page.locator('[aria-label="LeNet-5 trains on MNIST"]');
    await section.locator('.live-run').click();
    await section.locator('.live-class').waitFor({ timeout: 120_000 });
    assert.match((await section.locator('.live-accuracy').textContent())!, /^9[0-9]\.\d %$/);
    const points = (await section.locator('polyline').getAttribute('points'))!.split(' ');
    const height = (i: number): number => Number(points.at(i)!.split(',')[1]);
    assert.ok(height(-1) - height(0) > 50, 'the loss falls');
    // The first test image of MNIST is a 7, the second a 2.
    for (const [digit, picked] of [
      ['7', false],
      ['2', true],
    ] as const) {
      if (picked) await section.locator('.live-example').click();
      await page.waitForFunction(
        (d) => document.querySelector('.live-truth')?.textContent?.endsWith(`: ${d}`) === true,
        digit,
      );
      await page.waitForFunction((d) => document.querySelector('.live-class')?.textContent === d, digit);
    }
    assert.equal(await section.locator('.live-maps canvas').count(), 6 + 16);
    await page.close();
  });

  await t.test('the support matrix shows the ops that are asked for', async () => {
    const page = await browser.newPage();
    await page.goto(address('reference/support.html'), { waitUntil: 'networkidle' });
    const rows = page.locator('.vp-doc tbody tr:visible');
    const all = await rows.count();
    await page.fill('.filter input', 'conv2d');
    assert.deepEqual(await rows.locator('td:first-child').allTextContents(), ['conv2d']);
    await page.fill('.filter input', '');
    await page.selectOption('.filter select', 'bool');
    const some = await rows.count();
    assert.ok(some > 10 && some < all, `${some} of ${all}`);
    await page.close();
  });

  await t.test('the search finds Conv2d and leads there', async () => {
    const page = await browser.newPage();
    await page.goto(address('index.html'), { waitUntil: 'networkidle' });
    await page.keyboard.press('Control+k');
    await page.fill('.VPLocalSearchBox input', 'Conv2d');
    const first = page.locator('.VPLocalSearchBox .result').first();
    await first.waitFor();
    assert.match((await first.textContent())!, /Conv2d/i);
    await page.keyboard.press('Enter');
    await page.waitForURL(/reference\/api\/.*conv2d/i);
    await page.close();
  });
});
