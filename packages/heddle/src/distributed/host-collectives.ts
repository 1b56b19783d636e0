/** The routines `collective.<kind>` of the CPU device, by a transport of the host. */
import { DTYPES, type DTypeName } from '../core/dtype.js';
import type { LibraryCall } from '../kernel/ir/library-call.js';
import { arrivalsOf, ROUTE_BYTES } from '../runtime/cuda/peers/routes.js';
import { registerHostRoutine } from '../runtime/host-routines.js';
import type { CollectiveArg, CollectiveKind } from './collective-op.js';
import { ProcessGroup } from './group.js';
import type { HostValues, Transport } from './transport.js';

type RoutineOptions = Omit<CollectiveArg, 'kind'> & { readonly dtype: DTypeName };

/** A call with its buffers: `valuesOf(i, at, n)` are n values of the i-th from element `at` on. */
interface HostCall {
  readonly options: RoutineOptions;
  readonly group: ProcessGroup;
  readonly valuesOf: (buffer: number, at: number, count: number) => HostValues;
}

/** Programs call this transport from now on, also those that have been compiled. @param rank of this process */
export function registerCollectives(transport: Transport, rank: number): void {
  const groups = new Map<string, ProcessGroup>();
  const groupOf = (ranks: readonly number[]): ProcessGroup => {
    const key = ranks.join();
    const known = groups.get(key) ?? new ProcessGroup(ranks, rank);
    groups.set(key, known);
    return known;
  };
  const register = (kind: CollectiveKind, run: (call: HostCall) => void): void =>
    registerHostRoutine(`collective.${kind}`, (call: LibraryCall, memory, addresses) => {
      const options = call.options as unknown as RoutineOptions;
      const { dtype, ranks, orders } = options;
      const { bytes } = DTYPES[dtype];
      const valuesOf = (buffer: number, at: number, count: number): HostValues => {
        const from = addresses[buffer]! + at * bytes;
        return { bytes: memory.subarray(from, from + count * bytes), dtype, orders };
      };
      run({ options, group: groupOf(ranks), valuesOf });
    });
  /** The sources at their places in the result, which is the argument after them: one message is faster than several. */
  const packed = ({ options: { counts, offsets, size }, valuesOf }: HostCall): HostValues => {
    for (const [i, count] of counts.entries())
      valuesOf(counts.length, offsets[i]!, count).bytes.set(valuesOf(i, 0, count).bytes);
    return valuesOf(counts.length, 0, size);
  };
  register('allReduce', (call) => {
    const values = packed(call);
    transport.allReduce(call.group, call.options.op, values, values);
  });
  register('broadcast', (call) => transport.broadcast(call.group, call.options.root, packed(call)));
  register('allGather', ({ options: { counts, size }, group, valuesOf }) =>
    transport.allGather(group, valuesOf(0, 0, counts[0]!), valuesOf(1, 0, size)),
  );
  register('gatherOthers', ({ options, group, valuesOf }) => {
    const { counts, offsets, senders = [], receivers = [], sent: own = 0, ranks, dtype } = options;
    const space = counts.length + 1;
    for (const [i, count] of counts.entries())
      valuesOf(space, offsets[i]!, count).bytes.set(valuesOf(i, 0, count).bytes);
    transport.allGather(group, valuesOf(space, 0, own), valuesOf(space, own, own * ranks.length));
    const step = ROUTE_BYTES / DTYPES[dtype].bytes;
    const { arrivals } = arrivalsOf({ counts, senders, receivers }, group.index, ranks.length, step);
    for (const { sender, source, at } of arrivals) {
      const count = counts[source]!;
      const sent = valuesOf(space, own * (1 + sender) + offsets[source]!, count);
      valuesOf(counts.length, at, count).bytes.set(sent.bytes);
    }
  });
  register('reduceScatter', ({ options: { counts, size, op }, group, valuesOf }) =>
    transport.reduceScatter(group, op, valuesOf(0, 0, counts[0]!), valuesOf(1, 0, size)),
  );
}
