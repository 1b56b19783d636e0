/** The text of all kernels is legal CUDA C++, for every generation. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ARCHITECTURES, compileCheck } from '../scripts/compile-cuda.js';
import { compile } from '../src/kernel/compile.js';
import type { Target } from '../src/kernel/target.js';
import { renderCuda } from '../src/render/cuda.js';
import { convolutionKernels } from './cuda-convolutions.js';
import { coverageKernels } from './cuda-coverage.js';
import { generatedKernels } from './cuda-generated.js';
import { KERNELS } from './cuda-kernels.js';
import { ladderKernels } from './cuda-ladders.js';
import { matmulKernels } from './cuda-matmul.js';
import { productKernels } from './cuda-products.js';

const target: Target = {
  name: 'cuda',
  model: 'threads',
  units: 108,
  fma: true,
  maxThreadsPerBlock: 1024,
  sharedBytesPerBlock: 48 * 1024,
  capability: 80,
  libraries: new Set(),
};
const kernels = [
  ...KERNELS,
  ...coverageKernels(),
  ...generatedKernels(target),
  ...convolutionKernels(target),
  ...productKernels(target),
  ...matmulKernels(),
  ...ladderKernels(),
].map((ir) => compile(ir, target));

describe('CUDA text', { concurrency: true }, () => {
  for (const arch of ARCHITECTURES) {
    test(`of ${kernels.length} kernels compiles for ${arch}`, async (t) => {
      const sources = kernels.map((ir) => renderCuda(ir, { overlapped: arch !== 'sm_80' }));
      const result = await compileCheck(sources, arch);
      if (result.status === 'skipped') {
        t.diagnostic(`${kernels.length} CUDA kernels not compiled for ${arch}: ${result.reason}`);
        t.skip(result.reason);
        return;
      }
      t.diagnostic(`${kernels.length} CUDA kernels compiled for ${arch}, not run: this test needs no GPU`);
      assert.equal(result.log, '');
      assert.equal(result.status, 'compiled');
    });
  }
});
