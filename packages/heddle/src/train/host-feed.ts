/** Batches from the host: several are written to the device at a time, and worked on one after the other. */
import { sizeOf } from '../core/shape.js';
import type { Dataset, Loader } from '../data/index.js';
import { KeptSlots } from '../data/slots.js';
import { device } from '../tensor/modes.js';
import { currentWorld } from '../tensor/world.js';
import { BatchWindow } from './batch-window.js';
import { type BatchWork, type Chunk, type Feed, type FeedSettings, runsOf } from './feed.js';

/** Batches of one launch on a GPU are at most so many, and take at most so many bytes and so long to make. */
const MOST = 64;
const BYTES = 4 << 20;
const MILLISECONDS = 4;
/** The first ones of an epoch are this part of it: until they are there, the device has nothing to do. */
const FIRST = 1 / 8;

/** How many batches are written together. On a CPU a launch ends before anything else happens: signals would wait for it. */
function mostTogether({ dataset, rows, examples }: Loader<Dataset>): number {
  if (!device().name.startsWith('cuda')) return 1;
  const bytes = (dataset.bytes ? 1 : 4) * Math.min(rows.full, examples) * sizeOf(dataset.inputShape);
  return powerOfTwo(Math.min(MOST, BYTES / bytes));
}

/** The largest power of two that is not above a number, and at least 1: each count of batches is a graph of its own. */
const powerOfTwo = (most: number): number => 2 ** Math.max(0, Math.floor(Math.log2(most)));

export class HostFeed implements Feed {
  readonly #loader: Loader<Dataset>;
  readonly #most: number;
  /** Of full batches, if there are any. */
  readonly #full: BatchWindow | undefined;
  /** Of the last batch, if it is smaller. */
  readonly #rest: BatchWindow | undefined;
  readonly #group: number;
  readonly #slots = new KeptSlots();
  /** How many batches can be made in the time that they may take. Several ranks must take the same: as many as they may. */
  #pace = currentWorld() ? MOST : 1;

  /** @param most how many batches are written together, at most: a power of two */
  constructor(
    loader: Loader<Dataset>,
    work: BatchWork,
    { tune, group }: FeedSettings,
    most: number = mostTogether(loader),
  ) {
    const { dataset, batchSize, examples, rows } = loader;
    const { rest } = rows;
    this.#loader = loader;
    this.#group = group;
    this.#most = most;
    if (examples >= batchSize)
      this.#full = new BatchWindow(dataset, { size: rows.full, batches: most, work, tune });
    if (rest > 0)
      this.#rest = new BatchWindow(dataset, {
        ...{ size: rest, batches: 1, tune: 'frozen' },
        work: rows.restCounts ? work : (inputs, targets, _, closes) => work(inputs, targets, 0, closes),
      });
  }

  async *chunks(epoch: number, first: number, room: (batch: number) => number): AsyncGenerator<Chunk> {
    const loader = this.#loader;
    loader.epoch = epoch;
    loader.batch = first;
    // Half as many as before it: they are there in time where making one takes half as long as the work on it.
    const inTime = (batch: number): number => Math.max((batch - first) / 2, FIRST * this.#most);
    const spans = loader.spans({
      together: (batch) => powerOfTwo(Math.min(this.#most, this.#pace, room(batch), inTime(batch))),
      most: this.#most,
      bytes: loader.dataset.bytes !== undefined,
      slots: this.#slots,
      made: (batches, milliseconds) => {
        if (currentWorld()) return;
        // At most twice as many as before: the first ones may take another time than those after them.
        this.#pace = Math.min(2 * this.#pace, (batches * MILLISECONDS) / milliseconds);
      },
    });
    const full = Math.floor(loader.examples / loader.batchSize);
    let isOrdered = false;
    for await (const span of spans) {
      const isRest = span.index === full;
      const window = isRest ? this.#rest! : this.#full!;
      const batches = isRest ? 1 : span.size / loader.rows.full;
      const examples = isRest ? loader.examples % loader.batchSize : batches * loader.batchSize;
      const runs = [...runsOf(span.index, batches, this.#group, loader.length)];
      const run = (): void => {
        window.run(span, runs);
        // The device has several launches to go on with now.
        if (isOrdered || 2 * (span.index + batches) < loader.length) return;
        loader.makeOrder(epoch + 1);
        isOrdered = true;
      };
      yield { batches, examples, run };
    }
  }

  dispose(): void {
    this.#slots.dispose();
    this.#full?.dispose();
    this.#rest?.dispose();
  }
}
