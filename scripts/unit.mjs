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

const options = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8' }).stdout;
/** Those that this V8 has: Node does not start with others. @param {readonly string[]} flags */
const known = (...flags) =>
  flags.filter((flag) => options.includes(`${flag.replace(/^--(no-)?|=.*/g, '')} (`));
/** For processes that end soon, all that tests start: functions must run longer before V8 optimizes them, and bytecode stays. */
const V8_FLAGS = known(
  '--max-optimized-bytecode-size=4000',
  '--interrupt-budget=500000',
  '--no-flush-bytecode',
);
/** For the tests themselves: the collector has one thread, and room for what is young. */
const collector = known('--single-threaded-gc', '--min-semi-space-size=32', '--max-semi-space-size=64');
const { status } = spawnSync(
  process.execPath,
  [...collector, ...['--test', '--test-reporter=spec', '--test-concurrency=3'], ...files],
  {
    stdio: 'inherit',
    env: {
      ...{ HEDDLE_CACHE: 'off', ...process.env, V8_FLAGS: V8_FLAGS.join(' ') },
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --require "${join(root, 'scripts', 'v8-flags.cjs')}"`,
    },
  },
);
process.exitCode = status ?? 1;
