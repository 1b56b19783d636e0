/** Where the workspace is, and the programs that tests of the package need. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the workspace: the tests run from a build folder somewhere below it. */
function workspace(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'biome.json'))) folder = dirname(folder);
  return folder;
}

export const root = workspace();

/** TypeScript's compiler, for Node to run. Other tests that import this module run without it. */
export const compiler = (): string =>
  join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');

const folders = (process.env.PATH ?? '').split(delimiter);
/** Why tests that need npm are skipped, if they are: a machine may have Node alone. */
export const noNpm = folders.some((folder) => existsSync(join(folder, 'npm')))
  ? false
  : 'npm is not on the PATH';
