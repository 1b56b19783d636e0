/** The protocol over REST, with runs of `heddle train` as its models. */
import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type nn, noGrad, type Tensor, tensor, useDevice } from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { type RunningService, serve } from '../src/index.js';
import { lenetRun, pointsRun, temporaryFolder, textRun } from './models.js';

useDevice('cpu');
const folder = await temporaryFolder();
let service: RunningService;
let points: nn.Layer;
let lenet: nn.Layer;

before(async () => {
  points = await pointsRun(join(folder, 'points', '1'));
  await pointsRun(join(folder, 'points', '3'), 3);
  lenet = await lenetRun(join(folder, 'lenet'));
  await textRun(join(folder, 'text'));
  await mkdir(join(folder, 'broken', '1'), { recursive: true });
  await writeFile(join(folder, 'broken', '1', 'config.json'), '{');
  await writeFile(join(folder, 'points', 'settings.json'), '{ "versions": 2, "maxBatchSize": 8 }');
  await writeFile(join(folder, 'lenet', 'settings.json'), '{ "maxBatchSize": 4 }');
  await mkdir(join(folder, 'empty'));
  await symlink('/etc', join(folder, 'etc'));
  service = await serve(folder, { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' });
});
after(async () => {
  await service?.close();
  await closeDevices();
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON text says is what the tests look at
  readonly json: any;
}

async function ask(path: string, init?: RequestInit): Promise<Answer> {
  const response = await fetch(`${service.url}${path}`, init);
  const bytes = Buffer.from(await response.arrayBuffer());
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  const { status, headers } = response;
  return { status, headers, bytes, json: isJson ? JSON.parse(bytes.toString()) : undefined };
}

const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body), headers });

const point = (data: unknown, more: object = {}): object => ({
  inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 2], data, ...more }],
});

const outputOf = async (model: nn.Layer, values: Float32Array, shape: readonly number[]): Promise<number[]> =>
  [
    ...(await noGrad(() => model.forward(tensor(values, { shape: [...shape] }) as Tensor)).data()),
  ] as number[];

test('health, server metadata and model metadata', async () => {
  assert.equal((await ask('/v2/health/live')).status, 200);
  assert.equal((await ask('/v2/health/ready')).status, 200);
  const { json } = await ask('/v2');
  assert.deepEqual(json, {
    name: 'heddle',
    version: '0.1.0',
    extensions: ['binary_tensor_data', 'classification', 'model_repository', 'schedule_policy'],
  });
  assert.deepEqual((await ask('/v2/')).json, json);
  assert.deepEqual((await ask('/v2/models/points')).json, {
    name: 'points',
    versions: ['3', '1'],
    platform: 'heddle_run',
    inputs: [{ name: 'input', datatype: 'FP32', shape: [-1, 2] }],
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 1] }],
  });
  assert.equal((await ask('/v2/models/points/versions/1/ready')).status, 200);
  assert.deepEqual((await ask('/v2/models/text')).json.inputs, [
    { name: 'input', datatype: 'INT32', shape: [-1, 4] },
  ]);
});

test('an inference in JSON gives what the network gives, in the version that is asked for', async () => {
  const [expected] = await outputOf(points, Float32Array.of(0.5, -0.25), [1, 2]);
  const { json, status } = await post('/v2/models/points/versions/1/infer', {
    id: 'a "b"',
    ...point([0.5, -0.25]),
  });
  assert.equal(status, 200);
  const [logit] = json.outputs[0].data;
  assert.ok(Math.abs(logit - expected!) < 1e-6, `${logit} ≠ ${expected}`);
  assert.deepEqual(json, {
    model_name: 'points',
    model_version: '1',
    id: 'a "b"',
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [1, 1], data: [logit] }],
  });
  const latest = (await post('/v2/models/points/infer', point([[0.5, -0.25]]))).json;
  assert.equal(latest.model_version, '3');
  assert.notEqual(latest.outputs[0].data[0], expected);
});

test('an answer that JSON has no numbers for is refused, and given as binary data', async () => {
  const input = { name: 'input', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } };
  const send = (parameters: object): Promise<Response> => {
    const head = Buffer.from(JSON.stringify({ inputs: [input], parameters }));
    return fetch(`${service.url}/v2/models/points/infer`, {
      method: 'POST',
      headers: { 'inference-header-content-length': String(head.length) },
      body: Buffer.concat([head, Buffer.from(Float32Array.of(Number.NaN, 1).buffer)]) as BodyInit,
    });
  };
  const refused = await send({});
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /has the value NaN at 0, which JSON cannot say\. Ask for binary data/);
  assert.equal((await send({ binary_data_output: true })).status, 200);
});

test('binary data come in and go out', async () => {
  const values = Float32Array.from({ length: 3 * 784 }, (_, i) => Math.sin(i));
  const expected = await outputOf(lenet, values, [3, 1, 28, 28]);
  const head = Buffer.from(
    JSON.stringify({
      inputs: [
        {
          name: 'input',
          datatype: 'FP32',
          shape: [3, 1, 28, 28],
          parameters: { binary_data_size: values.byteLength },
        },
      ],
      parameters: { binary_data_output: true },
    }),
  );
  const { bytes, headers, status } = await ask('/v2/models/lenet/infer', {
    method: 'POST',
    body: Buffer.concat([head, Buffer.from(values.buffer)]),
    headers: {
      'inference-header-content-length': String(head.length),
      'content-type': 'application/octet-stream',
    },
  });
  assert.equal(status, 200, bytes.toString());
  const length = Number(headers.get('inference-header-content-length'));
  assert.deepEqual(JSON.parse(bytes.subarray(0, length).toString()), {
    model_name: 'lenet',
    model_version: '1',
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [3, 10], parameters: { binary_data_size: 120 } }],
  });
  const logits = new Float32Array(Uint8Array.from(bytes.subarray(length)).buffer);
  assert.equal(logits.length, 30);
  for (const [i, value] of logits.entries())
    assert.ok(Math.abs(value - expected[i]!) < 1e-5, `${i}: ${value}`);
});

test('requests that come together are computed together, and each gets its own rows', async () => {
  const expected = await outputOf(
    points,
    Float32Array.from({ length: 80 }, (_, i) => i / 40),
    [40, 2],
  );
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      post('/v2/models/points/versions/1/infer', point([(2 * i) / 40, (2 * i + 1) / 40])),
    ),
  );
  for (const [i, { json }] of answers.entries())
    assert.ok(Math.abs(json.outputs[0].data[0] - expected[i]!) < 1e-5, `${i}: ${json.outputs[0].data[0]}`);
  const metrics = (await ask('/metrics')).bytes.toString();
  const count = Number(/heddle_batch_rows_count\{model="points",version="1"\} (\d+)/.exec(metrics)?.[1]);
  const sum = Number(/heddle_batch_rows_sum\{model="points",version="1"\} (\d+)/.exec(metrics)?.[1]);
  assert.ok(sum >= 40 && count < sum, `${count} batches of ${sum} rows`);
});

const input = { name: 'input', datatype: 'FP32', shape: [1, 2], data: [0, 1] };
const REFUSED: readonly (readonly [what: string, body: unknown, message: RegExp])[] = [
  ['no JSON', '{"inputs":', /JSON of the request cannot be read/],
  ['an array', [1], /the request is \[1\], must be a JSON object/],
  ['no inputs', {}, /inputs is undefined, must be an array of tensors/],
  ['an unnamed input', { inputs: [{ ...input, name: 3 }] }, /the name of inputs\[0\] is 3, must be a string/],
  ['another input', { inputs: [{ ...input, name: 'inptu' }] }, /the input 'input' is missing/],
  ['an input more', { inputs: [input, { ...input, name: 'more' }] }, /the model has no input 'more'/],
  ['an input twice', { inputs: [input, input] }, /'input' is given 2 times/],
  [
    'another datatype',
    { inputs: [{ ...input, datatype: 'INT32' }] },
    /'input' is INT32, the model takes FP32/,
  ],
  [
    'no datatype',
    { inputs: [{ ...input, datatype: 'float' }] },
    /'input' is 'float', the model takes FP32\. Datatypes: BOOL/,
  ],
  ['bytes', { inputs: [{ ...input, datatype: 'BYTES' }] }, /'input' is BYTES, the model takes FP32/],
  [
    'another shape',
    { inputs: [{ ...input, shape: [1, 3] }] },
    /has the shape \[1, 3\], the model takes \[-1, 2\]/,
  ],
  ['another rank', { inputs: [{ ...input, shape: [2] }] }, /has the shape \[2\]/],
  ['a negative size', { inputs: [{ ...input, shape: [-1, 2] }] }, /has the shape \[-1, 2\]/],
  [
    'half a row',
    { inputs: [{ ...input, shape: [0.5, 2] }] },
    /shape of the input 'input' is \[0\.5, 2\], must be an array of integers/,
  ],
  ['no rows', { inputs: [{ ...input, shape: [0, 2], data: [] }] }, /has 0 rows, must have from 1 to 8/],
  [
    'too many rows',
    { inputs: [{ ...input, shape: [9, 2], data: Array(18).fill(0) }] },
    /has 9 rows, must have from 1 to 8/,
  ],
  ['too few elements', { inputs: [{ ...input, data: [1] }] }, /has 1 elements, its shape asks for 2/],
  ['a text', { inputs: [{ ...input, data: [1, 'a'] }] }, /has the element 'a' at 1, must be a number/],
  ['no data', { inputs: [{ ...input, data: undefined }] }, /data of the input 'input' is undefined/],
  [
    'both',
    { inputs: [{ ...input, parameters: { binary_data_size: 8 } }] },
    /has both data and binary_data_size|the body ends/,
  ],
  [
    'a lie about bytes',
    { inputs: [{ ...input, data: undefined, parameters: { binary_data_size: 8 } }] },
    /should have 8 bytes, but the body ends after 0/,
  ],
  [
    'negative bytes',
    { inputs: [{ ...input, data: undefined, parameters: { binary_data_size: -8 } }] },
    /binary_data_size .* is -8, must be an integer ≥ 0/,
  ],
  [
    'an output that is not there',
    { inputs: [input], outputs: [{ name: 'logit' }] },
    /no output 'logit'\. Did you mean 'logits'\?/,
  ],
  [
    'an output twice',
    { inputs: [input], outputs: [{ name: 'logits' }, { name: 'logits' }] },
    /asked for twice/,
  ],
  [
    'a priority that is none',
    { inputs: [input], parameters: { priority: -1 } },
    /priority is -1, must be an integer from 0 to 100/,
  ],
  ['a number as id', { id: 4, inputs: [input] }, /id is 4, must be a string/],
];
for (const [what, body, message] of REFUSED)
  test(`400 for ${what}`, async () => {
    const { status, json } = await post('/v2/models/points/infer', body);
    assert.equal(status, 400);
    assert.deepEqual(Object.keys(json), ['error']);
    assert.match(json.error, message);
  });

test('binary sections that lie about their lengths are refused', async () => {
  const head = JSON.stringify({
    inputs: [{ ...input, data: undefined, parameters: { binary_data_size: 8 } }],
  });
  const send = (tail: number, header: string, size = 8): Promise<Answer> =>
    post('/v2/models/points/infer', head.replace(':8', `:${size}`) + '\0'.repeat(tail), {
      'inference-header-content-length': header,
    });
  const length = String(head.length);
  assert.equal((await send(8, length)).status, 200);
  assert.match((await send(7, length)).json.error, /should have 8 bytes, but the body ends after 7/);
  assert.match((await send(9, length)).json.error, /1 bytes of binary data belong to no input/);
  assert.match((await send(4, length, 4)).json.error, /have 4 bytes, must have 8: 2 elements of FP32/);
  for (const header of ['-1', '1e3', '99999', 'x', ' ', String(head.length - 1)])
    assert.equal((await send(8, header)).status, 400, header);
});

test('tokens outside of the vocabulary are refused', async () => {
  const tokens = (data: readonly number[]): Promise<Answer> =>
    post('/v2/models/text/infer', { inputs: [{ name: 'input', datatype: 'INT32', shape: [1, 4], data }] });
  assert.equal((await tokens([0, 1, 2, 7])).status, 200);
  assert.match((await tokens([0, 8, 2, 3])).json.error, /has the value 8 at 1, must be from 0 to 7/);
  assert.match(
    (await tokens([0, 1, 2, 2 ** 31])).json.error,
    /must be an integer from -2147483648 to 2147483647/,
  );
});

test('names that lead elsewhere are no models', async () => {
  for (const name of [
    '..',
    '%2e%2e',
    '..%2f..%2fetc',
    'points%2f1',
    'etc',
    'broken',
    'empty',
    '.',
    '%00',
    'a'.repeat(200),
  ]) {
    const { status } = await post(`/v2/models/${name}/infer`, point([0, 1]));
    assert.ok(status === 404 || status === 414 || status === 503 || status === 400, `${name}: ${status}`);
    const loaded = await post(`/v2/repository/models/${name}/load`, {});
    assert.ok(loaded.status >= 400 && loaded.status < 500, `load ${name}: ${loaded.status}`);
  }
  assert.match(
    (await post('/v2/models/pionts/infer', point([0, 1]))).json.error,
    /there is no model 'pionts'\. There are /,
  );
  assert.match(
    (await post('/v2/models/points/versions/2/infer', point([0, 1]))).json.error,
    /no loaded version of 'points' called '2'\. There are 3, 1\./,
  );
});

test('the repository lists, loads and unloads while requests are answered', async () => {
  const index = async (): Promise<Record<string, string>> =>
    Object.fromEntries(
      (await post('/v2/repository/index', {})).json.map(
        (entry: Record<string, string>) =>
          [`${entry.name}/${entry.version}`, `${entry.state} ${entry.reason}`.trim()] as const,
      ),
    );
  const first = await index();
  assert.match(first['broken/1']!, /^UNAVAILABLE .*not the folder of a run/);
  assert.ok(!first['broken/1']!.includes(folder), 'the folder is not told');
  assert.deepEqual(
    { ...first, 'broken/1': '' },
    {
      ...{ 'broken/1': '', 'lenet/1': 'READY', 'points/3': 'READY', 'points/1': 'READY', 'text/1': 'READY' },
    },
  );
  const under = Array.from({ length: 20 }, (_, i) => post('/v2/models/points/infer', point([i, 1])));
  await pointsRun(join(folder, 'points', '10'));
  assert.equal((await post('/v2/repository/models/points/load', {})).status, 200);
  for (const { status } of await Promise.all(under)) assert.equal(status, 200);
  assert.equal((await post('/v2/models/points/infer', point([0, 1]))).json.model_version, '10');
  assert.equal((await index())['points/1'], 'UNAVAILABLE not loaded');
  assert.equal((await post('/v2/repository/models/text/unload', {})).status, 200);
  assert.equal((await index())['text/1'], 'UNAVAILABLE not loaded');
  assert.equal((await post('/v2/repository/models/text/unload', {})).status, 404);
  assert.equal((await ask('/v2/models/text')).status, 404);
  assert.equal((await post('/v2/repository/models/text/load', { parameters: { config: '{}' } })).status, 400);
  assert.equal((await ask('/v2/health/ready')).status, 200);
});

test('a settings file with a mistake is not loaded, and says which', async () => {
  await writeFile(join(folder, 'lenet', 'settings.json'), '{ "maxBatchsize": 4 }');
  const unknown = await post('/v2/repository/models/lenet/load', {});
  assert.equal(unknown.status, 400);
  assert.match(
    unknown.json.error,
    /settings\.json: unknown setting 'maxBatchsize'\. Did you mean 'maxBatchSize'\?/,
  );
  await writeFile(join(folder, 'lenet', 'settings.json'), '{ "instances": 0 }');
  assert.match(
    (await post('/v2/repository/models/lenet/load', {})).json.error,
    /'instances' is 0, must be >= 1/,
  );
  assert.equal((await ask('/v2/models/lenet')).status, 200, 'what was loaded goes on');
});

test('a deadline that has passed is 504, traces are passed on, and wrong routes are named', async () => {
  const expired = await post('/v2/models/points/infer', point([0, 1]), { 'x-request-timeout-ms': '0.001' });
  assert.equal(expired.status, 504);
  assert.match(expired.json.error, /deadline passed/);
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const traced = (await ask('/v2', { headers: { traceparent } })).headers.get('traceparent');
  assert.match(traced!, /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
  assert.notEqual(traced, traceparent);
  assert.equal(
    (await ask('/v2', { headers: { traceparent: '00-0-0-01' } })).headers.get('traceparent'),
    null,
  );
  assert.match((await ask('/v3')).json.error, /there is no GET \/v3/);
  assert.equal(
    (await post('/v2/models/points/infer', point([0, 1]), { 'content-encoding': 'gzip' })).status,
    415,
  );
});
