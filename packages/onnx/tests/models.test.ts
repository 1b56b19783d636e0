/** Models that PyTorch exported, from torchvision, timm and transformers: the results of ONNX Runtime to 10⁻⁴. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from 'heddle';
import { loadOnnx } from '../src/index.js';
import { Value } from '../src/values/value.js';
import { casesOf, parsed } from './node-cases.js';

const { cases } = casesOf(new URL('../../tests/golden/model-cases.bin.br', import.meta.url));

/** The largest difference, in parts of the largest element. */
async function difference(got: Tensor, stored: Uint8Array): Promise<number> {
  const want = parsed(stored);
  assert.deepEqual([...got.shape], [...want.shape]);
  const values = Array.from((await got.data()) as ArrayLike<number>, Number);
  const expected = Array.from(want.values as ArrayLike<number>, Number);
  const scale = expected.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-6);
  return values.reduce((most, v, i) => Math.max(most, Math.abs(v - expected[i]!)), 0) / scale;
}

for (const { name, model: bytes, sets } of cases)
  test(`${name} computes what ONNX Runtime does`, async () => {
    const model = await loadOnnx<Tensor | readonly Tensor[]>(bytes);
    for (const { inputs, outputs } of sets) {
      const made = await model.run(...inputs.map((x) => Value.host(parsed(x as Uint8Array)).tensor));
      const results = Array.isArray(made) ? (made as readonly Tensor[]) : [made as Tensor];
      for (const [i, expected] of outputs.entries())
        assert.ok((await difference(results[i]!, expected as Uint8Array)) < 1e-4, `output ${i}`);
    }
  });
