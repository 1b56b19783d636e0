/** What a device reaches: the bounds of a roofline. */
import { ArgumentError } from '../core/errors.js';
import { ARITHMETICS, type Arithmetic } from '../core/precision.js';
import { currentDevice } from '../engine/storage.js';
import type { Device } from '../runtime/device.js';
import { rounded, spreadOf } from './figures.js';
import { product } from './workload.js';

/** What products are computed of: i8 with sums in i32. */
export type ProductKind = Arithmetic | 'i8';

/** What the device reaches in the same run. */
export interface Ceilings {
  /** Read and written, GB/s: the faster of a device copy and a copying kernel. */
  readonly copy: number;
  /** The fastest matrix product of each kind, GFLOP/s: this library's or the peer's. */
  readonly products: Readonly<Partial<Record<ProductKind, number>>>;
}

/** @throws ArgumentError on the simulator */
export function realDevice(): Device {
  const device = currentDevice();
  if (device.target.name !== 'sim') return device;
  throw new ArgumentError('the simulator finds faults and says nothing of speed. Leave --device sim out.');
}

/** Sizes that keep a GPU busy would take minutes on a processor. */
const LARGE = { copyBytes: 1 << 28, side: 4096, kinds: ARITHMETICS } as const;
/** Without tensor cores tf32 is f32. */
const SMALL = { copyBytes: 1 << 26, side: 512, kinds: ARITHMETICS.filter((a) => a !== 'tf32') } as const;

export async function measureCeilings(device: Device): Promise<Ceilings> {
  const { copyBytes, side, kinds } = device.target.model === 'threads' ? LARGE : SMALL;
  const [from, to] = [device.allocate(copyBytes, 'copy'), device.allocate(copyBytes, 'copy')];
  const times: number[] = [];
  for (let i = 0; i < 12; i++) times.push(await device.time(() => device.copy(from, to, copyBytes)));
  device.free(from);
  device.free(to);
  const products: Partial<Record<Arithmetic, number>> = {};
  for (const kind of kinds) {
    const workload = product(kind, [side, side, side]);
    const { us } = await workload.profile({ each: false, rounds: 3 });
    workload.dispose();
    products[kind] = rounded((2 * side ** 3) / spreadOf(us).median / 1e3);
  }
  return { copy: rounded((2 * copyBytes) / spreadOf(times.slice(2)).median / 1e3), products };
}
