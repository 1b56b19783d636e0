/** The command on a terminal, in pipes, and when it is ended from outside. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readSafetensors } from '../../src/io/index.js';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));
const { HEDDLE_DEVICE: _, HEDDLE_DEBUG: __, FORCE_COLOR: ___, NO_COLOR: ____, ...plain } = process.env;
const ENV = { ...plain, TERM: 'xterm', HEDDLE_DEVICE: 'cpu' };
/** A network and a number of epochs that no test waits for. */
const LONG = ['train', 'quadrants', '--epochs', '100000'];

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-terminal-'));
});
after(async () => {
  await rm(folder, { recursive: true });
});

const withoutSignals = process.platform === 'win32' ? 'no signals there' : false;
const withoutTerminals =
  process.platform !== 'linux' || spawnSync('script', ['--version']).status !== 0
    ? 'needs script of util-linux'
    : false;

/** With a letter for the escape character. */
const visible = (text: string): string => text.replaceAll('\u001b', '␛');

/** Run the command on a terminal of 80 columns. @param watch is called with all output so far */
async function onTerminal(
  args: readonly string[],
  watch?: (input: NonNullable<ChildProcess['stdin']>, output: string) => void,
  env: Record<string, string> = {},
): Promise<{ readonly code: number | null; readonly output: string; readonly screen: string[] }> {
  const command = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', `stty cols 80 rows 40; exec ${command}`, '/dev/null'], {
    cwd: folder,
    env: { ...ENV, SHELL: '/bin/sh', ...env },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += visible(text);
    watch?.(child.stdin, output);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output, screen: screenOf(output) };
}

/** The lines that a terminal shows in the end: of what moves the cursor, \r, \n and "erase to the end of the line". */
function screenOf(output: string): string[] {
  const lines = [''];
  let at = 0;
  for (const [piece] of output.matchAll(/␛\[[\d;]*[A-Za-z]|[\s\S]/gu)) {
    const line = lines.at(-1)!;
    if (piece === '\r') at = 0;
    else if (piece === '\n') lines.push('');
    else if (piece === '␛[K') lines[lines.length - 1] = line.slice(0, at);
    else if (/^␛\[\d*m$/.test(piece)) continue;
    else {
      assert.doesNotMatch(piece, /␛/, 'moves the cursor in another way');
      lines[lines.length - 1] = line.slice(0, at).padEnd(at) + piece + line.slice(at + 1);
      at++;
    }
  }
  return lines.map((line) => line.trimEnd());
}

test('on a terminal: a bar that leaves nothing behind, lines of at most 80 columns, Ctrl-C that saves', {
  skip: withoutTerminals,
}, async () => {
  let pressed = false;
  const { code, output, screen } = await onTerminal([...LONG, '--out', 'pressed'], (input, text) => {
    // In the middle of an epoch, with the bar on the screen.
    if (!pressed && /epoch 2\/100000 .*░ \d+ %/s.test(text)) pressed = input.write('\x03');
  });
  assert.equal(code, 130, output);
  assert.match(output, /\r.*█.*░ \d+ % {2}loss .* points\/s {2}\d+:\d\d left␛\[K/, 'the bar was there');
  assert.ok(output.includes('␛[1mepoch'), 'headings are bold');
  const text = screen.join('\n');
  assert.doesNotMatch(text, /█|░| left/, 'nothing of the bar is left');
  assert.match(text, /^Ctrl-C: stopping after this step and saving\. Once more to stop at once\.$/m);
  assert.match(text, /^epoch +loss +test loss +test accuracy +points\/s +seconds\n─+ .*\n1 +\d/m);
  assert.match(text, /^Stopped by Ctrl-C; the training so far is saved\./m);
  assert.deepEqual(
    screen.filter((line) => line.length > 80),
    [],
  );
  assert.equal(Object.keys((await weights('pressed')).tensors).length, 4);
});

test('NO_COLOR: no colours on a terminal; FORCE_COLOR: colours in a pipe', {
  skip: withoutTerminals,
}, async () => {
  const { output } = await onTerminal(['doctor'], undefined, { NO_COLOR: '1' });
  assert.match(output, /^System\r$/m);
  assert.doesNotMatch(output, /␛\[/);
  const { stdout, stderr } = spawnSync(process.execPath, [MAIN, 'doctor', 'more'], {
    env: { ...ENV, FORCE_COLOR: '1' },
    encoding: 'utf8',
  });
  assert.equal(stdout, '');
  assert.match(visible(stderr), /^␛\[31mheddle:␛\[39m too many arguments/);
});

const weights = (out: string) => readSafetensors(join(folder, out, 'weights.safetensors'));

for (const [signal, code, ended] of [
  ['SIGTERM', 143, 'Stopped by SIGTERM'],
  ['SIGHUP', null, 'Stopped by SIGHUP'],
] as const) {
  test(`${signal} saves, and ends with its own code`, { skip: withoutSignals }, async () => {
    const child = spawn(process.execPath, [MAIN, ...LONG, '--out', signal], { cwd: folder, env: ENV });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      // Twice: the system and a shell may both say that the terminal is gone.
      if (!out.includes('epoch 2/') && (out + text).includes('epoch 2/'))
        for (const _ of 'ab') child.kill(signal);
      out += text;
    });
    const [exit, by] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    assert.deepEqual([exit, by], [code, code === null ? signal : null]);
    assert.match(out, new RegExp(`${ended}; the training so far is saved`));
    assert.equal(Object.keys((await weights(signal)).tensors).length, 4);
  });
}

test('a reader that reads no further does not end a training', { skip: withoutSignals }, async () => {
  const child = spawn(process.execPath, [MAIN, 'train', 'perceptron', '--epochs', '3', '--out', 'unread'], {
    cwd: folder,
    env: ENV,
  });
  child.stdout.once('data', () => child.stdout.destroy());
  child.stderr.destroy();
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0);
  assert.deepEqual((await weights('unread')).metadata, { program: 'perceptron', epoch: '3' });
  const lines = (await readFile(join(folder, 'unread', 'metrics.jsonl'), 'utf8')).trimEnd().split('\n');
  assert.equal(lines.length, 3);
});

test('a folder that cannot be made is said at once, and so are malformed and unknown variables', {
  skip: process.platform === 'linux' ? false : 'needs /proc',
}, () => {
  const heddle = (args: readonly string[], env: Record<string, string> = {}) => {
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
      cwd: folder,
      env: { ...ENV, ...env },
      encoding: 'utf8',
      timeout: 60_000,
    });
    return { code: status, err: stderr };
  };
  const train = ['train', 'perceptron', '--epochs', '1'];
  const out = heddle([...train, '--out', '/proc/nowhere/run']);
  assert.equal(out.code, 1);
  assert.match(
    out.err,
    /^heddle: \/proc\/nowhere\/run: cannot make this folder \(ENOENT.*Choose another with --out\.$/m,
  );
  const cache = heddle(train, { HEDDLE_CACHE: '/proc/nowhere' });
  assert.equal(cache.code, 1);
  assert.match(
    cache.err,
    /^heddle: \/proc\/nowhere: cannot make this folder .*Set HEDDLE_CACHE to another one/,
  );
  const malformed = heddle(train, { HEDDLE_VENDOR: 'foo', HEDDLE_DEVICE: 'gpu' });
  assert.deepEqual(malformed, { code: 2, err: 'heddle: HEDDLE_VENDOR=foo: must be on or off.\n' });
  const device = heddle(train, { HEDDLE_DEVICE: 'gpu' });
  assert.match(device.err, /^heddle: HEDDLE_DEVICE=gpu: 'gpu' is not a device/);
  const unknown = heddle([...train, '--out', 'unknown'], { HEDDLE_THREAD: '1', HEDDLE_NONSENSE: '1' });
  assert.equal(unknown.code, 0);
  assert.match(
    unknown.err,
    /^\[heddle\] HEDDLE_THREAD is not a variable that Heddle reads\. Did you mean HEDDLE_THREADS\?$/m,
  );
  assert.match(unknown.err, /^\[heddle\] HEDDLE_NONSENSE is not .* reads\. `npx heddle doctor` lists/m);
  assert.ok(existsSync(join(folder, 'unknown')));
});
