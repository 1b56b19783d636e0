/**
 * The documentation site: `npm run docs` builds it into docs/.vitepress/dist, for any static host.
 *
 *   npm run docs -- dev              serve it at http://localhost:5173 while pages are written
 *   npm run docs -- preview          serve what was built
 *   npm run docs -- --base /heddle/  build it for a folder of a host
 *
 * `npm run build` comes first: the packages are what the pages' examples and the reference are made of.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { base: { type: 'string', default: '/' }, port: { type: 'string' } },
});
const [command = 'build'] = positionals;
if (!['build', 'dev', 'preview'].includes(command)) {
  console.error(`'${command}' is not a command of npm run docs. Expected one of: build, dev, preview`);
  process.exit(2);
}
if (!/^\/(.*\/)?$/.test(values.base)) {
  console.error(`--base '${values.base}' must begin and end with a slash, as in /heddle/`);
  process.exit(2);
}

const vitepress = join(
  dirname(createRequire(import.meta.url).resolve('vitepress/package.json')),
  'bin/vitepress.js',
);
const options = [
  '--base',
  values.base,
  ...(values.port && command !== 'build' ? ['--port', values.port] : []),
];
const { status } = spawnSync(process.execPath, [vitepress, command, join(root, 'docs'), ...options], {
  stdio: 'inherit',
  env: { ...process.env, HEDDLE_DOCS_BASE: values.base },
});
process.exitCode = status ?? 1;
