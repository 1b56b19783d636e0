/**
 * The calls of NCCL. A library of the same functions, compiled here, writes down what it is called with; where NCCL itself
 * is installed, it must have the functions, and its header must agree with how they are called.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { DeviceError } from '../../src/core/errors.js';
import type { LibraryOption } from '../../src/kernel/ir/library-call.js';
import { findLibraries } from '../../src/runtime/cuda/driver/find.js';
import { koffi } from '../../src/runtime/cuda/driver/native.js';
import { type CollectiveRun, onCollective } from '../../src/runtime/cuda/vendor/collective-run.js';
import * as nccl from '../../src/runtime/cuda/vendor/nccl.js';

const installed = findLibraries('nccl', ['nccl'])[0];

/** The declarations of nccl.h that are used, without CUDA's headers. */
const HEADER = `
#include <stddef.h>
typedef struct ncclComm* ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef struct { size_t size; unsigned magic, version; int blocking, cgaClusterSize, minCTAs, maxCTAs; const char* netName; } ncclConfig_t;
typedef enum { ncclSuccess = 0, ncclRemoteError = 6 } ncclResult_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;
typedef enum { ncclInt8 = 0, ncclUint8 = 1, ncclInt32 = 2, ncclUint32 = 3, ncclInt64 = 4,
  ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 } ncclDataType_t;
typedef void* cudaStream_t;
`;

const FAKE = `
#include <stdio.h>
#include <string.h>
char log_text[65536];
#define LOG(...) (snprintf(log_text + strlen(log_text), 4096, __VA_ARGS__), ncclSuccess)
#define P(x) (unsigned long long)(x)
const char* take_log(void) { static char copy[65536]; strcpy(copy, log_text); log_text[0] = 0; return copy; }
const char* ncclGetErrorString(ncclResult_t r) { return r == ncclRemoteError ? "remote process exited" : "no error"; }
ncclResult_t ncclGetVersion(int* v) { *v = 23007; return ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 3); return ncclSuccess; }
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int n, ncclUniqueId id, int rank) {
  for (int i = 0; i < 128; i++) if (id.internal[i] != (char)(i * 3)) return ncclRemoteError;
  if (n == 9) return ncclRemoteError;
  *comm = (ncclComm_t)0x7000deadbee0ULL;
  return LOG("init %d of %d\\n", rank, n);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* c) {
  *part = (ncclComm_t)0x7000deadbee8ULL;
  return LOG("split %llx color %d key %d, size %zu magic %x version %u, %d %d %d %d %s\\n", P(comm), color, key, c->size, c->magic,
    c->version, c->blocking, c->cgaClusterSize, c->minCTAs, c->maxCTAs, c->netName ? c->netName : "any");
}
ncclResult_t ncclCommDestroy(ncclComm_t c) { return LOG("destroy %llx\\n", P(c)); }
ncclResult_t ncclCommAbort(ncclComm_t c) { return LOG("abort %llx\\n", P(c)); }
ncclResult_t async_error = ncclSuccess;
void fail(void) { async_error = ncclRemoteError; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* e) { *e = async_error; return ncclSuccess; }
ncclResult_t ncclGroupStart() { return LOG("start\\n"); }
ncclResult_t ncclGroupEnd() { return LOG("end\\n"); }
ncclResult_t ncclAllReduce(const void* s, void* r, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t st) {
  return LOG("allReduce %llx %llx %zu type %d op %d %llx %llx\\n", P(s), P(r), n, t, op, P(c), P(st)); }
ncclResult_t ncclBroadcast(const void* s, void* r, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t st) {
  return LOG("broadcast %llx %llx %zu type %d root %d %llx %llx\\n", P(s), P(r), n, t, root, P(c), P(st)); }
ncclResult_t ncclAllGather(const void* s, void* r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t st) {
  return LOG("allGather %llx %llx %zu type %d %llx %llx\\n", P(s), P(r), n, t, P(c), P(st)); }
ncclResult_t ncclReduceScatter(const void* s, void* r, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t st) {
  return LOG("reduceScatter %llx %llx %zu type %d op %d %llx %llx\\n", P(s), P(r), n, t, op, P(c), P(st)); }
`;

const compiler = spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0;
const folder = mkdtempSync(join(tmpdir(), 'heddle-nccl-'));
after(() => rmSync(folder, { recursive: true }));

describe('NCCL is called as nccl.h declares', { skip: compiler ? false : 'no C compiler' }, () => {
  const path = join(folder, 'libnccl.so.2');
  let fake: { takeLog: () => string; fail: () => void };
  const before = process.env.LD_LIBRARY_PATH;

  test('a library of these functions is found', () => {
    writeFileSync(join(folder, 'fake.c'), HEADER + FAKE);
    execFileSync('cc', ['-shared', '-fPIC', '-o', path, join(folder, 'fake.c')]);
    process.env.LD_LIBRARY_PATH = `${folder}${before === undefined ? '' : `:${before}`}`;
    assert.equal(nccl.ncclVersion(), '2.30.7');
    const library = koffi().load(path);
    fake = { takeLog: library.func('take_log', 'str', []), fail: library.func('fail', 'void', []) };
  });

  const options: Readonly<Record<string, LibraryOption>> = {
    ...{ dtype: 'f32', ranks: [0, 2], op: 'sum', root: 1, counts: [100, 3], offsets: [0, 112] },
    ...{ size: 128, orders: -7 },
  };
  const prepared = (name: string, more: Readonly<Record<string, LibraryOption>> = {}) =>
    nccl.prepareCollective({ name: `collective.${name}`, options: { ...options, ...more } });

  test('a group is connected before its collectives are prepared', () => {
    assert.throws(
      () => prepared('allReduce'),
      /\[collective\.allReduce\] the GPUs of ranks 0, 2 are not connected/,
    );
    const id = nccl.createNcclId();
    nccl.connectNccl([0, 2], 1, id);
    // What is not said is INT_MIN.
    assert.equal(
      fake.takeLog(),
      'init 1 of 2\nsplit 7000deadbee0 color 0 key 1, size 40 magic cafebeef version 21700, ' +
        '-2147483648 1 -2147483648 16 any\n',
    );
    assert.throws(
      () => nccl.connectNccl([0, 1, 2, 3, 4, 5, 6, 7, 8], 0, id),
      (error) => error instanceof DeviceError && /status 6 \(remote process exited\)/.test(error.message),
    );
    assert.throws(() => nccl.connectNccl([0, 1], 0, 'AAAA'), /has 128 bytes, this one has 3/);
  });

  const [STREAM, COMM] = [0x7fff_1234_5678, '7000deadbee0 7fff12345678'];
  const FIRST = 0x7f00_0000_0000;
  const enqueued = (name: string, more?: Readonly<Record<string, LibraryOption>>): string => {
    fake.takeLog();
    // Sources, the result, and a value that must only come before.
    prepared(name, more).enqueue(STREAM, [FIRST, FIRST + 0x1000, FIRST + 0x2000, 0], 0);
    return fake.takeLog();
  };
  const ONE = { counts: [100], offsets: [0] };

  test('many sources are one group, each with a place of its own in the result', () => {
    assert.equal(
      enqueued('allReduce'),
      `start\nallReduce 7f0000000000 7f0000002000 100 type 7 op 0 ${COMM}\n` +
        `allReduce 7f0000001000 7f00000021c0 3 type 7 op 0 ${COMM}\nend\n`,
    );
    assert.match(
      enqueued('broadcast', { dtype: 'bf16' }),
      /^start\nbroadcast \w+ \w+ 100 type 9 root 1 .*\nbroadcast 7f0000001000 7f00000020e0 3/,
    );
  });

  test('beside other launches, the communicator of few blocks is used', () => {
    assert.match(enqueued('allReduce', { ...ONE, beside: true }), /type 7 op 0 7000deadbee8 7fff12345678\n/);
  });

  test('what is gathered and scattered is counted by the rank', () => {
    assert.match(
      enqueued('allGather', { ...ONE, size: 200 }),
      /allGather 7f0000000000 7f0000001000 100 type 7 7000/,
    );
    assert.match(
      enqueued('reduceScatter', { ...ONE, size: 50, op: 'max' }),
      /reduceScatter 7f0000000000 7f0000001000 50 type 7 op 2 7000/,
    );
  });

  test('every dtype and operation has its constant', () => {
    const types = { i8: 0, u8: 1, bool: 1, i32: 2, u32: 3, i64: 4, f16: 6, f32: 7, f64: 8, bf16: 9 };
    for (const [dtype, type] of Object.entries(types))
      assert.match(
        enqueued('allReduce', { dtype }),
        new RegExp(`type ${type} op ${dtype === 'bool' ? 2 : 0} `),
      );
    for (const [op, value] of Object.entries({ sum: 0, prod: 1, max: 2, min: 3 }))
      assert.match(enqueued('allReduce', { op }), new RegExp(`type 7 op ${value} `));
    assert.match(enqueued('allReduce', { op: 'prod', dtype: 'bool' }), /type 1 op 3 /);
    assert.throws(() => prepared('allReduce', { dtype: 'f8' }), /dtype must be one of/);
  });

  test('what is about to run is told, with its elements', () => {
    const runs: CollectiveRun[] = [];
    onCollective((run) => runs.push(run));
    for (const more of [{}, ONE]) prepared('allReduce', more).begins!();
    onCollective(() => {});
    const told = { dtype: 'f32', op: 'sum', ranks: [0, 2], root: 1, orders: -7 };
    const call = { name: 'collective.allReduce', ...told };
    assert.deepEqual(runs, [
      { ...call, elements: 128 },
      { ...call, elements: 100 },
    ]);
  });

  test('failures between GPUs are told, graphs and communicators end once', () => {
    assert.equal(nccl.ncclFailure(), undefined);
    fake.fail();
    assert.equal(nccl.ncclFailure(), 'NCCL, ranks 0,2: remote process exited');
    fake.takeLog();
    const { graphs } = prepared('allReduce');
    let logged = '';
    const graph = {
      dispose() {
        graphs!.delete(graph);
        logged = `graph, ${fake.takeLog()}`;
      },
    };
    graphs!.add(graph);
    nccl.disconnectNccl(true);
    assert.equal(logged, 'graph, ', 'graphs go before their communicators');
    nccl.disconnectNccl();
    assert.equal(fake.takeLog(), 'abort 7000deadbee8\nabort 7000deadbee0\n');
    if (before === undefined) delete process.env.LD_LIBRARY_PATH;
    else process.env.LD_LIBRARY_PATH = before;
  });
});

const skip = installed ? false : 'NCCL is not installed';

test('NCCL has the functions', { skip }, () => {
  const library = koffi().load(installed!.path);
  const version = new Int32Array(1);
  assert.equal(library.func('ncclGetVersion', 'int', ['void *'])(version), 0);
  assert.ok(version[0]! >= 21800, `version ${version[0]}`);
  const names = [...FAKE.matchAll(/^(?:ncclResult_t|const char\*) (nccl\w+)\(/gm)].map(([, name]) => name!);
  assert.equal(names.length, 14);
  for (const name of names) assert.ok(library.symbol(name) > 0n, name);
});

const header = installed && join(dirname(dirname(installed.path)), 'include', 'nccl.h');
const noHeader = header && existsSync(header) && compiler ? false : 'no nccl.h beside it, or no C compiler';

test('nccl.h declares the functions and constants so', { skip: skip || noHeader }, () => {
  // The types of CUDA that the header names.
  for (const name of ['cuda_runtime.h', 'cuda_fp16.h', 'cuda_bf16.h'])
    writeFileSync(
      join(folder, name),
      name === 'cuda_runtime.h' ? 'typedef void* cudaStream_t;\n#include <stddef.h>\n' : '',
    );
  const constants = [...HEADER.matchAll(/\b(nccl\w+) = (\d)/g)].map(
    ([, name, value]) => `_Static_assert(${name} == ${value}, "${name}");`,
  );
  writeFileSync(join(folder, 'real.c'), ['#include "nccl.h"', ...constants, FAKE].join('\n'));
  execFileSync('cc', ['-fsyntax-only', `-I${folder}`, `-I${dirname(header!)}`, join(folder, 'real.c')], {
    stdio: 'pipe',
  });
});
