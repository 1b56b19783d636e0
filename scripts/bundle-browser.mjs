/**
 * Bundles the compiled library for browsers into dist/browser: an entry for each entry point, which share chunks and
 * leave npm's packages to the user's bundler, and heddle.js, all in one minified file for a CDN. The package's "imports"
 * choose the browser's modules in place of Node's. The script of Web Workers becomes a text within.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { withNamesOfClasses } from './bundle.mjs';

const ENTRIES = {
  index: 'index.js',
  kernel: 'kernel/language/index.js',
  nn: 'nn/index.js',
  optim: 'optim/index.js',
  data: 'data/index.js',
  io: 'io/index.js',
  train: 'train/index.js',
  transforms: 'transforms/index.js',
  inference: 'inference/index.js',
  quantization: 'quantization/index.js',
};

/** @param {string} library the folder of the package */
export async function bundleForBrowsers(library) {
  const root = join(library, 'dist', 'src');
  const outdir = join(library, 'dist', 'browser');
  rmSync(outdir, { recursive: true, force: true });
  const common = /** @type {const} */ ({
    ...{ bundle: true, platform: 'browser', target: 'es2022', logLevel: 'warning' },
  });
  const worker = await build({
    ...{ ...common, format: 'iife', minify: true, write: false },
    entryPoints: [join(root, 'runtime/browser/worker.js')],
  });
  const options = /** @type {const} */ ({
    ...{ ...common, outdir, format: 'esm', sourcemap: true, sourcesContent: false, write: false },
    define: {
      WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text),
      // No module lies beside these files, and bundlers would look for one.
      'import.meta.url': 'undefined',
    },
  });
  const built = await Promise.all([
    build({
      ...{ ...options, splitting: true, packages: 'external' },
      entryPoints: Object.entries(ENTRIES).map(([out, name]) => ({ in: join(root, name), out })),
      chunkNames: 'shared-[hash]',
    }),
    build({ ...options, minify: true, entryPoints: [{ in: join(root, 'index.js'), out: 'heddle' }] }),
  ]);
  mkdirSync(outdir, { recursive: true });
  for (const { path, text } of built.flatMap(({ outputFiles }) => outputFiles))
    writeFileSync(path, withNamesOfClasses(text));
}
