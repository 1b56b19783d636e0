/** Queues of work beside the device's own, and events to order them by. */
import { shown } from '../core/arguments.js';
import { ArgumentError, DeviceError } from '../core/errors.js';
import type { Device } from './device.js';

/** A point in a stream: it has happened once everything queued there before it is done. */
export interface StreamEvent {
  readonly device: Device;
  readonly happened: boolean;
  /** Resolves when it has happened. @throws KernelError, DeviceError for what failed before it */
  synchronize(): Promise<void>;
  /** Device time from an earlier event to this one, in µs. Waits for both. */
  since(earlier: StreamEvent): Promise<number>;
}

/** Work that runs in the order in which it is queued, and beside that of other streams. */
export interface Stream {
  readonly device: Device;
  /** An event that happens once everything queued so far is done. */
  record(): StreamEvent;
  /** What is queued from now on starts after the event. @throws DeviceError if it is of another device */
  wait(event: StreamEvent): void;
  /** Resolves once everything queued so far is done. */
  synchronize(): Promise<void>;
  /** Give the stream back. What is queued on it still runs. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/** @throws DeviceError unless the stream or event is of this device */
export function requireSame(device: Device, what: 'stream' | 'event', of: { readonly device: Device }): void {
  const member = what === 'stream' ? 'record' : 'since';
  if (typeof of !== 'object' || of === null || !(member in of))
    throw new ArgumentError(
      `This ${what} is ${shown(of)}, must be ${what === 'stream' ? 'made by stream()' : 'made by record() of a stream'}.`,
    );
  if (of.device !== device)
    throw new DeviceError(
      `This ${what} is of the device ${of.device.name}, and the work is on ${device.name}.`,
    );
}

export const disposedStream = (): ArgumentError => new ArgumentError('This stream has been disposed of.');

/** For devices whose work is done when the call that starts it returns: all streams are one. */
export class ImmediateStream implements Stream {
  readonly device: Device;
  private disposed = false;

  constructor(device: Device) {
    this.device = device;
  }

  record(): StreamEvent {
    this.mustLive();
    return new ImmediateEvent(this.device);
  }

  wait(event: StreamEvent): void {
    this.mustLive();
    requireSame(this.device, 'event', event);
  }

  async synchronize(): Promise<void> {
    this.mustLive();
  }

  dispose(): void {
    this.disposed = true;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  private mustLive(): void {
    if (this.disposed) throw disposedStream();
  }
}

class ImmediateEvent implements StreamEvent {
  readonly device: Device;
  readonly happened = true;
  private readonly at = performance.now();

  constructor(device: Device) {
    this.device = device;
  }

  async synchronize(): Promise<void> {}

  async since(earlier: StreamEvent): Promise<number> {
    requireSame(this.device, 'event', earlier);
    return (this.at - (earlier as ImmediateEvent).at) * 1000;
  }
}
