/** The data sets of this library, opened in a thread of the loader. */
import { ConcatDataset, type RemoteParts } from './concat.js';
import { ArrayDataset, type ArrayDatasetOptions, type Dataset } from './dataset.js';
import { type ExampleMap, mapExamples, type RemoteMap } from './map.js';
import { openRemote } from './remote.js';
import { type RemoteSubset, Subset } from './subset.js';

export const openArrays = (options: ArrayDatasetOptions): Dataset => new ArrayDataset(options);

export const openSubset = async ({ dataset, indices }: RemoteSubset): Promise<Dataset> =>
  new Subset(await openRemote(dataset), indices);

export const openConcat = async (parts: RemoteParts): Promise<Dataset> =>
  new ConcatDataset(await Promise.all(parts.map(openRemote)));

export async function openMapped({ dataset, module, name, inputShape }: RemoteMap): Promise<Dataset> {
  const exported = (await import(module)) as Record<string, ExampleMap>;
  return mapExamples(await openRemote(dataset), exported[name]!, { inputShape });
}
