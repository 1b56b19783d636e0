/** Exported models are those that ONNX Runtime has run, and it gave the answers that Heddle gives. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { DTYPES, type DTypeName, viewAs } from 'heddle/internal/core/dtype.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { CASES, exported, inputsOf, outputsOf, SECOND } from './cases.js';

after(closeDevices);

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
    const answers = outputsOf(model, inputsOf(one, SECOND));
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
          difference <= (one.tolerance ?? 2e-6) * largest,
          `output ${i}, element ${at}: ${own[at]}, expected ${theirs[at]}`,
        );
      }
    }
  });
