/** Stands in for the tuner in a browser: on the CPU and in the simulator nothing is timed. */
import type { Device } from '../../runtime/device.js';
import type { Tuner } from '../tuner.js';

export const tuning = (_device: Device, _measure: boolean): { readonly tuner?: Tuner } => ({});
