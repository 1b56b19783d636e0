/**
 * Whole architectures against ONNX Runtime, by hand: `python3 packages/onnx/tests/golden/models.py --large /tmp/models`, then
 * `node packages/onnx/dist/tests/compare-models.js /tmp/models/*.br`. Prints the largest difference of each model's outputs, in
 * parts of the largest element.
 */
import { pathToFileURL } from 'node:url';
import type { Tensor } from 'heddle';
import { loadOnnx } from '../src/index.js';
import { Value } from '../src/values/value.js';
import { casesOf, largestDifference, parsed } from './node-cases.js';

for (const path of process.argv.slice(2))
  for (const { name, model: bytes, sets } of casesOf(pathToFileURL(path)).cases) {
    const model = await loadOnnx<Tensor | readonly Tensor[]>(bytes);
    let worst = 0;
    for (const { inputs, outputs } of sets) {
      const made = await model.run(...inputs.map((x) => Value.host(parsed(x as Uint8Array)).tensor));
      const results = Array.isArray(made) ? (made as readonly Tensor[]) : [made as Tensor];
      for (const [i, expected] of outputs.entries())
        worst = Math.max(worst, await largestDifference(results[i]!, expected as Uint8Array));
    }
    console.log(name, worst.toExponential(1), worst < 1e-4 ? '' : 'DIFFERS');
  }
