/** What is computed together, in which order, and what never is: the batcher with a model that is a list of promises. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Batch,
  Batcher,
  type BatchLimits,
  type OutputTensor,
  type PendingAnswer,
} from '../src/batching/batcher.js';
import { WaitingQueue } from '../src/batching/queue.js';
import { ServiceError } from '../src/errors.js';
import { property } from './property.js';

/** A runner whose batches end when the test says so. Its output are the bytes of its input. */
class Runner {
  readonly batches: Batch[] = [];
  #end: ((error?: Error) => void) | undefined;

  get isIdle(): boolean {
    return this.#end === undefined;
  }

  run(batch: Batch): Promise<readonly OutputTensor[]> {
    this.batches.push(batch);
    return new Promise((resolve, reject) => {
      this.#end = (error) => {
        this.#end = undefined;
        if (error) return reject(error);
        const bytes = Buffer.concat(batch.parts[0]!);
        const layer = batch.target !== undefined && { layer: 'conv' };
        resolve([{ shape: [batch.rows, bytes.length / batch.rows], bytes, ...layer }]);
      };
    });
  }

  /** End the batch that runs, and let the next one begin. */
  async end(error?: Error): Promise<void> {
    this.#end!(error);
    await turn();
  }
}

const turn = (ms = 0): Promise<void> =>
  new Promise((resolve) => (ms > 0 ? setTimeout(resolve, ms) : setImmediate(() => setImmediate(resolve))));

function make(
  limits: Partial<BatchLimits> = {},
  runners = [new Runner()],
): { batcher: Batcher; runners: Runner[] } {
  const batcher = new Batcher(
    { maxBatchSize: 4, maxDelayMs: 0, queueSize: 100, batched: true, ...limits },
    () => runners,
    { began: () => {}, ended: () => {} },
  );
  return { batcher, runners };
}

interface Asked {
  readonly id: number;
  readonly rows?: number;
  readonly shape?: readonly number[];
  readonly priority?: number;
  readonly expires?: number;
}

/** A request of `rows` rows, each one byte: its id. */
const submit = (
  batcher: Batcher,
  { id, rows = 1, shape = [1], priority = 50, expires = Infinity }: Asked,
): PendingAnswer =>
  batcher.submit({ bytes: [new Uint8Array(rows).fill(id)], shapes: [shape], rows }, { priority, expires });

const idsOf = (batch: Batch): number[] => batch.parts[0]!.map((part) => part[0]!);
const bytesOf = async ({ outputs }: PendingAnswer): Promise<number[]> => [...(await outputs)[0]!.bytes];
const kindOf = ({ outputs }: PendingAnswer): Promise<string> =>
  outputs.then(
    () => 'answered',
    (error: unknown) => (error instanceof ServiceError ? error.kind : String(error)),
  );

test('what waits while a batch runs is the next batch, and each request gets its own rows', async () => {
  const { batcher, runners } = make();
  const [runner] = runners as [Runner];
  const first = submit(batcher, { id: 1 });
  await turn();
  const others = [
    submit(batcher, { id: 2, rows: 2 }),
    submit(batcher, { id: 3 }),
    submit(batcher, { id: 4, rows: 2 }),
  ];
  await turn();
  assert.deepEqual(runner.batches.map(idsOf), [[1]]);
  await runner.end();
  assert.deepEqual(await bytesOf(first), [1]);
  assert.deepEqual(runner.batches.map(idsOf), [[1], [2, 3]]);
  await runner.end();
  await runner.end();
  assert.deepEqual(await Promise.all(others.map(bytesOf)), [[2, 2], [3], [4, 4]]);
  assert.deepEqual((await others[0]!.outputs)[0]!.shape, [2, 1]);
  assert.equal(batcher.isBusy, false);
});

test('the next batch begins before the answers of the last one are handed out', async () => {
  const { batcher, runners } = make();
  const [runner] = runners as [Runner];
  const first = submit(batcher, { id: 1 });
  await turn();
  submit(batcher, { id: 2 });
  const begun = bytesOf(first).then(() => runner.batches.map(idsOf));
  await runner.end();
  assert.deepEqual(await begun, [[1], [2]]);
});

test('requests of one turn of the event loop share a batch', async () => {
  const { batcher, runners } = make();
  for (const id of [1, 2, 3]) submit(batcher, { id });
  await turn();
  assert.deepEqual(runners[0]!.batches.map(idsOf), [[1, 2, 3]]);
});

test('shapes are not mixed, and a request that is larger than what is left waits', async () => {
  const { batcher, runners } = make();
  const [runner] = runners as [Runner];
  for (const [id, shape, rows] of [
    [1, [1], 3],
    [2, [2], 1],
    [3, [1], 2],
    [4, [2], 1],
  ] as const)
    submit(batcher, { id, shape, rows });
  await turn();
  for (let i = 0; i < 3; i++) await runner.end();
  assert.deepEqual(runner.batches.map(idsOf), [[1], [2, 4], [3]]);
});

test('an explanation runs alone, in its turn, and says which layer it is of', async () => {
  const { batcher, runners } = make();
  const [runner] = runners as [Runner];
  const all = [1, 2, 3].map((id) =>
    batcher.submit(
      { bytes: [Uint8Array.of(id)], shapes: [[1]], rows: 1, ...(id !== 1 && { target: id }) },
      { priority: 50, expires: Infinity },
    ),
  );
  for (const _ of all) {
    await turn();
    await runner.end();
  }
  assert.deepEqual(
    runner.batches.map((batch) => [idsOf(batch), batch.target]),
    [
      [[1], undefined],
      [[2], 2],
      [[3], 3],
    ],
  );
  const layers = await Promise.all(all.map(async ({ outputs }) => (await outputs)[0]!.layer));
  assert.deepEqual(layers, [undefined, 'conv', 'conv']);
});

test('the most urgent go first, then those that came first', async () => {
  const { batcher, runners } = make({ maxBatchSize: 2 });
  const [runner] = runners as [Runner];
  submit(batcher, { id: 1 });
  await turn();
  for (const [id, priority] of [
    [2, 50],
    [3, 50],
    [4, 1],
    [5, 90],
    [6, 1],
  ] as const)
    submit(batcher, { id, priority });
  for (let i = 0; i < 4; i++) await runner.end();
  assert.deepEqual(runner.batches.map(idsOf), [[1], [4, 6], [2, 3], [5]]);
});

test('a batch waits for others, but no longer than its delay, and not when it is full', async () => {
  const { batcher, runners } = make({ maxDelayMs: 40 });
  const [runner] = runners as [Runner];
  const began = performance.now();
  submit(batcher, { id: 1 });
  await turn(5);
  assert.deepEqual(runner.batches, []);
  submit(batcher, { id: 2 });
  while (runner.batches.length === 0) await turn(1);
  assert.ok(performance.now() - began >= 39);
  assert.deepEqual(runner.batches.map(idsOf), [[1, 2]]);
  await runner.end();
  for (const id of [3, 4, 5, 6]) submit(batcher, { id });
  await turn();
  assert.deepEqual(idsOf(runner.batches[1]!), [3, 4, 5, 6]);
});

test('several runners work at once', async () => {
  const { batcher, runners } = make({ maxBatchSize: 1 }, [new Runner(), new Runner()]);
  for (const id of [1, 2, 3]) submit(batcher, { id });
  await turn();
  assert.deepEqual(
    runners.map(({ batches }) => batches.map(idsOf)),
    [[[1]], [[2]]],
  );
  await runners[1]!.end();
  assert.deepEqual(runners[1]!.batches.map(idsOf), [[2], [3]]);
});

test('a full queue refuses, and says when to come back', async () => {
  const { batcher, runners } = make({ queueSize: 2, maxBatchSize: 1 });
  submit(batcher, { id: 1 });
  await turn();
  const waiting = [submit(batcher, { id: 2 }), submit(batcher, { id: 3 })];
  assert.throws(
    () => submit(batcher, { id: 4 }),
    (error: ServiceError) =>
      error.kind === 'busy' && error.httpStatus === 429 && error.grpcStatus === 8 && error.retryAfter! >= 1,
  );
  waiting[0]!.cancel();
  assert.equal(await kindOf(waiting[0]!), 'cancelled');
  submit(batcher, { id: 5 });
  await runners[0]!.end();
  await runners[0]!.end();
  assert.deepEqual(runners[0]!.batches.map(idsOf), [[1], [3], [5]]);
});

test('what is cancelled or too late is never computed, and is told so at once', async () => {
  const { batcher, runners } = make();
  const [runner] = runners as [Runner];
  submit(batcher, { id: 1 });
  await turn();
  const late = kindOf(submit(batcher, { id: 2, expires: performance.now() + 10 }));
  const cancelled = submit(batcher, { id: 3 });
  const told = kindOf(cancelled);
  const kept = submit(batcher, { id: 4 });
  cancelled.cancel();
  assert.equal(await late, 'expired');
  assert.equal(await told, 'cancelled');
  assert.equal(batcher.waiting, 1);
  assert.throws(() => submit(batcher, { id: 5, expires: performance.now() - 1 }), { kind: 'expired' });
  await runner.end();
  await runner.end();
  assert.deepEqual(await bytesOf(kept), [4]);
  assert.deepEqual(runner.batches.map(idsOf), [[1], [4]]);
  kept.cancel();
});

test('a batch that fails fails its requests alone', async () => {
  const { batcher, runners } = make({ maxBatchSize: 1 });
  const [runner] = runners as [Runner];
  const [first, second] = [submit(batcher, { id: 1 }), submit(batcher, { id: 2 })];
  const failed = kindOf(first);
  await turn();
  await runner.end(new ServiceError('unavailable', 'the worker died'));
  assert.equal(await failed, 'unavailable');
  await runner.end();
  assert.deepEqual(await bytesOf(second), [2]);
  submit(batcher, { id: 3 });
  const refused = kindOf(submit(batcher, { id: 4 }));
  await turn();
  batcher.refuseAll(new ServiceError('unavailable', 'unloading'));
  assert.equal(await refused, 'unavailable');
});

const requests = fc.array(
  fc.record({
    rows: fc.integer({ min: 1, max: 5 }),
    shape: fc.constantFrom([1], [2], [1, 1]),
    priority: fc.integer({ min: 1, max: 3 }),
    isCancelled: fc.boolean(),
  }),
  { maxLength: 40 },
);

property('every request is answered exactly once, with its own rows', [requests], async (asked) => {
  const { batcher, runners } = make({ maxBatchSize: 5 });
  const [runner] = runners as [Runner];
  const pending = asked.map((request, i) => submit(batcher, { ...request, id: i }));
  const answers = Promise.all(
    pending.map(async (own, i) =>
      asked[i]!.isCancelled
        ? (await kindOf(own)) === 'cancelled'
        : bytesOf(own).then((bytes) => bytes.every((b) => b === i) && bytes.length === asked[i]!.rows),
    ),
  );
  for (const [i, own] of pending.entries()) if (asked[i]!.isCancelled) own.cancel();
  await turn();
  while (!runner.isIdle) await runner.end();
  assert.ok((await answers).every(Boolean));
  for (const batch of runner.batches) assert.ok(batch.rows <= 5);
  const computed = runner.batches.flatMap(idsOf);
  assert.equal(new Set(computed).size, computed.length);
  assert.equal(batcher.isBusy, false);
});

test('a queue forgets what is no longer wanted', () => {
  const queue = new WaitingQueue();
  const entry = (key: string) => ({ key, rows: 1, priority: 1, arrived: 0, expires: Infinity, wanted: true });
  const [a, b] = [entry('a'), entry('b')];
  queue.add(a);
  queue.add(b);
  assert.equal(queue.drop(a), true);
  assert.equal(queue.drop(a), false);
  assert.equal(queue.next()!.key, 'b');
  assert.deepEqual(queue.take('b', 9), [b]);
  assert.deepEqual(queue.take('b', 9), []);
  assert.equal(queue.next(), undefined);
  assert.equal(queue.length, 0);
});
