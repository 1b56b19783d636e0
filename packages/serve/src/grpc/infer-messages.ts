/** The messages of gRPC inference, as the requests and answers that they stand for. */
import { create } from '@bufbuild/protobuf';
import { shown } from 'heddle/internal/core/arguments.js';
import type { OutputTensor } from '../batching/batcher.js';
import { invalid } from '../errors.js';
import { classificationOf, classificationParameter } from '../images/classification.js';
import { joinStrings, splitStrings } from '../protocol/byte-strings.js';
import { bytesOf, type Datatype, recordOf, valuesOf } from '../protocol/datatypes.js';
import { chosenOutputs, type GivenTensor, requireLength } from '../protocol/infer-request.js';
import type { ModelSpec } from '../protocol/model-spec.js';
import {
  type InferParameter,
  type InferTensorContents,
  InferTensorContentsSchema,
  type ModelInferRequest,
  type ModelInferRequest_InferInputTensor,
  type ModelInferResponse,
  ModelInferResponse_InferOutputTensorSchema,
  ModelInferResponseSchema,
} from './generated/open_inference_grpc_pb.js';

/** What a request says. */
export interface GrpcInferRequest {
  /** Not checked yet. */
  readonly given: readonly GivenTensor[];
  /** The places of the outputs that are asked for, and of how many of the likeliest classes in place of the values. */
  readonly outputs: readonly { readonly place: number; readonly classification: number | undefined }[];
}

/** @throws ServiceError */
export function readInferRequest(
  { inputs, outputs, rawInputContents: raw }: ModelInferRequest,
  spec: ModelSpec,
): GrpcInferRequest {
  if (raw.length > 0 && raw.length !== inputs.length)
    throw invalid(
      `raw_input_contents has ${raw.length} entries for ${inputs.length} inputs, must have one for each.`,
    );
  const places = chosenOutputs(
    spec,
    outputs.map(({ name }) => name),
  );
  const counts = outputs.map(({ name, parameters }) =>
    classificationParameter(name, parameterOf(parameters, 'classification')),
  );
  return {
    given: inputs.map((input, i) => givenTensor(input, raw[i])),
    outputs: places.map((place, i) => ({ place, classification: counts[i] })),
  };
}

function givenTensor(
  { name, datatype, shape, contents }: ModelInferRequest_InferInputTensor,
  raw: Uint8Array | undefined,
): GivenTensor {
  return {
    ...{ name, datatype, shape: shape.map(Number) },
    bytes: (spec, count) => {
      if (raw === undefined) return contentsOf(name, spec.datatype, contents, count);
      if (contents !== undefined)
        throw invalid(`the input '${name}' has contents beside raw_input_contents. Leave one of them out.`);
      requireLength(name, spec.datatype, count, raw.length);
      return raw;
    },
    strings: () => (raw === undefined ? (contents?.bytesContents ?? []) : splitStrings(name, raw)),
  };
}

const FIELDS = [
  'boolContents',
  'intContents',
  'int64Contents',
  'uintContents',
  'uint64Contents',
  'fp32Contents',
  'fp64Contents',
  'bytesContents',
] as const satisfies readonly (keyof InferTensorContents)[];

/** Elements that were sent in the field of their datatype. */
function contentsOf(
  name: string,
  datatype: Datatype,
  contents: InferTensorContents | undefined,
  count: number,
): Uint8Array {
  const { contents: field } = recordOf(datatype);
  if (field === undefined)
    throw invalid(`the input '${name}' is ${datatype}, whose elements are sent as raw_input_contents alone.`);
  const other = contents && FIELDS.find((known) => known !== field && contents[known].length > 0);
  if (other !== undefined)
    throw invalid(
      `the input '${name}' has ${snake(other)}, elements of ${datatype} are sent as ${snake(field)}.`,
    );
  const values: readonly unknown[] = contents?.[field] ?? [];
  if (values.length !== count)
    throw invalid(`the input '${name}' has ${values.length} elements, its shape asks for ${count}.`);
  return bytesOf(datatype, values, (i, must) =>
    invalid(
      `the input '${name}' has the element ${shown(values[i])} at ${i}, must be ${must} (${datatype}).`,
    ),
  );
}

const snake = (name: string): string => name.replace(/([A-Z])/g, '_$1').toLowerCase();

/** The answer: as raw bytes to a request of raw bytes, and wherever a datatype has no field of its own. */
export function inferResponse(
  model: { readonly model: string; readonly version: string; readonly spec: ModelSpec },
  { id, rawInputContents }: ModelInferRequest,
  outputs: GrpcInferRequest['outputs'],
  results: readonly OutputTensor[],
): ModelInferResponse {
  const { model: modelName, version: modelVersion, spec } = model;
  const answers = outputs.map(({ place, classification }) => {
    const own = spec.outputs[place]!;
    const { shape, bytes } = results[place]!;
    if (classification === undefined) return { ...own, shape, bytes, strings: undefined };
    const found = classificationOf(own, results[place]!, spec.classes, classification);
    const strings = found.strings.map((text) => Buffer.from(text));
    return { ...own, datatype: 'BYTES', shape: found.shape, bytes: joinStrings(strings), strings } as const;
  });
  const isRaw =
    rawInputContents.length > 0 || answers.some(({ datatype }) => fieldOf(datatype) === undefined);
  return create(ModelInferResponseSchema, {
    ...{ modelName, modelVersion, id },
    outputs: answers.map(({ name, datatype, shape, bytes, strings }) =>
      create(ModelInferResponse_InferOutputTensorSchema, {
        ...{ name, datatype, shape: shape.map(BigInt) },
        ...(!isRaw && {
          contents: create(InferTensorContentsSchema, {
            [fieldOf(datatype)!]: strings ?? valuesOf(datatype as Datatype, bytes),
          }),
        }),
      }),
    ),
    rawOutputContents: isRaw ? answers.map(({ bytes }) => bytes) : [],
  });
}

/** The field of typed contents for a datatype. */
const fieldOf = (datatype: Datatype | 'BYTES'): keyof InferTensorContents | undefined =>
  datatype === 'BYTES' ? 'bytesContents' : recordOf(datatype).contents;

/** The value of a parameter. */
export const parameterOf = (
  parameters: Readonly<Record<string, InferParameter>>,
  name: string,
): boolean | bigint | string | number | undefined =>
  Object.hasOwn(parameters, name) ? parameters[name]!.parameterChoice.value : undefined;
