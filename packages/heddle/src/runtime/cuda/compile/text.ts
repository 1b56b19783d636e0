/** From a kernel's IR to CUDA C++: rendered once, and kept on disk for kernels of schedules that are kept (engine/kept-schedule.ts). */
import { BUILD_ID } from '../../../core/build-id.js';
import { during } from '../../../core/phases.js';
import { knownKernelHash, onceHashed } from '../../../kernel/ir/fingerprint.js';
import type { KernelIr } from '../../../kernel/ir/ir.js';
import type { Target } from '../../../kernel/ir/target.js';
import { compile } from '../../../kernel/passes/pipeline.js';
import {
  type CudaKernel,
  type CudaOptions,
  cudaEntry,
  renderCudaKernel,
} from '../../../render/cuda/render.js';
import type { Message } from '../../../render/message.js';
import { isCarrying } from '../../carried-files.js';
import { cacheKey, cacheOf } from '../../disk-cache.js';
import type { CudaSource } from './nvrtc.js';

const MOST_FILES = 4096;

/** A kernel as text. */
export interface KernelSource extends CudaSource {
  readonly messages: readonly Message[];
  /** Equal for kernels that may share a function: of equal text, and none of them says anything. */
  readonly key: string;
}

export class KernelTexts {
  readonly #target: Target;
  readonly #sources = new WeakMap<KernelIr, Map<number, KernelSource>>();
  /** Kernels so far that may say something. */
  #talking = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  /** The text of a kernel for blocks of that many threads. */
  of(kernel: KernelIr, threads: number): KernelSource {
    const known = this.#sources.get(kernel) ?? new Map<number, KernelSource>();
    this.#sources.set(kernel, known);
    let source = isCarrying() ? undefined : known.get(threads);
    if (!source) {
      const options = { maxThreads: threads, comments: false };
      const { text, messages } = during('render', () => this.#kept(kernel, options));
      const key = messages.length === 0 ? text : `${++this.#talking} ${text}`;
      source = { name: cudaEntry(kernel), text, messages, key };
      known.set(threads, source);
    }
    return source;
  }

  /** Read from disk, else rendered, and written unless it says anything, at places in the source. */
  #kept(kernel: KernelIr, options: CudaOptions): CudaKernel {
    const render = (): CudaKernel => renderCudaKernel(compile(kernel, this.#target), options);
    const cache = cacheOf('cuda', MOST_FILES);
    if (!cache || BUILD_ID === undefined) return render();
    const { libraries: _, ...rest } = this.#target;
    const keyOf = (hash: string): string => cacheKey(BUILD_ID!, hash, JSON.stringify([rest, options]));
    const hash = knownKernelHash(kernel);
    const found = hash && cache.get(keyOf(hash));
    if (found) return { text: new TextDecoder().decode(found), messages: [] };
    const rendered = render();
    if (rendered.messages.length === 0)
      onceHashed(kernel, (own) => cache.put(keyOf(own), new TextEncoder().encode(rendered.text)));
    return rendered;
  }
}
