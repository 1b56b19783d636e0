/** Asserts and prints of kernels in CUDA: records in a log that the runtime gives the module and reads. */
import type { DType } from '../../core/dtype.js';
import type { Location } from '../../core/errors.js';
import type { ValueType } from '../../kernel/ir/types.js';
import type { Message } from '../message.js';
import type { Prelude } from './prelude.js';
import { call, convertTo, type Text } from './text.js';

/** The variable that the runtime sets to a `MessageLog` after loading the module. */
export const messageLogOf = (entry: string): string => `${entry}_log`;

/** sizeof(MessageLog): two addresses, then the capacity in words of 8 bytes and the number of the kernel. */
export const MESSAGE_LOG = { taken: 0, records: 8, capacity: 16, kernel: 20, bytes: 24 } as const;

/** Words of 8 bytes before a record's values: kernel, message, block x y z, thread x y z, as u32. */
export const MESSAGE_HEADER = 4;

/** The messages of one kernel, and the text that records them. */
export class Messages {
  readonly list: Message[] = [];
  readonly #kernel: string;
  readonly #entry: string;
  readonly #prelude: Prelude;

  constructor(kernel: string, entry: string, prelude: Prelude) {
    this.#kernel = kernel;
    this.#entry = entry;
    this.#prelude = prelude;
  }

  /** Makes a record and gives where its values go: null if the log is full. */
  record(
    kind: Message['kind'],
    text: string,
    at: Location | undefined,
    values: readonly ValueType[],
  ): string {
    const log = messageLogOf(this.#entry);
    this.#prelude.define('record_message', () => define(log));
    this.list.push({ kind, kernel: this.#kernel, text, at, values });
    const words = values.reduce((n, type) => n + type.lanes, 0);
    return `record_message(${this.list.length}, ${words})`;
  }
}

/** A value as the 8 bytes of a record: a float as f64, everything else as i64. */
export const recorded = (t: DType, v: Text): Text =>
  t.kind === 'float' ? call('__double_as_longlong', convertTo('double', v)) : convertTo('long long', v);

// The braces after extern "C" make it a definition.
const define = (
  log: string,
): string => `struct MessageLog { unsigned* taken; long long* records; unsigned capacity, kernel; };
extern "C" { __device__ MessageLog ${log}; }
__device__ __noinline__ long long* record_message(unsigned message, unsigned values) {
  const unsigned at = atomicAdd(${log}.taken, values + ${MESSAGE_HEADER}u);
  if (at + values + ${MESSAGE_HEADER}u > ${log}.capacity) return 0;
  unsigned* head = reinterpret_cast<unsigned*>(${log}.records + at);
  head[1] = message;
  head[2] = blockIdx.x, head[3] = blockIdx.y, head[4] = blockIdx.z;
  head[5] = threadIdx.x, head[6] = threadIdx.y, head[7] = threadIdx.z;
  head[0] = ${log}.kernel;
  return ${log}.records + at + ${MESSAGE_HEADER};
}`;
