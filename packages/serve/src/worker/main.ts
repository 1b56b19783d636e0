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
import { batchSizes } from './engine-model.js';
import { FrameReader, sendFrame, type WorkerReply, type WorkerRequest } from './frames.js';
import { type OpenOptions, openServedModel } from './open-model.js';
import type { HostTensor, ServedModel } from './served-model.js';

/** What the service passes as the only argument, as JSON. */
export type WorkerArguments = OpenOptions;

const options = JSON.parse(process.argv[2]!) as WorkerArguments;
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
  const model = await openServedModel(options);
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
  let at = 0;
  const tensors = inputs.map((spec, i) => {
    const own = shapes[i]!;
    const length = rows * sizeOf(own) * recordOf(spec.datatype).bytes;
    const bytes = body.subarray(at, at + length);
    at += length;
    return hostTensor(spec, model.spec.batched ? [rows, ...own] : own, bytes);
  });
  const outputs = await model.run(tensors);
  const parts = outputs.map(({ values }, i) => {
    const { datatype } = model.spec.outputs[i]!;
    return encode(values, DTYPES[recordOf(datatype).dtype!]);
  });
  reply(
    {
      kind: 'outputs',
      shapes: outputs.map(({ shape }) => shape),
      lengths: parts.map(({ byteLength }) => byteLength),
    },
    parts,
  );
}

function hostTensor({ datatype }: TensorSpec, shape: readonly number[], bytes: Uint8Array): HostTensor {
  const dtype = DTYPES[recordOf(datatype).dtype!];
  // As typed arrays want it; a frame is so unless its socket cut it badly.
  const isAligned = bytes.byteOffset % dtype.bytes === 0;
  return { shape, values: decode(isAligned ? bytes : Uint8Array.from(bytes), dtype) };
}

/** Run each program once, so that no request is the first. */
async function warmUp({ spec, run }: ServedModel): Promise<void> {
  const isKnown = spec.inputs.every(({ shape }) => !(spec.batched ? shape.slice(1) : shape).includes(-1));
  if (!isKnown) return;
  for (const rows of spec.batched ? batchSizes(options.maxBatchSize) : [1]) {
    const zeros = spec.inputs.map((input) => {
      const shape = spec.batched ? [rows, ...input.shape.slice(1)] : input.shape;
      return hostTensor(input, shape, new Uint8Array(sizeOf(shape) * recordOf(input.datatype).bytes));
    });
    await run(zeros);
  }
}
