/**
 * `npm run unit`: the tests as built, two files at a time. Nothing is kept on disk between them, and what runs once is
 * not optimized by V8: both would cost more than they save. Arguments choose files: `npm run unit -- kernel/ io/idx`.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const tests = join(dirname(dirname(fileURLToPath(import.meta.url))), 'packages', 'heddle', 'dist', 'tests');
const wanted = process.argv.slice(2);
const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .map((name) => name.split(sep).join('/'))
  .filter(
    (name) => name.endsWith('.test.js') && (wanted.length === 0 || wanted.some((w) => name.includes(w))),
  )
  .sort();
if (files.length === 0) {
  console.error(
    `No test file has ${wanted.join(' or ')} in its name. They are in ${tests}, made by npm run build.`,
  );
  process.exit(2);
}
const { status } = spawnSync(
  process.execPath,
  [
    '--max-optimized-bytecode-size=4000',
    ...['--test', '--test-reporter=spec', '--test-concurrency=2'],
    ...files.map((name) => join(tests, name)),
  ],
  { stdio: 'inherit', env: { HEDDLE_CACHE: 'off', ...process.env } },
);
process.exitCode = status ?? 1;
