/** Processes that benchmarks start do not outlive them. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

const MODULE = new URL('../src/processes.js', import.meta.url).href;

/** Says its number and stays. */
const CHILD = "process.stderr.write(process.pid + '\\n'); setInterval(() => {}, 1000);";
const PARENT = `
  import { spawn } from 'node:child_process';
  const { outputOf } = await import(${JSON.stringify(MODULE)});
  const child = spawn(process.execPath, ['-e', ${JSON.stringify(CHILD)}], { stdio: 'pipe' });
  await outputOf(child, (text) => process.stdout.write(text));
`;

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  test(`${signal} ends what a benchmark has started`, async () => {
    const parent = spawn(process.execPath, ['--input-type=module', '-e', PARENT], { stdio: 'pipe' });
    const [text] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(text);
    assert.ok(isRunning(pid));
    parent.kill(signal);
    const [ended] = (await once(parent, 'close')) as [number];
    assert.equal(ended, code);
    // The system has yet to take note of it.
    for (let i = 0; i < 100 && isRunning(pid); i++) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(!isRunning(pid));
  });
