/** What there is of CUDA on this machine. Starts nothing on a GPU, and never throws. */

import { join } from 'node:path';
import { fileExists } from '../disk-cache.js';
import { findNvrtc, NVRTC_HINT, Nvrtc } from './compile/nvrtc.js';
import { ATTRIBUTE, type Driver, formatVersion, openDriver } from './driver/driver.js';
import { findLibraries, systemFolders } from './driver/find.js';
import { NativeMemory } from './driver/native.js';
import { type NvLinks, nvLinksOf } from './driver/nvml.js';
import { ncclVersion } from './vendor/nccl.js';

export interface GpuInfo {
  readonly name: string;
  readonly bytes: number;
  /** Compute capability, such as 9.0. */
  readonly capability: number;
  readonly multiprocessors: number;
}

/** How a GPU reaches the others. */
export interface GpuLinks {
  /** Undefined where NVML does not tell. */
  readonly nvLinks: NvLinks | undefined;
  /** The other GPUs whose memory it reaches itself, by NVLink or over the bus. */
  readonly peers: readonly number[];
}

export interface CudaExamination {
  /** Whether programs can run on a GPU; else the reason, and what to do. */
  readonly available: boolean;
  readonly reason: string;
  readonly hint: string;
  /** CUDA version of the driver, such as 13.0. */
  readonly driver?: string;
  readonly gpus: readonly GpuInfo[];
  readonly nvrtc?: { readonly path: string; readonly version: string; readonly origin: string };
  /** By GPU; none where the driver does not tell. */
  readonly links: readonly GpuLinks[];
  /** Libraries found, by name, with the command that brings what is missing. */
  readonly libraries: readonly {
    readonly name: string;
    readonly path?: string;
    /** Of NCCL, where there are GPUs. */
    readonly version?: string;
    readonly command: string;
  }[];
}

/** The least driver: CUDA 12.0, whose graphs are used. */
const LEAST_DRIVER = 12000;

type Availability = Pick<CudaExamination, 'available' | 'reason' | 'hint'>;
const missing = (reason: string, hint: string): Availability => ({ available: false, reason, hint });

const GPU_HINT = 'Everything runs on the CPU meanwhile.';

/** Whether to try: without a GPU nothing native is loaded, which takes time. Device files of Linux and of WSL. */
const hasDriver = (): boolean =>
  ['/dev/nvidiactl', '/dev/nvidia0', '/dev/dxg'].some((file) => fileExists(file)) ||
  systemFolders().some((folder) => fileExists(join(folder, 'libcuda.so.1')));

/** Whether CUDA can be used: looks for driver, GPU and compiler, and opens none but the driver. */
export function probeCuda(): Availability & { readonly driver?: Driver } {
  if (!hasDriver())
    return missing(
      'there is no NVIDIA driver (libcuda.so.1)',
      `Install the NVIDIA driver, 525 or later, where there is an NVIDIA GPU. ${GPU_HINT}`,
    );
  let driver: Driver;
  try {
    driver = openDriver();
  } catch (error) {
    const text = (error as Error).message;
    if (/CUDA_ERROR_NO_DEVICE/.test(text))
      return missing(
        'the driver finds no NVIDIA GPU',
        `Check nvidia-smi and CUDA_VISIBLE_DEVICES. ${GPU_HINT}`,
      );
    return missing(`the NVIDIA driver does not start: ${text}`, `Check nvidia-smi. ${GPU_HINT}`);
  }
  if (driver.version < LEAST_DRIVER)
    return missing(
      `the NVIDIA driver is for CUDA ${formatVersion(driver.version)}, CUDA 12.0 is the oldest supported`,
      'Update the NVIDIA driver to 525 or later.',
    );
  try {
    if (driver.number((at) => driver.api.cuDeviceGetCount(at)) === 0)
      return missing(
        'the driver finds no NVIDIA GPU',
        `Check nvidia-smi and CUDA_VISIBLE_DEVICES. ${GPU_HINT}`,
      );
    if (!findNvrtc(Math.floor(driver.version / 1000)))
      return missing(
        `there is a GPU, but no NVRTC of CUDA ${Math.floor(driver.version / 1000)} or older to compile kernels with`,
        NVRTC_HINT,
      );
  } catch (error) {
    return missing((error as Error).message, NVRTC_HINT);
  }
  return { available: true, reason: gpuSummary(driver), hint: '', driver };
}

/** GPUs that the driver shows. */
export function countGpus(): number {
  try {
    const driver = openDriver();
    return driver.number((at) => driver.api.cuDeviceGetCount(at));
  } catch {
    return 0;
  }
}

const gpuSummary = (driver: Driver): string => {
  const gpus = gpusOf(driver);
  const more = gpus.length > 1 ? ` and ${gpus.length - 1} more` : '';
  return `${gpus[0]?.name ?? 'NVIDIA GPU'}${more}, driver for CUDA ${formatVersion(driver.version)}`;
};

function gpusOf(driver: Driver): GpuInfo[] {
  const { api } = driver;
  const text = new NativeMemory(256);
  const count = driver.number((at) => api.cuDeviceGetCount(at));
  return Array.from({ length: count }, (_, i) => {
    const gpu = driver.number((at) => api.cuDeviceGet(at, i));
    api.cuDeviceGetName(text.address, 256, gpu);
    const attribute = (which: number): number => driver.attribute(gpu, which);
    return {
      name: text.text(),
      bytes: driver.handle((at) => api.cuDeviceTotalMem_v2(at, gpu)),
      capability: attribute(ATTRIBUTE.capabilityMajor) + attribute(ATTRIBUTE.capabilityMinor) / 10,
      multiprocessors: attribute(ATTRIBUTE.multiprocessors),
    };
  });
}

function linksOf(driver: Driver, count: number): GpuLinks[] {
  const { api } = driver;
  const text = new NativeMemory(256);
  const all = Array.from({ length: count }, (_, i) => i);
  try {
    const gpus = all.map((i) => driver.number((at) => api.cuDeviceGet(at, i)));
    const buses = gpus.map((gpu) => {
      api.cuDeviceGetPCIBusId(text.address, 256, gpu);
      return text.text();
    });
    const reaches = (i: number, j: number): boolean =>
      i !== j && driver.number((at) => api.cuDeviceCanAccessPeer(at, gpus[i]!, gpus[j]!)) === 1;
    return nvLinksOf(buses).map((nvLinks, i) => ({ nvLinks, peers: all.filter((j) => reaches(i, j)) }));
  } catch {
    return [];
  }
}

/** Vendor libraries that may be used, by the wheels that bring them. */
const OPTIONAL = [
  { name: 'cublasLt', packages: ['cu13', 'cublas'], command: 'pip install nvidia-cublas' },
  { name: 'cudnn', packages: ['cudnn'], command: 'pip install nvidia-cudnn-cu13' },
  { name: 'curand', packages: ['cu13', 'curand'], command: 'pip install nvidia-curand' },
  { name: 'nccl', packages: ['nccl'], command: 'pip install nvidia-nccl-cu13' },
] as const;

function versionOfNccl(): string {
  try {
    return ncclVersion();
  } catch (error) {
    return `does not open: ${(error as Error).message}`;
  }
}

/** Everything that `heddle doctor` shows. */
export function examineCuda(): CudaExamination {
  const { driver: opened, ...availability } = probeCuda();
  let driver = opened;
  try {
    driver ??= openDriver();
  } catch {
    // The reason says so.
  }
  let nvrtc: CudaExamination['nvrtc'];
  let trouble: Availability | undefined;
  try {
    const found = findNvrtc(driver && Math.floor(driver.version / 1000));
    if (found) nvrtc = { path: found.path, version: new Nvrtc(found.path).version, origin: found.origin };
  } catch (error) {
    if (availability.available) trouble = missing((error as Error).message, NVRTC_HINT);
  }
  const gpus = driver ? gpusOf(driver) : [];
  return {
    ...(trouble ?? availability),
    ...(driver ? { driver: formatVersion(driver.version) } : {}),
    gpus,
    links: driver ? linksOf(driver, gpus.length) : [],
    ...(nvrtc ? { nvrtc } : {}),
    libraries: OPTIONAL.map(({ name, packages, command }) => {
      const path = findLibraries(name, packages)[0]?.path;
      const version = name === 'nccl' && path !== undefined && gpus.length > 0 ? versionOfNccl() : undefined;
      return {
        name,
        command,
        ...(path !== undefined && { path }),
        ...(version !== undefined && { version }),
      };
    }),
  };
}
