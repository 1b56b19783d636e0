/** Which feed a data set gets: batches from the host, or from the memory of the device. */
import { sizeOf } from '../core/shape.js';
import { type AnyDataset, ArrayDataset, type Dataset, type Loader, TensorDataset } from '../data/index.js';
import type { JitOptions } from '../tensor/jit.js';
import { device } from '../tensor/modes.js';
import type { BatchWork, Feed } from './feed.js';
import { HostFeed } from './host-feed.js';
import { ResidentFeed } from './resident.js';

/** How to work on batches. */
export interface FeedOptions {
  /** See `EvaluateOptions.resident`. */
  readonly resident?: boolean | undefined;
  /** How kernels are chosen for full batches; for the last one, which is smaller, nothing is timed. */
  readonly tune?: JitOptions['tune'];
  /** Batches of an update, see `BatchWork`. Default: 1. */
  readonly group?: number | undefined;
}

/** A data set up to this size is kept in the memory of a GPU, in bytes. */
const RESIDENT_BYTES = 2 ** 30;

/**
 * Whether the batches of this data set are gathered on the device, unless it is said otherwise. Other kinds than arrays
 * may give an example another way each time they are asked.
 */
function staysOnDevice(dataset: Dataset): boolean {
  const bytes = 4 * dataset.length * (sizeOf(dataset.inputShape) + 2);
  const isFixed = dataset instanceof ArrayDataset && dataset.isPlain;
  return isFixed && device().name.startsWith('cuda') && bytes <= RESIDENT_BYTES;
}

export function feedOf(loader: Loader<AnyDataset>, work: BatchWork, options: FeedOptions = {}): Feed {
  const how = { tune: options.tune ?? 'on', group: options.group ?? 1 };
  if (isOfTensors(loader)) return new ResidentFeed(loader, work, how);
  const ofArrays = loader as Loader<Dataset>;
  const { resident = staysOnDevice(ofArrays.dataset) } = options;
  return resident ? new ResidentFeed(ofArrays, work, how) : new HostFeed(ofArrays, work, how);
}

const isOfTensors = (loader: Loader<AnyDataset>): loader is Loader<TensorDataset> =>
  loader.dataset instanceof TensorDataset;
