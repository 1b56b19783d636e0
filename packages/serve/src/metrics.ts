/** What is counted and timed, for Prometheus. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { BatchObserver } from './batching/batcher.js';

/** From a tenth of a millisecond to ten seconds. */
const SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
const ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** The protocols that requests come by. */
export type Protocol = 'rest' | 'grpc' | 'classify';

export class ServiceMetrics {
  readonly registry: Registry = new Registry();
  readonly #requests = new Counter({
    name: 'heddle_requests_total',
    help: 'Requests for inference that were answered, by their status',
    labelNames: ['model', 'version', 'protocol', 'status'],
    registers: [this.registry],
  });
  readonly #seconds = new Histogram({
    name: 'heddle_request_seconds',
    help: 'From the arrival of a request for inference to its answer',
    labelNames: ['model', 'version', 'protocol'],
    ...{ buckets: SECONDS, registers: [this.registry] },
  });
  readonly #queued = new Histogram({
    name: 'heddle_queue_seconds',
    help: 'How long requests waited for their batch to begin',
    labelNames: ['model', 'version'],
    ...{ buckets: SECONDS, registers: [this.registry] },
  });
  readonly #computed = new Histogram({
    name: 'heddle_batch_seconds',
    help: 'How long batches took, with their way to the worker and back',
    labelNames: ['model', 'version'],
    ...{ buckets: SECONDS, registers: [this.registry] },
  });
  readonly #rows = new Histogram({
    name: 'heddle_batch_rows',
    help: 'Rows of a batch',
    labelNames: ['model', 'version'],
    ...{ buckets: ROWS, registers: [this.registry] },
  });
  readonly #deaths = new Counter({
    name: 'heddle_worker_deaths_total',
    help: 'Instances that died and were started again',
    labelNames: ['model', 'version'],
    registers: [this.registry],
  });

  /** @param waiting the requests that wait at the moment, by model and version */
  constructor(
    waiting: () => Iterable<{ readonly model: string; readonly version: string; readonly waiting: number }>,
  ) {
    collectDefaultMetrics({ register: this.registry });
    new Gauge({
      name: 'heddle_waiting_requests',
      help: 'Requests that wait for a batch',
      labelNames: ['model', 'version'],
      registers: [this.registry],
      collect() {
        this.reset();
        for (const { model, version, waiting: count } of waiting()) this.set({ model, version }, count);
      },
    });
  }

  /** A request was answered. @param status of HTTP, or of gRPC by its number */
  answered(model: string, version: string, protocol: Protocol, status: number, ms: number): void {
    this.#requests.inc({ model, version, protocol, status });
    this.#seconds.observe({ model, version, protocol }, ms / 1000);
  }

  workerDied(model: string, version: string): void {
    this.#deaths.inc({ model, version });
  }

  /** What a version's batcher tells. */
  batches(model: string, version: string): BatchObserver {
    const labels = { model, version };
    const queued = this.#queued.labels(labels);
    const rows = this.#rows.labels(labels);
    const computed = this.#computed.labels(labels);
    return {
      began: (count, waitedMs) => {
        rows.observe(count);
        for (const ms of waitedMs) queued.observe(ms / 1000);
      },
      ended: (ms) => computed.observe(ms / 1000),
    };
  }
}
