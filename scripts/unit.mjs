/**
 * `npm run unit`: the tests as built, three files at a time: some wait for processes and time limits, while the others keep
 * two cores busy. Nothing is kept on disk between them, and what runs once is not optimized by V8: both would cost more than
 * they save. Arguments choose files: `npm run unit -- kernel/ io/idx`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = process.argv.slice(2);
const files = [
  'packages/heddle',
  'packages/data',
  'packages/look',
  'packages/onnx',
  'packages/serve',
  'packages/bench',
  'docs',
]
  .map((name) => join(root, name, 'dist', 'tests'))
  .flatMap((folder) =>
    (existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []).map((name) =>
      join(folder, name),
    ),
  )
  .filter((path) => path.endsWith('.test.js'))
  .filter((path) => {
    const name = relative(root, path).split(sep).join('/');
    return wanted.length === 0 || wanted.some((part) => name.includes(part));
  })
  .sort();
if (files.length === 0) {
  console.error(`No test file has ${wanted.join(' or ')} in its name. Build first: npm run build.`);
  process.exit(2);
}
/**
 * For processes that end soon: functions must run longer before V8 optimizes them, and its collector has one thread and more room
 * for what is young. Node does not start with flags that its V8 does not have.
 */
const known = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8' }).stdout;
const flags = [
  ...['--max-optimized-bytecode-size=4000', '--interrupt-budget=500000', '--single-threaded-gc'],
  ...['--min-semi-space-size=32', '--max-semi-space-size=64'],
];
const V8_FLAGS = flags.filter((flag) => known.includes(`${flag.split('=')[0]} (`));
const { status } = spawnSync(
  process.execPath,
  [...V8_FLAGS, ...['--test', '--test-reporter=spec', '--test-concurrency=3'], ...files],
  { stdio: 'inherit', env: { HEDDLE_CACHE: 'off', ...process.env } },
);
process.exitCode = status ?? 1;
