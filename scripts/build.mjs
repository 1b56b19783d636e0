/**
 * Build the packages and their tests into packages/<name>/dist, without leftovers of files that are gone. The build gets an id, a hash of the compiled library, and the name of its commit (core/build-id.ts). Then the library is bundled, for Node (bundle.mjs) and for browsers (bundle-browser.mjs).
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';
import { bundleForBrowsers } from './bundle-browser.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const library = join(root, 'packages', 'heddle');
const compiler = createRequire(import.meta.url).resolve('typescript/package.json');

const others = ['data', 'look', 'onnx', 'serve', 'bench'].map((name) => join(root, 'packages', name));
/** The site's tests. */
const docs = join(root, 'docs');

/** The other packages are compiled against the library's declarations: it comes first. */
const built = [library, ...others, docs].every((folder) => {
  rmSync(join(folder, 'dist'), { recursive: true, force: true });
  const args = [join(dirname(compiler), 'bin', 'tsc'), '-p', folder, '--noEmitOnError'];
  return spawnSync(process.execPath, args, { stdio: 'inherit' }).status === 0;
});
if (built) {
  identify(join(library, 'dist', 'src'));
  const users = others.map((folder) => join(folder, 'dist'));
  await Promise.all([bundle(library, users), bundleForBrowsers(library)]);
}
process.exitCode = built ? 0 : 1;

/**
 * Write the build's id and its commit into the library.
 * @param {string} folder
 */
function identify(folder) {
  const hash = createHash('sha256');
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort())
    if (name.endsWith('.js')) hash.update(name).update(readFileSync(join(folder, name)));
  const file = join(folder, 'core', 'build-id.js');
  const facts = { BUILD_ID: hash.digest('hex').slice(0, 16), BUILD_COMMIT: commit() };
  let text = readFileSync(file, 'utf8');
  for (const [name, value] of Object.entries(facts)) {
    if (!text.includes(`${name} = undefined`)) throw new Error(`${file} has no place for ${name}.`);
    if (value !== undefined) text = text.replace(`${name} = undefined`, `${name} = '${value}'`);
  }
  writeFileSync(file, text);
}

/** The checkout's commit, with `-dirty` if files have been changed since; undefined for a copy that is not under version control. */
function commit() {
  if (!existsSync(join(root, '.git'))) return undefined;
  const { status, stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
    ...{ cwd: root, encoding: 'utf8' },
  });
  return status === 0 ? stdout.trim() : undefined;
}
