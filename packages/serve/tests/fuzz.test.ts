/** Damaged requests get a refusal that says why, and the service goes on. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client, credentials, type ServiceError as GrpcError } from '@grpc/grpc-js';
import fc from 'fast-check';
import { ServiceError } from '../src/errors.js';
import { type RunningService, serve } from '../src/index.js';
import { checkInputs } from '../src/protocol/infer-request.js';
import type { ModelSpec } from '../src/protocol/model-spec.js';
import { parseInferBody } from '../src/rest/infer-body.js';
import { damagedMessage, damagedRequest, type RawRequest, REFUSED_STATUS } from './damaged-requests.js';
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

test('a fifth of the damaged requests and more are still right: they get as far as the model', () => {
  const isRight = ({ body, headerLength }: RawRequest): boolean => {
    try {
      checkInputs(SPEC, parseInferBody(body, headerLength, SPEC).given, 10);
      return true;
    } catch {
      return false;
    }
  };
  const cases = fc.sample(damagedRequest, { numRuns: 1000, seed: 1 });
  assert.ok(cases.filter(isRight).length >= 200);
});

property(
  'a damaged body is parsed to inputs that fit, or refused',
  [damagedRequest],
  ({ body, headerLength }) => {
    try {
      const inputs = checkInputs(SPEC, parseInferBody(body, headerLength, SPEC).given, 8);
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

/** OK, INVALID_ARGUMENT, NOT_FOUND. */
const GRPC_STATUS: ReadonlySet<number> = new Set([0, 3, 5]);

property(
  'a damaged gRPC message is answered, and not by a failure of the service',
  [damagedMessage],
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
