/** NVLink by NVML: a library of the same functions, compiled here, has GPUs with and without links. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { nvLinksOf } from '../../src/runtime/cuda/driver/nvml.js';

const FAKE = `
#include <string.h>
typedef struct { int links; unsigned int version; } *nvmlDevice_t;
static struct { int links; unsigned int version; } gpus[2] = { { 6, 4 }, { 0, 0 } };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
  if (strcmp(bus, "0000:18:00.0") == 0) *device = (nvmlDevice_t)&gpus[0];
  else if (strcmp(bus, "0000:2A:00.0") == 0) *device = (nvmlDevice_t)&gpus[1];
  else return 6;
  return 0;
}
int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *isActive) {
  if (device->links == 0) return 3; /* NVML_ERROR_NOT_SUPPORTED */
  if (link >= 12) return 2;         /* NVML_ERROR_INVALID_ARGUMENT */
  *isActive = link % 2;
  return 0;
}
int nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version) {
  *version = device->version;
  return link % 2 ? 0 : 3;
}
`;

const noCompiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0 ? false : 'no C compiler';
const folder = mkdtempSync(join(tmpdir(), 'heddle-nvml-'));
after(() => rmSync(folder, { recursive: true }));

test('links that are up are counted, with their version', { skip: noCompiler }, () => {
  const path = join(folder, 'libnvidia-ml.so.1');
  writeFileSync(join(folder, 'fake.c'), FAKE);
  execFileSync('cc', ['-shared', '-fPIC', '-o', path, join(folder, 'fake.c')]);
  assert.deepEqual(nvLinksOf(['0000:18:00.0', '0000:2A:00.0', '0000:FF:00.0'], path), [
    { links: 6, version: 4 },
    { links: 0, version: 0 },
    undefined,
  ]);
});

test('where there is no NVML, nothing is known', () => {
  assert.deepEqual(nvLinksOf(['a', 'b'], join(folder, 'missing.so')), [undefined, undefined]);
});
