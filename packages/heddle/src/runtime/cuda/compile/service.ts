/** From CUDA C++ to images that the driver loads: from the cache on disk, else by NVRTC, in processes of its own or here. */
import { debug } from '../../../core/log.js';
import { during } from '../../../core/phases.js';
import { cacheKey, cacheOf } from '../../disk-cache.js';
import { type Architecture, type CompileResult, type CudaSource, compileFlags, type Nvrtc } from './nvrtc.js';
import { type CompileJob, CompilePool } from './processes/pool.js';

/** Some 100 MB; a network has ten to a hundred, and tuning it a few hundred. */
const MOST_FILES = 4096;

/** Fewer sources are compiled sooner than a process is up. */
const LEAST_SOURCES = 4;

/**
 * `begin` compiles while the caller does something else, `compile` waits on the spot; what has been compiled is kept on
 * disk by its text, architecture, flags and NVRTC's version.
 */
export class CompileService {
  readonly nvrtc: Nvrtc;
  readonly #capability: number;
  readonly #pool: CompilePool;
  /** Of sources that have been asked for: a hash of a long text takes a while. */
  readonly #keys = new WeakMap<CudaSource, string>();
  /** Sources that are being compiled, by their keys. */
  readonly #begun = new Map<string, CompileJob>();

  /** @param capability compute capability × 10 of the GPU */
  constructor(nvrtc: Nvrtc, capability: number) {
    this.nvrtc = nvrtc;
    this.#capability = capability;
    this.#pool = new CompilePool(nvrtc.path);
  }

  /** Processes for that many sources may start. */
  expect(kernels: number): void {
    if (kernels >= LEAST_SOURCES) this.#pool.expect(kernels);
  }

  /**
   * Begin to compile a source in another process: `compile` takes the result.
   * @returns whether it is in the cache, or has been compiled by now
   */
  begin(source: CudaSource): boolean {
    const arch = this.nvrtc.architecture(this.#capability);
    const key = this.#keyOf(source, arch);
    const begun = this.#begun.get(key);
    if (begun) return this.#pool.isDone(begun);
    if (this.#cache?.has(key)) return true;
    this.#begun.set(key, this.#pool.begin(source, arch));
    return false;
  }

  /** The images of all sources, in order; of one that does not compile, what the compiler says. */
  compile(sources: readonly CudaSource[]): CompileResult[] {
    const started = performance.now();
    const arch = this.nvrtc.architecture(this.#capability);
    const keys = sources.map((source) => this.#keyOf(source, arch));
    const images: (CompileResult | undefined)[] = keys.map((key) =>
      this.#begun.has(key) ? undefined : this.#cache?.get(key),
    );
    const missing = images.flatMap((image, i) => (image ? [] : [i]));
    const few = missing.length < LEAST_SOURCES && missing.every((i) => !this.#begun.has(keys[i]!));
    const jobs = few
      ? []
      : missing.map((i) => this.#begun.get(keys[i]!) ?? this.#pool.begin(sources[i]!, arch));
    // Whether or not they succeed, a later request starts over.
    for (const i of missing) this.#begun.delete(keys[i]!);
    const made = during('compile', () =>
      few
        ? missing.map((i) => this.nvrtc.compile(sources[i]!, arch))
        : this.#pool.finish(jobs, (own) => this.nvrtc.compileTogether(own, arch)),
    );
    missing.forEach((index, i) => {
      const image = made[i]!;
      images[index] = image;
      if (image instanceof Uint8Array) this.#cache?.put(keys[index]!, image);
    });
    debug(
      1,
      () =>
        `cuda: ${sources.length} kernel(s), ${missing.length} compiled for ${arch.name}, in ${(performance.now() - started).toFixed(0)} ms`,
    );
    return images.map((image) => image!);
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  get #cache(): ReturnType<typeof cacheOf> {
    return cacheOf('cubin', MOST_FILES);
  }

  #keyOf(source: CudaSource, arch: Architecture): string {
    const flags = compileFlags(arch.name).join(' ');
    const key = this.#keys.get(source) ?? cacheKey(source.text, arch.kind, this.nvrtc.version, flags);
    this.#keys.set(source, key);
    return key;
  }
}
