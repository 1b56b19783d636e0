/** NVRTC, the compiler from CUDA C++ to machine code: finding it and calling it. */
import { dirname } from 'node:path';
import { env } from '../../../core/env.js';
import { DeviceError } from '../../../core/errors.js';
import { NVRTC_FLAGS } from '../../../render/cuda/render.js';
import { fileExists } from '../../disk-cache.js';
import {
  type Found,
  findLibraries,
  isFolder,
  librariesIn,
  type Surroundings,
  surroundings,
} from '../driver/find.js';
import { type Functions, loadLibrary, NativeMemory, openLibrary } from '../driver/native.js';

const SIGNATURES = {
  nvrtcVersion: ['address', 'address'],
  nvrtcGetNumSupportedArchs: ['address'],
  nvrtcGetSupportedArchs: ['address'],
  // program, source, file name, number of headers, their texts and names
  nvrtcCreateProgram: ['address', 'text', 'text', 'i32', 'address', 'address'],
  nvrtcDestroyProgram: ['address'],
  nvrtcCompileProgram: ['address', 'i32', 'texts'],
  nvrtcGetCUBINSize: ['address', 'address'],
  nvrtcGetCUBIN: ['address', 'memory'],
  nvrtcGetPTXSize: ['address', 'address'],
  nvrtcGetPTX: ['address', 'memory'],
  nvrtcGetProgramLogSize: ['address', 'address'],
  nvrtcGetProgramLog: ['address', 'memory'],
} as const;

export const NVRTC_HINT =
  "Install NVIDIA's run-time compiler with `pip install nvidia-cuda-nvrtc` (or the CUDA toolkit), or set HEDDLE_NVRTC to the path of libnvrtc.so.";

/** Where NVRTC's wheels put their libraries, under site-packages/nvidia. */
const WHEELS = ['cu13', 'cuda_nvrtc'];

/**
 * The NVRTC to use: the one HEDDLE_NVRTC names, else the first found whose major version the driver understands.
 * @param driverMajor the CUDA version of the driver, such as 13; any if absent
 * @throws DeviceError if HEDDLE_NVRTC leads nowhere
 */
export function findNvrtc(driverMajor?: number, around: Surroundings = surroundings()): Found | undefined {
  const named = env('HEDDLE_NVRTC');
  if (named !== '') {
    const files = isFolder(named) ? librariesIn(named, 'nvrtc').map((l) => l.path) : [named];
    const path = files.find((f) => fileExists(f));
    if (path === undefined)
      throw new DeviceError(`HEDDLE_NVRTC=${named}: there is no libnvrtc.so there. ${NVRTC_HINT}`);
    return { path, major: Number(/\.so\.(\d+)/.exec(path)?.[1] ?? 0), origin: 'environment' };
  }
  const all = findLibraries('nvrtc', WHEELS, around);
  return all.find((l) => driverMajor === undefined || l.major <= driverMajor);
}

/**
 * The NVRTC to use, opened.
 * @param driverVersion such as 13000
 * @throws DeviceError if there is none, or it does not load
 */
export function openNvrtc(driverVersion: number): Nvrtc {
  const found = findNvrtc(Math.floor(driverVersion / 1000));
  if (!found) throw new DeviceError(`No NVRTC was found, which compiles kernels. ${NVRTC_HINT}`);
  return new Nvrtc(found.path);
}

/** What a source is compiled to: machine code for one kind of GPU, or PTX, which the driver translates. */
export interface Architecture {
  readonly kind: 'cubin' | 'ptx';
  /** Such as sm_90a or compute_90. */
  readonly name: string;
}

export interface CudaSource {
  /** The entry point. */
  readonly name: string;
  readonly text: string;
}

export interface CompileFailure {
  readonly log: string;
}

export type CompileResult = Uint8Array | CompileFailure;

export class Nvrtc {
  readonly path: string;
  /** Such as 13.0. */
  readonly version: string;
  /** As the driver gives its own: 13000. */
  readonly versionNumber: number;
  /** Compute capabilities × 10 that it makes machine code for. */
  readonly capabilities: readonly number[];
  readonly #api: Functions<typeof SIGNATURES>;
  readonly #out = new NativeMemory(1024);

  /** @throws DeviceError if the library does not load */
  constructor(path: string) {
    this.path = path;
    try {
      // A wheel's is not on the loader's path, where NVRTC would look for it.
      for (const { path: builtins } of librariesIn(dirname(path), 'nvrtc-builtins')) loadLibrary(builtins);
      this.#api = openLibrary(path, SIGNATURES);
      this.#check(this.#api.nvrtcVersion(this.#out.address, this.#out.address + 4), 'nvrtcVersion');
    } catch (cause) {
      throw new DeviceError(`NVRTC cannot be used: ${(cause as Error).message}. ${NVRTC_HINT}`, {
        cause,
      });
    }
    const [major, minor] = [this.#out.i32(), this.#out.i32(4)];
    this.version = `${major}.${minor}`;
    this.versionNumber = 1000 * major + 10 * minor;
    this.#check(this.#api.nvrtcGetNumSupportedArchs(this.#out.address), 'nvrtcGetNumSupportedArchs');
    const count = Math.min(this.#out.i32(), 256);
    this.#check(this.#api.nvrtcGetSupportedArchs(this.#out.address), 'nvrtcGetSupportedArchs');
    this.capabilities = Array.from({ length: count }, (_, i) => this.#out.i32(4 * i));
  }

  /**
   * For a GPU of that capability (× 10): its machine code with the instructions of its own from Hopper on, or PTX of
   * an older kind if this NVRTC is older than the GPU. @throws DeviceError if it makes none that the GPU can run
   */
  architecture(capability: number): Architecture {
    if (this.capabilities.includes(capability))
      return { kind: 'cubin', name: `sm_${capability}${capability >= 90 ? 'a' : ''}` };
    const older = Math.max(...this.capabilities.filter((c) => c < capability));
    if (!Number.isFinite(older))
      throw new DeviceError(
        `NVRTC ${this.version} no longer compiles for GPUs of compute capability ${capability / 10}: its oldest is ` +
          `${Math.min(...this.capabilities) / 10}. Install an older one, such as \`pip install nvidia-cuda-nvrtc-cu12\`, and point HEDDLE_NVRTC to it.`,
      );
    return { kind: 'ptx', name: `compute_${older}` };
  }

  /** Compile a source to what the driver loads. The log is what the compiler says, errors or warnings. */
  compile({ text, name }: CudaSource, { kind, name: arch }: Architecture): CompileResult {
    const api = this.#api;
    const out = this.#out;
    this.#check(api.nvrtcCreateProgram(out.address, text, `${name}.cu`, 0, 0, 0), 'nvrtcCreateProgram');
    const program = out.u64();
    try {
      const flags = compileFlags(arch);
      if (api.nvrtcCompileProgram(program, flags.length, flags) !== 0) return { log: this.#log(program) };
      const [size, get] =
        kind === 'cubin'
          ? [api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN]
          : [api.nvrtcGetPTXSize, api.nvrtcGetPTX];
      this.#check(size(program, out.address), 'nvrtcGetCUBINSize');
      const image = new Uint8Array(new ArrayBuffer(out.u64()));
      this.#check(get(program, image), 'nvrtcGetCUBIN');
      return image;
    } finally {
      out.setU64(0, program);
      api.nvrtcDestroyProgram(out.address);
    }
  }

  /**
   * Compile sources whose entry points have names of their own to one image, which is the result of each. If one of them does
   * not compile, each is compiled alone.
   */
  compileTogether(sources: readonly CudaSource[], arch: Architecture): CompileResult[] {
    if (sources.length > 1) {
      const text = oneUnit(sources.map((source) => source.text));
      const image = this.compile({ name: 'sources', text }, arch);
      if (image instanceof Uint8Array) return sources.map(() => image);
    }
    return sources.map((source) => this.compile(source, arch));
  }

  #log(program: number): string {
    this.#check(this.#api.nvrtcGetProgramLogSize(program, this.#out.address), 'nvrtcGetProgramLogSize');
    const text = new Uint8Array(new ArrayBuffer(this.#out.u64()));
    this.#check(this.#api.nvrtcGetProgramLog(program, text), 'nvrtcGetProgramLog');
    return new TextDecoder().decode(text).replace(/\0+$/, '').trim();
  }

  #check(status: number, call: string): void {
    if (status !== 0) throw new DeviceError(`${call} of NVRTC at ${this.path} failed with status ${status}.`);
  }
}

/** Complete sources as one translation unit: each with what it defines in a namespace of its own. */
export const oneUnit = (texts: readonly string[]): string =>
  texts.map((text, i) => `namespace source${i} {\n${text}\n}\n`).join('');

/** All options of a compile; what the cache's keys depend on. */
export const compileFlags = (arch: string): string[] => [`--gpu-architecture=${arch}`, ...NVRTC_FLAGS];
