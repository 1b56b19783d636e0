/**
 * Sends requests, most of them damaged, to a service in this process, over REST and over gRPC, and counts the answers by their status. It fails if
 * one is none that a wrong request may get, if few requests were still right, or if the service does not answer a right one in the end.
 * Usage: node packages/serve/scripts/fuzz-requests.mjs [requests on each side, default 100000] [seed, default 1]
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import fc from 'fast-check';
import { serve } from '../dist/src/index.js';
import { damagedMessage, damagedRequest } from '../dist/tests/damaged-requests.js';
import { pointsRun } from '../dist/tests/models.js';

const count = Number(process.argv[2] ?? 100_000);
const seed = Number(process.argv[3] ?? 1);
const AT_A_TIME = 64;
const PART = 5000;
/** The share of requests that are still right, and computed. */
const LEAST_RIGHT = 0.2;

const folder = await mkdtemp(join(tmpdir(), 'heddle-fuzz-'));
await pointsRun(join(folder, 'points'));
const service = await serve(folder, { port: 0, grpcPort: 0, device: 'cpu', logLevel: 'error' });
const { hostname, port } = new URL(service.url);
const agent = new Agent({ keepAlive: true, maxSockets: AT_A_TIME });
const client = new Client(service.grpcAddress, credentials.createInsecure());

/** @returns {Promise<number>} */
const rest = ({ body, headerLength }) =>
  new Promise((resolve, reject) => {
    const headers = headerLength === undefined ? {} : { 'inference-header-content-length': headerLength };
    const own = request(
      { agent, hostname, port, path: '/v2/models/points/infer', method: 'POST', headers },
      (response) => response.resume().on('end', () => resolve(response.statusCode)),
    );
    own.on('error', reject).end(body);
  });

/** @returns {Promise<number>} */
const grpc = (bytes) =>
  new Promise((resolve) =>
    client.makeUnaryRequest(
      '/inference.GRPCInferenceService/ModelInfer',
      () => Buffer.from(bytes),
      (answer) => answer,
      null,
      (error) => resolve(error?.code ?? 0),
    ),
  );

let failed = false;
for (const [name, send, arbitrary, allowed] of [
  ['REST', rest, damagedRequest, [200, 400, 404, 413]],
  ['gRPC', grpc, damagedMessage, [0, 3, 5]],
]) {
  const found = {};
  for (let done = 0; done < count; done += PART) {
    const cases = fc.sample(arbitrary, {
      numRuns: Math.min(PART, count - done),
      seed: 1 + seed * 1e6 + done,
    });
    let next = 0;
    const sender = async () => {
      while (next < cases.length) {
        const one = cases[next++];
        const status = await send(one);
        found[status] = (found[status] ?? 0) + 1;
        if (allowed.includes(status)) continue;
        failed = true;
        console.error(`${name} answered ${status} to ${fc.stringify(one)}`);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, sender));
    process.stderr.write(`\r${name} ${done + cases.length} of ${count}`);
  }
  console.log(`\n${name}: ${JSON.stringify(found)}`);
  const answered = found[allowed[0]] ?? 0;
  if (answered >= LEAST_RIGHT * count) continue;
  failed = true;
  console.error(
    `${name}: ${answered} of ${count} requests were right, too few to find faults behind the checks.`,
  );
}
const right = { body: '{"inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"data":[0,1]}]}' };
if ((await rest(right)) !== 200) failed = true;
client.close();
agent.destroy();
await service.close();
await rm(folder, { recursive: true });
process.exitCode = failed ? 1 : 0;
