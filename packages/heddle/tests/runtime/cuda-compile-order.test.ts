/** What processes compile, in which order and how many at once: a library compiled here takes NVRTC's place. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CompileJob, CompilePool } from '../../src/runtime/cuda/compile/processes/pool.js';

/**
 * A compiler that takes 10 ms for each text, and writes the kernels in it as a line of a file. It makes 8 bytes of all but
 * those that are wrong, and ends its process over others.
 */
const recorder = (file: string): string => `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char names[65536];
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int* archs) { *archs = 90; return 0; }
int nvrtcCreateProgram(unsigned long long* at, const char* text) {
  *at = 1;
  names[0] = 0;
  for (const char* from = text; (from = strstr(from, "kernel")); from++) strncat(names, from, strcspn(from, ";") + 1);
  return 0;
}
int nvrtcDestroyProgram() { return 0; }
int nvrtcCompileProgram() {
  FILE* f = fopen("${file}", "a");
  fprintf(f, "%s\\n", names);
  fclose(f);
  usleep(10000);
  if (strstr(names, "crash")) _exit(1);
  return strstr(names, "wrong") ? 6 : 0;
}
int nvrtcGetCUBINSize(unsigned long long at, unsigned long long* bytes) { *bytes = 8; return 0; }
int nvrtcGetCUBIN() { return 0; }
int nvrtcGetProgramLogSize(unsigned long long at, unsigned long long* bytes) { *bytes = strlen(names) + 1; return 0; }
int nvrtcGetProgramLog(unsigned long long at, char* log) { strcpy(log, names); return 0; }
`;

const compiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0;

describe('of what waits for a process', { skip: compiler ? false : 'no C compiler' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-order-'));
  const [library, log] = [join(folder, 'libnvrtc.so.13'), join(folder, 'log')];
  let pool: CompilePool;

  before(() => {
    writeFileSync(join(folder, 'fake.c'), recorder(log));
    execFileSync('cc', ['-shared', '-fPIC', '-o', library, join(folder, 'fake.c')]);
  });
  beforeEach(() => writeFileSync(log, ''));
  after(() => rmSync(folder, { recursive: true }));

  const begin = (name: string, length: number): CompileJob => {
    const text = `${name};`.padEnd(length);
    return pool.begin({ name, text }, { kind: 'cubin', name: 'sm_90a' });
  };

  /** What has been compiled, by the names of those compiled together. */
  async function compiled(jobs: () => readonly CompileJob[]): Promise<string[][]> {
    pool = new CompilePool(library);
    try {
      const begun = jobs();
      while (!begun.every((job) => pool.isDone(job))) await sleep(5);
    } finally {
      await pool.close();
    }
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    return lines.map((line) => line.split(';').filter(Boolean));
  }

  test('the longest source is compiled first', async () => {
    const lengths = Array.from({ length: 48 }, (_, i) => 10_000 + i);
    const order = await compiled(() => lengths.map((length) => begin(`kernel${length}`, length)));
    assert.deepEqual(
      order.map((names) => names.length),
      lengths.map(() => 1),
    );
    // Several processes write what they begin at the same time in any order.
    const sum = (all: readonly string[][]): number =>
      all.flat().reduce((total, name) => total + Number(/\d+/.exec(name)![0]), 0);
    assert.ok(sum(order.slice(0, 16)) > sum(order.slice(16, 32)), `${order}`);
    assert.ok(sum(order.slice(16, 32)) > sum(order.slice(32)), `${order}`);
  });

  test('short sources are compiled together, those of one name apart', async () => {
    const names = Array.from({ length: 120 }, (_, i) => `kernel${i % 60}`);
    const jobs: CompileJob[] = [];
    const order = await compiled(() => {
      jobs.push(...names.map((name) => begin(name, 100)));
      return jobs;
    });
    assert.deepEqual(order.flat().sort(), names.toSorted());
    assert.ok(order.length <= 90, `${order.length} compiles`);
    for (const together of order) assert.equal(new Set(together).size, together.length);
    assert.ok(jobs.every(({ result }) => result instanceof Uint8Array));
  });

  test('where one of them does not compile, each is compiled alone, and the compiler says what it says of that one', async () => {
    const names = Array.from({ length: 60 }, (_, i) => (i === 30 ? 'kernelWrong' : `kernel${i}`));
    const jobs: CompileJob[] = [];
    const order = await compiled(() => {
      jobs.push(...names.map((name) => begin(name.replace('W', 'w'), 100)));
      return jobs;
    });
    const alone = order.filter((together) => together.length === 1).flat();
    assert.ok(alone.includes('kernelwrong'));
    for (const [i, { result }] of jobs.entries())
      if (i === 30) assert.deepEqual(result, { log: 'kernelwrong;' });
      else assert.ok(result instanceof Uint8Array);
  });

  test('where one of them ends the process, the others are compiled all the same', async () => {
    const names = Array.from({ length: 60 }, (_, i) => (i === 30 ? 'kernelcrash' : `kernel${i}`));
    const jobs: CompileJob[] = [];
    const order = await compiled(() => {
      jobs.push(...names.map((name) => begin(name, 100)));
      return jobs;
    });
    const times = (name: string): number => order.flat().filter((other) => other === name).length;
    assert.equal(times('kernelcrash'), 2);
    for (const [i, { result }] of jobs.entries())
      if (i === 30) assert.deepEqual(result, { error: 'it ended' });
      else assert.ok(result instanceof Uint8Array);
  });
});
