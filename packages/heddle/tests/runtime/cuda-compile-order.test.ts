/** The order in which processes compile what waits for them: a library compiled here takes NVRTC's place. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { CompilePool } from '../../src/runtime/cuda/compile/processes/pool.js';

/** A compiler that writes the names of what it compiles to a file, and takes 10 ms for each. */
const recorder = (file: string): string => `
#include <stdio.h>
#include <unistd.h>
static char name[64];
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int* archs) { *archs = 90; return 0; }
int nvrtcCreateProgram(unsigned long long* at, const char* text, const char* of) {
  *at = 1;
  snprintf(name, sizeof name, "%s\\n", of);
  return 0;
}
int nvrtcDestroyProgram() { return 0; }
int nvrtcCompileProgram() {
  FILE* f = fopen("${file}", "a");
  fputs(name, f);
  fclose(f);
  usleep(10000);
  return 0;
}
int nvrtcGetCUBINSize(unsigned long long at, unsigned long long* bytes) { *bytes = 8; return 0; }
int nvrtcGetCUBIN() { return 0; }
`;

const compiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0;

test('of what waits for a process, the longest source is compiled first', {
  skip: compiler ? false : 'no C compiler',
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-order-'));
  const [library, log] = [join(folder, 'libnvrtc.so.13'), join(folder, 'log')];
  writeFileSync(join(folder, 'fake.c'), recorder(log));
  execFileSync('cc', ['-shared', '-fPIC', '-o', library, join(folder, 'fake.c')]);
  const pool = new CompilePool(library);
  try {
    const lengths = Array.from({ length: 48 }, (_, i) => 10 + i);
    const jobs = lengths.map((length) =>
      pool.begin({ name: `kernel${length}`, text: ' '.repeat(length) }, { kind: 'cubin', name: 'sm_90a' }),
    );
    while (!jobs.every((job) => pool.isDone(job))) await sleep(5);
    const order = readFileSync(log, 'utf8').trim().split('\n');
    assert.equal(order.length, lengths.length);
    // Several processes write what they begin at the same time in any order.
    const sum = (names: readonly string[]): number =>
      names.reduce((total, name) => total + Number(/\d+/.exec(name)![0]), 0);
    assert.ok(sum(order.slice(0, 16)) > sum(order.slice(16, 32)), `${order}`);
    assert.ok(sum(order.slice(16, 32)) > sum(order.slice(32)), `${order}`);
  } finally {
    await pool.close();
    rmSync(folder, { recursive: true });
  }
});
