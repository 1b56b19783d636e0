/** A service under conditions that it will meet: workers that die, keys, TLS, rates, slow clients, an end by SIGTERM. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect as http2Connect } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { credentials, loadPackageDefinition, Metadata, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { type RunningService, serve } from '../src/index.js';
import { pointsRun, temporaryFolder } from './models.js';

const HEDDLE = fileURLToPath(new URL('../../../heddle/bin/heddle.js', import.meta.url));
const PROTO = fileURLToPath(new URL('../../assets/open_inference_grpc.proto', import.meta.url));
const folder = await temporaryFolder();
const models = join(folder, 'models');
const ANY = { port: 0, grpcPort: null, device: 'cpu', logLevel: 'silent' } as const;
const BODY = JSON.stringify({
  inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 2], data: [0.1, 0.2] }],
});

before(async () => {
  await pointsRun(join(models, 'points'));
  await writeFile(
    join(models, 'points', 'settings.json'),
    '{ "maxBatchSize": 4, "instances": 2, "threads": 1 }',
  );
});

async function using(
  options: Parameters<typeof serve>[1],
  use: (service: RunningService) => Promise<void>,
): Promise<void> {
  const service = await serve(models, { ...ANY, ...options });
  try {
    await use(service);
  } finally {
    await service.close();
  }
}

const infer = (url: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${url}/v2/models/points/infer`, { method: 'POST', body: BODY, headers });

test('a worker that is killed takes only its own batch with it, and comes back', async () => {
  await using({}, async ({ url, workers }) => {
    const before = workers();
    assert.equal(before.length, 2);
    const found = new Map<number, number>();
    let isOver = false;
    const clients = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        const response = await infer(url);
        await response.arrayBuffer();
        found.set(response.status, (found.get(response.status) ?? 0) + 1);
        if (response.status === 503) assert.equal(response.headers.get('retry-after'), '1');
      }
    });
    for (const pid of before) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      process.kill(pid, 'SIGKILL');
    }
    const until = performance.now() + 20_000;
    const isBack = (): boolean => workers().length === 2 && workers().every((pid) => !before.includes(pid));
    while (!isBack() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
    await new Promise((resolve) => setTimeout(resolve, 100));
    isOver = true;
    await Promise.all(clients);
    assert.ok(isBack(), 'both were started again');
    assert.deepEqual(
      [...found.keys()].filter((code) => code !== 503),
      [200],
    );
    const killed = found.get(503) ?? 0;
    assert.ok(killed <= 8, `${killed} requests of two batches of at most 4`);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /heddle_worker_deaths_total\{model="points",version="1"\} 2/);
  });
});

test('keys are asked for, those of administrators to load models', async () => {
  const keys = join(folder, 'keys.txt');
  await writeFile(keys, '# of the tests\nkey-of-a-user-0001\nkey-of-the-admin-1 admin\n');
  await using({ apiKeys: keys, grpcPort: 0 }, async ({ url, grpcAddress }) => {
    const user = { authorization: 'Bearer key-of-a-user-0001' };
    const admin = { 'x-api-key': 'key-of-the-admin-1' };
    assert.equal((await fetch(`${url}/v2/health/ready`)).status, 200);
    assert.equal((await fetch(`${url}/`)).status, 200);
    const refused = await infer(url);
    assert.equal(refused.status, 401);
    assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
    assert.match(((await refused.json()) as { error: string }).error, /an API key is needed/);
    assert.equal((await infer(url, { authorization: 'Bearer key-of-a-user-0002' })).status, 401);
    assert.equal((await infer(url, user)).status, 200);
    assert.equal((await fetch(`${url}/metrics`)).status, 401);
    const load = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${url}/v2/repository/models/points/load`, { method: 'POST', headers });
    assert.equal((await load(user)).status, 403);
    assert.equal((await load(admin)).status, 200);
    // biome-ignore lint/suspicious/noExplicitAny: the client is made of the .proto when the test runs
    const { inference } = loadPackageDefinition(loadSync(PROTO, { keepCase: true })) as any;
    const client = new inference.GRPCInferenceService(grpcAddress, credentials.createInsecure());
    const metadata = (own: Record<string, string>): Promise<number> =>
      new Promise((resolve) =>
        client.ServerMetadata({}, Metadata.fromHttp2Headers(own), (error: { code: number } | null) =>
          resolve(error?.code ?? 0),
        ),
      );
    assert.equal(await metadata({}), status.UNAUTHENTICATED);
    assert.equal(await metadata(user), status.OK);
    client.close();
  });
  await writeFile(keys, 'short\n');
  await assert.rejects(serve(models, { ...ANY, apiKeys: keys }), /line 1 is shorter than 16 characters/);
  await writeFile(keys, 'key-of-a-user-0001 root\n');
  await assert.rejects(serve(models, { ...ANY, apiKeys: keys }), /line 1 is not an API key/);
});

test('a client that asks too often is told to wait, by its address behind a proxy', async () => {
  await using({ rateLimit: 2, trustProxy: ['127.0.0.1'] }, async ({ url }) => {
    const ask = async (from: string): Promise<number> => {
      const response = await fetch(`${url}/v2`, { headers: { 'x-forwarded-for': from } });
      if (response.status === 429) assert.equal(response.headers.get('retry-after'), '1');
      return response.status;
    };
    assert.deepEqual(
      [await ask('1.1.1.1'), await ask('1.1.1.1'), await ask('1.1.1.1'), await ask('2.2.2.2')],
      [200, 200, 429, 200],
    );
  });
  await using({ rateLimit: 1 }, async ({ url }) => {
    const ask = async (from: string): Promise<number> =>
      (await fetch(`${url}/v2`, { headers: { 'x-forwarded-for': from } })).status;
    assert.deepEqual([await ask('1.1.1.1'), await ask('2.2.2.2')], [200, 429], 'nobody else is believed');
  });
});

test('TLS', async () => {
  const [tlsCert, tlsKey] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-days',
      '1',
      ...subject,
      '-keyout',
      tlsKey,
      '-out',
      tlsCert,
    ],
    { stdio: 'ignore' },
  );
  await using({ tlsCert, tlsKey, grpcPort: 0 }, async ({ url, grpcAddress }) => {
    assert.match(url, /^https:/);
    const ca = readFileSync(tlsCert);
    const request = httpsRequest(`${url}/v2/health/live`, { ca }).end();
    const [response] = await once(request, 'response');
    response.resume();
    assert.equal(response.statusCode, 200);
    // biome-ignore lint/suspicious/noExplicitAny: the client is made of the .proto when the test runs
    const { inference } = loadPackageDefinition(loadSync(PROTO, { keepCase: true })) as any;
    // By default, the client asks for the server by its address, which Node 26 refuses.
    const client = new inference.GRPCInferenceService(grpcAddress, credentials.createSsl(ca), {
      'grpc.ssl_target_name_override': 'localhost',
    });
    const { live } = await new Promise<{ live: boolean }>((resolve, reject) =>
      client.ServerLive({}, (error: Error | null, answer: { live: boolean }) =>
        error ? reject(error) : resolve(answer),
      ),
    );
    assert.equal(live, true);
    client.close();
  });
  await assert.rejects(serve(models, { ...ANY, tlsCert }), /tlsCert and tlsKey go together/);
});

test('clients that send slowly, or too much, do not hold the service up', async () => {
  await using({ receiveTimeoutMs: 300, maxBodyBytes: 1000 }, async ({ url }) => {
    const { port } = new URL(url);
    const send = async (text: string): Promise<string> => {
      const socket = connect(Number(port), '127.0.0.1');
      socket.write(text);
      let answer = '';
      socket.on('data', (piece) => {
        answer += piece;
      });
      socket.on('error', () => {});
      await once(socket, 'close');
      return answer;
    };
    const head = 'POST /v2/models/points/infer HTTP/1.1\r\nHost: x\r\n';
    const [headers, body, large] = await Promise.all([
      send('GET /v2 HTTP/1.1\r\nHost: x\r\nX-Slow'),
      send(`${head}Content-Length: 500\r\n\r\n{"inputs"`),
      fetch(`${url}/v2/models/points/infer`, { method: 'POST', body: 'x'.repeat(1001) }),
    ]);
    assert.match(headers, /^HTTP\/1\.1 408/);
    assert.match(body, /^HTTP\/1\.1 408/);
    assert.equal(large.status, 413);
    assert.equal((await infer(url)).status, 200);
  });
});

test('a gRPC call whose message does not arrive in time is ended', async () => {
  await using({ receiveTimeoutMs: 200, grpcPort: 0 }, async ({ grpcAddress }) => {
    const session = http2Connect(`http://${grpcAddress}`);
    const stream = session.request({
      ...{ ':method': 'POST', ':path': '/inference.GRPCInferenceService/ModelInfer' },
      ...{ 'content-type': 'application/grpc', te: 'trailers' },
    });
    // The prefix of a message of 100 bytes, and three of them.
    stream.write(Buffer.from([0, 0, 0, 0, 100, 1, 2, 3]));
    const [headers] = (await once(stream, 'response')) as [Record<string, string>];
    const trailers =
      headers['grpc-status'] === undefined
        ? ((await once(stream.resume(), 'trailers')) as [Record<string, string>])[0]
        : headers;
    assert.equal(Number(trailers['grpc-status']), status.DEADLINE_EXCEEDED);
    assert.match(decodeURIComponent(trailers['grpc-message']!), /did not arrive within 200 ms/);
    session.destroy();
  });
});

test('SIGTERM ends the command once what it has accepted is answered', async () => {
  const child = spawn(
    process.execPath,
    [HEDDLE, 'serve', models, '--port', '0', '--no-grpc', '--device', 'cpu', '--log-requests'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let log = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const until = async (pattern: RegExp): Promise<RegExpExecArray> => {
    for (;;) {
      const found = pattern.exec(log);
      if (found) return found;
      await once(child.stdout, 'data');
    }
  };
  const [, url] = await until(/listening at (http:[^"]+)"/);
  assert.equal((await infer(url!)).status, 200);
  const asked = Array.from({ length: 20 }, () =>
    infer(url!).then(
      ({ status }) => status,
      () => 'refused',
    ),
  );
  await until(/"status":200(.|\n)*"status":200/);
  child.kill('SIGTERM');
  const [code] = (await once(child, 'exit')) as [number];
  assert.equal(code, 0);
  for (const status of await Promise.all(asked))
    assert.ok(status === 200 || status === 503 || status === 'refused', String(status));
  const lines = log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string; status?: number });
  assert.ok(lines.some(({ msg }) => msg === 'the service is ending'));
  const answered = lines.filter(({ msg }) => msg === 'answered');
  assert.ok(answered.length >= 2 && answered.every(({ status }) => status === 200 || status === 503));
});

test('a folder that is not there, and a port that is taken, are errors', async () => {
  await assert.rejects(serve(join(folder, 'missing'), ANY), { code: 'HEDDLE_FILE' });
  await using({}, async ({ url }) => {
    await assert.rejects(serve(models, { ...ANY, port: Number(new URL(url).port) }), { code: 'EADDRINUSE' });
  });
  await assert.rejects(
    serve(models, { maxBodyByte: 1 } as object),
    /unknown option 'maxBodyByte'\. Did you mean 'maxBodyBytes'\?/,
  );
});
