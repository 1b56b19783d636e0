/** The CUDA text of kernels on disk: of those that come from a schedule that is on disk too (engine/kept-schedule.ts). */
import { BUILD_ID } from '../../../core/build-id.js';
import { knownKernelHash } from '../../../kernel/ir/fingerprint.js';
import type { KernelIr } from '../../../kernel/ir/ir.js';
import type { Target } from '../../../kernel/ir/target.js';
import type { CudaKernel, CudaOptions } from '../../../render/cuda/render.js';
import { cacheKey, cacheOf } from '../../disk-cache.js';

const MOST_FILES = 4096;

/** The text of a kernel: read from disk, else rendered, and written unless it says anything, at places in the source. */
export function keptText(
  kernel: KernelIr,
  target: Target,
  options: CudaOptions,
  render: () => CudaKernel,
): CudaKernel {
  const hash = knownKernelHash(kernel);
  const cache = cacheOf('cuda', MOST_FILES);
  if (!hash || !cache || BUILD_ID === undefined) return render();
  const { libraries: _, ...rest } = target;
  const key = cacheKey(BUILD_ID, hash, JSON.stringify([rest, options]));
  const found = cache.get(key);
  if (found) return { text: new TextDecoder().decode(found), messages: [] };
  const rendered = render();
  if (rendered.messages.length === 0) cache.put(key, new TextEncoder().encode(rendered.text));
  return rendered;
}
