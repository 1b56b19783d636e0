/**
 * Build the library and its tests into packages/heddle/dist, without leftovers of files that are gone. The build gets an
 * id, a hash of the compiled library (core/build-id.ts).
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const library = join(root, 'packages', 'heddle');
const compiler = createRequire(import.meta.url).resolve('typescript/package.json');

rmSync(join(library, 'dist'), { recursive: true, force: true });
const { status } = spawnSync(
  process.execPath,
  [join(dirname(compiler), 'bin', 'tsc'), '-p', library, '--noEmitOnError'],
  {
    stdio: 'inherit',
  },
);
if (status === 0) identify(join(library, 'dist', 'src'));
process.exitCode = status ?? 1;

/** @param {string} built */
function identify(built) {
  const hash = createHash('sha256');
  for (const name of readdirSync(built, { recursive: true, encoding: 'utf8' }).sort())
    if (name.endsWith('.js')) hash.update(name).update(readFileSync(join(built, name)));
  const file = join(built, 'core', 'build-id.js');
  const text = readFileSync(file, 'utf8');
  const named = text.replace('BUILD_ID = undefined', `BUILD_ID = '${hash.digest('hex').slice(0, 16)}'`);
  if (named === text) throw new Error(`${file} has no place for the build's id.`);
  writeFileSync(file, named);
}
