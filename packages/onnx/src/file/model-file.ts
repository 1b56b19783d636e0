/** Reading an ONNX file into its protobuf messages. What is in them is not to be trusted: graph checks come after. */
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { FileError } from 'heddle';
import { instance, requireArgument } from 'heddle/internal/core/arguments.js';
import { readBytes } from 'heddle/internal/io/read.js';
import { type ModelProto, ModelProtoSchema } from '../protobuf/onnx_pb.js';

/** A model as its file has it. */
export interface ModelFile {
  /** The path that errors name. */
  readonly path: string;
  /** Where files of external data are; undefined for bytes. */
  readonly folder: string | undefined;
  /** The model. */
  readonly model: ModelProto;
}

/** Protobuf's own limit for a message, and Node's for a buffer. */
const MOST_BYTES = 2 ** 31 - 1;
/** Messages within messages: a graph in a graph takes three. */
const MOST_DEPTH = 100;

/**
 * Read a model from a file, or from the bytes of one.
 * @throws FileError if it is missing, damaged or no ONNX model
 */
export async function readModel(source: string | Uint8Array): Promise<ModelFile> {
  if (typeof source !== 'string') {
    requireArgument('onnx', 'the model', source, instance(Uint8Array, 'a path or a Uint8Array'));
    return { path: 'ONNX model', folder: undefined, model: parseModel(source, 'ONNX model') };
  }
  const bytes = await stat(source).then(
    ({ size }) => size,
    () => 0,
  );
  if (bytes > MOST_BYTES)
    throw new FileError(
      source,
      `has ${bytes} bytes, a protobuf message at most ${MOST_BYTES}. Export the model with external data.`,
    );
  return { path: source, folder: dirname(source), model: parseModel(await readBytes(source), source) };
}

/** @throws FileError for bytes that are no ONNX model */
export function parseModel(bytes: Uint8Array, path: string): ModelProto {
  if (bytes.length === 0) throw new FileError(path, 'is empty, expected an ONNX model.');
  let model: ModelProto;
  try {
    model = fromBinary(ModelProtoSchema, bytes, { recursionLimit: MOST_DEPTH, readUnknownFields: false });
  } catch (error) {
    throw new FileError(
      path,
      `is no ONNX model, or damaged: ${error instanceof Error ? error.message : String(error)}.`,
      { cause: error },
    );
  }
  if (!model.graph) throw new FileError(path, 'has no graph: it is no ONNX model, or damaged.');
  return model;
}
