/**
 * A worker: a process of its own with one model and one device. It answers frames on file descriptor 3, one after the other,
 * and ends when the service closes it.
 */
import { Socket } from 'node:net';
import { ArgumentError, DataError, type DType, DTypeError, f32, ShapeError } from 'heddle';
import { DTYPES } from 'heddle/internal/core/dtype.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { decode, encode } from 'heddle/internal/engine/realize.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { recordOf } from '../protocol/datatypes.js';
import type { TensorSpec } from '../protocol/model-spec.js';
import { FrameReader, sendFrame, type WorkerReply, type WorkerRequest } from './frames.js';
import { type OpenOptions, openServedModel } from './open-model.js';
import type { HostTensor, ServedModel } from './served-model.js';

/** What the service passes as the only argument, as JSON. */
export type WorkerArguments = OpenOptions;

/** What is read from the socket at once, into memory that is used again: as much as a socket holds. */
const READ_BYTES = 2 ** 18;

let model: ServedModel;
let last = Promise.resolve();
const options = JSON.parse(process.argv[2]!) as WorkerArguments;
const reader = new FrameReader<WorkerRequest>((head, body) => {
  last = last.then(() => answer(head, body)).catch(refuse);
});
const fromService = {
  fd: 3,
  onread: {
    buffer: Buffer.alloc(READ_BYTES),
    callback: (length: number, buffer: Uint8Array): boolean => {
      reader.push(buffer.subarray(0, length));
      return true;
    },
  },
};
const socket = new Socket(fromService);
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
  model = await openServedModel(options);
  reply({ kind: 'ready', spec: model.spec });
} catch (error) {
  refuse(error);
}

async function answer({ rows, shapes, target }: WorkerRequest, body: Uint8Array): Promise<void> {
  const { inputs, batched } = model.spec;
  let at = 0;
  const tensors = inputs.map((spec, i) => {
    const own = shapes[i]!;
    const length = rows * sizeOf(own) * recordOf(spec.datatype).bytes;
    const bytes = body.subarray(at, at + length);
    at += length;
    return hostTensor(spec, batched ? [rows, ...own] : own, bytes);
  });
  if (target !== undefined) {
    const { map, layer } = await model.explain!(tensors[0]!, target);
    return answerWith([map], [f32], layer);
  }
  answerWith(
    await model.run(tensors),
    model.spec.outputs.map(({ datatype }) => DTYPES[recordOf(datatype).dtype!]),
  );
}

function answerWith(outputs: readonly HostTensor[], dtypes: readonly DType[], layer?: string): void {
  const parts = outputs.map(({ values }, i) => encode(values, dtypes[i]!));
  const lengths = parts.map(({ byteLength }) => byteLength);
  const shapes = outputs.map(({ shape }) => shape);
  reply({ kind: 'outputs', shapes, lengths, ...(layer !== undefined && { layer }) }, parts);
}

function hostTensor({ datatype }: TensorSpec, shape: readonly number[], bytes: Uint8Array): HostTensor {
  const dtype = DTYPES[recordOf(datatype).dtype!];
  // Of several inputs, one may begin where typed arrays of its dtype cannot.
  const isAligned = bytes.byteOffset % dtype.bytes === 0;
  return { shape, values: decode(isAligned ? bytes : Uint8Array.from(bytes), dtype) };
}
