/** The deployment files parse, and name options, ports and paths that there are. systemd checks its unit, where it is installed; nothing is deployed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { parseAllDocuments } from 'yaml';
import { addServe } from '../src/index.js';
import { decide } from '../src/options.js';
import { openApi } from '../src/rest/openapi.js';

const file = (name: string): string => readFileSync(new URL(`../../deploy/${name}`, import.meta.url), 'utf8');
const documents = (name: string): unknown[] =>
  parseAllDocuments(file(name)).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });

/** What `heddle serve` makes of arguments, without running it. @throws Error for an option that there is not */
function optionsOf(args: readonly string[]): Record<string, unknown> {
  const root = new Command('heddle').exitOverride();
  addServe(root, () => {});
  const command = root.commands.find((own) => own.name() === 'serve')!;
  command.exitOverride().configureOutput({ writeErr: () => {} });
  let found: Record<string, unknown> = {};
  command.action((folder: string, options: Record<string, unknown>) => {
    found = { folder, ...options };
  });
  root.parse(['serve', ...args], { from: 'user' });
  return found;
}

/** Every value of a key, anywhere in a document. */
function* valuesOf(key: string, within: unknown): Generator<unknown> {
  if (typeof within !== 'object' || within === null) return;
  for (const [name, value] of Object.entries(within)) {
    if (name === key) yield value;
    yield* valuesOf(key, value);
  }
}

interface Probe {
  readonly path: string;
}

const { port, grpcPort } = decide({});
const paths = Object.keys(openApi.paths as object);

test('an unknown option would be noticed', () => {
  assert.throws(() => optionsOf(['/models', '--prot', '1']), /unknown option '--prot'/);
});

for (const name of ['kubernetes.yaml', 'kserve-runtime.yaml'])
  test(`${name} names options, ports and paths that there are`, () => {
    const all = documents(name);
    const [args] = [...valuesOf('args', all)] as string[][];
    const options = optionsOf(args!);
    assert.deepEqual([options.host, options.port, options.grpcPort], ['0.0.0.0', port, grpcPort]);
    const probes = [...valuesOf('httpGet', all)] as Probe[];
    assert.ok(probes.length >= 2);
    for (const { path } of probes) assert.ok(paths.includes(path), path);
    const ports = [...valuesOf('containerPort', all)];
    assert.ok(ports.includes(port));
  });

test('pods are given the time to drain', () => {
  const [deployment] = documents('kubernetes.yaml');
  const [grace] = valuesOf('terminationGracePeriodSeconds', deployment);
  const [args] = [...valuesOf('args', deployment)] as string[][];
  const [preStop] = [...valuesOf('preStop', deployment)] as { exec: { command: string[] } }[];
  const pause = Number(preStop!.exec.command[1]);
  assert.ok((grace as number) > pause + (optionsOf(args!).drainMs as number) / 1000);
});

test('the unit of systemd starts the command with options that there are, and waits until it has drained', () => {
  const unit = file('heddle-serve.service');
  const value = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)![1]!;
  const [program, command, ...args] = value('ExecStart').split(' ');
  assert.deepEqual([program, command], ['/usr/local/bin/heddle', 'serve']);
  const options = optionsOf(args);
  assert.equal(options.folder, '/var/lib/heddle/models');
  assert.ok(Number(value('TimeoutStopSec')) * 1000 > (options.drainMs as number));
  for (const line of unit.split('\n')) assert.match(line, /^(#.*|\[\w+\]|\w+=.+|)$/);
});

const noSystemd = spawnSync('systemd-analyze', ['--version']).error && 'needs systemd-analyze';

test('systemd understands the unit', { skip: noSystemd ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-unit-'));
  try {
    const verify = (text: string): string => {
      const path = join(folder, 'heddle-serve.service');
      // systemd asks for a program that is there.
      writeFileSync(path, text.replace('/usr/local/bin/heddle', process.execPath));
      const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
      const lines = stderr.split('\n').filter((line) => line.includes('heddle-serve'));
      return lines.join('\n');
    };
    assert.equal(verify(file('heddle-serve.service')), '');
    assert.match(verify(file('heddle-serve.service').replace('KillMode', 'KillMod')), /KillMod/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the Dockerfile starts the command with options that there are', () => {
  const text = file('Dockerfile');
  const list = (instruction: string): string[] =>
    JSON.parse(new RegExp(`^${instruction} (\\[.*\\])$`, 'm').exec(text)![1]!) as string[];
  assert.equal(list('ENTRYPOINT').at(-1), 'serve');
  const options = optionsOf(list('CMD'));
  assert.deepEqual([options.port, options.grpcPort], [port, grpcPort]);
  assert.equal(/^EXPOSE (.*)$/m.exec(text)![1], `${port} ${grpcPort}`);
  const [, health] = /127\.0\.0\.1:8080(\/[^']+)'/.exec(text)!;
  assert.ok(paths.includes(health!));
});
