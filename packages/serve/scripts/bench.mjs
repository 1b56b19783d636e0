/**
 * How fast the service answers: LeNet-5 on the CPU, 64 clients, each waiting for its answer before it asks again. REST by wrk, gRPC
 * by h2load (nghttp2), both of Debian; the engine alone in the same batches, and the service without batching, for comparison.
 * Writes bench/results/serve-<date>.json.
 * Usage: node packages/serve/scripts/bench.mjs [--seconds 8] [--rounds 3] [--clients 64] [--device cpu] [--out file]
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { create, toBinary } from '@bufbuild/protobuf';
import { ModelInferRequestSchema } from '../dist/src/grpc/generated/open_inference_grpc_pb.js';
import { lenetRun } from '../dist/tests/models.js';

const run = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..', '..');
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '3' },
    clients: { type: 'string', default: '64' },
    device: { type: 'string', default: 'cpu' },
    out: { type: 'string' },
  },
});
const { seconds, clients, device } = values;
const today = new Date().toISOString().slice(0, 10);
const out = values.out ?? join(root, 'bench', 'results', `serve-${today}.json`);

/** The settings of the models that are measured. */
const MODELS = {
  batched: { maxBatchSize: 64, queueSize: 4096 },
  alone: { maxBatchSize: 1, queueSize: 4096 },
};
const REST_PORT = 18_080;
const GRPC_PORT = 18_081;

const folder = await mkdtemp(join(tmpdir(), 'heddle-bench-'));
for (const [name, settings] of Object.entries(MODELS)) {
  await lenetRun(join(folder, 'models', name));
  await writeFile(join(folder, 'models', name, 'settings.json'), JSON.stringify(settings));
}

/** A request of so many random images, as bodies of both protocols. */
async function makeBodies(model, rows) {
  const images = Float32Array.from({ length: rows * 784 }, (_, i) => Math.sin(1e4 * Math.sin(i + 1)));
  const tensor = { name: 'input', datatype: 'FP32', shape: [rows, 1, 28, 28] };
  const head = Buffer.from(
    JSON.stringify({
      inputs: [{ ...tensor, parameters: { binary_data_size: images.byteLength } }],
      parameters: { binary_data_output: true },
    }),
  );
  const rest = join(folder, `${model}-${rows}.rest`);
  await writeFile(rest, Buffer.concat([head, Buffer.from(images.buffer)]));
  const message = toBinary(
    ModelInferRequestSchema,
    create(ModelInferRequestSchema, {
      modelName: model,
      inputs: [{ ...tensor, shape: tensor.shape.map(BigInt) }],
      rawInputContents: [new Uint8Array(images.buffer)],
    }),
  );
  const grpc = join(folder, `${model}-${rows}.grpc`);
  // A message of gRPC over HTTP/2: not compressed, its length, and itself.
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  await writeFile(grpc, Buffer.concat([prefix, message]));
  return { rest, grpc, headLength: head.length };
}

async function wrk(model, rows) {
  const { rest, headLength } = await makeBodies(model, rows);
  const url = `http://127.0.0.1:${REST_PORT}/v2/models/${model}/infer`;
  const args = [
    '-t1',
    `-c${clients}`,
    `-d${seconds}s`,
    '-s',
    join(here, 'post.lua'),
    url,
    '--',
    rest,
    String(headLength),
  ];
  const { stdout } = await run('wrk', args);
  const found = JSON.parse(/RESULT (.*)/.exec(stdout)[1]);
  return {
    perSecond: (found.requests / found.microseconds) * 1e6,
    p50: found.p50,
    p99: found.p99,
    errors: found.errors,
  };
}

/** h2load does not look at grpc-status: the service's own count says whether all were answered well. */
async function h2load(model) {
  const { grpc } = await makeBodies(model, 1);
  const log = join(folder, 'h2load.log');
  await rm(log, { force: true });
  const before = await refusedByGrpc();
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers'];
  const url = `http://127.0.0.1:${GRPC_PORT}/inference.GRPCInferenceService/ModelInfer`;
  const { stdout } = await run(
    'h2load',
    [
      '-t1',
      `-c${clients}`,
      '-m1',
      `-D${seconds}`,
      '--warm-up-time=1',
      ...headers,
      '-d',
      grpc,
      `--log-file=${log}`,
      url,
    ],
    { maxBuffer: 2 ** 26 },
  );
  const perSecond = Number(/finished in .*?, ([\d.]+) req\/s/.exec(stdout)[1]);
  const failed = Number(/(\d+) failed/.exec(stdout)[1]);
  const times = (await readFile(log, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => Number(line.split('\t')[2]) / 1000)
    .sort((a, b) => a - b);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
  return { perSecond, p50: at(0.5), p99: at(0.99), errors: failed + (await refusedByGrpc()) - before };
}

async function refusedByGrpc() {
  const text = await (await fetch(`http://127.0.0.1:${REST_PORT}/metrics`)).text();
  const lines = [...text.matchAll(/^heddle_requests_total\{.*protocol="grpc",status="(\d+)"\} (\d+)$/gm)];
  // Cancelled (1) are those that h2load leaves behind when its time is up.
  return lines
    .filter(([, status]) => status !== '0' && status !== '1')
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

/** Images in a second that the engine computes in the process of a worker, with the same threads, batch after batch. */
async function engineAlone(threads) {
  const code = `
    import { compile } from 'heddle/inference';
    import { manualSeed, useDevice } from 'heddle';
    import { LeNet5 } from 'heddle/train';
    manualSeed(1);
    useDevice(${JSON.stringify(device)});
    const engine = await compile(new LeNet5(), { shapes: [[1, 28, 28]], batchSizes: [64] });
    const x = Float32Array.from({ length: 64 * 784 }, (_, i) => Math.sin(1e4 * Math.sin(i + 1)));
    for (let i = 0; i < 50; i++) await engine.runArrays([x], 64);
    const began = performance.now();
    let count = 0;
    while (performance.now() - began < ${500 * Number(seconds)}) { await engine.runArrays([x], 64); count++; }
    console.log((64 * count) / ((performance.now() - began) / 1000));
    process.exit();`;
  const env = { ...process.env, HEDDLE_THREADS: String(threads) };
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], {
    cwd: join(here, '..'),
    env,
  });
  return { perSecond: Number(stdout) };
}

const server = spawn(
  process.execPath,
  [
    join(root, 'packages/heddle/bin/heddle.js'),
    ...['serve', join(folder, 'models'), '--device', device, '--log-level', 'error'],
    ...['--port', String(REST_PORT), '--grpc-port', String(GRPC_PORT)],
  ],
  { stdio: 'inherit' },
);
const rounds = [];
try {
  for (;;) {
    const ready = await fetch(`http://127.0.0.1:${REST_PORT}/v2/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (ready) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const threads = Math.max(1, cpus().length - 1);
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = {
      rest: await wrk('batched', 1),
      grpc: await h2load('batched'),
      oneByOne: await wrk('alone', 1),
      rest32: await wrk('batched', 32),
      engine: await engineAlone(threads),
    };
    rounds.push(found);
    for (const [name, { perSecond, p50, p99, errors }] of Object.entries(found))
      console.log(
        `${name.padEnd(9)} ${perSecond.toFixed(0).padStart(7)}/s` +
          (p99 === undefined ? '' : `  p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms  errors ${errors}`),
      );
  }
} finally {
  server.kill('SIGTERM');
  await once(server, 'exit');
  await rm(folder, { recursive: true });
}

/** Of all rounds: the median of each figure. */
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const figures = Object.fromEntries(
  Object.keys(rounds[0]).map((name) => [
    name,
    Object.fromEntries(
      Object.keys(rounds[0][name]).map((key) => [key, median(rounds.map((r) => r[name][key]))]),
    ),
  ]),
);
const ratios = {
  batchingGain: figures.rest.perSecond / figures.oneByOne.perSecond,
  restToEngine: figures.rest.perSecond / figures.engine.perSecond,
  rest32ToEngine: (32 * figures.rest32.perSecond) / figures.engine.perSecond,
};
await mkdir(dirname(out), { recursive: true });
const result = {
  benchmark: 'serve',
  date: new Date().toISOString(),
  machine: { cpu: cpus()[0].model, cores: cpus().length, node: process.version },
  command: `node packages/serve/scripts/bench.mjs ${process.argv.slice(2).join(' ')}`.trim(),
  method: `LeNet-5, ${device}, one instance, ${clients} clients for ${seconds} s, ${rounds.length} rounds, medians; REST by wrk, gRPC by h2load; p50 and p99 in ms`,
  ...{ figures, ratios, rounds },
};
await writeFile(out, `${JSON.stringify(result, null, 2)}\n`);
console.log(JSON.stringify(ratios), out);
