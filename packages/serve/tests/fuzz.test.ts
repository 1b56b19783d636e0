/** Damaged requests get a refusal that says why, and the service goes on. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError as GrpcError } from '@grpc/grpc-js';
import { ServiceError } from '../src/errors.js';
import { ModelInferRequestSchema } from '../src/grpc/generated/open_inference_grpc_pb.js';
import { type RunningService, serve } from '../src/index.js';
import type { ModelSpec } from '../src/protocol/model-spec.js';
import { parseInferBody } from '../src/rest/infer-body.js';
import { damagedMessage, damagedRequest, REFUSED_STATUS } from './damaged-requests.js';
import { pointsRun, temporaryFolder } from './models.js';
import { property } from './property.js';

const folder = await temporaryFolder();
let service: RunningService;
let client: Client;
before(async () => {
  await pointsRun(join(folder, 'points'));
  service = await serve(folder, { port: 0, grpcPort: 0, device: 'cpu', logLevel: 'silent' });
  client = new Client(service.grpcAddress!, credentials.createInsecure());
});
after(async () => {
  client?.close();
  await service?.close();
});

const SPEC: ModelSpec = {
  ...{ platform: 'heddle_run', batched: true },
  inputs: [{ name: 'input', datatype: 'FP32', shape: [-1, 2] }],
  outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 1] }],
};

property(
  'a damaged body is parsed to inputs that fit, or refused',
  [damagedRequest],
  ({ body, headerLength }) => {
    try {
      const { inputs } = parseInferBody(body, headerLength, SPEC, 8);
      assert.equal(inputs.bytes[0]!.length, inputs.rows * 8);
      assert.ok(inputs.rows >= 1 && inputs.rows <= 8);
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.kind === 'invalid', String(error));
    }
  },
  { runs: 2000 },
);

property(
  'a damaged REST request is answered, and not by a failure of the service',
  [damagedRequest],
  async ({ body, headerLength }) => {
    const response = await fetch(`${service.url}/v2/models/points/infer`, {
      method: 'POST',
      body: body as BodyInit,
      headers: headerLength === undefined ? {} : { 'inference-header-content-length': headerLength },
    });
    const text = await response.text();
    assert.ok(REFUSED_STATUS.has(response.status), `${response.status} ${text}`);
    if (response.status !== 200)
      assert.equal(typeof (JSON.parse(text) as { error: unknown }).error, 'string');
  },
  { runs: 150 },
);

const message = toBinary(
  ModelInferRequestSchema,
  create(ModelInferRequestSchema, {
    modelName: 'points',
    id: 'x',
    inputs: [{ name: 'input', datatype: 'FP32', shape: [2n, 2n] }],
    outputs: [{ name: 'logits' }],
    rawInputContents: [new Uint8Array(16)],
  }),
);

/** OK, INVALID_ARGUMENT, NOT_FOUND. */
const GRPC_STATUS: ReadonlySet<number> = new Set([0, 3, 5]);

property(
  'a damaged gRPC message is answered, and not by a failure of the service',
  [damagedMessage(message)],
  async (bytes) => {
    const code = await new Promise<number>((resolve) =>
      client.makeUnaryRequest(
        '/inference.GRPCInferenceService/ModelInfer',
        () => Buffer.from(bytes),
        (answer: Buffer) => answer,
        null,
        (error: GrpcError | null) => resolve(error?.code ?? 0),
      ),
    );
    assert.ok(GRPC_STATUS.has(code), `status ${code}`);
  },
  { runs: 150 },
);
