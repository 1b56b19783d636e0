/** From a kernel's IR to CUDA C++: rendered once, and kept on disk for kernels of schedules that are kept (engine/kept-schedule.ts). */
import { BUILD_ID } from '../../../core/build-id.js';
import { during } from '../../../core/phases.js';
import { knownKernelHash } from '../../../kernel/ir/fingerprint.js';
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
import { cacheKey, cacheOf } from '../../disk-cache.js';
import type { CudaSource } from './processes/orders.js';

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
  /** Kernels that were rendered before they had a name to be kept by. */
  readonly #unkept = new WeakSet<KernelIr>();
  /** Kernels so far that may say something. */
  #talking = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  /** The text of a kernel for blocks of that many threads. */
  of(kernel: KernelIr, threads: number): KernelSource {
    const known = this.#sources.get(kernel) ?? new Map<number, KernelSource>();
    this.#sources.set(kernel, known);
    const options = { maxThreads: threads, comments: false };
    let source = known.get(threads);
    if (!source) {
      const { text, messages } = during('render', () => this.#read(kernel, options));
      const key = messages.length === 0 ? text : `${++this.#talking} ${text}`;
      source = { name: cudaEntry(kernel), text, messages, key };
      known.set(threads, source);
    } else if (this.#unkept.has(kernel)) this.#keep(kernel, options, source);
    return source;
  }

  /** Read from disk, else rendered. */
  #read(kernel: KernelIr, options: CudaOptions): CudaKernel {
    const found = this.#place(kernel, options)?.read();
    if (found) return { text: new TextDecoder().decode(found), messages: [] };
    const rendered = renderCudaKernel(compile(kernel, this.#target), options);
    this.#keep(kernel, options, rendered);
    return rendered;
  }

  /** Written, unless it says anything, at places in the source. */
  #keep(kernel: KernelIr, options: CudaOptions, { text, messages }: CudaKernel): void {
    if (messages.length > 0) return;
    const place = this.#place(kernel, options);
    if (place) {
      this.#unkept.delete(kernel);
      during('keep', () => place.write(new TextEncoder().encode(text)));
    } else this.#unkept.add(kernel);
  }

  /** Where the text of a kernel is kept, if it has a hash by now. */
  #place(kernel: KernelIr, options: CudaOptions) {
    const hash = knownKernelHash(kernel);
    const cache = cacheOf('cuda', MOST_FILES);
    if (!hash || !cache || BUILD_ID === undefined) return undefined;
    const { libraries: _, ...rest } = this.#target;
    const key = cacheKey(BUILD_ID, hash, JSON.stringify([rest, options]));
    return { read: () => cache.get(key), write: (contents: Uint8Array) => cache.put(key, contents) };
  }
}
