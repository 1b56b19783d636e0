/** Load on a service by tools that others wrote: wrk for REST, h2load of nghttp2 for gRPC. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ArgumentError, DeviceError } from 'heddle';
import { cpuMicroseconds, type ServiceProcess } from './serve-process.js';

/** What a tool saw, and what it cost. */
export interface LoadResult {
  /** Requests. */
  readonly perSecond: number;
  /** Milliseconds to an answer. */
  readonly p50: number;
  readonly p99: number;
  readonly errors: number;
  /** CPU time for a request, in µs: of the process that reads and answers. */
  readonly frontMicroseconds: number;
  /** The same of those that compute. */
  readonly workerMicroseconds: number;
  /** The same of the load tool. */
  readonly loadMicroseconds: number;
}

/** Load on a model. */
export interface Load {
  readonly service: ServiceProcess;
  readonly model: string;
  readonly clients: number;
  readonly seconds: number;
  /** For files of the tool. */
  readonly folder: string;
  readonly signal?: AbortSignal;
}

/** @throws ArgumentError if a tool is not installed */
export async function requireTools(): Promise<void> {
  for (const [tool, debian] of [
    ['wrk', 'wrk'],
    ['h2load', 'nghttp2-client'],
  ] as const) {
    const isThere = await promisify(execFile)(tool, ['--version']).then(
      () => true,
      // wrk ends with 1 when it has said its version.
      (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
    );
    if (!isThere)
      throw new ArgumentError(`heddle bench serve needs ${tool}. Install it: apt install ${debian}`);
  }
}

const examples = (shape: readonly number[]): Float32Array =>
  Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(1e4 * Math.sin(i + 1)));

/** A body of REST, and how long its JSON is. */
export interface RestRequest {
  readonly body: Uint8Array;
  readonly headLength: number;
}

/** A request by the binary data extension. */
export function restRequest(shape: readonly number[]): RestRequest {
  const values = examples(shape);
  const input = {
    name: 'input',
    datatype: 'FP32',
    shape,
    parameters: { binary_data_size: values.byteLength },
  };
  const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
  return { body: Buffer.concat([head, Buffer.from(values.buffer)]), headLength: head.length };
}

/** A ModelInferRequest as HTTP/2 carries it: not compressed, its length, and itself. */
export function grpcRequest(model: string, shape: readonly number[]): Uint8Array {
  const values = examples(shape);
  const input = [
    field(1, Buffer.from('input')),
    field(2, Buffer.from('FP32')),
    field(3, Buffer.concat(shape.map(varint))),
  ];
  const message = Buffer.concat([
    field(1, Buffer.from(model)),
    field(5, Buffer.concat(input)),
    field(7, Buffer.from(values.buffer)),
  ]);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** A field of a protobuf message whose value has a length. */
const field = (number: number, value: Uint8Array): Buffer =>
  Buffer.concat([varint(number * 8 + 2), varint(value.length), value]);

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return Buffer.from([...bytes, left]);
}

const LUA = `
function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.body = file:read("*a")
  file:close()
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/octet-stream"
  wrk.headers["Inference-Header-Content-Length"] = args[2]
end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"requests":%d,"microseconds":%d,"errors":%d,"p50":%f,"p99":%f}\\n', summary.requests,
    summary.duration, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end`;

/** @throws DeviceError if wrk fails */
export async function loadByRest(load: Load, { body, headLength }: RestRequest): Promise<LoadResult> {
  const { service, model, clients, seconds, folder } = load;
  const [script, file] = [join(folder, 'post.lua'), join(folder, 'body')];
  await writeFile(script, LUA);
  await writeFile(file, body);
  const url = `http://127.0.0.1:${service.port}/v2/models/${model}/infer`;
  // Its own timeout of two seconds would count answers that come later as errors.
  const args = [
    '-t1',
    `-c${clients}`,
    `-d${seconds}s`,
    '--timeout',
    '60s',
    '-s',
    script,
    url,
    '--',
    file,
    String(headLength),
  ];
  return measured(load, 'wrk', args, async (output) => {
    const found = JSON.parse(/RESULT (.*)/.exec(output)![1]!) as Record<
      'requests' | 'microseconds' | 'errors' | 'p50' | 'p99',
      number
    >;
    const { requests, microseconds, errors, p50, p99 } = found;
    return { perSecond: (requests / microseconds) * 1e6, p50, p99, errors };
  });
}

/** @throws DeviceError if h2load fails */
export async function loadByGrpc(load: Load, request: Uint8Array): Promise<LoadResult> {
  const { service, clients, seconds, folder } = load;
  const [file, log] = [join(folder, 'message'), join(folder, 'h2load.log')];
  await writeFile(file, request);
  await rm(log, { force: true });
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers'];
  const url = `http://127.0.0.1:${service.grpcPort}/inference.GRPCInferenceService/ModelInfer`;
  const args = ['-t1', `-c${clients}`, '-m1', `-D${seconds}`, '--warm-up-time=1', ...headers, '-d', file];
  // It does not look at grpc-status: the service's own count says whether all were answered well.
  const before = await requestsOf(service, 'grpc');
  return measured(load, 'h2load', [...args, `--log-file=${log}`, url], async (output) => {
    const times = (await readFile(log, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => Number(line.split('\t')[2]) / 1000)
      .sort((a, b) => a - b);
    const at = (share: number): number =>
      times[Math.min(times.length - 1, Math.floor(share * times.length))]!;
    const after = await requestsOf(service, 'grpc');
    return {
      ...{
        perSecond: Number(/finished in .*?, ([\d.]+) req\/s/.exec(output)![1]),
        p50: at(0.5),
        p99: at(0.99),
      },
      errors: Number(/(\d+) failed/.exec(output)![1]) + after.failed - before.failed,
    };
  });
}

type Seen = Pick<LoadResult, 'perSecond' | 'p50' | 'p99' | 'errors'>;

/** Run a tool, and take the CPU time of all who have a part in it. */
async function measured(
  { service, seconds, signal }: Load,
  tool: string,
  args: readonly string[],
  parse: (output: string) => Promise<Seen>,
): Promise<LoadResult> {
  const [cpu, before] = [service.cpu(), await requestsOf(service)];
  const child = spawn(tool, args, { stdio: ['ignore', 'pipe', 'pipe'], ...(signal && { signal }) });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  let own = 0;
  const watch = setInterval(() => {
    own = cpuMicroseconds(child.pid!) || own;
  }, 20);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0)
      throw new DeviceError(`${tool} ended with ${code} after ${seconds} s: ${output.slice(-500)}`);
  } finally {
    clearInterval(watch);
  }
  const [end, after] = [service.cpu(), await requestsOf(service)];
  const count = Math.max(1, after.all - before.all);
  return {
    ...(await parse(output)),
    frontMicroseconds: (end.front - cpu.front) / count,
    workerMicroseconds: (end.workers - cpu.workers) / count,
    loadMicroseconds: own / count,
  };
}

/** Requests that the service has answered, by a protocol or by any: all, and those that failed. */
async function requestsOf(
  { port }: ServiceProcess,
  protocol = '[a-z]+',
): Promise<{ readonly all: number; readonly failed: number }> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const line = new RegExp(
    `^heddle_requests_total\\{.*protocol="${protocol}",status="(\\d+)"\\} (\\d+)$`,
    'gm',
  );
  let [all, failed] = [0, 0];
  for (const [, status, count] of text.matchAll(line)) {
    all += Number(count);
    // Of gRPC, 1 is cancelled: those that the tool leaves behind when its time is up.
    if (!['0', '1', '200', '499'].includes(status!)) failed += Number(count);
  }
  return { all, failed };
}
