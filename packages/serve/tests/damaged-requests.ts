/** Requests for inference of a model of points that are right, and then damaged at none, one or two places: some are still right. */
import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import {
  type InferParameter,
  InferParameterSchema,
  InferTensorContentsSchema,
  type ModelInferRequest,
  ModelInferRequest_InferInputTensorSchema,
  ModelInferRequest_InferRequestedOutputTensorSchema,
  ModelInferRequestSchema,
} from '../src/grpc/generated/open_inference_grpc_pb.js';

/** The body of a request to a model of points, and its header Inference-Header-Content-Length, if it has one. */
export interface RawRequest {
  readonly body: Uint8Array;
  readonly headerLength: string | undefined;
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    ...[
      null,
      '',
      -1,
      0,
      2 ** 31,
      2 ** 53,
      1e308,
      true,
      [],
      {},
      'FP32',
      'BYTES',
      '__proto__',
      [[[[]]]],
      [-1, 2],
    ],
  ),
  fc.jsonValue({ maxDepth: 3 }),
);

/** What both protocols ask: so many points, and how the request is written. */
const asked = fc.record({
  rows: fc.integer({ min: 1, max: 10 }),
  seed: fc.nat({ max: 1000 }),
  isBinary: fc.boolean(),
  id: fc.option(fc.string({ maxLength: 8 }), { nil: undefined }),
  namesOutput: fc.boolean(),
  priority: fc.option(fc.integer({ min: 0, max: 100 }), { nil: undefined }),
});

const pointsOf = (rows: number, seed: number): Float32Array =>
  Float32Array.from({ length: 2 * rows }, (_, i) => Math.sin(seed + i));

/** Bytes that are changed, by their places and values, and how many are left. */
interface ByteDamage {
  readonly kind: 'bytes';
  readonly flips: readonly (readonly [at: number, value: number])[];
  readonly cut: number | undefined;
  readonly more: Uint8Array;
}

const bytesDamage: fc.Arbitrary<ByteDamage> = fc.record({
  kind: fc.constant('bytes' as const),
  flips: fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 3 }),
  cut: fc.option(fc.nat({ max: 200 }), { nil: undefined, freq: 2 }),
  more: fc.oneof(fc.constant(new Uint8Array()), fc.uint8Array({ maxLength: 20 })),
});

function damageBytes(whole: Uint8Array, { flips, cut, more }: ByteDamage): Uint8Array {
  const bytes = Uint8Array.from([...whole.subarray(0, cut), ...more]);
  for (const [at, value] of flips) if (bytes.length > 0) bytes[at % bytes.length] = value;
  return bytes;
}

const INPUT_FIELDS = ['name', 'datatype', 'shape', 'data', 'parameters', 'more', 'constructor'];
const FIELDS = ['id', 'inputs', 'outputs', 'parameters', 'toString'];

const restDamage = fc.oneof(
  fc.record({ kind: fc.constant('input' as const), field: fc.constantFrom(...INPUT_FIELDS), value: odd }),
  fc.record({ kind: fc.constant('request' as const), field: fc.constantFrom(...FIELDS), value: odd }),
  fc.record({ kind: fc.constant('element' as const), at: fc.nat({ max: 20 }), value: odd }),
  fc.record({
    kind: fc.constant('size' as const),
    value: fc.oneof(fc.integer({ min: -8, max: 100 }), fc.constantFrom(2 ** 40, Number.MAX_SAFE_INTEGER)),
  }),
  fc.record({
    kind: fc.constant('header' as const),
    value: fc.oneof(
      fc.string({ maxLength: 6 }).filter((text) => /^[\x21-\x7e]*$/.test(text)),
      fc.integer().map(String),
    ),
  }),
  bytesDamage,
);

/** Of most requests none or one place is damaged. */
const few = <T>(damage: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(damage, { maxLength: 2 });

/** REST requests. */
export const damagedRequest: fc.Arbitrary<RawRequest> = fc
  .record({ asked, damages: few(restDamage) })
  .map(({ asked: { rows, seed, isBinary, id, namesOutput, priority }, damages }) => {
    const values = pointsOf(rows, seed);
    const data: unknown[] = [...values];
    const input: Record<string, unknown> = { name: 'input', datatype: 'FP32', shape: [rows, 2] };
    if (isBinary) input.parameters = { binary_data_size: values.byteLength };
    else input.data = data;
    const request: Record<string, unknown> = {
      ...(id !== undefined && { id }),
      inputs: [input],
      ...(namesOutput && { outputs: [{ name: 'logits' }] }),
      ...(priority !== undefined && { parameters: { priority } }),
    };
    let header: string | undefined;
    for (const damage of damages) {
      if (damage.kind === 'input') input[damage.field] = damage.value;
      if (damage.kind === 'request') request[damage.field] = damage.value;
      if (damage.kind === 'element') data[damage.at % data.length] = damage.value;
      if (damage.kind === 'size') input.parameters = { binary_data_size: damage.value };
      if (damage.kind === 'header') header = damage.value;
    }
    const head = Buffer.from(JSON.stringify(request));
    const binary = isBinary ? Buffer.from(values.buffer) : Buffer.alloc(0);
    let body: Uint8Array = Buffer.concat([head, binary]);
    for (const damage of damages) if (damage.kind === 'bytes') body = damageBytes(body, damage);
    return { body, headerLength: header ?? (isBinary ? String(head.length) : undefined) };
  });

/** What a request that is wrong may be answered with. */
export const REFUSED_STATUS: ReadonlySet<number> = new Set([200, 400, 404, 413, 429]);

const SIZES = fc.oneof(
  fc.bigInt({ min: -3n, max: 12n }),
  fc.constantFrom(2n ** 40n, 2n ** 63n - 1n, -(2n ** 63n)),
);

const grpcDamage = fc.oneof(
  fc.record({
    kind: fc.constant('name' as const),
    of: fc.constantFrom('model', 'version', 'input', 'output', 'datatype'),
    value: fc.oneof(
      fc.constantFrom('FP32', 'FP64', 'BYTES', 'points', '1', '__proto__'),
      fc.string({ maxLength: 8 }),
    ),
  }),
  fc.record({ kind: fc.constant('shape' as const), value: fc.array(SIZES, { maxLength: 4 }) }),
  fc.record({
    kind: fc.constant('raw' as const),
    value: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 2 }),
  }),
  fc.record({ kind: fc.constant('contents' as const), value: fc.array(fc.float(), { maxLength: 24 }) }),
  fc.record({ kind: fc.constant('priority' as const), value: fc.bigInt({ min: -1n, max: 200n }) }),
  bytesDamage,
);

const integer = (value: bigint): InferParameter =>
  create(InferParameterSchema, { parameterChoice: { case: 'int64Param', value } });

/** Bytes of messages of gRPC. */
export const damagedMessage: fc.Arbitrary<Uint8Array> = fc
  .record({ asked, damages: few(grpcDamage) })
  .map(({ asked: { rows, seed, isBinary, id, namesOutput, priority }, damages }) => {
    const values = pointsOf(rows, seed);
    const input = create(ModelInferRequest_InferInputTensorSchema, {
      ...{ name: 'input', datatype: 'FP32', shape: [BigInt(rows), 2n] },
      ...(!isBinary && { contents: { fp32Contents: [...values] } }),
    });
    const output = create(ModelInferRequest_InferRequestedOutputTensorSchema, { name: 'logits' });
    const message = create(ModelInferRequestSchema, {
      ...{ modelName: 'points', id: id ?? '', inputs: [input], outputs: namesOutput ? [output] : [] },
      ...(priority !== undefined && { parameters: { priority: integer(BigInt(priority)) } }),
      ...(isBinary && { rawInputContents: [new Uint8Array(values.buffer)] }),
    });
    for (const damage of damages) {
      if (damage.kind === 'name') rename(message, damage.of, damage.value);
      if (damage.kind === 'shape') input.shape = damage.value;
      if (damage.kind === 'raw') message.rawInputContents = damage.value;
      if (damage.kind === 'contents')
        input.contents = create(InferTensorContentsSchema, { fp32Contents: damage.value });
      if (damage.kind === 'priority') message.parameters = { priority: integer(damage.value) };
    }
    let bytes: Uint8Array = toBinary(ModelInferRequestSchema, message);
    for (const damage of damages) if (damage.kind === 'bytes') bytes = damageBytes(bytes, damage);
    return bytes;
  });

function rename(message: ModelInferRequest, of: string, value: string): void {
  const [input] = message.inputs;
  const [output] = message.outputs;
  if (of === 'model') message.modelName = value;
  if (of === 'version') message.modelVersion = value;
  if (of === 'input') input!.name = value;
  if (of === 'output' && output) output.name = value;
  if (of === 'datatype') input!.datatype = value;
}
