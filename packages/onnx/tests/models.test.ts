/**
 * Models that PyTorch exported, from torchvision, timm and transformers, and models of the operators that ONNX Runtime's optimizer
 * writes: the results of ONNX Runtime to 10⁻⁴.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setPrecision, type Tensor } from 'heddle';
import { loadOnnx } from '../src/index.js';
import { Value } from '../src/values/value.js';
import { casesOf, largestDifference, parsed } from './node-cases.js';

// ONNX Runtime has computed in f32, where GPUs convolve in tf32 by default.
setPrecision({ matmul: 'f32', conv: 'f32' });

const cases = ['model', 'contrib'].flatMap(
  (name) => casesOf(new URL(`../../tests/golden/${name}-cases.bin.br`, import.meta.url)).cases,
);

for (const { name, model: bytes, sets } of cases)
  test(`${name} computes what ONNX Runtime does`, async () => {
    const model = await loadOnnx<Tensor | readonly Tensor[]>(bytes);
    for (const { inputs, outputs } of sets) {
      const made = await model.run(...inputs.map((x) => Value.host(parsed(x as Uint8Array)).tensor));
      const results = Array.isArray(made) ? (made as readonly Tensor[]) : [made as Tensor];
      for (const [i, expected] of outputs.entries())
        assert.ok((await largestDifference(results[i]!, expected as Uint8Array)) < 1e-4, `output ${i}`);
    }
  });
