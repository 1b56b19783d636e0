/** A world of two ranks in one process: the other one, the twin, always has the same values. */
import { registerCollectives } from '../../src/distributed/host-collectives.js';
import { join } from '../../src/distributed/join.js';
import { membership } from '../../src/distributed/membership.js';
import type { HostValues, Transport } from '../../src/distributed/transport.js';

/** The calls that were made, in their order. */
export interface Twins {
  readonly calls: string[];
  leave(): Promise<void>;
}

/** Values are f32. */
const floats = ({ bytes }: HostValues): Float32Array =>
  new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** @param rank of this process: 0 or 1 */
export async function joinTwin(rank = 0): Promise<Twins> {
  const calls: string[] = [];
  const kept = new Map<string, string>();
  const combined = {
    sum: (v: number) => 2 * v,
    prod: (v: number) => v * v,
    min: (v: number) => v,
    max: (v: number) => v,
  };
  const transport: Transport = {
    name: 'tcp',
    allReduce: (_, op, from, to) => {
      calls.push(`allReduce ${op} ${floats(from).length}`);
      floats(to).set(floats(from).map(combined[op]));
    },
    broadcast: (_, root, values) => {
      calls.push(`broadcast ${root} ${floats(values).length}`);
    },
    allGather: (_, from, to) => {
      calls.push(`allGather ${floats(from).length}`);
      floats(to).set(floats(from));
      floats(to).set(floats(from), floats(from).length);
    },
    reduceScatter: ({ index }, op, from, to) => {
      calls.push(`reduceScatter ${op} ${floats(from).length}`);
      const { length } = floats(to);
      floats(to).set(
        floats(from)
          .subarray(index * length, (index + 1) * length)
          .map(combined[op]),
      );
    },
    barrier: () => {
      calls.push('barrier');
    },
    close: async () => {},
  };
  const rendezvous = {
    rank,
    worldSize: 2,
    set: async (key: string, value: string) => void kept.set(key, value),
    get: async (key: string) => kept.get(key)!,
  };
  registerCollectives(transport, rank);
  await join(rank, 2, rank, { rendezvous, connect: async () => {}, close: async () => {} });
  return { calls, leave: () => membership().close() };
}
