/** From kernels to functions of loaded modules: text, image, module. Equal texts share one. */
import { DeviceError, KernelError } from '../../../core/errors.js';
import { debug } from '../../../core/log.js';
import { during } from '../../../core/phases.js';
import type { KernelIr } from '../../../kernel/ir/ir.js';
import { GPU, type Target } from '../../../kernel/ir/target.js';
import { locationOf } from '../../../kernel/ir/walk.js';
import { isCarrying } from '../../carried-files.js';
import type { Dim3 } from '../../device.js';
import type { CudaContext } from '../driver/context.js';
import { FUNCTION_ATTRIBUTE } from '../driver/driver.js';
import type { CompileService } from './service.js';
import { type KernelSource, KernelTexts } from './text.js';

/** A kernel on the device. */
export interface CudaFunction {
  readonly name: string;
  /** CUfunction */
  readonly handle: number;
  readonly module: number;
  /** Of a thread. */
  readonly registers: number;
  /** Shared bytes that its arrays take. */
  readonly fixedShared: number;
  /** Shared bytes, fixed and dynamic, that it may have so far. */
  allowedShared: number;
}

/** A kernel, and the block it runs in. */
interface BlockOf {
  readonly kernel: KernelIr;
  readonly block: Dim3;
}

export class Kernels {
  readonly #context: CudaContext;
  readonly #compiler: CompileService;
  readonly #target: Target;
  readonly #texts: KernelTexts;
  readonly #loaded = new Map<string, CudaFunction>();

  constructor(context: CudaContext, compiler: CompileService, target: Target) {
    this.#context = context;
    this.#compiler = compiler;
    this.#target = target;
    this.#texts = new KernelTexts(target);
  }

  /**
   * Begin to compile kernels in other processes. Whatever is wrong with one is said by `load`.
   * @returns whether there is nothing to compile
   */
  begin(launches: readonly BlockOf[]): boolean {
    let ready = true;
    for (const launch of launches) {
      const source = this.#sourceOf(launch);
      if (!this.#loaded.has(source.key) && !this.#compiler.begin(source)) ready = false;
    }
    return ready;
  }

  /** The functions of launches, compiled together. @throws KernelError with what the compiler says */
  load(launches: readonly BlockOf[]): CudaFunction[] {
    const sources = launches.map((launch) => this.#sourceOf(launch));
    const missing = new Map<string, { source: KernelSource; kernel: KernelIr }>();
    sources.forEach((source, i) => {
      if (!this.#loaded.has(source.key) || isCarrying())
        missing.set(source.key, { source, kernel: launches[i]!.kernel });
    });
    if (missing.size > 0) {
      const wanted = [...missing.values()];
      const images = this.#compiler.compile(wanted.map((w) => w.source));
      images.forEach((image, i) => {
        const { source, kernel } = wanted[i]!;
        if (!(image instanceof Uint8Array)) throw refused(kernel, image.log);
        debug(4, () => `[cuda] ${source.name}\n${source.text}`);
        if (this.#loaded.has(source.key)) return;
        this.#loaded.set(
          source.key,
          during('load', () => this.#loadImage(source, image)),
        );
      });
    }
    return sources.map((source) => this.#loaded.get(source.key)!);
  }

  /** Allow a function that much dynamic shared memory. @throws DeviceError if the GPU has less */
  allowShared(fn: CudaFunction, dynamic: number): void {
    const bytes = fn.fixedShared + dynamic;
    const most = this.#target.limits.sharedBytesPerBlock;
    if (bytes > most)
      throw new DeviceError(
        `[${fn.name}] ${dynamic} bytes of dynamic shared memory and ${fn.fixedShared} of shared arrays: blocks of this GPU have at most ${most}.`,
      );
    if (bytes <= fn.allowedShared) return;
    this.#context.driver.api.cuFuncSetAttribute(fn.handle, FUNCTION_ATTRIBUTE.maxDynamicSharedBytes, dynamic);
    fn.allowedShared = bytes;
  }

  #sourceOf({ kernel, block }: BlockOf): KernelSource {
    return this.#texts.of(kernel, block[0] * block[1] * block[2]);
  }

  #loadImage({ name, messages }: KernelSource, image: Uint8Array): CudaFunction {
    const { driver, board } = this.#context;
    const { api } = driver;
    const module = driver.handle((at) => api.cuModuleLoadData(at, image));
    const handle = driver.handle((at) => api.cuModuleGetFunction(at, module, name));
    if (messages.length > 0) board.register(module, name, messages);
    const attribute = (which: number): number =>
      driver.number((at) => api.cuFuncGetAttribute(at, which, handle));
    const registers = attribute(FUNCTION_ATTRIBUTE.registers);
    const fixedShared = attribute(FUNCTION_ATTRIBUTE.sharedBytes);
    return { name, handle, module, registers, fixedShared, allowedShared: GPU.freeSharedBytes };
  }
}

function refused(kernel: KernelIr, log: string): KernelError {
  return new KernelError(`[${kernel.name}] NVRTC refuses the kernel:\n${log}`, locationOf(kernel));
}
