/** The devices that there are under Node. */
import { CpuDevice } from '../cpu/device.js';
import { CudaDevice } from '../cuda/device.js';
import { countGpus, probeCuda } from '../cuda/examine.js';
import type { DeviceEntry } from '../device-entry.js';
import { SimDevice } from '../sim/device.js';

export { ptxOf } from '../cuda/compile/inspect.js';

/** Fastest first. */
export const DEVICES: Readonly<Record<string, DeviceEntry>> = {
  cuda: {
    open: (ordinal) => new CudaDevice(ordinal),
    probe: () => {
      const { available, reason, hint } = probeCuda();
      return { available, reason, hint };
    },
    count: countGpus,
  },
  cpu: {
    open: () => new CpuDevice(),
    probe: () => ({ available: true, reason: 'WebAssembly SIMD and worker threads', hint: '' }),
  },
  sim: {
    open: () => new SimDevice(),
    probe: () => ({ available: true, reason: 'checks every access; slow', hint: '' }),
    onlyByName: true,
  },
};
