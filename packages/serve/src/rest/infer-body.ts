/** The bodies of REST inference: JSON, with the elements of tensors in it or, by the binary data extension, behind it. */
import { isPlainObject, shown } from 'heddle/internal/core/arguments.js';
import type { OutputTensor } from '../batching/batcher.js';
import { invalid } from '../errors.js';
import { classificationOf, classificationParameter } from '../images/classification.js';
import { joinStrings, splitStrings } from '../protocol/byte-strings.js';
import { bytesOf, valuesOf } from '../protocol/datatypes.js';
import { chosenOutputs, type GivenTensor, requireLength } from '../protocol/infer-request.js';
import type { ModelSpec, TensorSpec } from '../protocol/model-spec.js';

/** A request as its body says it. */
export interface RestInferRequest {
  readonly id: string | undefined;
  /** Not checked yet. */
  readonly given: readonly GivenTensor[];
  readonly outputs: readonly AskedOutput[];
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** An output that is asked for. */
interface AskedOutput {
  readonly place: number;
  /** Whether as binary data. */
  readonly isBinary: boolean;
  /** So many of the likeliest classes, in place of the values. */
  readonly classification?: number | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * @param headerLength of the header Inference-Header-Content-Length: where the JSON ends and binary data begin
 * @throws ServiceError
 */
export function parseInferBody(
  body: Uint8Array,
  headerLength: string | undefined,
  spec: ModelSpec,
): RestInferRequest {
  const end = headerLength === undefined ? body.length : lengthOf(headerLength, body.length);
  const fields = parseFields(body, end);
  const { id, inputs, outputs } = fields;
  if (id !== undefined && typeof id !== 'string') throw invalid(`id is ${shown(id)}, must be a string.`);
  if (!Array.isArray(inputs)) throw invalid(`inputs is ${shown(inputs)}, must be an array of tensors.`);
  if (inputs.length > spec.inputs.length + 16)
    throw invalid(`inputs has ${inputs.length} tensors, the model takes ${spec.inputs.length}.`);
  const parameters = parametersOf(fields, 'the request');
  const reader = new BinaryReader(body.subarray(end));
  const given = inputs.map((input, i) => givenTensor(input, i, reader));
  reader.requireEnd();
  return {
    id,
    given,
    outputs: outputsOf(outputs, spec, parameters.binary_data_output === true),
    parameters,
  };
}

function lengthOf(text: string, length: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0 && value <= length) return value;
  throw invalid(
    `Inference-Header-Content-Length is ${shown(text)}, must be the length of the JSON: from 0 to the ${length} bytes of the body.`,
  );
}

const TEXT = new TextDecoder('utf-8', { fatal: true });

function parseFields(body: Uint8Array, end: number): Fields {
  let fields: unknown;
  try {
    fields = JSON.parse(TEXT.decode(body.subarray(0, end)));
  } catch (error) {
    throw invalid(`the JSON of the request cannot be read (${(error as Error).message}).`);
  }
  if (!isPlainObject(fields)) throw invalid(`the request is ${shown(fields)}, must be a JSON object.`);
  return fields;
}

function parametersOf(fields: Fields, of: string): Fields {
  const { parameters = {} } = fields;
  if (isPlainObject(parameters)) return parameters;
  throw invalid(`parameters of ${of} is ${shown(parameters)}, must be a JSON object.`);
}

/** Hands out the binary data of one tensor after the other. */
class BinaryReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(name: string, length: number): Uint8Array {
    const left = this.#bytes.length - this.#at;
    if (length > left)
      throw invalid(
        `the binary data of '${name}' should have ${length} bytes, but the body ends after ${left} of them.`,
      );
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  requireEnd(): void {
    const left = this.#bytes.length - this.#at;
    if (left > 0)
      throw invalid(
        `${left} bytes of binary data belong to no input. Give the size of each as its parameter binary_data_size, and the ` +
          'length of the JSON as the header Inference-Header-Content-Length.',
      );
  }
}

function givenTensor(input: unknown, i: number, reader: BinaryReader): GivenTensor {
  if (!isPlainObject(input)) throw invalid(`inputs[${i}] is ${shown(input)}, must be a JSON object.`);
  const { name, datatype, shape, data } = input;
  if (typeof name !== 'string')
    throw invalid(`the name of inputs[${i}] is ${shown(name)}, must be a string.`);
  if (typeof datatype !== 'string')
    throw invalid(
      `the datatype of the input '${name}' is ${shown(datatype)}, must be a string such as FP32.`,
    );
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size)))
    throw invalid(`the shape of the input '${name}' is ${shown(shape)}, must be an array of integers.`);
  const size = parametersOf(input, `the input '${name}'`).binary_data_size;
  if (size === undefined) {
    if (!Array.isArray(data))
      throw invalid(
        `the data of the input '${name}' is ${shown(data)}, must be an array, or binary data with the parameter binary_data_size.`,
      );
    return {
      ...{ name, datatype, shape },
      bytes: (spec, count) => elementsOf(spec, data, count),
      strings: () => base64Of(name, data),
    };
  }
  if (data !== undefined)
    throw invalid(`the input '${name}' has both data and binary_data_size. Leave one of them out.`);
  if (!Number.isSafeInteger(size) || (size as number) < 0)
    throw invalid(`binary_data_size of the input '${name}' is ${shown(size)}, must be an integer ≥ 0.`);
  const bytes = reader.take(name, size as number);
  return {
    ...{ name, datatype, shape },
    bytes: (spec, count) => {
      requireLength(name, spec.datatype, count, bytes.length);
      return bytes;
    },
    strings: () => splitStrings(name, bytes),
  };
}

/** Strings of bytes in JSON: as base64, since a text has no bytes of its own. */
function base64Of(name: string, data: readonly unknown[]): readonly Uint8Array[] {
  return data.flat(64).map((text, i) => {
    const isBase64 = typeof text === 'string' && /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0;
    if (isBase64) return Buffer.from(text, 'base64');
    throw invalid(
      `the input '${name}' has the element ${shown(text)} at ${i}, must be a file of an image in base64, or sent as binary data (BYTES).`,
    );
  });
}

/** The elements of JSON arrays, which may be nested as the shape is, or flat. */
function elementsOf({ name, datatype }: TensorSpec, data: readonly unknown[], count: number): Uint8Array {
  const flat = data.some(Array.isArray) ? data.flat(64) : data;
  if (flat.length !== count)
    throw invalid(`the input '${name}' has ${flat.length} elements, its shape asks for ${count}.`);
  return bytesOf(datatype, flat, (i, must) =>
    invalid(`the input '${name}' has the element ${shown(flat[i])} at ${i}, must be ${must} (${datatype}).`),
  );
}

function outputsOf(outputs: unknown, spec: ModelSpec, isBinary: boolean): RestInferRequest['outputs'] {
  if (outputs === undefined) return chosenOutputs(spec, undefined).map((place) => ({ place, isBinary }));
  if (!Array.isArray(outputs)) throw invalid(`outputs is ${shown(outputs)}, must be an array.`);
  const asked = outputs.map((output, i) => {
    if (!isPlainObject(output) || typeof output.name !== 'string')
      throw invalid(`outputs[${i}] is ${shown(output)}, must be a JSON object with a name.`);
    const { binary_data = isBinary, classification } = parametersOf(output, `the output '${output.name}'`);
    if (typeof binary_data !== 'boolean')
      throw invalid(
        `binary_data of the output '${output.name}' is ${shown(binary_data)}, must be true or false.`,
      );
    return {
      ...{ name: output.name, isBinary: binary_data },
      classification: classificationParameter(output.name, classification),
    };
  });
  const places = chosenOutputs(
    spec,
    asked.map(({ name }) => name),
  );
  // Of an empty list, all.
  return places.map((place, i) => ({ isBinary, ...asked[i], place }));
}

/** An answer: JSON, and binary data behind it. */
export interface RestInferAnswer {
  readonly body: Buffer;
  /** How long the JSON is, if binary data follow it. */
  readonly headerLength: number | undefined;
}

/** @throws ServiceError for an element that JSON has no number for */
export function formatInferAnswer(
  model: { readonly model: string; readonly version: string; readonly spec: ModelSpec },
  { id, outputs }: RestInferRequest,
  results: readonly OutputTensor[],
): RestInferAnswer {
  const tensors: string[] = [];
  const binary: Uint8Array[] = [];
  for (const { place, isBinary, classification } of outputs) {
    const spec = model.spec.outputs[place]!;
    const { name, datatype } = spec;
    const { shape, bytes } = results[place]!;
    const headOf = (type: string, sizes: readonly number[]): string =>
      `{"name":${JSON.stringify(name)},"datatype":"${type}","shape":[${sizes.join()}],`;
    const asBinary = (head: string, own: Uint8Array): void => {
      tensors.push(`${head}"parameters":{"binary_data_size":${own.byteLength}}}`);
      binary.push(own);
    };
    if (classification !== undefined) {
      const found = classificationOf(spec, results[place]!, model.spec.classes, classification);
      const head = headOf('BYTES', found.shape);
      if (isBinary) asBinary(head, joinStrings(found.strings.map((text) => Buffer.from(text))));
      else tensors.push(`${head}"data":${JSON.stringify(found.strings)}}`);
      continue;
    }
    const head = headOf(datatype, shape);
    if (isBinary) {
      asBinary(head, bytes);
      continue;
    }
    const values = valuesOf(datatype, bytes);
    const at = values.findIndex((value) => typeof value === 'number' && !Number.isFinite(value));
    if (at >= 0)
      throw invalid(
        `the output '${name}' has the value ${values[at]} at ${at}, which JSON cannot say. Ask for binary data.`,
      );
    tensors.push(`${head}"data":[${values.join()}]}`);
  }
  const named = `{"model_name":${JSON.stringify(model.model)},"model_version":"${model.version}",`;
  const json = Buffer.from(
    `${named}${id === undefined ? '' : `"id":${JSON.stringify(id)},`}"outputs":[${tensors.join()}]}`,
  );
  return binary.length === 0
    ? { body: json, headerLength: undefined }
    : { body: Buffer.concat([json, ...binary]), headerLength: json.length };
}
