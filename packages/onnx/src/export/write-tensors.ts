/** The tensors of a model: in its file, or in one beside it. */
import { createHash } from 'node:crypto';
import { readdir, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { writeFileAtomic } from 'heddle/internal/io/atomic.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import {
  StringStringEntryProtoSchema,
  type TensorProto,
  TensorProto_DataLocation,
  TensorProtoSchema,
} from '../protobuf/onnx_pb.js';
import type { Initializer } from './graph-writer.js';
import { bytesOfTensor } from './tensor-bytes.js';

/** Tensors as messages, and how the files are written. */
export interface StoredTensors {
  readonly protos: readonly TensorProto[];
  /** Write what belongs beside the model, then the model. @returns the files beside it */
  readonly write: (model: () => Promise<void>) => Promise<readonly string[]>;
}

const bytesOf = ({ values }: Initializer): Promise<Uint8Array> =>
  values instanceof Uint8Array ? Promise.resolve(values) : bytesOfTensor(values);

const header = ({ name, dtype, shape }: Initializer) => ({
  name,
  dataType: ELEMENT_TYPES[dtype.name].code,
  dims: shape.map((d) => BigInt(d)),
});

/** Tensors in the file itself. */
export async function inlineTensors(initializers: readonly Initializer[]): Promise<StoredTensors> {
  const protos: TensorProto[] = [];
  for (const tensor of initializers)
    protos.push(create(TensorProtoSchema, { ...header(tensor), rawData: await bytesOf(tensor) }));
  return {
    protos,
    write: async (model) => {
      await model();
      return [];
    },
  };
}

/** Tensors of fewer bytes stay in the model: shapes are read from there. */
const LEAST_BYTES = 1024;
/** Engines map the file into memory, page by page. */
const PAGE = 4096;

/**
 * Tensors in a file beside the model. Its name has a hash of what is in it, so that a model that is overwritten and its data
 * stay together until the new model is in place; data of the old one are removed then.
 * @param path of the model
 */
export async function externalTensors(
  initializers: readonly Initializer[],
  path: string,
): Promise<StoredTensors> {
  const parts: Uint8Array[] = [];
  const placed: { readonly proto: TensorProto; readonly offset: number; readonly length: number }[] = [];
  const protos: TensorProto[] = [];
  let end = 0;
  for (const tensor of initializers) {
    const bytes = await bytesOf(tensor);
    const proto = create(TensorProtoSchema, header(tensor));
    protos.push(proto);
    if (bytes.length < LEAST_BYTES) {
      proto.rawData = bytes;
      continue;
    }
    const gap = -end & (PAGE - 1);
    placed.push({ proto, offset: end + gap, length: bytes.length });
    parts.push(new Uint8Array(gap), bytes);
    end += gap + bytes.length;
  }
  const name = `${basename(path)}.${hashOf(parts)}.data`;
  for (const { proto, offset, length } of placed) {
    proto.dataLocation = TensorProto_DataLocation.EXTERNAL;
    const entries = { location: name, offset: String(offset), length: String(length) };
    proto.externalData = Object.entries(entries).map(([key, value]) =>
      create(StringStringEntryProtoSchema, { key, value }),
    );
  }
  const file = join(dirname(path), name);
  return {
    protos,
    write: async (model) => {
      await writeFileAtomic(file, parts);
      await model();
      await removeOthers(path, name);
      return [file];
    },
  };
}

function hashOf(parts: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex').slice(0, 12);
}

/** Remove the data of models that were at this path before. */
async function removeOthers(path: string, kept: string): Promise<void> {
  const [before, after] = [`${basename(path)}.`, '.data'];
  for (const name of await readdir(dirname(path))) {
    const isData = name.startsWith(before) && name.endsWith(after);
    const middle = name.slice(before.length, -after.length);
    if (isData && name !== kept && /^[0-9a-f]{12}$/.test(middle)) await unlink(join(dirname(path), name));
  }
}
