/** Build the library and its tests into packages/heddle/dist, without leftovers of files that are gone. */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
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
process.exitCode = status ?? 1;
