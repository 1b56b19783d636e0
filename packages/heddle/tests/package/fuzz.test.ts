/** The fuzzer finds what fails, what never ends and what kills its process, and says how to repeat it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('../../../../../scripts/fuzz.mjs', import.meta.url));

/** Exit code and output. */
const fuzz = (...args: string[]): Promise<{ code: number | null; out: string }> =>
  new Promise((done) => {
    const child = spawn(process.execPath, [SCRIPT, '--device', 'cpu', ...args]);
    let out = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        out += chunk;
      });
    child.on('close', (code) => done({ code, out }));
  });

test('the fuzzer reports every kind of failure, with a command that repeats it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'heddle-'));
  try {
    const file = join(folder, 'planted.test.js');
    await writeFile(
      file,
      `import fc from ${JSON.stringify(import.meta.resolve('fast-check'))};
      import { property } from ${JSON.stringify(import.meta.resolve('../property.js'))};
      const one = (name, check) => property(name, [fc.nat(1000)], check);
      one('holds', () => {});
      one('is wrong', (n) => { if (n >= 17) throw new Error('too large: ' + n); });
      one('hangs', (n) => { while (n >= 17); });
      one('dies', (n) => { if (n >= 17) process.exit(3); });`,
    );
    const all = await fuzz('--minutes', '0', '--hang', '2', '--seed', '5', file);
    assert.equal(all.code, 1, all.out);
    assert.match(all.out, /of 4 properties in \d+ s, 3 failed\./);
    assert.match(all.out, /Counterexample: \[17\]/);
    assert.match(all.out, /Case \d+ takes more than 2 seconds:\n\[\d+\]/);
    assert.match(all.out, /The process ended within case \d+:\n\[\d+\]/);
    const command = /--only 'planted: is wrong' (--seed 5 --path [\d:]+)/.exec(all.out);
    assert.ok(command, all.out);
    const again = await fuzz('--only', 'is wrong', ...command[1]!.split(' '), file);
    assert.equal(again.code, 1);
    assert.match(again.out, /too large: 17\b/);
    assert.match(again.out, /1 cases of 1 properties in \d+ s, 1 failed\./);
    const holds = await fuzz('--minutes', '0', '--only', 'holds', file);
    assert.equal(holds.code, 0, holds.out);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test('the fuzzer refuses arguments that are wrong', async () => {
  for (const [args, message] of [
    [['--minutes', 'soon'], /--minutes soon: must be a number from 0/],
    [['--devise', 'cpu'], /Unknown option '--devise'/],
  ] as const) {
    const { code, out } = await fuzz(...args);
    assert.equal(code, 2);
    assert.match(out, message);
  }
});
