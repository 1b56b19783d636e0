/** The command `heddle onnx` as users run it: in a process of its own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { toBinary } from '@bufbuild/protobuf';
import { manualSeed, saveWeights, tensor } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { PROGRAMS } from 'heddle/internal/train/programs.js';
import { readSafetensors } from 'heddle/io';
import { LeNet5 } from 'heddle/train';
import { readModel } from '../../src/file/model-file.js';
import { loadOnnx } from '../../src/model/onnx-model.js';
import { ModelProtoSchema } from '../../src/protobuf/onnx_pb.js';

const MAIN = fileURLToPath(new URL('../../../../heddle/dist/bundle/main.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'heddle-onnx-command-'));
after(() => rmSync(folder, { recursive: true }));
after(closeDevices);

function heddle(...args: string[]) {
  const { HEDDLE_DEVICE: _, FORCE_COLOR: __, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    ...{ cwd: folder, encoding: 'utf8', env },
  });
  return { code: status, out: stdout, err: stderr };
}

/** A command that is to succeed. @returns what it prints */
function done(...args: string[]): string {
  const { code, out, err } = heddle(...args);
  assert.equal(code, 0, err);
  return out;
}

before(async () => {
  done('train', 'quadrants', '--epochs', '1', '--limit', '64', '--out', 'run', '--no-progress');
  manualSeed(1);
  await saveWeights(new LeNet5(), join(folder, 'lenet.safetensors'));
});

test('every command has a help with examples', () => {
  for (const args of [[], ['info'], ['check'], ['convert']]) {
    const out = done('onnx', ...args, '--help');
    assert.match(out, new RegExp(`^Usage: heddle onnx${args.map((a) => ` ${a}`).join('')} `));
    assert.match(out, /Examples?:\n {2}\$ heddle onnx /);
    assert.deepEqual(
      out.split('\n').filter((line) => line.length > 80),
      [],
    );
  }
});

test('a run becomes a model with the same weights, and the model becomes weights again', async () => {
  const out = done('onnx', 'convert', 'run', 'run.onnx');
  assert.match(
    out,
    /^weights {4}run\/\w+\.safetensors\ninput {6}f32 \(1, 2\), dynamic: batch\nnodes {6}3: Gemm 2, Relu 1\n/,
  );
  assert.match(out, /written {4}run\.onnx, \d+ B\n$/);
  done('onnx', 'convert', 'run.onnx', 'again.safetensors');
  const [own, again] = await Promise.all(
    [join('run', 'best.safetensors'), 'again.safetensors'].map((name) => readSafetensors(join(folder, name))),
  );
  assert.deepEqual(again!.tensors, own!.tensors);
});

test('info lists what is in a model, as text and as JSON', () => {
  done('onnx', 'convert', 'lenet.safetensors', 'lenet.onnx', '--program', 'lenet5', '--opset', '18');
  const out = done('onnx', 'info', 'lenet.onnx');
  assert.match(
    out,
    /^file {7}lenet\.onnx, 242\.49 KiB\nname {7}LeNet5\nproducer {3}heddle\nopset {6}ai\.onnx 18 \(IR 8\)\n/,
  );
  assert.match(out, /\nweights {4}61,706 elements in 10 tensors, /);
  assert.match(out, /\ninput {6}input {2}f32 \(batch, 1, 28, 28\)\noutput {5}output {2}f32 \(batch, 10\)\n/);
  assert.match(out, /\nConv +2 +yes\nMaxPool +2 +yes\n/);
  const model = JSON.parse(done('onnx', 'info', 'lenet.onnx', '--json'));
  assert.deepEqual(model.opsets, { 'ai.onnx': 18 });
  assert.deepEqual(model.inputs, [{ name: 'input', dtype: 'f32', shape: ['batch', 1, 28, 28] }]);
  assert.deepEqual(model.operators[0], { name: 'Relu', count: 4, supported: true });
  assert.deepEqual(model.metadata, { 'heddle.program': 'lenet5' });
});

test('weights in a file beside the model, fixed sizes, checkpoints', async () => {
  const out = done(
    'onnx',
    'convert',
    'lenet.safetensors',
    'big.onnx',
    '--program',
    'lenet5',
    '--external-data',
    '--dynamic',
    'none',
  );
  assert.match(out, /written {4}big\.onnx, .*\nwritten {4}big\.onnx\.[0-9a-f]{12}\.data, .*\n$/);
  const info = JSON.parse(done('onnx', 'info', 'big.onnx', '--json'));
  assert.deepEqual(info.inputs[0].shape, [1, 1, 28, 28]);
  assert.deepEqual(
    info.externalFiles,
    readdirSync(folder).filter((name) => name.endsWith('.data')),
  );
  done('onnx', 'convert', 'big.onnx', 'big.safetensors');
  done('onnx', 'convert', 'run/checkpoint.safetensors', 'checkpoint.onnx');
  const { model } = await readModel(join(folder, 'checkpoint.onnx'));
  assert.deepEqual(
    model.graph!.node.map(({ opType }) => opType),
    ['Gemm', 'Relu', 'Gemm'],
  );
});

test('layers as functions, which are listed, checked and run', async () => {
  await saveWeights(PROGRAMS.vit.build(), join(folder, 'vit.safetensors'));
  done('onnx', 'convert', 'vit.safetensors', 'layers.onnx', '--program', 'vit', '--functions');
  assert.match(
    done('onnx', 'info', 'layers.onnx'),
    /\nfunctions {2}Linear, MultiheadAttention, TransformerEncoderLayer, TransformerEncoder\n/,
  );
  assert.match(done('onnx', 'check', 'layers.onnx'), /\nok\n$/);
});

test('a sound model is run, and its batch sizes are compared', () => {
  done('onnx', 'convert', 'lenet.safetensors', 'sound.onnx', '--program', 'lenet5');
  const out = done('onnx', 'check', 'sound.onnx', '--sizes', 'batch=4');
  assert.match(out, /^file {7}sound\.onnx\noperators {2}5 in 12 nodes\nweights {4}61,706 elements\nloaded /);
  assert.match(out, /\nrun {8}input f32 \(4, 1, 28, 28\) → output f32 \(4, 10\), /);
  assert.match(out, /\nbatch {6}3 examples at once as one by one, to \S+ of the largest value\nok\n$/);
  assert.match(done('onnx', 'check', 'sound.onnx', '--no-run'), /\nloaded .*\nok\n$/);
});

test('everything that is wrong with a model is listed at once, with exit code 1', async () => {
  const { model } = await readModel(join(folder, 'sound.onnx'));
  const graph = model.graph!;
  graph.node[0]!.opType = 'Konv';
  graph.node[3]!.input[0] = 'nowhere';
  graph.initializer[0]!.rawData = graph.initializer[0]!.rawData.subarray(4);
  writeFileSync(join(folder, 'wrong.onnx'), toBinary(ModelProtoSchema, model));
  const { code, out } = heddle('onnx', 'check', 'wrong.onnx');
  assert.equal(code, 1);
  assert.match(out, /\nproblem {4}the operator Konv, of 1 node, is not supported\.\n/);
  assert.match(out, /\nproblem {4}the tensor '\S+' has \d+ bytes, f32 \(.*\) asks for \d+\.\n/);
  assert.match(out, /\nproblem {4}node '\/\S+' \(Conv\) takes 'nowhere', which nothing before it gives\.\n/);
  assert.match(out, /\n3 problems\n$/);
  assert.match(done('onnx', 'info', 'wrong.onnx'), /\nKonv +1 +no\n/);
});

test('a model is written again with other operators, and computes the same', async () => {
  done('onnx', 'convert', 'lenet.safetensors', 'new.onnx', '--program', 'lenet5', '--opset', '23');
  const out = done('onnx', 'convert', 'new.onnx', 'old.onnx', '--opset', '18');
  assert.match(out, /^nodes {6}\d+: Conv 2, /);
  const x = tensor(
    Float32Array.from({ length: 2 * 784 }, (_, i) => (i % 17) / 17),
    { shape: [2, 1, 28, 28] },
  );
  const [now, then] = await Promise.all(['new.onnx', 'old.onnx'].map((name) => loadOnnx(join(folder, name))));
  assert.deepEqual(then!.inputs, now!.inputs);
  const [a, b] = await Promise.all([now!, then!].map(async (model) => (await model.run(x)).data()));
  assert.ok(a!.every((v, i) => Math.abs(v - b![i]!) < 1e-5));
});

test('what cannot be done is said, with exit code 1 for files and 2 for arguments', () => {
  writeFileSync(join(folder, 'text.onnx'), 'no model');
  writeFileSync(join(folder, 'empty.onnx'), '');
  const cases: [string[], number, RegExp][] = [
    [['info'], 2, /missing required argument 'file'/],
    [['info', 'none.onnx'], 1, /none\.onnx: /],
    [['info', 'text.onnx'], 1, /text\.onnx: is no ONNX model, or damaged/],
    [['info', 'empty.onnx'], 1, /empty\.onnx: is empty/],
    [['convert', 'run'], 2, /missing required argument 'to'/],
    [['convert', 'none', 'a.onnx'], 1, /none: no such file or folder/],
    [['convert', 'run', 'a.txt'], 2, /a\.txt: cannot be written from run\. Name a file \.onnx/],
    [['convert', 'run', 'a.onnx', '--opset', '12'], 2, /Must be a whole number, from 18 to 24/],
    [
      ['convert', 'run', 'a.onnx', '--dynamic', 'height'],
      2,
      /--dynamic height: quadrants has batch, or none/,
    ],
    [
      ['convert', 'lenet.safetensors', 'a.onnx'],
      2,
      /nothing says which network these weights are of.*--program lenet5/,
    ],
    [['convert', 'lenet.safetensors', 'a.onnx', '--program', 'mlp'], 2, /names do not match/],
    [['convert', 'lenet.safetensors', 'a.onnx', '--program', 'lenet6'], 2, /'lenet6' is not a program/],
    [['convert', 'run', 'missing/a.onnx'], 1, /missing\/a\.onnx: cannot write .* its folder does not exist/],
    [['check', 'text.onnx'], 1, /text\.onnx: is no ONNX model, or damaged/],
    [['check', 'run.onnx', '--sizes', 'batch'], 2, /Must be names with sizes, such as batch=4,length=32/],
    [['bogus'], 2, /unknown command 'bogus'|too many arguments/],
  ];
  for (const [args, code, message] of cases) {
    const ended = heddle('onnx', ...args);
    assert.equal(ended.code, code, `${args.join(' ')}: ${ended.err}`);
    assert.match(ended.err, message);
    assert.match(ended.err, /^heddle: |^error: /);
    assert.equal(ended.out, '');
  }
});
