/** A service under load for a while: every request is answered once, with its own answer, and memory stays flat. */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials } from '@grpc/grpc-js';
import {
  ModelInferRequestSchema,
  ModelInferResponseSchema,
} from '../src/grpc/generated/open_inference_grpc_pb.js';
import { serve } from '../src/index.js';
import { pointsRun } from './models.js';

/** What was found. */
export interface SoakResult {
  readonly requests: number;
  /** Answers that were refusals, or those of others. */
  readonly errors: number;
  /** Requests that were not answered exactly once. */
  readonly lost: number;
  /** MiB of all processes: the median of the first third after the warm-up, and of the last. */
  readonly memoryMiB: readonly [first: number, last: number];
}

const CLIENTS = 16;
const PAGE = 4096;

/** @param folder an empty one, for the models @param seconds of load, after a tenth of it to warm up */
export async function soak(
  folder: string,
  seconds: number,
  onProgress: (done: number, memoryMiB: number) => void = () => {},
): Promise<SoakResult> {
  await pointsRun(join(folder, 'points'));
  const service = await serve(folder, { port: 0, grpcPort: 0, device: 'cpu', logLevel: 'error' });
  const { hostname, port } = new URL(service.url);
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  const client = new Client(service.grpcAddress!, credentials.createInsecure());
  const rest = (x: number, y: number): Promise<number> =>
    new Promise((resolve, reject) => {
      const own = request(
        { agent, hostname, port, path: '/v2/models/points/infer', method: 'POST' },
        (response) => {
          const pieces: Buffer[] = [];
          response.on('data', (piece: Buffer) => pieces.push(piece));
          response.on('end', () => {
            const text = Buffer.concat(pieces).toString();
            if (response.statusCode === 200)
              resolve((JSON.parse(text) as { outputs: { data: number[] }[] }).outputs[0]!.data[0]!);
            else reject(new Error(text));
          });
        },
      );
      const inputs = [{ name: 'input', datatype: 'FP32', shape: [1, 2], data: [x, y] }];
      own.on('error', reject).end(JSON.stringify({ inputs }));
    });
  const grpc = (x: number, y: number): Promise<number> =>
    new Promise((resolve, reject) =>
      client.makeUnaryRequest(
        '/inference.GRPCInferenceService/ModelInfer',
        (message: Uint8Array) => Buffer.from(message),
        (bytes: Buffer) => fromBinary(ModelInferResponseSchema, bytes),
        toBinary(
          ModelInferRequestSchema,
          create(ModelInferRequestSchema, {
            modelName: 'points',
            inputs: [
              { name: 'input', datatype: 'FP32', shape: [1n, 2n], contents: { fp32Contents: [x, y] } },
            ],
          }),
        ),
        (error, answer) => (error ? reject(error) : resolve(answer!.outputs[0]!.contents!.fp32Contents[0]!)),
      ),
    );
  /** What each point should give, from the first time that it was asked for, alone. */
  const points = Array.from({ length: 50 }, (_, i) => [Math.sin(i), Math.cos(3 * i)] as const);
  const expected: number[] = [];
  for (const [x, y] of points) expected.push(await rest(x, y));

  const [began, warm] = [performance.now(), 100 * seconds];
  const elapsed = (): number => performance.now() - began;
  const isOver = (): boolean => elapsed() > 1000 * seconds + warm;
  let [asked, answered, errors] = [0, 0, 0];
  const samples: number[] = [];
  const clients = Array.from({ length: CLIENTS }, async (_, k) => {
    for (let i = k; !isOver(); i++) {
      const at = i % points.length;
      asked++;
      try {
        const value = await (i % 2 === 0 ? rest : grpc)(...points[at]!);
        answered++;
        if (Math.abs(value - expected[at]!) > 1e-5) errors++;
      } catch {
        answered++;
        errors++;
      }
    }
  });
  const watching = (async () => {
    while (!isOver()) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(1000, 20 * seconds)));
      if (elapsed() < warm) continue;
      samples.push([process.pid, ...service.workers()].reduce((sum, pid) => sum + residentMiB(pid), 0));
      onProgress(elapsed() / (1000 * seconds + warm), samples.at(-1)!);
    }
  })();
  await Promise.all([...clients, watching]);
  client.close();
  agent.destroy();
  await service.close();
  const third = Math.max(1, Math.floor(samples.length / 3));
  return {
    ...{ requests: asked, errors, lost: asked - answered },
    memoryMiB: [median(samples.slice(0, third)), median(samples.slice(-third))],
  };
}

const residentMiB = (pid: number): number =>
  (Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE) / 2 ** 20;

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;
