/** From sources to images that the driver loads: by the disk cache, else by NVRTC, in parallel. */
import { join } from 'node:path';
import { debug } from '../../core/log.js';
import { cacheFolder, DiskCache } from '../disk-cache.js';
import { type CompileFailure, compileFlags, type Nvrtc } from './nvrtc.js';
import { CompileThreads } from './threads.js';

export interface Source {
  /** The entry point. */
  readonly name: string;
  readonly text: string;
}

export type Compiled = Uint8Array | CompileFailure;

export class Compiler {
  readonly nvrtc: Nvrtc;
  private readonly capability: number;
  private readonly cache = new DiskCache(join(cacheFolder(), 'cubin'));
  private readonly threads: CompileThreads;

  /** @param capability compute capability × 10 of the GPU */
  constructor(nvrtc: Nvrtc, capability: number) {
    this.nvrtc = nvrtc;
    this.capability = capability;
    this.threads = new CompileThreads(nvrtc.path);
  }

  /** The images of all sources, in order; of one that does not compile, what the compiler says. */
  compile(sources: readonly Source[]): Compiled[] {
    const started = performance.now();
    const arch = this.nvrtc.architecture(this.capability);
    const flags = compileFlags(arch.name).join(' ');
    const keys = sources.map(({ text }) => this.cache.key(text, arch.kind, this.nvrtc.version, flags));
    const images: (Compiled | undefined)[] = keys.map((key) => this.cache.get(key));
    const missing = images.flatMap((image, i) => (image ? [] : [i]));
    const made = this.threads.compile(
      missing.map((i) => sources[i]!),
      arch,
      ({ text, name }) => this.nvrtc.compile(text, name, arch),
    );
    missing.forEach((index, i) => {
      const image = made[i]!;
      images[index] = image;
      if (image instanceof Uint8Array) this.cache.put(keys[index]!, image);
    });
    debug(
      1,
      () =>
        `cuda: ${sources.length} kernel(s), ${missing.length} compiled for ${arch.name}, in ${(performance.now() - started).toFixed(0)} ms`,
    );
    return images.map((image) => image!);
  }

  async close(): Promise<void> {
    await this.threads.close();
  }
}
