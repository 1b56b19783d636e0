/**
 * `npm run fuzz`: the property tests, from other seeds than the suite's, over and over until the time is up. Every
 * device has its own process; what it runs tells each case before it begins (packages/heddle/tests/property.ts), so that one that
 * never ends can be named.
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { testName } from '../packages/heddle/dist/tests/test-name.js';

const HELP = `Usage: npm run fuzz -- [options] [built test files]

Runs the property tests from random seeds until the time is up.

  --minutes <n>     how long to explore (default 10)
  --device <names>  devices, with commas between them: cpu, sim, cuda (default cpu,sim)
  --only <text>     properties with this in '<file>: <name>', or the one that has this name
  --seed <n>        the seed to begin with; each pass over the properties takes the next one
  --path <path>     one case of that seed, as a failure prints it
  --hang <seconds>  how long one case may take (default 60)
  --list            names the properties
  --help

Exit code: 0 if nothing failed, 1 if something did, 2 for arguments that are wrong, 130 after Ctrl-C.`;

/** @param {string} message @returns {never} */
function refuse(message) {
  console.error(`${message}\nSee npm run fuzz -- --help.`);
  process.exit(2);
}

function options() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        minutes: { type: 'string', default: '10' },
        device: { type: 'string', default: 'cpu,sim' },
        only: { type: 'string', default: '' },
        seed: { type: 'string', default: String(randomInt(2 ** 31)) },
        path: { type: 'string' },
        hang: { type: 'string', default: '60' },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return refuse(/** @type {Error} */ (error).message);
  }
}

/** @param {string} name @param {string} text @param {number} least */
function number(name, text, least) {
  const value = Number(text);
  if (text.trim() === '' || !(value >= least)) refuse(`--${name} ${text}: must be a number from ${least}.`);
  return value;
}

const { values: given, positionals } = options();
if (given.help) {
  console.log(HELP);
  process.exit(0);
}
const minutes = number('minutes', given.minutes, 0);
const hang = number('hang', given.hang, 0.1);
const firstSeed = number('seed', given.seed, -(2 ** 31));
const devices = given.device.split(',').filter((name) => name !== '');
if (devices.length === 0) refuse('--device: names none.');

const packages = join(dirname(dirname(fileURLToPath(import.meta.url))), 'packages');
const files =
  positionals.length > 0
    ? positionals.map((path) => resolve(path))
    : ['heddle', 'data']
        .map((name) => join(packages, name, 'dist', 'tests'))
        .flatMap((tests) =>
          readdirSync(tests, { recursive: true, encoding: 'utf8' }).map((name) => join(tests, name)),
        )
        .filter((path) => path.endsWith('.test.js'))
        .filter((path) => /from '\.\.?\/property\.js'/.test(readFileSync(path, 'utf8')));

/** @typedef {{ file: string, name: string, share: number }} Property */

/** Processes under way, to be ended with this one. @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set();
let stopping = false;

/** What even seeds leave as it is and odd ones do not, so that a seed alone repeats a case. @param {number} seed */
const settings = (seed) => ({
  ...(seed & 1 && { HEDDLE_THREADS: '1' }),
  ...(seed & 2 && { HEDDLE_FMA: '0' }),
  ...(seed & 4 && { HEDDLE_CHECK: '1' }),
});

/**
 * Run a test file on a device, and pass on what it tells.
 * @param {string} file @param {string} device @param {{ seed?: number }} request @param {(message: any) => void} listen
 * @returns {Promise<string>} the end of what it printed
 */
function run(file, device, request, listen) {
  const cache = mkdtempSync(join(tmpdir(), 'heddle-fuzz-'));
  const env = {
    ...settings(request.seed ?? 0),
    ...process.env,
    ...{ HEDDLE_DEVICE: device, HEDDLE_CACHE: cache, FUZZ: JSON.stringify(request) },
  };
  const child = spawn(process.execPath, ['--test-only', file], {
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  children.add(child);
  let printed = '';
  const keep = (/** @type {Buffer} */ chunk) => {
    printed = (printed + chunk).slice(-4000);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const quiet = setTimeout(() => {
    listen({ hangs: true });
    child.kill('SIGKILL');
  }, 1000 * hang);
  const told = /** @type {import('node:stream').Readable} */ (child.stdio[3]);
  createInterface({ input: told }).on('line', (line) => {
    quiet.refresh();
    listen(JSON.parse(line));
  });
  return new Promise((done) => {
    child.on('close', () => {
      clearTimeout(quiet);
      children.delete(child);
      rmSync(cache, { recursive: true, force: true });
      done(printed);
    });
  });
}

/** The properties of all files on a device. @param {string} device @returns {Promise<Property[]>} */
async function propertiesOf(device) {
  const lists = await Promise.all(
    files.map(async (file) => {
      /** @type {Property[]} */
      const found = [];
      const printed = await run(file, device, {}, (message) => {
        if (message.property) found.push({ file, name: message.property, share: message.share });
      });
      if (found.length === 0 && !stopping) refuse(`${file} names no property:\n${printed}`);
      return found;
    }),
  );
  return lists.flat();
}

/** @param {Property} property */
const label = ({ file, name }) => `${testName(file)}: ${name}`;

const all = await Promise.all(devices.map(propertiesOf));
const known = new Set();
/** A property's full name means that one alone, though others may begin with it: a path belongs to one. */
const isFull = all.flat().some((property) => label(property) === given.only);
/** What names no device is run for the first one. */
const work = devices.map((device, i) => ({
  device,
  properties: (all[i] ?? []).filter((property) => {
    const name = label(property);
    if (isFull ? name !== given.only : !name.includes(given.only)) return false;
    if (known.has(name)) return false;
    known.add(name);
    return true;
  }),
}));
if (given.list) {
  for (const name of known) console.log(name);
  process.exit(0);
}
if (known.size === 0) refuse(`--only '${given.only}': no property has this in its name. --list names them.`);

const start = performance.now();
const end = start + 60_000 * minutes;
const left = () => Math.max(0, end - performance.now()) / 1000;
const shares = Math.max(...work.map((w) => w.properties.reduce((sum, p) => sum + p.share, 0)));
/** Seconds for a share: everything has its turn in the time there is, and often where there is much. */
const unit = Math.min(10, Math.max(1, (60 * minutes) / shares));

let cases = 0;
let failures = 0;
/** What each device is at. @type {Map<string, string>} */
const current = new Map();

function progress() {
  if (!process.stdout.isTTY) return;
  const minutesLeft = `${Math.floor(left() / 60)}:${String(Math.floor(left() % 60)).padStart(2, '0')}`;
  const text = `${minutesLeft} left · ${cases} cases, ${failures} failures · ${[...current.values()].join(' · ')}`;
  process.stdout.write(`\r\x1b[K${text.slice(0, (process.stdout.columns ?? 80) - 1)}`);
}
const ticking = setInterval(progress, 250);

/** @param {string} text */
function say(text) {
  if (process.stdout.isTTY) process.stdout.write('\r\x1b[K');
  console.log(text);
}

/**
 * One turn of a property. @param {Property} property @param {string} device @param {number} seed
 * @returns {Promise<boolean>} whether it passed
 */
async function turn(property, device, seed) {
  let last = { run: 0, values: '' };
  /** @type {string | undefined} */
  let failure;
  let passed = false;
  let path = '';
  current.set(device, label(property));
  const seconds = Math.max(0.5, Math.min(unit * property.share, left()));
  const request = { only: property.name, seed, seconds, ...(given.path && { path: given.path }) };
  const printed = await run(property.file, device, request, (message) => {
    if (message.run) {
      last = message;
      cases++;
    } else if (message.hangs) {
      failure = `Case ${last.run} takes more than ${hang} seconds:\n${last.values}`;
    } else if (message.failed) {
      failure = message.failed;
      path = ` --path ${message.path}`;
    } else passed = true;
  });
  if (stopping || passed) return true;
  failures++;
  failure ??= `The process ended within case ${last.run}:\n${last.values}\n${printed}`;
  const command = `npm run fuzz -- --device ${device} --only '${label(property)}' --seed ${seed}${path}`;
  say(`\n✖ ${device}: ${label(property)}\n\n${failure}\n\nRepeat it with:\n  ${command}\n`);
  return false;
}

/** Turns of all properties of a device, once at least, until the time is up. What failed is left out from there on. */
async function explore(/** @type {(typeof work)[number]} */ { device, properties }) {
  let rest = properties;
  for (let seed = firstSeed; rest.length > 0; seed++) {
    for (const property of rest) {
      if (stopping || (left() === 0 && seed > firstSeed)) return;
      const passed = await turn(property, device, seed);
      if (!passed || given.path) rest = rest.filter((p) => p !== property);
    }
    if (!process.stdout.isTTY)
      say(`${device}: seed ${seed} done, ${cases} cases, ${Math.ceil(left())} s left`);
  }
}

process.on('SIGINT', () => {
  stopping = true;
  for (const child of children) child.kill('SIGKILL');
});
say(`${known.size} properties on ${devices.join(', ')}, ${minutes} minutes, from seed ${firstSeed}`);
await Promise.all(work.map(explore));
clearInterval(ticking);
const seconds = Math.round((performance.now() - start) / 1000);
say(
  `${stopping ? 'Stopped: ' : ''}${cases} cases of ${known.size} properties in ${seconds} s, ${failures} failed.`,
);
process.exitCode = failures > 0 ? 1 : stopping ? 130 : 0;
