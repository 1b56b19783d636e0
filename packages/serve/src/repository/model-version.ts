/** A version of a model that is loaded: its workers, and the batcher that they take their work from. */
import { availableParallelism } from 'node:os';
import { Batcher, type PendingAnswer, type Urgency } from '../batching/batcher.js';
import { ServiceError } from '../errors.js';
import type { ServiceMetrics } from '../metrics.js';
import type { CheckedInputs } from '../protocol/infer-request.js';
import type { ModelSpec } from '../protocol/model-spec.js';
import { WorkerProcess } from '../worker/worker-process.js';
import type { ModelSettings } from './settings.js';

/** Where messages for those who run the service go; pino's loggers are such. */
export interface ServiceLog {
  readonly info: (fields: object, message: string) => void;
  readonly warn: (fields: object, message: string) => void;
  readonly error: (fields: object, message: string) => void;
}

/** What a version is loaded with. */
export interface VersionOptions {
  readonly model: string;
  readonly version: string;
  readonly path: string;
  readonly settings: ModelSettings;
  /** For instances whose settings name none. */
  readonly device: string | undefined;
  readonly log: ServiceLog;
  readonly metrics: ServiceMetrics;
}

export class ModelVersion {
  readonly model: string;
  readonly version: string;
  readonly settings: ModelSettings;
  readonly #workers: readonly WorkerProcess[];
  #batcher: Batcher | undefined;
  #spec: ModelSpec | undefined;
  #failure: string | undefined;
  #isClosed = false;

  /** @param onReady an instance can compute for the first time @param onFailure the model cannot be opened */
  private constructor(
    { model, version, path, settings, device, log, metrics }: VersionOptions,
    onReady: () => void,
    onFailure: (reason: string) => void,
  ) {
    this.model = model;
    this.version = version;
    this.settings = settings;
    const { instances, maxBatchSize, maxRunMs, precision } = settings;
    const devices = settings.device ?? [device];
    const threads = settings.threads ?? Math.max(1, Math.floor((availableParallelism() - 1) / instances));
    this.#workers = Array.from({ length: instances }, (_, instance) => {
      const own = { model, version, instance };
      return new WorkerProcess({
        ...{ path, maxBatchSize, maxRunMs, precision, threads },
        device: devices[instance % devices.length],
        onReady: (spec) => {
          this.#opened(spec, metrics);
          log.info(own, 'the instance is ready');
          this.#batcher!.wake();
          onReady();
        },
        onFailure: (reason) => {
          this.#failure ??= reason;
          onFailure(reason);
        },
        onDeath: (how, restartMs) => {
          metrics.workerDied(model, version);
          log.error({ ...own, how, restartMs }, 'the instance died and is started again');
        },
        onOutput: (line) => log.warn(own, line),
      });
    });
  }

  /** Open the model in all of its instances. @throws ServiceError if it cannot be opened */
  static load(options: VersionOptions): Promise<ModelVersion> {
    return new Promise((resolve, reject) => {
      let left = options.settings.instances;
      const loaded: ModelVersion = new ModelVersion(
        options,
        () => {
          if (--left === 0) resolve(loaded);
        },
        (reason) => {
          void loaded.close();
          reject(
            new ServiceError('unavailable', `cannot load ${options.model} ${options.version}: ${reason}`),
          );
        },
      );
    });
  }

  get spec(): ModelSpec {
    return this.#spec!;
  }

  /** Whether an instance can compute. */
  get isReady(): boolean {
    return !this.#isClosed && this.#failure === undefined && this.#workers.some(({ isReady }) => isReady);
  }

  /** Requests that wait for a batch. */
  get waiting(): number {
    return this.#batcher?.waiting ?? 0;
  }

  /** The processes of its instances, as far as they run. */
  get pids(): readonly number[] {
    return this.#workers.flatMap(({ pid }) => pid ?? []);
  }

  /** @throws ServiceError if it is being unloaded, or too many requests wait */
  submit(inputs: CheckedInputs, urgency: Urgency): PendingAnswer {
    if (this.#isClosed) throw unloading(this);
    return this.#batcher!.submit(inputs, urgency);
  }

  /** Answer what has been accepted, and end the instances. @param graceMs what is not answered by then is refused */
  async close(graceMs = 0): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const until = performance.now() + graceMs;
    while (this.#batcher?.isBusy && performance.now() < until)
      await new Promise((wake) => setTimeout(wake, 5));
    this.#batcher?.refuseAll(unloading(this));
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  #opened(spec: ModelSpec, metrics: ServiceMetrics): void {
    if (this.#batcher) return;
    const { classes, image } = this.settings;
    const own = { ...spec, ...(classes && { classes }), ...(image && { image: withDefaults(image) }) };
    this.#spec = { ...own, explains: own.explains === true && own.image !== undefined };
    this.#batcher = new Batcher(
      { ...this.settings, batched: spec.batched },
      () => this.#workers,
      metrics.batches(this.model, this.version),
    );
  }
}

const withDefaults = (image: NonNullable<ModelSettings['image']>): NonNullable<ModelSpec['image']> => ({
  ...{ resize: 'crop', normalize: { mean: 0, std: 1 } },
  ...image,
});

const unloading = ({ model, version }: ModelVersion): ServiceError =>
  new ServiceError('unavailable', `version ${version} of ${model} is being unloaded.`, { retryAfter: 1 });
