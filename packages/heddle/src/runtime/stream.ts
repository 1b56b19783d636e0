/** Checks that all devices' streams share, and the streams of devices that work at once. */
import { shown } from '../core/arguments.js';
import { ArgumentError, DeviceError } from '../core/errors.js';
import type { Device, DeviceInfo, Stream, StreamEvent } from './device.js';

/** @throws DeviceError unless the stream or event is of this device */
export function requireSame(
  device: Device,
  what: 'stream' | 'event',
  of: { readonly device: DeviceInfo },
): void {
  const member = what === 'stream' ? 'record' : 'since';
  if (typeof of !== 'object' || of === null || !(member in of))
    throw new ArgumentError(
      `This ${what} is ${shown(of)}, must be ${what === 'stream' ? 'made by stream()' : 'made by record() of a stream'}.`,
    );
  if (of.device !== device)
    throw new DeviceError(
      `This ${what} belongs to the device ${of.device.name}, but the work is on ${device.name}.`,
    );
}

export const disposedStream = (): ArgumentError => new ArgumentError('This stream has been disposed of.');

/** For devices whose work is done when the call that starts it returns: all streams are one. */
export class ImmediateStream implements Stream {
  readonly device: Device;
  #disposed = false;

  constructor(device: Device) {
    this.device = device;
  }

  record(): StreamEvent {
    this.#mustLive();
    return new ImmediateEvent(this.device);
  }

  wait(event: StreamEvent): void {
    this.#mustLive();
    requireSame(this.device, 'event', event);
  }

  async synchronize(): Promise<void> {
    this.#mustLive();
  }

  dispose(): void {
    this.#disposed = true;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #mustLive(): void {
    if (this.#disposed) throw disposedStream();
  }
}

class ImmediateEvent implements StreamEvent {
  readonly device: Device;
  readonly happened = true;
  readonly #at = performance.now();

  constructor(device: Device) {
    this.device = device;
  }

  async synchronize(): Promise<void> {}

  async since(earlier: StreamEvent): Promise<number> {
    requireSame(this.device, 'event', earlier);
    return (this.#at - (earlier as ImmediateEvent).#at) * 1000;
  }
}
