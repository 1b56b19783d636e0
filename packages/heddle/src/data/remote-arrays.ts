/** The other end of `ArrayDataset.remote`, in a thread of the loader. */
import { ArrayDataset, type ArrayDatasetOptions } from './dataset.js';

export const open = (options: ArrayDatasetOptions): ArrayDataset => new ArrayDataset(options);
