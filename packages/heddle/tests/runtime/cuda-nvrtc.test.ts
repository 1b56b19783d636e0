/** Compiling with NVRTC, which needs no GPU: errors, threads, the cache on disk. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { buffer, f32, i32, kernel } from '../../src/index.js';
import { type CudaSource, findNvrtc, Nvrtc } from '../../src/runtime/cuda/compile/nvrtc.js';
import { CompilePool } from '../../src/runtime/cuda/compile/processes/pool.js';
import { CompileService } from '../../src/runtime/cuda/compile/service.js';

const found = findNvrtc();
const skip = found ? false : 'no NVRTC here: pip install nvidia-cuda-nvrtc';

const cache = mkdtempSync(join(tmpdir(), 'heddle-nvrtc-'));
process.env.HEDDLE_CACHE = cache;
after(() => rmSync(cache, { recursive: true, force: true }));
const cubins = (): string[] => readdirSync(join(cache, 'cubin')).sort();

const source = (i: number): { name: string; text: string } => ({
  name: `scale${i}`,
  text: `extern "C" __global__ void scale${i}(float* x) { x[threadIdx.x] *= ${i}.0f; }`,
});
const isElf = (image: unknown): boolean =>
  image instanceof Uint8Array && new TextDecoder().decode(image.subarray(1, 4)) === 'ELF';
/** Whether an image is machine code of a kernel, and perhaps of others. */
const isOf = (image: unknown, { name }: { name: string }): boolean =>
  isElf(image) && Buffer.from(image as Uint8Array).includes(`.text.${name}\0`);

test('machine code for each generation, or PTX where NVRTC is older than the GPU', { skip }, () => {
  const nvrtc = new Nvrtc(found!.path);
  assert.match(nvrtc.version, /^1\d\.\d+$/);
  for (const capability of [80, 90, 100].filter((c) => nvrtc.capabilities.includes(c))) {
    const arch = nvrtc.architecture(capability);
    assert.deepEqual(arch, { kind: 'cubin', name: `sm_${capability}${capability >= 90 ? 'a' : ''}` });
    assert.ok(isElf(nvrtc.compile(source(2), arch)), arch.name);
  }
  const newer = nvrtc.architecture(999);
  assert.equal(newer.kind, 'ptx');
  const ptx = nvrtc.compile(source(2), newer);
  assert.match(new TextDecoder().decode(ptx as Uint8Array), /\.visible \.entry scale2/);
  assert.throws(() => nvrtc.architecture(20), {
    name: 'DeviceError',
    message: /no longer compiles .* capability 2:/,
  });
});

test('kernels are compiled together and kept; what is refused says why and is not kept', {
  skip,
}, async () => {
  const compiler = new CompileService(new Nvrtc(found!.path), 90);
  try {
    const sources = [1, 2, 3, 4, 5].map(source);
    const bad = { name: 'bad', text: 'extern "C" __global__ void bad() { missing(); }' };
    const images = compiler.compile([...sources, bad]);
    assert.ok(sources.every((s, i) => isOf(images[i], s)));
    assert.match(
      (images[5] as { log: string }).log,
      /bad\.cu\(1\): error: identifier "missing" is undefined/,
    );
    const kept = cubins();
    assert.equal(kept.length, 5);
    assert.deepEqual(compiler.compile(sources), images.slice(0, 5));
    assert.deepEqual(cubins(), kept);

    const damaged = join(cache, 'cubin', kept[0]!);
    const whole = readFileSync(damaged);
    writeFileSync(damaged, whole.subarray(0, whole.length - 100));
    const again = compiler.compile(sources);
    assert.ok(sources.every((s, i) => isOf(again[i], s)));
    const made = readFileSync(damaged);
    assert.deepEqual(compiler.compile(sources), again);
    assert.deepEqual(readFileSync(damaged), made, 'a damaged file is made again');
  } finally {
    await compiler.close();
  }
});

test('what has begun is compiled beside the caller, who takes it without a turn of the event loop', {
  skip,
}, async () => {
  const pool = new CompilePool(found!.path);
  const nvrtc = new Nvrtc(found!.path);
  const arch = nvrtc.architecture(90);
  const sources = [10, 11, 12].map(source);
  const own: string[] = [];
  try {
    const bad = { name: 'bad', text: 'extern "C" __global__ void bad() { missing(); }' };
    const jobs = [...sources, bad].map((s) => pool.begin(s, arch));
    // Only a process may claim them now.
    const taken = (): boolean => jobs.every(({ order }) => Atomics.load(order.claim, 0) === 1);
    for (const end = Date.now() + 60_000; !taken() && Date.now() < end; ) Atomics.wait(pause, 0, 0, 20);
    const results = pool.finish(jobs, (claimed) => {
      own.push(...claimed.map(({ name }) => name));
      return nvrtc.compileTogether(claimed, arch);
    });
    assert.deepEqual(own, []);
    assert.ok(sources.every((s, i) => isOf(results[i], s)));
    assert.match((results[3] as { log: string }).log, /identifier "missing" is undefined/);
  } finally {
    await pool.close();
  }
});

const CHILDREN = `/proc/self/task/${process.pid}/children`;
/** Processes that any thread of this one has started. */
const children = (): number[] =>
  readdirSync('/proc/self/task').flatMap((thread) =>
    readFileSync(`/proc/self/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );

test('processes start for what is expected, before there is anything to compile', {
  skip:
    skip || (existsSync(CHILDREN) ? false : 'not run: the system does not list the children of a process'),
}, async () => {
  const before = new Set(children());
  const pool = new CompilePool(found!.path);
  const started = (): number => children().filter((pid) => !before.has(pid)).length;
  const most = Math.min(2, Math.max(1, availableParallelism() - 1));
  try {
    pool.expect(2);
    for (const end = Date.now() + 60_000; started() < most && Date.now() < end; )
      Atomics.wait(pause, 0, 0, 20);
    assert.equal(started(), most);
  } finally {
    await pool.close();
  }
});

test('what a killed process was compiling another one compiles, once, and others go on', {
  skip:
    skip || (existsSync(CHILDREN) ? false : 'not run: the system does not list the children of a process'),
}, async () => {
  const pool = new CompilePool(found!.path);
  const nvrtc = new Nvrtc(found!.path);
  const arch = nvrtc.architecture(90);
  const own = (sources: readonly CudaSource[]) => nvrtc.compileTogether(sources, arch);
  try {
    // Takes a second or more.
    const lines = Array.from({ length: 1500 }, (_, i) => `v = sinf(v) + tanf(v * ${i}.5f);`);
    const text = `extern "C" __global__ void slow(float* x) { float v = x[0];\n${lines.join('\n')}\nx[0] = v; }`;
    const slow = { name: 'slow', text };
    const begun = pool.begin(slow, arch);
    const kill = (): number => {
      const pids = children();
      for (const pid of pids) process.kill(pid, 'SIGKILL');
      return pids.length;
    };
    const end = Date.now() + 60_000;
    while (Atomics.load(begun.order.claim, 0) === 0 && Date.now() < end) Atomics.wait(pause, 0, 0, 20);
    assert.ok(kill() > 0);
    const jobs = [20, 21].map((i) => pool.begin(source(i), arch));
    const results = pool.finish(jobs, own);
    assert.ok(
      [20, 21].every((i, at) => isOf(results[at], source(i))),
      'others go on',
    );
    // Another process compiles what was lost with the first, and none the second time.
    while (!pool.isDone(begun) && Date.now() < end) {
      kill();
      Atomics.wait(pause, 0, 0, 400);
    }
    assert.throws(() => pool.finish([begun], own), /\[slow\] A process that compiled it failed: it ended/);
  } finally {
    await pool.close();
  }
});

const pause = new Int32Array(new SharedArrayBuffer(4));

test('processes that compile the same at once share the cache', { skip }, async () => {
  const library = new URL('../../src/', import.meta.url).href;
  const text = `
    import { CompileService } from '${library}runtime/cuda/compile/service.js';
    import { Nvrtc } from '${library}runtime/cuda/compile/nvrtc.js';
    const compiler = new CompileService(new Nvrtc(${JSON.stringify(found!.path)}), 90);
    const sources = [0, 1, 2, 3].map((i) => ({ name: 'k' + i, text: 'extern "C" __global__ void k' + i + '(int* x) { x[0] = ' + i + '; }' }));
    const images = compiler.compile(sources);
    console.log(images.map((image) => image.length).join());
    await compiler.close();`;
  const run = (): Promise<{ stdout: string }> =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', text]);
  const before = cubins().length;
  const [a, b] = await Promise.all([run(), run()]);
  assert.equal(a.stdout, b.stdout);
  assert.equal(cubins().length, before + 4);
  assert.ok(
    cubins().every((file) => statSync(join(cache, 'cubin', file)).size > 100 && !file.endsWith('.tmp')),
  );
});

test('a kernel shows its PTX without a GPU', { skip }, () => {
  const saxpy = kernel('saxpy', { a: f32, x: buffer(f32), n: i32 }, ({ a, x, n }, { globalId }) => {
    if (globalId.x < n) x[globalId.x] = a * x[globalId.x]!;
  });
  const ptx = saxpy.ptx({ block: 128 });
  assert.match(ptx, /\.entry saxpy\(/);
  assert.match(ptx, /\.maxntid 128/);
});

test('what is compiled together is the same machine code as what is compiled alone', { skip }, () => {
  const nvrtc = new Nvrtc(found!.path);
  const arch = nvrtc.architecture(90);
  const sources = [1, 2, 3].map(source);
  const [image, ...others] = nvrtc.compileTogether(sources, arch);
  assert.deepEqual(others, [image, image]);
  for (const one of sources) {
    assert.ok(isOf(image, one));
    const alone = codeOf(nvrtc.compile(one, arch), one.name);
    assert.ok(alone.length > 0);
    assert.deepEqual(codeOf(image, one.name), alone);
  }
});

/** The instructions of a kernel: a section of the ELF file, whose headers are 64 bytes each. */
function codeOf(image: unknown, kernel: string): Buffer {
  const elf = Buffer.from(image as Uint8Array);
  const headers = Number(elf.readBigUInt64LE(0x28));
  const header = (i: number): { name: number; from: number; bytes: number } => {
    const at = headers + 64 * i;
    const [from, bytes] = [24, 32].map((field) => Number(elf.readBigUInt64LE(at + field)));
    return { name: elf.readUInt32LE(at), from: from!, bytes: bytes! };
  };
  const names = header(elf.readUInt16LE(0x3e));
  for (let i = 0; i < elf.readUInt16LE(0x3c); i++) {
    const { name, from, bytes } = header(i);
    const at = names.from + name;
    if (elf.toString('latin1', at, elf.indexOf(0, at)) === `.text.${kernel}`)
      return elf.subarray(from, from + bytes);
  }
  throw new Error(`the image has no code of ${kernel}`);
}
