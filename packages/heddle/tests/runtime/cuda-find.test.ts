/** Finding CUDA's libraries by their files, and what is said where they are missing. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { findNvrtc } from '../../src/runtime/cuda/compile/nvrtc.js';
import { findLibraries, type Surroundings } from '../../src/runtime/cuda/driver/find.js';

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A machine of empty files, under a folder of its own. */
function machine(...files: readonly string[]): string {
  const root = mkdtempSync(join(tmpdir(), 'heddle-find-'));
  folders.push(root);
  for (const file of files) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), '');
  }
  return root;
}

const at = (root: string, env: Surroundings['env'] = {}): Surroundings => ({
  env,
  home: join(root, 'home/user'),
  root,
});

/** Paths of what is found, without the machine's root. */
const found = (root: string, env?: Surroundings['env']): string[] =>
  findLibraries('nvrtc', ['cu13', 'cuda_nvrtc'], at(root, env)).map((l) => l.path.slice(root.length));

test('the toolkit comes before the system, wheels last; the newest of each first', () => {
  const root = machine(
    'usr/local/cuda-12.4/lib64/libnvrtc.so.12',
    'usr/local/cuda-13.0/lib64/libnvrtc.so.13',
    'usr/lib/x86_64-linux-gnu/libnvrtc.so.11.2',
    'usr/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12',
    'usr/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13',
    'usr/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.alt.so.13',
    'usr/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13.0',
  );
  assert.deepEqual(found(root), [
    '/usr/local/cuda-13.0/lib64/libnvrtc.so.13',
    '/usr/local/cuda-12.4/lib64/libnvrtc.so.12',
    '/usr/lib/x86_64-linux-gnu/libnvrtc.so.11.2',
    '/usr/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13',
    '/usr/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12',
  ]);
});

test('one library by two names is found once', () => {
  const root = machine('usr/local/cuda-13.0/lib64/libnvrtc.so.13');
  symlinkSync(join(root, 'usr/local/cuda-13.0'), join(root, 'usr/local/cuda'));
  symlinkSync('libnvrtc.so.13', join(root, 'usr/local/cuda-13.0/lib64/libnvrtc.so.13.0.88'));
  assert.equal(found(root).length, 1);
});

test("the wheels of the python3 on the PATH, of a virtual environment, of conda, of the user's own", () => {
  const wheel = 'lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12';
  for (const [prefix, env] of [
    ['opt/python', { PATH: 'opt/python/bin' }],
    ['work/venv', { VIRTUAL_ENV: 'work/venv' }],
    ['opt/conda', { CONDA_PREFIX: 'opt/conda' }],
    ['home/user/.local', {}],
  ] as const) {
    const root = machine(join(prefix, wheel), 'opt/python/bin/python3');
    const absolute = Object.fromEntries(Object.entries(env).map(([k, v]) => [k, join(root, v)]));
    assert.deepEqual(found(root, absolute), [join('/', prefix, wheel)], prefix);
  }
});

test('folders of the dynamic loader: LD_LIBRARY_PATH and ld.so.conf', () => {
  const root = machine('a/libnvrtc.so.12', 'b/libnvrtc.so.13', 'etc/ld.so.conf.d/cuda.conf');
  writeFileSync(join(root, 'etc/ld.so.conf.d/cuda.conf'), '# libraries\n/b\n');
  assert.deepEqual(found(root, { LD_LIBRARY_PATH: join(root, 'a') }), [
    '/a/libnvrtc.so.12',
    '/b/libnvrtc.so.13',
  ]);
});

test('an NVRTC newer than the driver is left out', () => {
  const root = machine(
    'usr/local/cuda-13.0/lib64/libnvrtc.so.13',
    'usr/local/cuda-12.8/lib64/libnvrtc.so.12',
  );
  const named = process.env.HEDDLE_NVRTC;
  delete process.env.HEDDLE_NVRTC;
  try {
    assert.equal(findNvrtc(12, at(root))?.major, 12);
    assert.equal(findNvrtc(13, at(root))?.major, 13);
    assert.equal(findNvrtc(11, at(root)), undefined);
    assert.equal(findNvrtc(13, at(machine())), undefined);
    process.env.HEDDLE_NVRTC = join(root, 'usr/local/cuda-12.8/lib64');
    assert.deepEqual(findNvrtc(13, at(root)), {
      path: join(root, 'usr/local/cuda-12.8/lib64/libnvrtc.so.12'),
      major: 12,
      origin: 'environment',
    });
    process.env.HEDDLE_NVRTC = join(root, 'elsewhere.so');
    assert.throws(() => findNvrtc(13, at(root)), {
      name: 'DeviceError',
      message:
        /HEDDLE_NVRTC=.*elsewhere\.so: there is no libnvrtc\.so there\. Install .*`pip install nvidia-cuda-nvrtc`/,
    });
  } finally {
    if (named === undefined) delete process.env.HEDDLE_NVRTC;
    else process.env.HEDDLE_NVRTC = named;
  }
});

/** Standard output of a script in a process of its own, which may import the library. */
async function script(text: string, env: Record<string, string> = {}): Promise<string> {
  const library = new URL('../../src/', import.meta.url).href;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '-e', text.replaceAll('LIBRARY/', library)],
    { env: { ...process.env, ...env } },
  );
  return stdout;
}

test('a damaged NVRTC and a damaged driver are reasons, not failures', async () => {
  const root = machine('libnvrtc.so.13');
  writeFileSync(join(root, 'libnvrtc.so.13'), 'not a library');
  const out = await script(
    `import { examineCuda } from 'LIBRARY/runtime/cuda/examine.js';
     import { Nvrtc } from 'LIBRARY/runtime/cuda/compile/nvrtc.js';
     import { Driver } from 'LIBRARY/runtime/cuda/driver/driver.js';
     const path = process.env.HEDDLE_NVRTC + '/libnvrtc.so.13';
     const { available, reason, hint, libraries } = examineCuda();
     console.log(available, reason.length > 10, hint.length > 10, libraries.length);
     for (const open of [() => new Nvrtc(path), () => new Driver(path)])
       try { open(); console.log('opened'); } catch (error) { console.log(error.message); }`,
    { HEDDLE_NVRTC: root },
  );
  const [examined, nvrtc, driver] = out.trim().split('\n');
  assert.equal(examined, 'false true true 4');
  assert.match(
    nvrtc!,
    /^NVRTC cannot be used: .*libnvrtc\.so\.13 does not load: .*pip install nvidia-cuda-nvrtc/,
  );
  assert.match(driver!, /libnvrtc\.so\.13 does not load/);
});

test('where there is no GPU, nothing native is loaded to find that out', async (t) => {
  const out = await script(
    `import { listDevices, openDevice } from 'LIBRARY/runtime/registry.js';
     const cuda = listDevices().find((d) => d.name === 'cuda');
     const native = process.report.getReport().sharedObjects.some((o) => /koffi/.test(o));
     console.log(JSON.stringify({ cuda, native, chosen: openDevice().name }));
     process.exit(0);`,
    { HEDDLE_DEVICE: '' },
  );
  const { cuda, native, chosen } = JSON.parse(out);
  if (cuda.available) return t.skip(`there is a GPU: ${cuda.reason}`);
  assert.equal(chosen, 'cpu');
  assert.equal(native, false);
  assert.match(cuda.reason, /^there is no NVIDIA driver/);
  assert.match(cuda.hint, /Install the NVIDIA driver/);
});
