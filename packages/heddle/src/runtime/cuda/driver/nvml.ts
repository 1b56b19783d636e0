/** NVLink, as the driver's management library (NVML) tells of it. */
import { NativeMemory, openLibrary } from './native.js';

const SIGNATURES = {
  nvmlInit_v2: [],
  nvmlShutdown: [],
  nvmlDeviceGetHandleByPciBusId_v2: ['text', 'address'],
  nvmlDeviceGetNvLinkState: ['address', 'u32', 'address'],
  nvmlDeviceGetNvLinkVersion: ['address', 'u32', 'address'],
} as const;

/** NVML_NVLINK_MAX_LINKS */
const MOST_LINKS = 18;

/** The links of one GPU that are up. */
export interface NvLinks {
  readonly links: number;
  /** Of the first of them: 4 is that of the H100. */
  readonly version: number;
}

/** @param buses the PCI addresses of GPUs · @returns their links; undefined of all where there is no NVML */
export function nvLinksOf(buses: readonly string[], path = 'libnvidia-ml.so.1'): (NvLinks | undefined)[] {
  try {
    const nvml = openLibrary(path, SIGNATURES);
    if (nvml.nvmlInit_v2() !== 0) return buses.map(() => undefined);
    const out = new NativeMemory(8);
    try {
      return buses.map((bus): NvLinks | undefined => {
        if (nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, out.address) !== 0) return undefined;
        const gpu = out.u64();
        // A link that the GPU does not have is an error.
        const up = Array.from({ length: MOST_LINKS }, (_, link) => link).filter(
          (link) => nvml.nvmlDeviceGetNvLinkState(gpu, link, out.address) === 0 && out.u32() === 1,
        );
        const known = up.length > 0 && nvml.nvmlDeviceGetNvLinkVersion(gpu, up[0]!, out.address) === 0;
        return { links: up.length, version: known ? out.u32() : 0 };
      });
    } finally {
      nvml.nvmlShutdown();
    }
  } catch {
    // No such library, or an older one.
    return buses.map(() => undefined);
  }
}
