/** The protocol over gRPC, by a client that is generated from the .proto file when it runs. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import {
  type ClientUnaryCall,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { type nn, noGrad, type Tensor, tensor, useDevice } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { file_open_inference_grpc as generated } from '../src/grpc/generated/open_inference_grpc_pb.js';
import { type RunningService, serve } from '../src/index.js';
import { pointsRun, temporaryFolder, textRun } from './models.js';

const PROTO = fileURLToPath(new URL('../../assets/open_inference_grpc.proto', import.meta.url));
/** Of open_inference_grpc.proto at d49cc23f of github.com/kserve/open-inference-protocol: its descriptor. */
const PUBLISHED = 'fae469b9c438148a001d740119d5d08c39a18f437c33beb09e32506e38901549';

useDevice('cpu');
const folder = await temporaryFolder();
let service: RunningService;
let points: nn.Layer;
let client: Client;

before(async () => {
  points = await pointsRun(join(folder, 'points'));
  await textRun(join(folder, 'text'));
  await writeFile(join(folder, 'points', 'settings.json'), '{ "maxBatchSize": 8 }');
  service = await serve(folder, {
    port: 0,
    grpcPort: 0,
    device: 'cpu',
    logLevel: 'silent',
    maxBodyBytes: 100_000,
  });
  client = clientOf(service.grpcAddress!);
});
after(async () => {
  client?.close();
  await service?.close();
  await closeDevices();
});

type Callback = (error: ServiceError | null, answer: Answer) => void;
// biome-ignore lint/suspicious/noExplicitAny: messages are as the .proto has them, which no type says
type Answer = any;
type Client = { close(): void } & Record<
  string,
  (request: object, metadata: Metadata, options: object, callback: Callback) => ClientUnaryCall
>;

function clientOf(address: string): Client {
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const { inference } = loadPackageDefinition(loadSync(PROTO, { keepCase: true, longs: Number })) as any;
  return new inference.GRPCInferenceService(address, credentials.createInsecure()) as Client;
}

const call = (method: string, request: object, options: object = {}): Promise<Answer> =>
  new Promise((resolve, reject) =>
    client[method]!(request, new Metadata(), options, (error, answer) =>
      error ? reject(error) : resolve(answer),
    ),
  );

const point = (more: object = {}, input: object = {}): object => ({
  model_name: 'points',
  inputs: [
    { name: 'input', datatype: 'FP32', shape: [1, 2], contents: { fp32_contents: [0.5, -0.25] }, ...input },
  ],
  ...more,
});
const raw = (...values: number[]): Buffer => Buffer.from(Float32Array.from(values).buffer);

test('the messages are those of the published protocol', () => {
  const bytes = toBinary(FileDescriptorProtoSchema, generated.proto);
  assert.equal(createHash('sha256').update(bytes).digest('hex'), PUBLISHED);
});

test('health and metadata', async () => {
  assert.equal((await call('ServerLive', {})).live, true);
  assert.equal((await call('ServerReady', {})).ready, true);
  assert.equal((await call('ModelReady', { name: 'points' })).ready, true);
  await assert.rejects(call('ModelReady', { name: '../points' }), { code: status.NOT_FOUND });
  assert.deepEqual((await call('ServerMetadata', {})).extensions, [
    'binary_tensor_data',
    'classification',
    'model_repository',
    'schedule_policy',
  ]);
  const { inputs, outputs, versions } = await call('ModelMetadata', { name: 'points', version: '1' });
  assert.deepEqual(versions, ['1']);
  assert.deepEqual(inputs, [{ name: 'input', datatype: 'FP32', shape: [-1, 2] }]);
  assert.deepEqual(outputs, [{ name: 'logits', datatype: 'FP32', shape: [-1, 1] }]);
});

test('typed contents are answered by typed contents, raw bytes by raw bytes', async () => {
  const [expected] = await noGrad(() => points.forward(tensor([[0.5, -0.25]]) as Tensor)).data();
  const typed = await call('ModelInfer', point({ id: 'x' }));
  assert.equal(typed.id, 'x');
  const [logit] = typed.outputs[0].contents.fp32_contents;
  assert.ok(Math.abs(logit - expected!) < 1e-6, `${logit} ≠ ${expected}`);
  assert.deepEqual(typed.raw_output_contents ?? [], []);
  const bytes = await call(
    'ModelInfer',
    point({ raw_input_contents: [raw(0.5, -0.25)] }, { contents: undefined }),
  );
  assert.deepEqual(bytes.outputs[0].shape, [1, 1]);
  assert.deepEqual(bytes.raw_output_contents, [raw(logit)]);
  const tokens = {
    name: 'input',
    datatype: 'INT32',
    shape: [1, 4],
    contents: { int_contents: [1, 2, 3, 4] },
  };
  const text = await call('ModelInfer', { model_name: 'text', inputs: [tokens] });
  assert.deepEqual(text.outputs[0].shape, [1, 4, 8]);
});

const REFUSED: readonly (readonly [what: string, request: object, code: number, message: RegExp])[] = [
  ['another model', point({ model_name: 'pionts' }), status.NOT_FOUND, /there is no model 'pionts'/],
  ['another version', point({ model_version: '7' }), status.NOT_FOUND, /called '7'/],
  [
    'another datatype',
    point({}, { datatype: 'FP64' }),
    status.INVALID_ARGUMENT,
    /is FP64, the model takes FP32/,
  ],
  ['another shape', point({}, { shape: [2] }), status.INVALID_ARGUMENT, /has the shape \[2\]/],
  ['a huge shape', point({}, { shape: [2 ** 53, 2] }), status.INVALID_ARGUMENT, /has the shape/],
  [
    'elements missing',
    point({}, { shape: [2, 2] }),
    status.INVALID_ARGUMENT,
    /has 2 elements, its shape asks for 4/,
  ],
  [
    'another field',
    point({}, { contents: { int_contents: [1, 2] } }),
    status.INVALID_ARGUMENT,
    /has int_contents, .* as fp32_contents/,
  ],
  [
    'both',
    point({ raw_input_contents: [raw(1, 2)] }),
    status.INVALID_ARGUMENT,
    /has contents beside raw_input_contents/,
  ],
  [
    'raw bytes too many',
    point({ raw_input_contents: [raw(1, 2, 3)] }, { contents: undefined }),
    status.INVALID_ARGUMENT,
    /have 12 bytes, must have 8/,
  ],
  [
    'raw entries too many',
    point({ raw_input_contents: [raw(1, 2), raw(1)] }),
    status.INVALID_ARGUMENT,
    /2 entries for 1 inputs/,
  ],
  ['an output', point({ outputs: [{ name: 'x' }] }), status.INVALID_ARGUMENT, /no output 'x'/],
  [
    'a priority',
    point({ parameters: { priority: { int64_param: -1 } } }),
    status.INVALID_ARGUMENT,
    /priority is -1/,
  ],
  [
    'a message too large',
    point({ raw_input_contents: [Buffer.alloc(200_000)] }),
    status.RESOURCE_EXHAUSTED,
    /larger/,
  ],
];
for (const [what, request, code, message] of REFUSED)
  test(`a refusal of ${what}`, async () => {
    await assert.rejects(call('ModelInfer', request), (error: ServiceError) => {
      assert.equal(error.code, code, error.message);
      assert.match(error.details, message);
      return true;
    });
  });

test('bytes that are no message are refused, and the server goes on', async () => {
  const { makeUnaryRequest } = client as unknown as { makeUnaryRequest: (...args: unknown[]) => void };
  const garbage = (bytes: Buffer): Promise<ServiceError> =>
    new Promise((resolve) =>
      makeUnaryRequest.call(
        client,
        '/inference.GRPCInferenceService/ModelInfer',
        () => bytes,
        (answer: Buffer) => answer,
        {},
        (error: ServiceError) => resolve(error),
      ),
    );
  for (const bytes of [Buffer.from('ff', 'hex'), Buffer.from('0aff', 'hex'), Buffer.alloc(64, 0x3a)])
    assert.equal((await garbage(bytes)).code, status.INVALID_ARGUMENT);
  assert.equal((await call('ServerLive', {})).live, true);
});

test('a deadline and a cancellation end a call', async () => {
  await assert.rejects(call('ModelInfer', point(), { deadline: Date.now() - 1 }), {
    code: status.DEADLINE_EXCEEDED,
  });
  await assert.rejects(
    new Promise((_, reject) => {
      const own = client.ModelInfer!(point(), new Metadata(), {}, (error) => reject(error));
      own.cancel();
    }),
    { code: status.CANCELLED },
  );
});
