/** Data sets that are opened on another thread. */
import type { Dataset, RemoteDataset } from './dataset.js';

/** The data set, on this thread. */
export async function openRemote({ module, open, data }: RemoteDataset): Promise<Dataset> {
  const exported = (await import(module)) as Record<string, (data: unknown) => Dataset | Promise<Dataset>>;
  return exported[open]!(data);
}
