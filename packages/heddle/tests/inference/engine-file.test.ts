/** Engines saved and loaded. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { useDevice } from '../../src/engine/storage.js';
import { FileError, inference, io, manualSeed, nn, randn } from '../../src/index.js';
import { readEngine } from '../../src/inference/engine-file.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { openDevice } from '../../src/runtime/registry.js';
import { property } from '../property.js';
import { settledMemory } from '../settled-memory.js';

const { compile, loadEngine } = inference;
useDevice('cpu');

const folder = mkdtempSync(join(tmpdir(), 'heddle-engines-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, 'saved.engine');

manualSeed(0);
const model = new nn.Sequential(
  new nn.Conv2d(2, 4, 3, { padding: 1, bias: false }),
  new nn.BatchNorm2d(4),
  new nn.ReLU(),
  new nn.Flatten(),
  new nn.Linear(4 * 6 * 6, 5),
);
const saved = await compile(model, { shapes: [[2, 6, 6]], batchSizes: [1, 3], inputNames: ['image'] });
await saved.save(path);
const bytes = readFileSync(path);

test('a loaded engine is the one that was saved', async () => {
  using engine = await loadEngine(path);
  assert.deepEqual(engine.inputs, saved.inputs);
  assert.deepEqual(engine.outputs, saved.outputs);
  assert.deepEqual(
    [engine.precision, engine.device, engine.batchSizes, engine.launches],
    ['f32', 'cpu', [1, 3], saved.launches],
  );
  for (const batch of [1, 2, 3, 7]) {
    const x = await randn([batch, 2, 6, 6]).data();
    assert.deepEqual(await engine.runArrays([x], batch), await saved.runArrays([x], batch));
  }
});

test('equal engines are equal files, which are safetensors, and a loaded engine can be saved', async () => {
  const again = join(folder, 'again.engine');
  await saved.save(again);
  assert.ok(readFileSync(again).equals(bytes));
  using loaded = await loadEngine(path);
  await loaded.save(again);
  using twice = await loadEngine(again);
  const x = await randn([3, 2, 6, 6]).data();
  assert.deepEqual(await twice.runArrays([x], 3), await saved.runArrays([x], 3));
  const { tensors, metadata } = await io.readSafetensors(path);
  assert.equal(metadata.format, 'heddle-engine-1');
  assert.ok(Object.keys(tensors).some((name) => name.startsWith('code/cpu/')));
  assert.ok(tensors['program.0'] && tensors['program.1'] && tensors['constant.0']);
});

test('nothing is compiled for a processor that the code is for; for another it is, and is said', async () => {
  const { stderr } = process;
  const said: string[] = [];
  const write = stderr.write.bind(stderr);
  stderr.write = ((text: string) => said.push(text) > 0) as typeof stderr.write;
  try {
    (await loadEngine(path)).dispose();
    assert.deepEqual(said, []);
    process.env.HEDDLE_THREADS = String(openDevice('cpu').target.units + 1);
    const other = new CpuDevice();
    const x = await randn([1, 2, 6, 6]).data();
    const [expected] = await saved.runArrays([x], 1);
    const parts = await readEngine(path, other);
    assert.match(said.join(''), /compiled on another processor than .*; they were compiled again/);
    const { program } = parts.programs[0]!;
    program.write(0, new Uint8Array(x.buffer));
    program.run();
    assert.deepEqual(new Float32Array((await program.read(0, 20)).slice().buffer), expected);
    await other.close();
  } finally {
    delete process.env.HEDDLE_THREADS;
    stderr.write = write;
  }
});

test('an engine of several MiB is read in parts; what is damaged behind the first leaves no memory held', async () => {
  const large = new nn.Sequential(new nn.Linear(700, 600), new nn.Tanh(), new nn.Linear(600, 500));
  using made = await compile(large, { shapes: [[700]], batchSizes: [2] });
  const file = join(folder, 'large.engine');
  await made.save(file);
  const whole = readFileSync(file);
  assert.ok(whole.length > 2 * 2 ** 20);
  using loaded = await loadEngine(file);
  const x = await randn([2, 700]).data();
  assert.deepEqual(await loaded.runArrays([x], 2), await made.runArrays([x], 2));
  const held = await settledMemory();
  for (const place of [2 ** 20 - 1, 2 ** 20, whole.length - 5, whole.length - 1]) {
    const copy = Buffer.from(whole);
    copy[place] = copy[place]! ^ 1;
    writeFileSync(file, copy);
    await assert.rejects(loadEngine(file), /its checksum is wrong/);
  }
  assert.equal(await settledMemory(), held);
});

test('files of other formats, builds and devices are refused with what they are', async () => {
  const other = join(folder, 'other.engine');
  const { tensors, metadata } = await io.readSafetensors(path);
  const refused = async (changes: Readonly<Record<string, string>>, message: RegExp): Promise<void> => {
    await io.writeSafetensors(other, tensors, { ...metadata, ...changes });
    const whole = readFileSync(other);
    whole.writeUInt32LE(
      (await import('../../src/io/crc32.js')).crc32(whole.subarray(0, -4)),
      whole.length - 4,
    );
    writeFileSync(other, whole);
    await assert.rejects(
      loadEngine(other),
      (error) => error instanceof FileError && message.test(error.message),
    );
  };
  await refused({ format: 'heddle-engine-0' }, /no engine of format heddle-engine-1, but of heddle-engine-0/);
  await refused({ build: 'abc' }, /saved by build abc of Heddle, this is .*Compile the model again/);
  const description = JSON.parse(metadata.engine!) as object;
  const gpu = { ...description, device: 'cuda', capability: 90 };
  await refused({ engine: JSON.stringify(gpu) }, /compiled for cuda with compute capability 9, cpu is cpu/);
  await io.writeSafetensors(other, { x: { dtype: 'u8', shape: [1], data: new Uint8Array(1) } });
  await assert.rejects(loadEngine(other), /no engine of format/);
  await assert.rejects(loadEngine(join(folder, 'missing')), /no such file/);
});

property(
  'a file that is cut or changed is an error',
  [fc.nat(), fc.integer({ min: 1, max: 255 }), fc.boolean()],
  async (at, change, cut) => {
    const damaged = join(folder, 'damaged.engine');
    const place = at % bytes.length;
    const copy = Buffer.from(cut ? bytes.subarray(0, place) : bytes);
    if (!cut) copy[place] = copy[place]! ^ change;
    writeFileSync(damaged, copy);
    await assert.rejects(loadEngine(damaged), FileError);
  },
  { runs: 300 },
);
