/** The REST side against its OpenAPI document, by a client that is made of the document, and the document against the protocol's. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Ajv } from 'ajv';
import { type RunningService, serve } from '../src/index.js';
import { lenetRun, pointsRun, temporaryFolder } from './models.js';

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<
      Record<string, { readonly required?: readonly string[]; readonly properties?: object }>
    >;
  };
}

const folder = await temporaryFolder();
let service: RunningService;
let document: Document;
let ajv: Ajv;
before(async () => {
  await pointsRun(join(folder, 'points'));
  await lenetRun(join(folder, 'lenet'));
  service = await serve(folder, { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' });
  document = (await (await fetch(`${service.url}/openapi.json`)).json()) as Document;
  ajv = new Ajv({ strict: false }).addSchema({ $id: 'openapi', ...document });
});
after(() => service?.close());

const called = new Set<string>();

function operation(id: string): { readonly path: string; readonly method: string; readonly own: Operation } {
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, own] of Object.entries(methods))
      if (own.operationId === id) return { path, method, own };
  throw new Error(`the document has no operation ${id}`);
}

function requireSchema(schema: object, value: unknown, what: string): void {
  const text = JSON.stringify(schema).replaceAll('"#/', '"openapi#/');
  const validate = ajv.compile(JSON.parse(text) as object);
  assert.ok(validate(value), `${what}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`);
}

/** Call an operation by its id; request and response have to be as the document says. */
async function call(
  id: string,
  parameters: Readonly<Record<string, string>> = {},
  body?: object | Uint8Array,
): Promise<{ readonly status: number; readonly value: unknown }> {
  called.add(id);
  const { path, method, own } = operation(id);
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  let target = path;
  for (const [name, value] of Object.entries(parameters)) {
    const place = own.parameters?.find((parameter) => parameter.name === name)?.in;
    if (place === 'path') target = target.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === 'query') query.set(name, value);
    else if (place === 'header') headers[name] = value;
    else throw new Error(`${id} has no parameter ${name}`);
  }
  const json = own.requestBody?.content['application/json'];
  if (body !== undefined && !(body instanceof Uint8Array))
    requireSchema(json!.schema, body, `the request of ${id}`);
  const response = await fetch(`${service.url}${target}${query.size > 0 ? `?${query}` : ''}`, {
    ...{ method: method.toUpperCase(), headers },
    ...(body !== undefined && {
      body: body instanceof Uint8Array ? (body as BodyInit) : JSON.stringify(body),
    }),
  });
  const described = own.responses[response.status];
  assert.ok(described, `${id} answered ${response.status}, which the document does not have`);
  const text = await response.text();
  const schema = described.content?.['application/json']?.schema;
  if (!schema) return { status: response.status, value: text };
  const value: unknown = JSON.parse(text);
  requireSchema(schema, value, `the answer ${response.status} of ${id}`);
  return { status: response.status, value };
}

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
    assert.equal((await call(id)).status, 200, id);
  for (const id of ['modelReady', 'modelMetadata']) {
    assert.equal((await call(id, model)).status, 200, id);
    assert.equal((await call(id, { model: 'none' })).status, 404, id);
    assert.equal((await call(`${id}Version`, version)).status, 200, id);
  }
  const request = { id: '42', inputs: [INPUT], outputs: [{ name: 'logits' }], parameters: { priority: 1 } };
  assert.equal((await call('infer', model, request)).status, 200);
  assert.equal((await call('inferVersion', version, request)).status, 200);
  assert.equal((await call('infer', model, { inputs: [] })).status, 400);
  assert.equal((await call('infer', { ...model, 'X-Request-Timeout-Ms': '0.001' }, request)).status, 504);
  const image = { model: 'lenet', top: '2', gradcam: 'true' };
  assert.equal((await call('classify', image, PNG)).status, 200);
  assert.equal((await call('classify', image, Buffer.from('text'))).status, 415);
  assert.equal((await call('repositoryUnload', model)).status, 200);
  assert.equal((await call('repositoryUnload', model)).status, 404);
  assert.equal((await call('repositoryLoad', model)).status, 200);
  const all = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map((own) => own.operationId),
  );
  assert.deepEqual([...called].sort(), all.sort());
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
