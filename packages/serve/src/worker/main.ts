/**
 * A worker: a process of its own with one model and one device. It answers frames on file descriptor 3, one after the other,
 * and ends when the service closes it.
 */
import { Socket } from 'node:net';
import { ArgumentError, DataError, DTypeError, ShapeError } from 'heddle';
import { DTYPES } from 'heddle/internal/core/dtype.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { decode, encode } from 'heddle/internal/engine/realize.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { recordOf } from '../protocol/datatypes.js';
import type { TensorSpec } from '../protocol/model-spec.js';
import { FrameReader, sendFrame, type WorkerReply, type WorkerRequest } from './frames.js';
import { openServedModel } from './open-model.js';
import type { HostTensor, ServedModel } from './served-model.js';

/** What the service passes as the only argument, as JSON. */
export interface WorkerArguments {
  readonly path: string;
  readonly device: string | undefined;
  readonly maxBatchSize: number;
}

const { path, device, maxBatchSize } = JSON.parse(process.argv[2]!) as WorkerArguments;
const socket = new Socket({ fd: 3 });
// The service tells its workers to end: a signal to the whole group of processes is for the service.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

const reply = (head: WorkerReply, parts: readonly Uint8Array[] = []): void => sendFrame(socket, head, parts);
const refuse = (error: unknown): void => {
  const isClients = [ArgumentError, ShapeError, DTypeError, DataError].some((type) => error instanceof type);
  reply({ kind: 'error', message: error instanceof Error ? error.message : String(error), isClients });
};

const end = (): void => {
  void closeDevices().finally(() => process.exit());
};
socket.on('end', end).on('error', end);

try {
  const model = await openServedModel(path, device);
  await warmUp(model);
  let last = Promise.resolve();
  const reader = new FrameReader<WorkerRequest>((head, body) => {
    last = last.then(() => answer(model, head, body)).catch(refuse);
  });
  socket.on('data', (piece: Buffer) => reader.push(piece));
  reply({ kind: 'ready', spec: model.spec });
} catch (error) {
  refuse(error);
}

async function answer(model: ServedModel, request: WorkerRequest, body: Uint8Array): Promise<void> {
  const { inputs } = model.spec;
  if (request.kind === 'explain') {
    const input = hostTensor(inputs[0]!, request.shape, body);
    const { map, ...found } = await model.explain!(input, request.target);
    return reply({ kind: 'explanation', ...found }, [
      new Uint8Array(map.buffer, map.byteOffset, map.byteLength),
    ]);
  }
  const { rows, shapes } = request;
  const padded = model.spec.batched ? batchSize(rows) : rows;
  let at = 0;
  const tensors = inputs.map((spec, i) => {
    const own = shapes[i]!;
    const length = rows * sizeOf(own) * recordOf(spec.datatype).bytes;
    const bytes = body.subarray(at, at + length);
    at += length;
    return model.spec.batched ? hostTensor(spec, [padded, ...own], bytes) : hostTensor(spec, own, bytes);
  });
  const outputs = await model.run(tensors);
  const parts = outputs.map(({ values, shape }, i) => {
    const { datatype } = model.spec.outputs[i]!;
    const bytes = encode(values, DTYPES[recordOf(datatype).dtype!]);
    return model.spec.batched ? bytes.subarray(0, (bytes.byteLength / shape[0]!) * rows) : bytes;
  });
  reply(
    {
      kind: 'outputs',
      shapes: outputs.map(({ shape }) => (model.spec.batched ? [rows, ...shape.slice(1)] : shape)),
      lengths: parts.map(({ byteLength }) => byteLength),
    },
    parts,
  );
}

/** A tensor of these elements, and of zeros behind them as far as its shape asks for more. */
function hostTensor({ datatype }: TensorSpec, shape: readonly number[], bytes: Uint8Array): HostTensor {
  const { dtype, bytes: size } = recordOf(datatype);
  // Aligned, as typed arrays want it.
  const own = new Uint8Array(sizeOf(shape) * size);
  own.set(bytes);
  return { shape, values: decode(own, DTYPES[dtype!]) };
}

/** A power of two, or the largest batch: each size is a program of its own. */
function batchSize(rows: number): number {
  return Math.min(maxBatchSize, 2 ** Math.ceil(Math.log2(rows)));
}

/** Compile the programs of all batch sizes, so that no request waits for that. */
async function warmUp({ spec, run }: ServedModel): Promise<void> {
  const isKnown = spec.inputs.every(({ shape }) => !(spec.batched ? shape.slice(1) : shape).includes(-1));
  if (!isKnown) return;
  const sizes = new Set(Array.from({ length: spec.batched ? maxBatchSize : 1 }, (_, i) => batchSize(i + 1)));
  for (const rows of sizes) {
    const zeros = spec.inputs.map((input) =>
      hostTensor(input, spec.batched ? [rows, ...input.shape.slice(1)] : input.shape, new Uint8Array(0)),
    );
    await run(zeros);
  }
}
