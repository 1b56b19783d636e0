/** What goes wrong with CUDA: each a line that says what and what to do, an exit code that is not 0, files whole. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readSafetensors } from '../../src/io/index.js';
import { cudaReason } from '../cases/case-runner.js';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));
const LIBRARY = new URL('../../src/', import.meta.url).href;
const folder = mkdtempSync(join(tmpdir(), 'heddle-cuda-faults-'));
after(() => rmSync(folder, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

async function node(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  const { HEDDLE_DEVICE: _, HEDDLE_DEBUG: __, ...inherited } = process.env;
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...inherited, ...env } });
  const text = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text.out += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text.err += chunk;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...text };
}

const heddle = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  node([MAIN, ...args], env);

/** A script that has everything of the library as `h`. */
const script = (body: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  node(['--input-type=module', '-e', `import * as h from '${LIBRARY}index.js';\n${body}`], env);

// ── A driver that is there and no use: made for the test, with a C compiler ──────────────────────────────────────

/** A libcuda.so.1 that answers as told. */
function driverThat(name: string, answers: { init: number; version: number; gpus: number }): string {
  const home = join(folder, name);
  const source = `
    int cuInit(unsigned flags) { return ${answers.init}; }
    int cuDriverGetVersion(int *version) { *version = ${answers.version}; return 0; }
    int cuDeviceGetCount(int *count) { *count = ${answers.gpus}; return 0; }
    int cuDeviceGet(int *gpu, int number) { *gpu = number; return 0; }
    int cuDeviceGetName(char *name, int length, int gpu) { name[0] = 'G'; name[1] = 0; return 0; }
    int cuDeviceTotalMem_v2(unsigned long long *bytes, int gpu) { *bytes = 1 << 30; return 0; }
    int cuDeviceGetAttribute(int *value, int attribute, int gpu) { *value = 8; return 0; }
    int cuGetErrorName(int error, const char **name) {
      *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0; }
    int cuGetErrorString(int error, const char **text) { *text = "as the test wants it"; return 0; }`;
  execFileSync('mkdir', ['-p', home]);
  writeFileSync(join(home, 'cuda.c'), source);
  execFileSync('cc', ['-shared', '-fPIC', '-o', join(home, 'libcuda.so.1'), join(home, 'cuda.c')]);
  return home;
}

function noCompiler(): string | false {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'no C compiler to make a driver with';
  }
}

const DRIVERS = [
  {
    what: 'too old',
    answers: { init: 0, version: 11080, gpus: 1 },
    reason: /the NVIDIA driver is for CUDA 11\.8, CUDA 12\.0 is the oldest supported/,
    hint: /Update the NVIDIA driver/,
  },
  {
    what: 'without a GPU',
    answers: { init: 100, version: 13000, gpus: 0 },
    reason: /the driver finds no NVIDIA GPU/,
    hint: /Check nvidia-smi and CUDA_VISIBLE_DEVICES/,
  },
  {
    what: 'whose GPUs are hidden',
    answers: { init: 0, version: 13000, gpus: 0 },
    reason: /the driver finds no NVIDIA GPU/,
    hint: /Check nvidia-smi and CUDA_VISIBLE_DEVICES/,
  },
  {
    what: 'that does not fit its kernel module',
    answers: { init: 803, version: 13000, gpus: 1 },
    reason:
      /the NVIDIA driver does not start: cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH \(803\), as the test wants it/,
    hint: /Check nvidia-smi/,
  },
] as const;

for (const { what, answers, reason, hint } of DRIVERS) {
  test(`a driver ${what}: asked for, an error; else the CPU is taken`, { skip: noCompiler() }, async () => {
    const env = { LD_LIBRARY_PATH: driverThat(what.replaceAll(' ', '-'), answers) };
    const asked = await heddle(['train', 'perceptron', '--device', 'cuda', '--out', `asked ${what}`], env);
    assert.deepEqual([asked.code, asked.out], [1, '']);
    assert.match(asked.err, /^heddle: Device 'cuda' is not available: /);
    for (const part of [reason, hint]) assert.match(asked.err, part);
    assert.ok(!existsSync(join(folder, `asked ${what}`)), 'a run that never began leaves no folder');
    const chosen = await script('console.log(await h.ones([3]).sum().item(), h.device().name);', env);
    assert.deepEqual([chosen.code, chosen.out.slice(0, 2)], [0, '3 '], chosen.err);
    const doctor = await heddle(['doctor'], env);
    assert.equal(doctor.code, 0, doctor.err);
    for (const part of [reason, hint]) assert.match(doctor.out.replace(/\s+/g, ' '), part);
  });
}

// ── On a GPU ─────────────────────────────────────────────────────────────────────────────────────────────────────

const reason = cudaReason();
const skip = reason ? `not run: ${reason}` : false;

test('a GPU that is not there', { skip }, async () => {
  const { code, out, err } = await heddle(['train', 'perceptron', '--device', 'cuda:7000']);
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /^heddle: Device 'cuda:7000' is not available: there (is|are) \d+, numbered from 0\.\n$/);
});

test('no NVRTC where HEDDLE_NVRTC points', { skip }, async () => {
  const { code, out, err } = await heddle(['train', 'perceptron', '--device', 'cuda'], {
    HEDDLE_NVRTC: join(folder, 'nowhere'),
  });
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /^heddle: .*HEDDLE_NVRTC=.*nowhere.*pip install nvidia-cuda-nvrtc/);
});

test('memory that runs out in a training run: said, and the run folder is whole', { skip }, async () => {
  const { code, err } = await heddle(
    ['train', 'cnn', '--device', 'cuda', '--batch-size', '20000', '--epochs', '1', '--out', 'full'],
    { HEDDLE_CUDA_MEMORY_MB: '400' },
  );
  assert.equal(code, 1, err);
  assert.match(err, /^heddle: .*HEDDLE_CUDA_MEMORY_MB/m);
  assert.match(err, /are held/);
  assert.equal(JSON.parse(readFileSync(join(folder, 'full', 'config.json'), 'utf8')).program, 'cnn');
});

test('a kernel that leaves its memory: the error names it and says that the context is lost', {
  skip,
}, async () => {
  const { code, out } = await script(
    `
    const wild = h.kernel('wild', { x: h.buffer(h.f32), far: h.i32 }, ({ x, far }, { globalId }) => {
      x[globalId.x * far] = 1;
    });
    h.useDevice('cuda');
    const x = h.zeros([64]).realize();
    let first, second;
    try {
      await wild.launch({ grid: 64, block: 64 }, { x, far: 2 ** 19 });
      await x.data();
    } catch (error) {
      first = error;
    }
    try {
      await h.ones([3]).add(1).data();
    } catch (error) {
      second = error;
    }
    console.log(JSON.stringify([first, second].map((e) => e && { name: e.name, message: e.message })));
    process.exit(first && second ? 7 : 0);`,
  );
  assert.equal(code, 7, out);
  const [first, second] = JSON.parse(out) as { name: string; message: string }[];
  assert.equal(first!.name, 'DeviceError');
  assert.match(first!.message, /wild/);
  // Which of the two depends on what lies there.
  assert.match(first!.message, /CUDA_ERROR_(ILLEGAL_ADDRESS|INVALID_ADDRESS_SPACE)/);
  assert.match(first!.message, /What was on cuda is lost, and the process must be started again/);
  assert.match(second!.message, /lost/);
});

test('HEDDLE_DEBUG=2 writes a line for each launch, run after run', { skip }, async () => {
  const { code, out, err } = await script(
    `
    h.useDevice('cuda');
    const [a, b] = [h.randn([64, 64]), h.randn([64, 64])];
    const step = h.jit((x) => { a.assign(x.matmul(a)); b.assign(a.matmul(b).softmax(1)); return b.sum(); });
    for (let i = 0; i < 4; i++) await step(h.ones([64, 64])).item();
    console.log(step.launches);`,
    { HEDDLE_DEBUG: '2' },
  );
  assert.equal(code, 0, err);
  const lines = err.match(/µs {2}level \d+ {2}/g) ?? [];
  assert.ok(lines.length >= 4 * Number(out) && Number(out) >= 2, err);
});

test('an assertion that nobody waits for fails the closing of the device', { skip }, async () => {
  const { code, out, err } = await script(`
    h.useDevice('cuda');
    const checked = h.kernel('checked', { x: h.buffer(h.f32) }, ({ x }, { globalId, assert, print }) => {
      if (globalId.x === 1) print('x is {}', x[1]);
      assert(x[globalId.x] < 2, 'x is small');
    });
    await checked.launch({ grid: 1, block: 2 }, { x: h.tensor([1, 2]) });
    const { closeDevices } = await import('${LIBRARY}runtime/registry.js');
    await closeDevices().catch((error) => { console.log(error.message); process.exit(9); });`);
  assert.equal(code, 9, err);
  assert.match(out, /^\[block \(0,0,0\) thread \(1,0,0\)\] x is 2$/m);
  assert.match(out, /\[checked\] assertion failed: x is small/);
});

test('a kernel that fails on a stream: waiting for it says so, giving things back does not fail', {
  skip,
}, async () => {
  const { code, out, err } = await script(`
    const wild = h.kernel('wild', { x: h.buffer(h.f32), far: h.i32 }, ({ x, far }, { globalId }) => {
      x[globalId.x * far] = 1;
    });
    h.useDevice('cuda');
    const [s, x, y] = [h.stream(), h.allocate(h.f32, 64), h.allocate(h.f32, 64)];
    await wild.launch({ grid: 64, block: 64, stream: s }, { x, far: 2 ** 19 });
    const messages = [];
    for (const wait of [() => s.synchronize(), () => x.read(), () => h.synchronize(), async () => s.record()])
      await wait().catch((error) => messages.push(error.message));
    x.dispose();
    y.dispose();
    s.dispose();
    console.log(JSON.stringify(messages));
    process.exit(messages.length);`);
  assert.equal(code, 4, err);
  const messages = JSON.parse(out) as string[];
  assert.match(messages[0]!, /wild.*CUDA_ERROR_/);
  for (const message of messages) assert.match(message, /What was on cuda is lost/);
});

for (const [sync, expected] of [
  ['0', /One of the kernels run last failed \(HEDDLE_CUDA_SYNC=1 finds which: wild\): /],
  ['1', /The kernel wild failed: /],
] as const) {
  test(`an error that nobody catches ends the process with exit code 1, after what was printed before, HEDDLE_CUDA_SYNC=${sync}`, {
    skip,
  }, async () => {
    const { code, out, err } = await script(
      `
    h.useDevice('cuda');
    const wild = h.kernel('wild', { x: h.buffer(h.f32), n: h.i32 }, ({ x, n }, { globalId, print, barrier }) => {
      if (globalId.x === 0) print('before {}', n);
      barrier();
      x[n + globalId.x] = 1;
    });
    const x = h.tensor([1, 2, 3, 4]);
    await wild.launch({ grid: 1, block: 32 }, { x, n: 2000000000 });
    await x.data();`,
      { HEDDLE_CUDA_SYNC: sync },
    );
    assert.equal(code, 1, err);
    assert.match(err, expected);
    assert.match(err, /is lost, and the process must be started again\./);
    assert.match(out, /^\[block \(0,0,0\) thread \(0,0,0\)\] before 2000000000$/m);
  });
}

test('a training that is interrupted leaves weights that can be read', { skip }, async () => {
  const child = spawn(
    process.execPath,
    [MAIN, 'train', 'lenet5', '--device', 'cuda', '--epochs', '500', '--out', 'stopped', '--no-progress'],
    { cwd: folder },
  );
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    // Once: a second one is for those who do not wait for the end.
    if (/^epoch 2\/500/m.test(out) && !child.killed) child.kill('SIGINT');
  });
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(code, 130, out);
  const { tensors } = await readSafetensors(join(folder, 'stopped', 'weights.safetensors'));
  assert.ok(Object.keys(tensors).length >= 10);
  const lines = readFileSync(join(folder, 'stopped', 'metrics.jsonl'), 'utf8')
    .trimEnd()
    .split('\n');
  assert.ok(lines.length >= 2);
  for (const line of lines) JSON.parse(line);
});
