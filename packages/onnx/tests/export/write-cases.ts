/**
 * Writes every case as an ONNX file, with inputs of three batch sizes and Heddle's answers, for golden/export.py.
 * Usage: node packages/onnx/dist/tests/export/write-cases.js FOLDER
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AnyTensor } from 'heddle';
import { CASES, type Case, exported, inputsOf, outputsOf, SECOND } from './cases.js';

const stored = async (tensor: AnyTensor) => ({
  shape: tensor.shape,
  dtype: tensor.dtype.name,
  values: Array.from(await tensor.data(), Number),
});

async function run(one: Case, model: Awaited<ReturnType<typeof exported>>['model'], n: number) {
  const inputs = inputsOf(one, n);
  return {
    inputs: await Promise.all(inputs.map(stored)),
    outputs: await Promise.all(outputsOf(model, inputs).map(stored)),
  };
}

const [folder = 'cases'] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
for (const [name, one] of Object.entries(CASES)) {
  const { model, bytes, operators } = await exported(one);
  // The first run is the one whose answers are kept.
  const runs = [];
  for (const n of [SECOND, 2, 1]) runs.push(await run(one, model, n));
  writeFileSync(join(folder, `${name}.onnx`), bytes);
  writeFileSync(
    join(folder, `${name}.json`),
    JSON.stringify({ operators, tolerance: one.tolerance ?? 2e-6, runs }),
  );
}
