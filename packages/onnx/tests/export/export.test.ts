/**
 * Exported models are those that ONNX Runtime has run, and it gave the answers that Heddle gives; so do the models when they are
 * imported again.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { type AnyTensor, nn, setPrecision, type Tensor } from 'heddle';
import { DTYPES, type DTypeName, viewAs } from 'heddle/internal/core/dtype.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { quantize } from 'heddle/quantization';
import { exportOnnx } from '../../src/export/export-onnx.js';
import { loadOnnx, type OnnxOutputs } from '../../src/model/onnx-model.js';
import { CASES, exported, filled, inputsOf, outputsOf, SECOND, values } from './cases.js';

after(closeDevices);

// ONNX Runtime has computed in f32, where GPUs convolve in tf32 by default.
setPrecision({ matmul: 'f32', conv: 'f32' });

/** What golden/export.py keeps of a case. */
interface Golden {
  readonly sha256: string;
  readonly operators: Readonly<Record<string, number>>;
  readonly outputs: readonly {
    readonly shape: readonly number[];
    readonly dtype: DTypeName;
    readonly data: string;
  }[];
}
const golden = JSON.parse(
  readFileSync(new URL('../../../tests/golden/export.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, Golden>>;

test('there is an answer of ONNX Runtime for each case', () => {
  assert.deepEqual(Object.keys(golden).sort(), Object.keys(CASES).sort());
});

for (const [name, one] of Object.entries(CASES))
  test(`${name}: the file that ONNX Runtime has run, and its answers`, async () => {
    const { model, bytes, operators } = await exported(one);
    const { sha256, operators: expected, outputs } = golden[name]!;
    assert.deepEqual(operators, expected);
    assert.equal(
      createHash('sha256').update(bytes).digest('hex'),
      sha256,
      'the file is another one: have ONNX Runtime run it, see golden/export.py',
    );
    const inputs = inputsOf(one, SECOND);
    const again = await loadOnnx<OnnxOutputs>(bytes);
    await requireSame(outputsOf(model, inputs), outputs, one.tolerance);
    await requireSame([await again.run(...inputs)].flat(), outputs, one.tolerance);
  });

test('a quantized network becomes products of dequantized bytes, and computes the same when it is imported', async () => {
  const network = filled(
    new nn.Sequential(
      new nn.Conv2d(4, 6, 3),
      new nn.BatchNorm2d(6),
      new nn.ReLU(),
      new nn.Conv2d(6, 5, 3, { stride: 2, bias: false }),
      new nn.Flatten(),
      new nn.Linear(5 * 3 * 2, 3),
    ),
  );
  const model = await quantize(network, [values([8, 4, 9, 8], 1) as Tensor]);
  const { bytes, operators } = await exportOnnx(model, [values([2, 4, 9, 8], 1)], { dynamicAxes: 'batch' });
  assert.deepEqual(
    ['QuantizeLinear', 'DequantizeLinear', 'Conv', 'Gemm', 'BatchNormalization'].map(
      (name) => operators[name],
    ),
    [3, 6, 2, 1, undefined],
  );
  const x = values([3, 4, 9, 8], 2) as Tensor;
  const again = await loadOnnx(bytes);
  const [own, theirs] = await Promise.all([model.forward(x).data(), (await again.run(x)).data()]);
  for (const [i, v] of own.entries())
    assert.ok(Math.abs(v - theirs[i]!) < 1e-5, `${v}, imported ${theirs[i]}`);
});

/** The tensors are what ONNX Runtime gave. */
async function requireSame(
  answers: readonly AnyTensor[],
  outputs: Golden['outputs'],
  tolerance = 2e-6,
): Promise<void> {
  assert.equal(answers.length, outputs.length);
  for (const [i, answer] of answers.entries()) {
    const { shape, dtype, data } = outputs[i]!;
    assert.deepEqual(answer.shape, shape);
    assert.equal(answer.dtype.name, dtype);
    const values = new Uint8Array(Buffer.from(data, 'base64'));
    const theirs = Array.from(viewAs(DTYPES[dtype], values.buffer, 0, answer.size), Number);
    const own = await answer.data();
    const largest = theirs.reduce((most, v) => Math.max(most, Math.abs(v)), 1);
    for (let at = 0; at < own.length; at++) {
      const difference = Math.abs(Number(own[at]) - theirs[at]!);
      assert.ok(
        difference <= tolerance * largest,
        `output ${i}, element ${at}: ${own[at]}, expected ${theirs[at]}`,
      );
    }
  }
}
