/**
 * `npm start`: on a fresh clone or after changes, install and build what is missing or old, then train the cnn on
 * MNIST. Arguments are passed on: `npm start -- --epochs 1`. Needs nothing but Node.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const OLDEST_NODE = 20;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const library = join(root, 'packages', 'heddle');
const main = join(library, 'dist', 'bundle', 'main.js');

/** When a file was last changed; 0 if there is none. @param {string} path */
const changed = (path) => (existsSync(path) ? statSync(path).mtimeMs : 0);

/** When anything in a folder was last changed. @param {string} folder @returns {number} */
const newest = (folder) =>
  Math.max(
    ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => changed(join(folder, name))),
  );

/** Run a step; end if it fails. @param {string} what @param {string} command @param {string[]} args */
function step(what, command, args) {
  console.log(`${what} …`);
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (status === 0) return;
  console.error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}.`);
  process.exit(status ?? 1);
}

if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  console.error(
    `This is Node ${process.versions.node}; Heddle needs ${OLDEST_NODE} or newer: https://nodejs.org`,
  );
  process.exit(1);
}
if (changed(join(root, 'node_modules', '.package-lock.json')) < changed(join(root, 'package-lock.json'))) {
  step('Installing', 'npm', ['ci', '--no-audit', '--no-fund']);
}
if (changed(main) < Math.max(newest(join(library, 'src')), changed(join(library, 'tsconfig.json')))) {
  step('Building', 'node', ['scripts/build.mjs']);
}

const { status } = spawnSync(process.execPath, [main, 'train', 'cnn', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
