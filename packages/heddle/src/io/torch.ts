/**
 * The files that `torch.save` writes (.pth, .pt, .bin), read without running code: a zip file with a pickle of the structure and
 * the tensors' bytes beside it. Of what a pickle may ask for, only dictionaries, lists, texts, numbers and tensors are made;
 * anything else is refused.
 * Sources: torch/serialization.py; pickletools of Python's standard library.
 */
import { aString, instance, requireArgument } from '../core/arguments.js';
import { DTYPES, type DTypeName } from '../core/dtype.js';
import { FileError } from '../core/errors.js';
import { formatShape, sizeOf } from '../core/shape.js';
import { type PersistentId, type Reference, unpickle } from './pickle.js';
import type { StoredTensor, StoredTensors } from './safetensors.js';
import { inRowOrder } from './strided.js';
import { unzip } from './zip.js';

/** The dtypes of PyTorch's storages. */
const STORAGES: Readonly<Record<string, DTypeName>> = {
  FloatStorage: 'f32',
  DoubleStorage: 'f64',
  HalfStorage: 'f16',
  BFloat16Storage: 'bf16',
  IntStorage: 'i32',
  LongStorage: 'i64',
  CharStorage: 'i8',
  ByteStorage: 'u8',
  BoolStorage: 'bool',
};

interface StoragePlace {
  readonly dtype: DTypeName;
  readonly key: string;
  /** In elements. */
  readonly size: number;
}

/**
 * All tensors of a file, named by the keys that lead to them, as `state_dict.conv1.weight`. Numbers and texts beside them are
 * left out.
 * @param path names the bytes in errors
 * @throws FileError for files of before PyTorch 1.6, damaged ones, and pickles that hold anything else
 */
export function parseTorch(bytes: Uint8Array, path = 'torch data'): StoredTensors {
  requireArgument('parseTorch', 'bytes', bytes, instance(Uint8Array, 'a Uint8Array'));
  requireArgument('parseTorch', 'path', path, aString);
  const fail = (message: string): never => {
    throw new FileError(path, message);
  };
  if (bytes[0] !== 0x50 || bytes[1] !== 0x4b)
    fail('not a zip file, as torch.save writes it since PyTorch 1.6. Load it there and save it again.');
  const files = new Map(
    Object.entries(unzip(bytes, path)).map(([name, file]) => [name.replace(/^[^/]*\//, ''), file]),
  );
  const pickle = files.get('data.pkl') ?? fail('it has no data.pkl, so it was not written by torch.save.');
  const byteOrder = files.get('byteorder');
  if (byteOrder && new TextDecoder().decode(byteOrder).trim() !== 'little')
    fail('it was written on a big-endian machine, which is not supported.');

  const storageOf = (id: PersistentId): StoragePlace => {
    const [kind, type, key, , size] = Array.isArray(id) ? id : [];
    const dtype = STORAGES[(type as Reference | undefined)?.name ?? ''];
    if (kind !== 'storage' || dtype === undefined || typeof key !== 'string' || typeof size !== 'number')
      return fail(`a storage of an unknown kind: ${JSON.stringify(id)?.slice(0, 100)}.`);
    return { dtype, key, size };
  };
  /** torch._utils._rebuild_tensor_v2(storage, offset, size, stride, …). */
  const tensorOf = (args: readonly unknown[]): StoredTensor => {
    const [storage, offset, shape, stride] = args as [StoragePlace, number, number[], number[]];
    const isSizes = (v: unknown): boolean =>
      Array.isArray(v) && v.every((n) => Number.isSafeInteger(n) && n >= 0);
    if (
      !storage?.key ||
      !isSizes([offset]) ||
      !isSizes(shape) ||
      !isSizes(stride) ||
      shape.length !== stride.length
    )
      return fail('a tensor is not described by a storage, an offset, sizes and strides.');
    const { dtype, key } = storage;
    const data = files.get(`data/${key}`) ?? fail(`the storage data/${key} is missing. The file is damaged.`);
    return gathered(dtype, data, offset, shape, stride, fail);
  };
  const found = unpickle(pickle, {
    fail: (message) => fail(`data.pkl: ${message}`),
    persistent: storageOf,
    call: ({ module, name }, args) => {
      if (name === 'OrderedDict') return new Map();
      if (name === '_rebuild_tensor_v2') return tensorOf(args);
      if (name === '_rebuild_parameter') return args[0];
      return fail(
        `it calls ${module}.${name}, which is not a tensor or a dictionary. Save a state_dict instead.`,
      );
    },
  });
  const tensors: [string, StoredTensor][] = [];
  collect('', found, tensors);
  if (tensors.length === 0) fail('it holds no tensors. Save a state_dict.');
  return Object.fromEntries(tensors);
}

/** A strided view of a storage, in row-major order. */
function gathered(
  dtype: DTypeName,
  data: Uint8Array,
  offset: number,
  shape: readonly number[],
  stride: readonly number[],
  fail: (message: string) => never,
): StoredTensor {
  const { bytes } = DTYPES[dtype];
  const size = sizeOf(shape);
  const last = size === 0 ? -1 : offset + shape.reduce((sum, n, i) => sum + (n - 1) * stride[i]!, 0);
  if ((last + 1) * bytes > data.length || !Number.isSafeInteger(size))
    fail(`a tensor ${formatShape(shape)} leaves its storage of ${data.length} bytes. The file is damaged.`);
  const isContiguous = shape.every((n, i) => n === 1 || stride[i] === sizeOf(shape.slice(i + 1)));
  if (isContiguous || size === 0)
    return { dtype, shape, data: data.subarray(offset * bytes, (offset + size) * bytes) };
  return { dtype, shape, data: inRowOrder(data, bytes, shape, stride, offset) };
}

const isStored = (value: object): value is StoredTensor => 'data' in value && 'dtype' in value;

function collect(name: string, value: unknown, into: [string, StoredTensor][]): void {
  if (typeof value !== 'object' || value === null) return;
  const entries: Iterable<readonly [unknown, unknown]> | undefined =
    value instanceof Map ? value : Array.isArray(value) ? value.entries() : undefined;
  if (entries)
    for (const [key, inner] of entries) collect(name ? `${name}.${key}` : String(key), inner, into);
  else if (isStored(value)) into.push([name || 'tensor', value]);
}
