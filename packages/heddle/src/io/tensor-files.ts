/** Tensors by name in a file, of the format that its name says. */
import { basename, dirname, join } from '#platform/paths.js';
import {
  aString,
  instance,
  integerFrom,
  type Rules,
  recordOf,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError, FileError } from '../core/errors.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';
import { writeFileAtomic } from './atomic.js';
import { encodeNpy, encodeNpz, parseNpy, parseNpz } from './npy.js';
import { readBytes } from './read.js';
import {
  parseSafetensors,
  readSafetensors,
  type StoredMetadata,
  type StoredTensor,
  type StoredTensors,
  writeSafetensors,
} from './safetensors.js';
import { restored, storedAll } from './stored.js';
import { parseTorch } from './torch.js';

/** Tensors by name, and the texts kept with them. */
export interface LoadedTensors {
  /** The tensors by name. */
  readonly tensors: Readonly<Record<string, AnyTensor>>;
  /** Texts by name; none in formats that have no room for them. */
  readonly metadata: StoredMetadata;
}

/** Options of `saveTensors`. */
export interface SaveTensorsOptions {
  /** Texts to keep in a safetensors file. */
  readonly metadata?: StoredMetadata;
  /**
   * Bytes of a safetensors file at most. More are written as several, `model-00001-of-00003.safetensors`…, with an index,
   * `model.safetensors.index.json`, as Hugging Face's libraries have it. Default: one file.
   */
  readonly maxShardBytes?: number;
}

const SAVE: Rules<SaveTensorsOptions> = {
  metadata: recordOf(aString, 'an object of strings by name'),
  maxShardBytes: integerFrom(1),
};

const INDEX = '.safetensors.index.json';

/** What each format's files are read by. */
const READERS: Readonly<
  Record<string, (path: string) => Promise<{ tensors: StoredTensors; metadata?: StoredMetadata }>>
> = {
  [INDEX]: readShards,
  '.safetensors': readSafetensors,
  '.npz': async (path) => ({ tensors: parseNpz(await readBytes(path), path) }),
  '.npy': async (path) => ({ tensors: { array: parseNpy(await readBytes(path), path) } }),
  '.pth': async (path) => ({ tensors: parseTorch(await readBytes(path), path) }),
  '.pt': async (path) => ({ tensors: parseTorch(await readBytes(path), path) }),
  '.bin': async (path) => ({ tensors: parseTorch(await readBytes(path), path) }),
};

function formatOf(path: string, formats: readonly string[]): string {
  const format = formats.find((end) => path.toLowerCase().endsWith(end));
  if (format === undefined)
    throw new ArgumentError(`[tensors] '${basename(path)}' must end in one of ${formats.join(', ')}.`);
  return format;
}

/**
 * The tensors of a file: safetensors, in shards by its `.safetensors.index.json`, NumPy's .npz and .npy (the tensor is called
 * `array`), or what `torch.save` wrote (.pth, .pt, .bin), which is read without running any code in it.
 * @throws ArgumentError for another ending, FileError
 */
export async function loadTensors(path: string): Promise<LoadedTensors> {
  requireArgument('loadTensors', 'path', path, aString);
  const { tensors, metadata = {} } = await READERS[formatOf(path, Object.keys(READERS))]!(path);
  const entries = Object.entries(tensors).map(([name, t]) => [name, restored(t)] as const);
  return { tensors: Object.fromEntries(entries), metadata };
}

const isTensors = recordOf(instance(Tensor, 'a tensor'), 'an object of tensors by name');

/**
 * Write tensors by name, atomically: .safetensors, .npz, or .npy of a single one.
 * @throws ArgumentError for another ending, FileError
 */
export async function saveTensors(
  path: string,
  tensors: Readonly<Record<string, AnyTensor>>,
  options: SaveTensorsOptions = {},
): Promise<void> {
  requireArgument('saveTensors', 'path', path, aString);
  requireArgument('saveTensors', 'tensors', tensors, isTensors);
  requireOptions('saveTensors', options, SAVE);
  const { metadata = {}, maxShardBytes } = options;
  const format = formatOf(path, ['.safetensors', '.npz', '.npy']);
  const all = await storedAll(tensors);
  const entries = Object.entries(all);
  if (format === '.safetensors') {
    if (maxShardBytes === undefined) return writeSafetensors(path, all, metadata);
    return writeShards(path, entries, maxShardBytes, metadata);
  }
  if (Object.keys(metadata).length > 0 || maxShardBytes !== undefined)
    throw new ArgumentError(
      `[saveTensors] a ${format} file has no metadata and no shards: write .safetensors.`,
    );
  if (format === '.npz') return writeFileAtomic(path, encodeNpz(all, path));
  if (entries.length !== 1)
    throw new ArgumentError(`[saveTensors] a .npy file holds one tensor, got ${entries.length}: write .npz.`);
  return writeFileAtomic(path, encodeNpy(entries[0]![1], path));
}

/** Tensors one after the other into files of at most `most` bytes of data; a larger one has a file to itself. */
async function writeShards(
  path: string,
  entries: readonly (readonly [string, StoredTensor])[],
  most: number,
  metadata: StoredMetadata,
): Promise<void> {
  const shards: (readonly [string, StoredTensor])[][] = [];
  let room = 0;
  for (const entry of entries) {
    const bytes = entry[1].data.byteLength;
    if (shards.length === 0 || bytes > room) {
      shards.push([]);
      room = most;
    }
    shards.at(-1)!.push(entry);
    room -= bytes;
  }
  const stem = path.slice(0, -'.safetensors'.length);
  const number = (n: number): string => String(n).padStart(5, '0');
  const names = shards.map((_, i) => `${stem}-${number(i + 1)}-of-${number(shards.length)}.safetensors`);
  for (const [i, shard] of shards.entries())
    await writeSafetensors(names[i]!, Object.fromEntries(shard), metadata);
  const places = shards.flatMap((shard, i) => shard.map(([name]) => [name, basename(names[i]!)] as const));
  const index = {
    metadata: { ...metadata, total_size: entries.reduce((sum, [, { data }]) => sum + data.byteLength, 0) },
    weight_map: Object.fromEntries(places),
  };
  // Last, so that an index never names a file that is not there.
  await writeFileAtomic(`${stem}${INDEX}`, `${JSON.stringify(index, undefined, 2)}\n`);
}

async function readShards(path: string): Promise<{ tensors: StoredTensors; metadata: StoredMetadata }> {
  let index: unknown;
  try {
    index = JSON.parse(new TextDecoder().decode(await readBytes(path)));
  } catch (error) {
    if (error instanceof FileError) throw error;
    throw new FileError(path, `is not valid JSON (${(error as Error).message}).`, { cause: error });
  }
  const places = (index as { weight_map?: unknown } | null)?.weight_map;
  if (typeof places !== 'object' || places === null || Array.isArray(places))
    throw new FileError(path, 'has no weight_map, an object that names the file of each tensor.');
  const files = new Map<string, StoredTensors>();
  const tensors: Record<string, StoredTensor> = {};
  let metadata: StoredMetadata = {};
  for (const [name, file] of Object.entries(places)) {
    // An index is not trusted: its files lie beside it.
    if (typeof file !== 'string' || basename(file) !== file || file === '..')
      throw new FileError(
        path,
        `the file of ${JSON.stringify(name)} is ${JSON.stringify(file)}, expected a file name.`,
      );
    if (!files.has(file)) {
      const at = join(dirname(path), file);
      const shard = parseSafetensors(await readBytes(at), at);
      files.set(file, shard.tensors);
      metadata = { ...metadata, ...shard.metadata };
    }
    const found = files.get(file)!;
    if (!Object.hasOwn(found, name))
      throw new FileError(path, `${file} has no tensor ${JSON.stringify(name)}.`);
    tensors[name] = found[name]!;
  }
  return { tensors, metadata };
}
