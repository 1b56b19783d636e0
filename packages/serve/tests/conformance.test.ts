/** The REST side against its OpenAPI document, by a client that is made of the document, and the document against the protocol's. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { type RunningService, serve } from '../src/index.js';
import { DocumentClient, type OpenApiDocument } from './document-client.js';
import { lenetRun, pointsRun, temporaryFolder } from './models.js';

const folder = await temporaryFolder();
let service: RunningService;
let document: OpenApiDocument;
let client: DocumentClient;
before(async () => {
  await pointsRun(join(folder, 'points'));
  await lenetRun(join(folder, 'lenet'));
  service = await serve(folder, { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' });
  document = (await (await fetch(`${service.url}/openapi.json`)).json()) as OpenApiDocument;
  client = new DocumentClient(document, service.url);
});
after(() => service?.close());

/** A PNG of one pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==',
  'base64',
);
const INPUT = { name: 'input', shape: [1, 2], datatype: 'FP32', data: [0.5, 1] };

test('every operation answers as the document says, and every operation was called', async () => {
  const model = { model: 'points' };
  const version = { model: 'points', version: '1' };
  for (const id of [
    'serverLive',
    'serverReady',
    'serverMetadata',
    'listModels',
    'metrics',
    'repositoryIndex',
  ])
    assert.equal((await client.call(id)).status, 200, id);
  for (const id of ['modelReady', 'modelMetadata']) {
    assert.equal((await client.call(id, model)).status, 200, id);
    assert.equal((await client.call(id, { model: 'none' })).status, 404, id);
    assert.equal((await client.call(`${id}Version`, version)).status, 200, id);
  }
  const request = { id: '42', inputs: [INPUT], outputs: [{ name: 'logits' }], parameters: { priority: 1 } };
  assert.equal((await client.call('infer', model, request)).status, 200);
  assert.equal((await client.call('inferVersion', version, request)).status, 200);
  const file = { ...INPUT, shape: [1], datatype: 'BYTES', data: [PNG.toString('base64')] };
  const classes = [{ name: 'logits', parameters: { classification: 2 } }];
  const labels = await client.call('infer', { model: 'lenet' }, { inputs: [file], outputs: classes });
  assert.equal(labels.status, 200);
  assert.equal((await client.call('infer', model, { inputs: [] })).status, 400);
  assert.equal(
    (await client.call('infer', { ...model, 'X-Request-Timeout-Ms': '0.001' }, request)).status,
    504,
  );
  const image = { model: 'lenet', top: '2', gradcam: 'true' };
  assert.equal((await client.call('classify', image, PNG)).status, 200);
  assert.equal((await client.call('classify', image, Buffer.from('text'))).status, 415);
  assert.equal((await client.call('repositoryUnload', model)).status, 200);
  assert.equal((await client.call('repositoryUnload', model)).status, 404);
  assert.equal((await client.call('repositoryLoad', model)).status, 200);
  assert.deepEqual([...client.called].sort(), [...client.operations].sort());
});

/**
 * What open_inference_rest.yaml of github.com/kserve/open-inference-protocol (d49cc23f) asks of servers: its operations, and the
 * members that its schemas require. The data of tensors are not required here: they may be binary.
 */
const PUBLISHED = {
  operations: [
    'get /v2',
    'get /v2/health/live',
    'get /v2/health/ready',
    'get /v2/models/{model}/versions/{version}',
    'get /v2/models/{model}/versions/{version}/ready',
    'post /v2/models/{model}/versions/{version}/infer',
  ],
  required: {
    metadata_server_response: ['name', 'version', 'extensions'],
    metadata_model_response: ['name', 'platform'],
    metadata_tensor: ['name', 'datatype', 'shape'],
    inference_request: ['inputs'],
    request_input: ['name', 'shape', 'datatype'],
    request_output: ['name'],
    response_output: ['name', 'shape', 'datatype'],
    inference_response: ['model_name', 'outputs'],
  },
} as const;

test('the document has the operations and the required members of the published one', () => {
  for (const text of PUBLISHED.operations) {
    const [method, path] = text.split(' ') as [string, string];
    assert.ok(document.paths[path]?.[method], text);
  }
  for (const [name, required] of Object.entries(PUBLISHED.required)) {
    const schema = document.components.schemas[name]!;
    assert.deepEqual([...(schema.required ?? [])].sort(), [...required].sort(), name);
    for (const member of required) assert.ok(Object.hasOwn(schema.properties!, member), `${name}.${member}`);
  }
});

/** The published document itself, open_inference_rest.yaml, where a copy of it is named. */
const PUBLISHED_FILE = process.env.OPEN_INFERENCE_REST_YAML;

test('a client made of the published document gets what that promises', {
  skip: PUBLISHED_FILE === undefined && 'OPEN_INFERENCE_REST_YAML does not name the published document',
}, async () => {
  const published = parse(readFileSync(PUBLISHED_FILE!, 'utf8')) as OpenApiDocument;
  const own = new DocumentClient(published, service.url);
  const model = { MODEL_NAME: 'points', MODEL_VERSION: '1' };
  const ids = Object.fromEntries(
    own.operations.map((id) => [
      id.replace(/-?\$-(MODEL_NAME|MODEL_VERSION|modelName|modelVersion)/g, ''),
      id,
    ]),
  );
  const call = (id: string, ...rest: [Record<string, string>?, object?]) => own.call(ids[id]!, ...rest);
  for (const id of ['get-v2-health-live', 'get-v2-health-ready', 'get-v2'])
    assert.equal((await call(id)).status, 200, id);
  assert.equal((await call('get-v2-models-versions-ready', model)).status, 200);
  const { value: metadata } = await call('get-v2-models-versions', model);
  assert.deepEqual((metadata as { inputs: unknown }).inputs, [
    { name: 'input', datatype: 'FP32', shape: [-1, 2] },
  ]);
  const infer = 'post-v2-models-versions-infer';
  const request = { id: '42', inputs: [INPUT], outputs: [{ name: 'logits' }] };
  const { value: answer } = await call(infer, model, request);
  const { id, model_name, outputs } = answer as {
    id: string;
    model_name: string;
    outputs: { data: number[] }[];
  };
  assert.deepEqual([id, model_name, outputs.length, outputs[0]!.data.length], ['42', 'points', 1, 1]);
  const { status, value: refusal } = await call(infer, model, { inputs: [{ ...INPUT, name: 'other' }] });
  assert.equal(status, 400);
  assert.match((refusal as { error: string }).error, /'input' is missing/);
  assert.deepEqual([...own.called].sort(), [...own.operations].sort());
});
