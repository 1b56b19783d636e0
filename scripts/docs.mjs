/**
 * The documentation site: `npm run docs` builds it into docs/.vitepress/dist, for any static host.
 *
 *   npm run docs -- dev              serve it at http://localhost:5173 while pages are written
 *   npm run docs -- preview          serve what was built, at http://localhost:4173
 *   npm run docs -- --base /heddle/  build it for a folder of a host
 *
 * `--out` names the folder of the built site, `--port` where it is served. Pages get threads from a host that sends the
 * headers of docs/serve.mjs; without them the examples in the pages run on one.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    base: { type: 'string', default: '/' },
    out: { type: 'string', default: join(root, 'docs/.vitepress/dist') },
    port: { type: 'string' },
  },
});
const [command = 'build'] = positionals;
if (!['build', 'dev', 'preview'].includes(command))
  fail(`'${command}' is not a command. Expected one of: build, dev, preview`);
if (!/^\/(.*\/)?$/.test(values.base))
  fail(`--base '${values.base}' must begin and end with a slash, as in /heddle/`);
const out = resolve(values.out);

if (command === 'preview') {
  if (!existsSync(join(out, 'index.html'))) fail(`${out} has no site. Build it first: npm run docs`);
  const { serve } = await import('../docs/serve.mjs');
  const { address } = await serve(out, values.base, Number(values.port ?? 4173));
  console.log(`The site is at ${address}`);
} else {
  const { makeDigits } = await import('../docs/live/digits.mjs');
  await makeDigits();
  // While pages are written, the reference that was made before will do.
  if (command === 'build' || !existsSync(join(root, 'docs/reference/api/index.md'))) {
    const { makeApi } = await import('../docs/api/make.mjs');
    const { makeSupport } = await import('../docs/api/support.mjs');
    await makeApi();
    await makeSupport();
  }
  const package_ = createRequire(import.meta.url).resolve('vitepress/package.json');
  const options = command === 'build' ? ['--outDir', out] : ['--port', values.port ?? '5173'];
  const { status } = spawnSync(
    process.execPath,
    [
      ...process.execArgv,
      join(dirname(package_), 'bin/vitepress.js'),
      command,
      join(root, 'docs'),
      '--base',
      values.base,
      ...options,
    ],
    { stdio: 'inherit', env: { ...process.env, HEDDLE_DOCS_BASE: values.base } },
  );
  process.exitCode = status ?? 1;
}

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`docs: ${message}`);
  process.exit(2);
}
