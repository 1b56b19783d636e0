/** The devices that there are in a browser. */
import { DeviceError } from '../../core/errors.js';
import { CpuDevice } from '../cpu/device.js';
import type * as node from '../node/devices.js';
import { SimDevice } from '../sim/device.js';

export const ptxOf: typeof node.ptxOf = () => {
  throw new DeviceError(
    "PTX is made by NVIDIA's compiler, which is not in a browser. source('cuda') gives the text that it compiles.",
  );
};

/** Fastest first. */
export const DEVICES: typeof node.DEVICES = {
  cpu: {
    open: () => new CpuDevice(),
    probe: () => ({ available: true, reason: 'WebAssembly SIMD and Web Workers', hint: '' }),
  },
  sim: {
    open: () => new SimDevice(),
    probe: () => ({ available: true, reason: 'checks every access; slow', hint: '' }),
    onlyByName: true,
  },
};
