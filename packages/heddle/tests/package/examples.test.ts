/** The examples compile as a user would compile them, run, and print what they promise. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { compiler, root } from './workspace.js';

const run = promisify(execFile);

async function example(name: string, env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: root, env: { ...process.env, ...env } };
  return (await run(process.execPath, [join(root, 'examples', 'dist', `${name}.js`)], options)).stdout;
}

before(async () => {
  const library = join(root, 'packages', 'heddle', 'dist', 'src', 'index.d.ts');
  assert.ok(existsSync(library), 'the examples import heddle as built: run `npm run build` first');
  await run(process.execPath, [compiler(), '-p', join(root, 'examples')]).catch((error: { stdout: string }) =>
    assert.fail(`the examples do not compile:\n${error.stdout}`),
  );
});

test('saxpy.ts', async () => {
  const printed = await example('saxpy');
  assert.match(printed, /y\[0…4\] = \[ 1, 3, 5, 7, 9 \]/);
  assert.match(printed, /__global__/);
});

test('xor.ts', async () => {
  const printed = await example('xor');
  assert.match(printed, /0 xor 0 = 0 .*\n0 xor 1 = 1 .*\n1 xor 0 = 1 .*\n1 xor 1 = 0 /);
});

test('custom-kernel.ts', async () => {
  const printed = await example('custom-kernel');
  const sums = [...printed.matchAll(/by .*?: \[([^\]]*)\]/g)].map((m) => m[1]!.split(',').map(Number));
  assert.equal(sums.length, 2);
  assert.equal(sums[0]!.length, 6);
  for (const [i, sum] of sums[0]!.entries()) assert.ok(Math.abs(sum - sums[1]![i]!) < 1e-2);
  assert.match(printed, /partial\[64\] is read before it is written.*custom-kernel\.ts:\d+:\d+/s);
});

test('streams.ts', async () => {
  const printed = await example('streams');
  // The fixed points of the map are 1 − 1/r.
  assert.match(printed, /^on \w+, x, y: 0\.(5|49999)\d* 0\.(6|59999)/m);
  assert.ok(Number(/−0\.1: (\S+)/.exec(printed)?.[1]) < 1e-3, printed);
});

test('mnist.ts, 20 steps', async () => {
  const printed = await example('mnist', { STEPS: '20' });
  const accuracy = Number(/test accuracy ([\d.]+) %/.exec(printed)?.[1]);
  assert.ok(accuracy > 30, printed);
});

test('distributed/train.ts, 20 steps of two processes', async () => {
  const library = join(root, 'packages', 'heddle', 'bin', 'heddle.js');
  const program = join(root, 'examples', 'dist', 'distributed', 'train.js');
  const args = [library, 'launch', '-n', '2', '--device', 'cpu', program];
  const { stdout } = await run(process.execPath, args, { cwd: root, env: { ...process.env, STEPS: '20' } });
  const [, accuracy, rest] = /^epoch 1: .* test accuracy ([\d.]+) %.*\n(.*)$/s.exec(stdout) ?? [];
  assert.ok(Number(accuracy) > 30, stdout);
  assert.equal(rest, '', 'only rank 0 prints');
});
