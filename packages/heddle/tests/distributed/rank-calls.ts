/** A collective that ranks of a test call, and how each of them checks the result. */
import assert from 'node:assert/strict';
import { DTYPES, type DTypeName, type TypedArray } from '../../src/core/dtype.js';
import type { HostValues, Peers, ReductionOp, Transport } from '../../src/distributed/transport.js';
import { inSharedMemory, reducedValues, valuesOfRank } from './rank-values.js';

export interface TestCall {
  readonly kind: 'allReduce' | 'reduceScatter' | 'broadcast' | 'allGather' | 'barrier';
  readonly dtype: DTypeName;
  readonly op: ReductionOp;
  /** Elements that a rank has; of a reduceScatter, that it gets. */
  readonly count: number;
  /** An index of the group's ranks. */
  readonly root: number;
  /** Of an allReduce: into the same memory. */
  readonly inPlace: boolean;
  /** Where the values lie: memory that is shared, memory that is not, shared memory at an odd address. */
  readonly memory: 'shared' | 'own' | 'odd';
}

export const SIMPLE_CALL: TestCall = {
  ...{ kind: 'allReduce', dtype: 'f32', op: 'sum', count: 100, root: 0, inPlace: false, memory: 'shared' },
};

const bytesOf = (values: TypedArray): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

function placed(values: TypedArray, memory: TestCall['memory']): Uint8Array {
  if (memory === 'shared') return inSharedMemory(values);
  if (memory === 'own') return bytesOf(values).slice();
  const bytes = new Uint8Array(new SharedArrayBuffer(values.byteLength + 1)).subarray(1);
  bytes.set(bytesOf(values));
  return bytes;
}

/** @returns the bytes of the result, if the call has one and it is right. @throws AssertionError otherwise */
export function callAndCheck(transport: Transport, peers: Peers, call: TestCall, seed: number): Uint8Array {
  const { kind, dtype, op, count, root, inPlace, memory } = call;
  const { ranks, index } = peers;
  const n = ranks.length;
  const all = ranks.map((rank) =>
    valuesOfRank(dtype, kind === 'reduceScatter' ? n * count : count, rank, seed),
  );
  const own: HostValues = { bytes: placed(all[index]!, memory), dtype };
  const empty = (elements: number): HostValues => ({
    bytes: placed(valuesOfRank(dtype, elements, 99, seed), memory),
    dtype,
  });
  const { bytes } = DTYPES[dtype];
  let to = own;
  let expected: Uint8Array;
  switch (kind) {
    case 'allReduce':
      to = inPlace ? own : empty(count);
      transport.allReduce(peers, op, own, to);
      expected = bytesOf(reducedValues(op, dtype, all));
      break;
    case 'reduceScatter':
      to = empty(count);
      transport.reduceScatter(peers, op, own, to);
      expected = bytesOf(reducedValues(op, dtype, all)).subarray(
        index * count * bytes,
        (index + 1) * count * bytes,
      );
      break;
    case 'broadcast':
      transport.broadcast(peers, root, own);
      expected = bytesOf(all[root]!);
      break;
    case 'allGather':
      to = empty(n * count);
      transport.allGather(peers, own, to);
      expected = new Uint8Array(Buffer.concat(all.map(bytesOf)));
      break;
    case 'barrier':
      transport.barrier(peers);
      return new Uint8Array(0);
  }
  const same = Buffer.compare(expected, to.bytes) === 0;
  const different = same ? -1 : expected.findIndex((byte, i) => byte !== to.bytes[i]);
  assert.ok(
    same,
    `${JSON.stringify(call)} of ranks ${ranks}: byte ${different} is ${to.bytes[different]}, expected ${expected[different]}`,
  );
  if (to !== own) assert.deepEqual(bytesOf(all[index]!), new Uint8Array(own.bytes), 'what is sent stays');
  return to.bytes;
}
