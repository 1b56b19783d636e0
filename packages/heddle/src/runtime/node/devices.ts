/** The devices that there are under Node. */
import { DeviceError, OutOfMemoryError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { CpuDevice } from '../cpu/device.js';
import { CudaDevice } from '../cuda/device.js';
import { countGpus, probeCuda } from '../cuda/examine.js';
import type { Device } from '../device.js';
import type { DeviceEntry } from '../device-entry.js';
import { SimDevice } from '../sim/device.js';

export { ptxOf } from '../cuda/compile/inspect.js';

/** Its threads come up while the driver opens, which takes as long. Without one the host draws initial values by itself. */
function startHelper(helper: () => Device): void {
  try {
    helper();
  } catch (error) {
    if (!(error instanceof DeviceError || error instanceof OutOfMemoryError)) throw error;
    debug(1, () => `no CPU device beside cuda: ${error.message}`);
  }
}

/** Fastest first. */
export const DEVICES: Readonly<Record<string, DeviceEntry>> = {
  cuda: {
    open: (ordinal, helper) => {
      startHelper(helper);
      return new CudaDevice(ordinal);
    },
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
