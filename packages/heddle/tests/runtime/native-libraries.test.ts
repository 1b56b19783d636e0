/** Native libraries stay loaded for as long as the process lives. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { loadLibrary } from '../../src/runtime/cuda/driver/native.js';

const compiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0;
const reason = process.platform !== 'linux' ? 'no /proc' : compiler ? false : 'no C compiler';

const isMapped = (path: string): boolean => readFileSync('/proc/self/maps', 'utf8').includes(path);

test('a library stays loaded when its object is garbage-collected', { skip: reason }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-native-'));
  try {
    const path = join(folder, 'libkept.so');
    writeFileSync(join(folder, 'kept.c'), 'int kept(void) { return 1; }');
    execFileSync('cc', ['-shared', '-fPIC', '-o', path, join(folder, 'kept.c')]);
    loadLibrary(path);
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    for (let i = 0; i < 4; i++) {
      collect();
      // Finalizers run in a turn of their own.
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(isMapped(path));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
