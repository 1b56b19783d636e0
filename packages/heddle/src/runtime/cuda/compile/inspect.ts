/** What the compiler made of a kernel. */
import { DeviceError, KernelError } from '../../../core/errors.js';
import type { KernelIr } from '../../../kernel/ir/ir.js';
import { dynamicBytesOf } from '../../../kernel/ir/shared-layout.js';
import { GPU, type Target } from '../../../kernel/ir/target.js';
import { compile } from '../../../kernel/passes/pipeline.js';
import { cudaEntry, renderCuda } from '../../../render/cuda/render.js';
import type { Dim3, KernelInfo } from '../../device.js';
import type { CudaContext } from '../driver/context.js';
import { ATTRIBUTE, FUNCTION_ATTRIBUTE } from '../driver/driver.js';
import type { Kernels } from './kernels.js';
import { findNvrtc, NVRTC_HINT, Nvrtc } from './nvrtc.js';

/** The figures of a kernel that runs in blocks of that size. */
export function inspectKernel(
  { driver, gpu }: CudaContext,
  kernels: Kernels,
  kernel: KernelIr,
  block: Dim3,
  sharedBytes: number,
): KernelInfo {
  const { api } = driver;
  const fn = kernels.load([{ kernel, block }])[0]!;
  const dynamic = dynamicBytesOf(kernel, sharedBytes);
  kernels.allowShared(fn, dynamic);
  const attribute = (which: number): number =>
    driver.number((at) => api.cuFuncGetAttribute(at, which, fn.handle));
  const threads = block[0] * block[1] * block[2];
  const blocks = driver.number((at) =>
    api.cuOccupancyMaxActiveBlocksPerMultiprocessor(at, fn.handle, threads, dynamic),
  );
  const warps = Math.ceil(threads / GPU.warp);
  const mostWarps = driver.attribute(gpu, ATTRIBUTE.maxThreadsPerMultiprocessor) / GPU.warp;
  return {
    registers: attribute(FUNCTION_ATTRIBUTE.registers),
    sharedBytes: attribute(FUNCTION_ATTRIBUTE.sharedBytes) + dynamic,
    localBytes: attribute(FUNCTION_ATTRIBUTE.localBytes),
    blocksPerMultiprocessor: blocks,
    occupancy: (blocks * warps) / mostWarps,
  };
}

/**
 * A kernel's PTX for blocks of at most `threads`. Needs NVRTC, but no GPU.
 * @param target of the GPU; its capability decides which instructions may be used
 * @throws DeviceError if there is no NVRTC, KernelError if it refuses the kernel
 */
export function ptxOf(kernel: KernelIr, threads: number, target: Target): string {
  const found = findNvrtc();
  if (!found)
    throw new DeviceError(`[${kernel.name}] PTX is made by NVRTC, and none was found. ${NVRTC_HINT}`);
  const nvrtc = new Nvrtc(found.path);
  const ir = compile(kernel, target);
  const { name } = nvrtc.architecture(target.capability);
  const result = nvrtc.compile(
    { name: cudaEntry(ir), text: renderCuda(ir, { maxThreads: threads }) },
    { kind: 'ptx', name: name.replace('sm_', 'compute_') },
  );
  if (!(result instanceof Uint8Array))
    throw new KernelError(`[${kernel.name}] NVRTC refuses it:\n${result.log}`);
  return new TextDecoder().decode(result).replace(/\0+$/, '');
}
