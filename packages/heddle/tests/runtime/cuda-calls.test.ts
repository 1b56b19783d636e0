/** How often the CUDA driver is called by a compiled program that runs again: a library of its functions, compiled here, counts. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ArrayDataset, Loader } from '../../src/data/index.js';
import { currentDevice } from '../../src/engine/storage.js';
import { type Jitted, jit, ones, type Tensor, useDevice, zeros } from '../../src/index.js';
import { koffi } from '../../src/runtime/cuda/driver/native.js';
import type { Chunk } from '../../src/train/feed.js';
import { HostFeed } from '../../src/train/host-feed.js';

/** A driver of one GPU that does nothing, and a compiler whose machine code is nothing. */
const FAKE = `
#include <stdlib.h>
#include <string.h>
static char text[65536];
static unsigned long long next = 1 << 20;
static int called(const char* name) { if (strlen(text) + 64 < sizeof text) strcat(strcat(text, name), " "); return 0; }
const char* take_calls(void) { static char copy[65536]; strcpy(copy, text); text[0] = 0; return copy; }
#define DOES(f) int f() { return called(#f); }
#define MAKES(f) int f(unsigned long long* at) { *at = next += 1 << 20; return called(#f); }
#define IS(f, value) int f(int* at, int which) { *at = value; return called(#f); }
IS(cuDriverGetVersion, 13000) IS(cuDeviceGetCount, 1) IS(cuDeviceGet, 0) IS(cuFuncGetAttribute, 0)
IS(cuDeviceGetAttribute, which == 16 ? 132 : which == 75 ? 9 : which == 76 ? 0 : which == 106 ? 32 : which == 111 ? 1024
  : which == 39 ? 2048 : which == 82 ? 65536 : which == 38 ? 50 << 20 : 227 << 10)
DOES(cuInit) DOES(cuGetExportTable) DOES(cuDeviceGetName) DOES(cuCtxSetCurrent) DOES(cuCtxSynchronize)
DOES(cuDevicePrimaryCtxRelease_v2) DOES(cuMemFree_v2) DOES(cuMemcpyHtoDAsync_v2) DOES(cuMemcpyDtoDAsync_v2) DOES(cuMemsetD8Async)
DOES(cuStreamDestroy_v2) DOES(cuStreamSynchronize) DOES(cuStreamWaitEvent) DOES(cuEventDestroy_v2) DOES(cuEventRecord)
DOES(cuMemHostRegister_v2) DOES(cuMemHostUnregister) DOES(cuEventQuery) DOES(cuEventSynchronize) DOES(cuFuncSetAttribute) DOES(cuLaunchKernel) DOES(cuLaunchKernelEx)
DOES(cuGraphDestroy) DOES(cuGraphKernelNodeSetAttribute) DOES(cuGraphAddDependencies_v2) DOES(cuGraphExecDestroy)
DOES(cuGraphExecKernelNodeSetParams_v2) DOES(cuGraphLaunch) DOES(cuGraphUpload)
MAKES(cuDeviceTotalMem_v2) MAKES(cuDevicePrimaryCtxRetain) MAKES(cuMemAlloc_v2) MAKES(cuStreamCreate) MAKES(cuEventCreate)
MAKES(cuModuleLoadData) MAKES(cuModuleGetFunction) MAKES(cuGraphCreate) MAKES(cuGraphAddKernelNode_v2)
MAKES(cuGraphInstantiateWithFlags)
int cuMemHostAlloc(void** at, unsigned long long bytes) { *at = malloc(bytes); return called("cuMemHostAlloc"); }
int cuMemFreeHost(void* at) { free(at); return called("cuMemFreeHost"); }
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int* archs) { *archs = 90; return 0; }
int nvrtcCreateProgram(unsigned long long* at) { *at = 1; return 0; }
int nvrtcDestroyProgram() { return 0; }
int nvrtcCompileProgram() { return 0; }
int nvrtcGetCUBINSize(unsigned long long at, unsigned long long* bytes) { *bytes = 8; return 0; }
int nvrtcGetCUBIN() { return 0; }
`;

const compiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0;

describe('a compiled program that runs again calls the driver', {
  skip: compiler ? false : 'no C compiler',
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-calls-'));
  let takeCalls: () => string;
  let step: Jitted<[x: Tensor], Tensor>;
  let x: Tensor;

  /** The calls that `work` makes when it has been done before. */
  const callsOf = (work: () => void): string[] => {
    for (let i = 0; i < 4; i++) work();
    takeCalls();
    work();
    return takeCalls().trim().split(' ');
  };

  before(() => {
    writeFileSync(join(folder, 'fake.c'), FAKE);
    const paths = ['libcuda.so.1', 'libnvrtc.so.13'].map((name) => join(folder, name));
    for (const path of paths) {
      const soname = `-Wl,-soname,${path.slice(folder.length + 1)}`;
      execFileSync('cc', ['-w', '-shared', '-fPIC', soname, '-o', path, join(folder, 'fake.c')]);
    }
    Object.assign(process.env, {
      ...{ HEDDLE_NVRTC: paths[1], HEDDLE_CACHE: 'off', HEDDLE_TUNE: 'off', HEDDLE_VENDOR: 'off' },
      LD_LIBRARY_PATH: folder,
    });
    // The loader searches where LD_LIBRARY_PATH pointed at the start, but finds what is loaded by its name.
    takeCalls = koffi().load(paths[0]!).func('take_calls', 'str', []);
    useDevice('cuda');
    const w = zeros([4, 3]);
    x = ones([2, 4]);
    step = jit((x: Tensor) => {
      w.assign(w.mul(0.9).add(0.1));
      return x.matmul(w).sum();
    });
  });
  after(async () => {
    await currentDevice().close();
    rmSync(folder, { recursive: true });
  });

  test('before, for each kernel of its graph: a node, and what it asks for as shared memory', () => {
    const first = jit((x: Tensor) => x.matmul(ones([4, 3])).sum());
    first(x).dispose();
    takeCalls();
    first(x).dispose();
    const calls = takeCalls();
    assert.equal(calls.match(/cuGraphAddKernelNode_v2/g)?.length, first.launches);
    assert.equal(calls.match(/cuGraphKernelNodeSetAttribute/g)?.length, first.launches);
    first.dispose();
  });

  test('once, where its result is disposed of', () => {
    assert.deepEqual(
      callsOf(() => step(x).dispose()),
      ['cuGraphLaunch'],
    );
  });

  test('once more for the kernel that writes a result elsewhere than the last', () => {
    let kept: Tensor | undefined;
    const calls = callsOf(() => {
      const result = step(x);
      kept?.dispose();
      kept = result;
    });
    assert.deepEqual(calls, ['cuGraphExecKernelNodeSetParams_v2', 'cuGraphLaunch']);
  });

  test('once for as many runs as a graph has nodes for', () => {
    const calls = callsOf(() => step.repeat(512, x).dispose());
    const together = 2 ** Math.floor(Math.log2(512 / step.launches));
    assert.deepEqual(calls, Array(512 / together).fill('cuGraphLaunch'));
  });

  test('a few times for many batches from the host, which are copied from where they were made', async () => {
    const [batch, most] = [16, 8];
    const [features, count] = [1024, 8 * batch * most];
    const dataset = new ArrayDataset({
      ...{ inputs: new Uint8Array(count * features), inputShape: [features], classes: 10 },
      labels: new Uint8Array(count),
    });
    const sum = zeros([features]);
    const work = (inputs: unknown): void => {
      sum.assign(sum.add((inputs as Tensor).sum(0)));
    };
    const feed = new HostFeed(
      new Loader(dataset, { batchSize: batch }),
      work,
      { tune: 'on', group: 1 },
      most,
    );
    const chunks: Chunk[] = [];
    let calls: string[] = [];
    for (let epoch = 0; epoch < 8; epoch++)
      for await (const chunk of feed.chunks(epoch, 0, () => most)) {
        takeCalls();
        chunk.run();
        if (chunk.batches === most) calls = takeCalls().trim().split(' ');
        chunks.push(chunk);
      }
    takeCalls();
    feed.dispose();
    // Two slots, each of which was pinned once.
    assert.equal(takeCalls().match(/cuMemHostUnregister/g)?.length, 2);
    const landing = ['cuStreamWaitEvent', 'cuMemcpyHtoDAsync_v2', 'cuEventRecord', 'cuStreamWaitEvent'];
    const write = [...landing, 'cuMemcpyDtoDAsync_v2', 'cuEventRecord'];
    const position = ['cuMemcpyHtoDAsync_v2', 'cuEventRecord'];
    assert.deepEqual(calls, [...write, ...write, ...position, 'cuGraphLaunch']);
  });

  test('for what is written to an input: a copy, and an event after it', () => {
    const values = new Float32Array(8);
    const calls = callsOf(() => step(x.write(values)).dispose());
    assert.deepEqual(calls, ['cuMemcpyHtoDAsync_v2', 'cuEventRecord', 'cuGraphLaunch']);
  });
});
