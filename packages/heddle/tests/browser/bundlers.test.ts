/**
 * Pages with the library, by each bundler, minified, and from one file: in headless Chromium they compute what Node does,
 * bit for bit, on the page's main thread and in a worker with threads.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build as esbuild } from 'esbuild';
import type { Browser } from 'playwright-core';
import { type Computed, compute } from './app.js';
import { noChromium, openChromium, serve } from './chromium.js';
import { writeFiles } from './files.js';

const here = dirname(fileURLToPath(import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'heddle-browser-'));
const files = join(scratch, 'files');

const entries = ['page.js', 'page-worker.js'].map((name) => join(here, name));
const ONE_FILE = '/heddle/heddle.js';

/** Each builds the page, minified, into a folder of that name, and gives the path of its script. */
const bundlers: Readonly<Record<string, (out: string) => Promise<string>>> = {
  async esbuild(out) {
    const common = { bundle: true, format: 'esm', minify: true, logLevel: 'silent' } as const;
    await esbuild({ ...common, entryPoints: entries, outdir: out, splitting: true });
    return 'page.js';
  },
  /** The library stays in its one file, as on a CDN. */
  async cdn(out) {
    const names = ['Conv2d', 'Flatten', 'Linear', 'MaxPool2d', 'ReLU', 'Sequential'];
    const contents: Readonly<Record<string, string>> = {
      'heddle/nn': `import { nn } from '${ONE_FILE}'; export const { ${names} } = nn;`,
      'heddle/kernel': `export { buffer } from '${ONE_FILE}';`,
    };
    await esbuild({
      ...{ bundle: true, format: 'esm', splitting: true, logLevel: 'silent' },
      ...{ entryPoints: entries, outdir: out },
      plugins: [
        {
          name: 'cdn',
          setup({ onResolve, onLoad }) {
            onResolve({ filter: /^(heddle|\/heddle\/heddle.js)$/ }, () => ({
              path: ONE_FILE,
              external: true,
            }));
            onResolve({ filter: /^heddle\// }, ({ path }) => ({ path, namespace: 'cdn' }));
            onLoad({ filter: /^/, namespace: 'cdn' }, ({ path }) => ({ contents: contents[path]! }));
          },
        },
      ],
    });
    return 'page.js';
  },
  async vite(out) {
    const { build } = await import('vite');
    await build({
      ...{ root: here, base: `/${basename(out)}/`, configFile: false, logLevel: 'silent' },
      worker: { format: 'es' },
      build: {
        ...{ outDir: out, minify: true, target: 'es2022', emptyOutDir: false },
        rollupOptions: { input: entries[0]!, output: { entryFileNames: 'page.js' } },
      },
    });
    return 'page.js';
  },
  async webpack(out) {
    const { default: webpack } = await import('webpack');
    const failed = await new Promise<string>((done, fail) =>
      webpack(
        {
          ...{ mode: 'production', entry: entries[0]!, context: here, performance: false },
          output: { path: out, filename: 'page.js', publicPath: `/${basename(out)}/` },
          // A worker has a copy of the library, which terser would take as long for again.
          externals: { './start-worker.js': 'undefined' },
        },
        (error, stats) => (error ? fail(error) : done(stats!.hasErrors() ? stats!.toString() : '')),
      ),
    );
    assert.equal(failed, '');
    return 'page.js';
  },
};

let chromium: Browser;
let expected: Computed;
const servers: Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>> = {} as never;

before(async () => {
  if (noChromium) return;
  await writeFiles(files);
  chromium = await openChromium();
  const folders = {
    ...Object.fromEntries(Object.keys(bundlers).map((name) => [name, join(scratch, name)])),
    ...{ files, heddle: join(here, '../../browser') },
  };
  servers.plain = await serve(folders, false);
  servers.isolated = await serve(folders, true);
  expected = await compute(files);
});

after(async () => {
  await chromium?.close();
  for (const { close } of Object.values(servers)) close();
  rmSync(scratch, { recursive: true, force: true });
});

/** What a page computes; it must have no errors. */
async function computedBy(server: string, path: string): Promise<Computed & { readonly ticks?: number }> {
  const page = await chromium.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error.stack)));
  page.on('console', (message) => errors.push(message.text()));
  try {
    await page.goto(`${server}/page/${path}`);
    await page.waitForFunction('globalThis.computed !== undefined');
    const computed = await page.evaluate<Computed & { error?: string }>('globalThis.computed');
    assert.equal(computed.error, undefined);
    assert.deepEqual(errors, []);
    return computed;
  } finally {
    await page.close();
  }
}

/** What must be the same everywhere. */
const numbers = ({ mlp, lenet5, fitted, launched, loaded, metadata, cuda }: Computed): object => {
  return { mlp, lenet5, fitted, launched, loaded, metadata, cuda };
};

async function checkPage(path: string): Promise<void> {
  const page = await computedBy(servers.plain.url, path);
  assert.deepEqual(numbers(page), numbers(expected));
  assert.match(page.device, /1 thread,/);
  assert.deepEqual(page.devices, ['cpu', 'sim']);
  assert.match(page.simulated, /\[31\] is read before it is written/);
  assert.ok(page.ticks! > 10, `the page had ${page.ticks} turns`);
}

async function checkWorker(path: string): Promise<void> {
  const worker = await computedBy(servers.isolated.url, `${path}#worker`);
  assert.deepEqual(numbers(worker), numbers(expected));
  assert.match(worker.device, /[2-9] threads,/);
}

for (const [name, build] of Object.entries(bundlers))
  test(`${name}: pages compute what Node does`, { skip: noChromium }, async () => {
    const path = `${name}/${await build(join(scratch, name))}`;
    if (name !== 'esbuild') await checkPage(path);
    if (name !== 'webpack') await checkWorker(path);
  });

test('the one file has at most 350 KB, compressed by gzip', () => {
  const bytes = gzipSync(readFileSync(join(here, '../../browser/heddle.js')), { level: 9 }).length;
  assert.ok(bytes <= 350_000, `${bytes} bytes`);
});
