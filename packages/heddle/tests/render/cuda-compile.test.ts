/** The text of all kernels is legal CUDA C++, for every generation. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ARCHITECTURES, compileCheck } from '../../scripts/compile-cuda.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { convolutionKernels } from './cuda-convolutions.js';
import { coverageKernels } from './cuda-coverage.js';
import { generatedKernels } from './cuda-generated.js';
import { KERNELS } from './cuda-kernels.js';
import { matmulKernels } from './cuda-matmul.js';
import { productKernels } from './cuda-products.js';

const target: Target = {
  ...{ ...H200, units: 108, capability: 80 },
  limits: { ...H200.limits, sharedBytesPerBlock: 48 * 1024 },
};
const languageKernels = [...KERNELS, ...coverageKernels()];
const kernels = [
  ...languageKernels,
  ...generatedKernels(target),
  ...convolutionKernels(target),
  ...productKernels(target),
  ...matmulKernels(),
];

const textOf = (overlapped: boolean) =>
  kernels.map((ir) => renderCuda(compile(ir, { ...target, overlapped })));
const ampere = textOf(false);

/**
 * What is legal for one generation is for the next: of the texts that begin before the kernel ahead has ended, those
 * that use the language (the first), and one for each difference from Ampere's.
 */
function hopper(): string[] {
  const seen = new Set<string>();
  return textOf(true).filter((text, i) => {
    const lines = new Set(ampere[i]!.split('\n'));
    const added = text
      .split('\n')
      .filter((line) => !lines.has(line))
      .join('\n');
    const isNew = !seen.has(added);
    seen.add(added);
    return isNew || i < languageKernels.length;
  });
}

describe('CUDA text', { concurrency: true }, () => {
  for (const arch of ARCHITECTURES) {
    const sources = arch === 'sm_80' ? ampere : hopper();
    test(`of ${sources.length} kernels compiles for ${arch}`, async (t) => {
      const result = await compileCheck(sources, arch);
      if (result.status === 'skipped') {
        t.diagnostic(`${sources.length} CUDA kernels not compiled for ${arch}: ${result.reason}`);
        t.skip(result.reason);
        return;
      }
      t.diagnostic(`${sources.length} CUDA kernels compiled for ${arch}, not run: this test needs no GPU`);
      assert.equal(result.log, '');
      assert.equal(result.status, 'compiled');
    });
  }
});
