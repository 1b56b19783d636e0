/**
 * The package as its users have it: packed, installed by npm in an empty project, used there by the test runners and
 * by Node, with variables set that belong to other tools.
 *
 * The runners are 320 packages that the workspace does not need, so that they have a package.json and a lock file of
 * their own in tests/consumers: they are installed in .build/consumers, above the project, and again only when the lock
 * file changes. The project has Heddle alone. `vitest` cannot be imported there, since there are two of it: tests use
 * its globals. vitest 5 asks for Node 22.12 and also runs on 20.19, which saves downloading a second Node.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { noNpm, root } from './workspace.js';

const sources = join(root, 'packages', 'heddle', 'tests', 'consumers');
const runners = join(root, '.build', 'consumers');
let project = '';

/** Runs a program to its end; returns what it printed. @throws Error with all that it printed, if it fails */
async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = {
    ...process.env,
    DEV: '1',
    DEBUG: 'express:*',
    CHECK: 'yes',
    HEDDLE_THREADS: '2',
    NO_COLOR: '1',
  };
  // Set by the runner of this file, it changes how node:test reports.
  delete (env as NodeJS.ProcessEnv).NODE_TEST_CONTEXT;
  // Set by scripts/unit.mjs, it loads a file that consumers do not have.
  delete (env as NodeJS.ProcessEnv).NODE_OPTIONS;
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, env });
    return stdout + stderr;
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`);
  }
}

const node = (...args: readonly string[]): Promise<string> => run(process.execPath, args, project);

/** From npm's cache where it has the package; npm itself would try an unreachable registry again for 70 s. */
const NPM_OPTIONS = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'].concat(
  '--fetch-retry-mintimeout=1000',
  '--fetch-retry-maxtimeout=5000',
);
const npm = (cwd: string, ...args: readonly string[]): Promise<string> =>
  run('npm', [...args, ...NPM_OPTIONS], cwd);

async function installRunners(): Promise<void> {
  const lock = readFileSync(join(sources, 'package-lock.json'), 'utf8');
  // In node_modules, which npm removes before it installs.
  const installed = join(runners, 'node_modules', '.installed');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return;
  mkdirSync(runners, { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    cpSync(join(sources, file), join(runners, file));
  }
  await npm(runners, 'ci');
  writeFileSync(installed, lock);
}

/** What npm says where the registry cannot be reached. */
const UNREACHABLE =
  /npm error code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTCACHED|EIDLETIMEOUT|ERR_SOCKET_TIMEOUT)/;
let missing: string | false = noNpm;

before(async () => {
  if (missing) return;
  try {
    await installRunners();
    project = mkdtempSync(join(runners, 'project-'));
    cpSync(join(sources, 'project'), project, { recursive: true });
    writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
    await npm(join(root, 'packages', 'heddle'), 'pack', '--pack-destination', project);
    const { version } = JSON.parse(readFileSync(join(root, 'packages/heddle/package.json'), 'utf8'));
    await npm(project, 'install', `./heddle-${version}.tgz`);
  } catch (error) {
    const [, code] = UNREACHABLE.exec((error as Error).message) ?? [];
    if (!code) throw error;
    missing = `npm's registry cannot be reached (${code})`;
    console.error(`\n*** NOT TESTED: vitest, jest and node:test with the packed library: ${missing}\n`);
  }
});

after(() => {
  if (project) rmSync(project, { recursive: true });
});

/** A test of the installed package: skipped, with the reason, where it could not be installed. */
const consumer = (name: string, body: () => Promise<void>): void => {
  test(name, (t) => (missing ? t.skip(missing) : body()));
};

const vitest = (name: string, ...options: readonly string[]): Promise<string> =>
  node(join(runners, 'node_modules', name, 'vitest.mjs'), 'run', '--globals', ...options);

for (const pool of ['forks', 'threads', 'vmThreads']) {
  consumer(`vitest 4, --pool=${pool}`, async () => {
    assert.match(await vitest('vitest4', `--pool=${pool}`), /v4\.[\s\S]*Tests +1 passed/);
  });
}

consumer('vitest 5', async () => {
  assert.match(await vitest('vitest5'), /v5\.[\s\S]*Tests +1 passed/);
});

consumer('jest, with ES modules', async () => {
  const jest = join(runners, 'node_modules/jest/bin/jest.js');
  assert.match(await node('--experimental-vm-modules', jest, '--rootDir=.'), /Tests: +1 passed/);
});

consumer('node:test', async () => {
  assert.match(await node('--test', '--test-reporter=tap', 'smoke-node.js'), /^# pass 1$/m);
});

consumer('node --permission, with nothing to read but the project', async () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const flag = major > 23 || (major === 23 && minor >= 5) ? '--permission' : '--experimental-permission';
  await node(flag, `--allow-fs-read=${project}/*`, '--no-warnings', 'smoke-now.js');
});

consumer('require()', async () => {
  const program = "require('heddle').tensor([1, 2]).sum().item().then(console.log)";
  assert.equal(await node('--input-type=commonjs', '-e', program), '3\n');
});
