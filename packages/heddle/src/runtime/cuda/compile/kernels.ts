/** Kernels as functions of loaded modules. Equal texts share one. */
import { DeviceError, KernelError } from '../../../core/errors.js';
import { debug } from '../../../core/log.js';
import type { KernelIr } from '../../../kernel/ir/ir.js';
import { GPU, type Target } from '../../../kernel/ir/target.js';
import { locationOf } from '../../../kernel/ir/walk.js';
import { compile } from '../../../kernel/passes/pipeline.js';
import { cudaEntry, renderCudaKernel } from '../../../render/cuda/render.js';
import type { Message } from '../../../render/message.js';
import type { Dim3 } from '../../device.js';
import { type Driver, FUNCTION_ATTRIBUTE } from '../driver/driver.js';
import type { MessageBoard } from '../messages.js';
import type { Compiler } from './compiler.js';
import { keptText } from './kept-text.js';
import type { Source } from './orders.js';

/** A kernel on the device. */
export interface CudaFunction {
  readonly name: string;
  /** CUfunction */
  readonly handle: number;
  readonly module: number;
  /** Shared bytes that its arrays take. */
  readonly fixedShared: number;
  /** Shared bytes, fixed and dynamic, that it may have so far. */
  allowedShared: number;
}

/** A kernel as text. */
export interface KernelSource extends Source {
  readonly messages: readonly Message[];
  /** Equal for kernels that may share a function: of equal text, and none of them says anything. */
  readonly key: string;
}

export class Kernels {
  readonly #driver: Driver;
  readonly #compiler: Compiler;
  readonly #target: Target;
  readonly #board: MessageBoard;
  readonly #loaded = new Map<string, CudaFunction>();
  readonly #sources = new WeakMap<KernelIr, Map<number, KernelSource>>();
  #talking = 0;

  constructor(driver: Driver, compiler: Compiler, target: Target, board: MessageBoard) {
    this.#driver = driver;
    this.#board = board;
    this.#compiler = compiler;
    this.#target = target;
  }

  /** The text of a kernel for blocks of that many threads. */
  source(kernel: KernelIr, threads: number): KernelSource {
    const known = this.#sources.get(kernel) ?? new Map<number, KernelSource>();
    this.#sources.set(kernel, known);
    let source = known.get(threads);
    if (!source) {
      const options = { maxThreads: threads, comments: false };
      const { text, messages } = keptText(kernel, this.#target, options, () =>
        renderCudaKernel(compile(kernel, this.#target), options),
      );
      const key = messages.length === 0 ? text : `${++this.#talking} ${text}`;
      source = { name: cudaEntry(kernel), text, messages, key };
      known.set(threads, source);
    }
    return source;
  }

  /**
   * Begin to compile kernels in other processes. Whatever is wrong with one is said by `load`.
   * @returns whether there is nothing to compile
   */
  begin(launches: readonly { readonly kernel: KernelIr; readonly block: Dim3 }[]): boolean {
    let ready = true;
    for (const { kernel, block } of launches) {
      const source = this.source(kernel, block[0] * block[1] * block[2]);
      if (!this.#loaded.has(source.key) && !this.#compiler.begin(source)) ready = false;
    }
    return ready;
  }

  /** The functions of launches, compiled together. @throws KernelError with what the compiler says */
  load(launches: readonly { readonly kernel: KernelIr; readonly block: Dim3 }[]): CudaFunction[] {
    const sources = launches.map(({ kernel, block }) => this.source(kernel, block[0] * block[1] * block[2]));
    const missing = new Map<string, { source: KernelSource; kernel: KernelIr }>();
    sources.forEach((source, i) => {
      if (!this.#loaded.has(source.key)) missing.set(source.key, { source, kernel: launches[i]!.kernel });
    });
    if (missing.size > 0) {
      const wanted = [...missing.values()];
      const images = this.#compiler.compile(wanted.map((w) => w.source));
      images.forEach((image, i) => {
        const { source, kernel } = wanted[i]!;
        if (!(image instanceof Uint8Array)) throw refused(kernel, image.log);
        debug(4, () => `[cuda] ${source.name}\n${source.text}`);
        this.#loaded.set(source.key, this.#loadImage(source, image));
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
    this.#driver.api.cuFuncSetAttribute(fn.handle, FUNCTION_ATTRIBUTE.maxDynamicSharedBytes, dynamic);
    fn.allowedShared = bytes;
  }

  #loadImage({ name, messages }: KernelSource, image: Uint8Array): CudaFunction {
    const { api } = this.#driver;
    const module = this.#driver.handle((at) => api.cuModuleLoadData(at, image));
    const handle = this.#driver.handle((at) => api.cuModuleGetFunction(at, module, name));
    if (messages.length > 0) this.#board.register(module, name, messages);
    const fixedShared = this.#driver.number((at) =>
      api.cuFuncGetAttribute(at, FUNCTION_ATTRIBUTE.sharedBytes, handle),
    );
    return { name, handle, module, fixedShared, allowedShared: GPU.freeSharedBytes };
  }
}

function refused(kernel: KernelIr, log: string): KernelError {
  return new KernelError(`[${kernel.name}] NVRTC refuses the kernel:\n${log}`, locationOf(kernel));
}
