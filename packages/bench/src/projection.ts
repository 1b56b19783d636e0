/**
 * What more GPUs and hosts than are at hand would reach, from what one step takes alone and what an all-reduce takes on two GPUs.
 * docs/performance/scaling.md explains each term.
 */

/** Measured. Times are in s, rates in bytes per s. */
export interface MeasuredStep {
  /** A step of one GPU, without any exchange. */
  readonly compute: number;
  /** Bytes of the gradients that are exchanged at a time, in this order. */
  readonly buckets: readonly number[];
}

/** How GPUs are connected. */
export interface Links {
  /** Within a host: the bus bandwidth of a GPU, and the time of one step from GPU to GPU. */
  readonly bandwidth: number;
  readonly latency: number;
  /** Between hosts: of the network that a GPU has, and the time of one step from host to host. */
  readonly hostBandwidth: number;
  readonly hostLatency: number;
}

export interface Projection {
  /** Of the gradients, by itself. */
  readonly exchange: number;
  /** What of it the step shows. */
  readonly shown: number;
  /** Weak scaling: examples per second, by GPUs times those of one. */
  readonly efficiency: number;
}

/** The share of a step in which gradients arise: a backward pass takes twice as long as a forward pass. */
const BACKWARD = 2 / 3;

/** @param gpus of each host */
export function project(
  { compute, buckets }: MeasuredStep,
  links: Links,
  gpus: number,
  hosts: number,
): Projection {
  const steps = (n: number): number => 2 * Math.ceil(Math.log2(n));
  const within = (bytes: number): number =>
    ((2 * (gpus - 1)) / gpus) * (bytes / links.bandwidth) + steps(gpus) * links.latency;
  // Each GPU of a host exchanges its share with those of the other hosts.
  const between = (bytes: number): number =>
    ((2 * (hosts - 1)) / hosts) * (bytes / gpus / links.hostBandwidth) + steps(hosts) * links.hostLatency;
  const times = buckets.map((bytes) => within(bytes) + between(bytes));
  const exchange = times.reduce((sum, time) => sum + time, 0);
  // The last bucket is complete when the backward pass ends.
  const shown = Math.max(exchange - BACKWARD * compute, times.at(-1) ?? 0);
  return { exchange, shown, efficiency: compute / (compute + shown) };
}
