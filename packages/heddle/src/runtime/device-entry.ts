/** What the list of devices says of each. */
import type { Device } from './device.js';

/** Whether a device can be used here. */
export interface DeviceStatus {
  /** As `useDevice` takes it. */
  readonly name: string;
  /** Whether it can be used. */
  readonly available: boolean;
  /** Why it is, or is not, available. */
  readonly reason: string;
  /** How to get it, where it is not. */
  readonly hint: string;
}

export interface DeviceEntry {
  /** @param ordinal which of several, 1 for `cuda:1` */
  readonly open: (ordinal: number) => Device;
  readonly probe: () => Omit<DeviceStatus, 'name'>;
  /** How many there are, where there may be several. */
  readonly count?: () => number;
  /** Not taken for being the fastest there is. */
  readonly onlyByName?: true;
}
