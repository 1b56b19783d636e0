/** Tensors of BYTES: files of images as inputs, and classes as outputs, over both protocols. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError as GrpcError } from '@grpc/grpc-js';
import fc from 'fast-check';
import sharp from 'sharp';
import { ServiceError } from '../src/errors.js';
import {
  ModelInferRequestSchema,
  type ModelInferResponse,
  ModelInferResponseSchema,
} from '../src/grpc/generated/open_inference_grpc_pb.js';
import { type RunningService, serve } from '../src/index.js';
import { joinStrings, splitStrings } from '../src/protocol/byte-strings.js';
import { lenetRun, pointsRun, temporaryFolder } from './models.js';
import { property } from './property.js';

const folder = await temporaryFolder();
let service: RunningService;
let client: Client;
let images: Buffer[];
before(async () => {
  await lenetRun(join(folder, 'lenet'));
  await pointsRun(join(folder, 'points'));
  service = await serve(folder, {
    port: 0,
    grpcPort: 0,
    device: 'cpu',
    logLevel: 'silent',
    maxImagePixels: 10_000,
  });
  client = new Client(service.grpcAddress!, credentials.createInsecure());
  images = await Promise.all(
    ['#fff', '#456'].map((background, i) => {
      const image = sharp({ create: { width: 20 + i, height: 28, channels: 3, background } });
      return (i === 0 ? image.png() : image.jpeg()).toBuffer();
    }),
  );
});
after(async () => {
  client?.close();
  await service?.close();
});

property(
  'strings of bytes are what they were joined of, and those that are cut are refused',
  [fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 6 }), fc.nat()],
  (strings, cut) => {
    const bytes = joinStrings(strings);
    assert.deepEqual(
      splitStrings('x', bytes).map((own) => [...own]),
      strings.map((own) => [...own]),
    );
    const part = bytes.subarray(0, bytes.length === 0 ? 0 : cut % bytes.length);
    try {
      const found = splitStrings('x', part);
      assert.ok(found.length < strings.length || strings.length === 0);
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.kind === 'invalid', String(error));
    }
  },
);

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON text says is what the tests look at
  readonly json: any;
}

async function infer(
  request: object,
  binary: Uint8Array = new Uint8Array(),
  model = 'lenet',
): Promise<Answer> {
  const head = Buffer.from(JSON.stringify(request));
  const response = await fetch(`${service.url}/v2/models/${model}/infer`, {
    method: 'POST',
    headers: { 'inference-header-content-length': String(head.length) },
    body: Buffer.concat([head, binary]) as BodyInit,
  });
  return { status: response.status, json: await response.json() };
}

const input = { name: 'input', datatype: 'BYTES', shape: [2] };
const labels = [{ name: 'logits', parameters: { classification: 3 } }];

/** The classes of each image, as the service's own route says them. */
const expected = (): Promise<string[][]> =>
  Promise.all(
    images.map(async (image) => {
      const response = await fetch(`${service.url}/v1/models/lenet/classify?top=3`, {
        method: 'POST',
        body: image as BodyInit,
      });
      const { classes } = (await response.json()) as { classes: { index: number; label: string }[] };
      return classes.map(({ index, label }) => `${index}:${label}`);
    }),
  );

/** Without the values: index and label. */
const named = (texts: readonly string[]): string[][] =>
  [0, 3].map((at) => texts.slice(at, at + 3).map((text) => text.replace(/^[^:]*:/, '')));

test('files of images go in and classes come out over REST, as binary data and in JSON', async () => {
  const bytes = joinStrings(images);
  const binary = { ...input, parameters: { binary_data_size: bytes.length } };
  const { json, status } = await infer({ inputs: [binary], outputs: labels }, bytes);
  assert.equal(status, 200, json.error);
  const [output] = json.outputs;
  assert.deepEqual([output.datatype, output.shape], ['BYTES', [2, 3]]);
  assert.deepEqual(named(output.data), await expected());
  const values = output.data.map((text: string) => Number(text.split(':')[0])) as number[];
  assert.ok(values[0]! >= values[1]! && values[1]! >= values[2]!);
  const base64 = { ...input, data: images.map((image) => image.toString('base64')) };
  const { json: inJson } = await infer({ inputs: [base64], outputs: labels });
  assert.deepEqual(inJson.outputs, json.outputs);
  const { json: plain } = await infer({ inputs: [base64] });
  assert.deepEqual([plain.outputs[0].datatype, plain.outputs[0].shape], ['FP32', [2, 10]]);
  assert.equal(Math.max(...plain.outputs[0].data.slice(0, 10)), values[0]);
});

test('classes come out of a model of other inputs, and as many as there are', async () => {
  const point = { name: 'input', datatype: 'FP32', shape: [1, 2], data: [0.5, 1] };
  const ask = (classification: unknown) =>
    infer(
      { inputs: [point], outputs: [{ name: 'logits', parameters: { classification } }] },
      undefined,
      'points',
    );
  const { json } = await ask(5);
  assert.deepEqual(json.outputs[0].shape, [1, 1]);
  assert.match(json.outputs[0].data[0], /^-?[\d.e-]+:0:0$/);
  const refused = await ask('many');
  assert.deepEqual(
    [refused.status, refused.json.error],
    [400, "classification of the output 'logits' is 'many', must be an integer ≥ 1."],
  );
});

type Init = MessageInitShape<typeof ModelInferRequestSchema>;

const call = (request: Init): Promise<ModelInferResponse> =>
  new Promise((resolve, reject) =>
    client.makeUnaryRequest(
      '/inference.GRPCInferenceService/ModelInfer',
      (message: Init) =>
        Buffer.from(toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, message))),
      (bytes: Buffer) => fromBinary(ModelInferResponseSchema, bytes),
      request,
      (error: GrpcError | null, answer) => (error ? reject(error) : resolve(answer!)),
    ),
  );

test('files of images go in and classes come out over gRPC, typed and raw', async () => {
  const tensor = { name: 'input', datatype: 'BYTES', shape: [2n] };
  const count = { parameterChoice: { case: 'int64Param', value: 3n } } as const;
  const outputs = [{ name: 'logits', parameters: { classification: count } }];
  const typed = await call({
    ...{ modelName: 'lenet', outputs },
    inputs: [{ ...tensor, contents: { bytesContents: images } }],
  });
  const texts = (list: readonly Uint8Array[]): string[] => list.map((bytes) => Buffer.from(bytes).toString());
  const [output] = typed.outputs;
  assert.deepEqual([output!.datatype, output!.shape], ['BYTES', [2n, 3n]]);
  const found = texts(output!.contents!.bytesContents);
  assert.deepEqual(named(found), await expected());
  const raw = await call({
    modelName: 'lenet',
    outputs,
    inputs: [tensor],
    rawInputContents: [joinStrings(images)],
  });
  assert.deepEqual(texts(splitStrings('logits', raw.rawOutputContents[0]!)), found);
});

test('strings of bytes that are no images, or not as many, are refused', async () => {
  const files = images.map((image) => image.toString('base64'));
  const refuse = async (status: number, message: RegExp, change: object, model = 'lenet') => {
    const found = await infer({ inputs: [{ ...input, data: files, ...change }] }, undefined, model);
    assert.equal(found.status, status, found.json.error);
    assert.match(found.json.error, message);
  };
  await refuse(400, /is BYTES, the model takes FP32/, {}, 'points');
  await refuse(400, /has 1 elements, its shape asks for 2/, { data: files.slice(1) });
  await refuse(400, /has the shape \[1000\], must be \[n\] with n from 1 to 64/, { shape: [1000] });
  await refuse(400, /has the shape \[2, 3\]/, { shape: [2, 3] });
  await refuse(400, /at 1, must be a file of an image in base64/, { data: [files[0], 'no base64!'] });
  await refuse(400, /'input' is missing/, { name: 'image' });
  await refuse(415, /no image that is read here/, { data: ['R0lGODlh', 'R0lGODlh'] });
  const large = await sharp({ create: { width: 200, height: 200, channels: 3, background: '#000' } })
    .png()
    .toBuffer();
  await refuse(413, /more than maxPixels/, { shape: [1], data: [large.toString('base64')] });
  const size = { parameters: { binary_data_size: 8 }, data: undefined };
  const cut = await infer({ inputs: [{ ...input, ...size }] }, Uint8Array.of(9, 0, 0, 0, 1, 2, 3, 4));
  assert.deepEqual([cut.status, /should end at the byte 13/.test(cut.json.error)], [400, true]);
});
