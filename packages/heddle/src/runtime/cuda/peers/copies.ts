/**
 * The routine `collective.gatherOthers`: each rank copies sources of its own into the results of others, which are memory that the ranks
 * have shown each other. Arguments: the sources and the result. Options: see runtime/cuda/vendor/nccl.ts, and `senders` and `receivers`
 * of routes.ts.
 */
import { DTYPES, type DTypeName } from '../../../core/dtype.js';
import { DeviceError } from '../../../core/errors.js';
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import { type DriverApi, openDriver } from '../driver/driver.js';
import { noteCollective } from '../vendor/collective-run.js';
import { optionsOf } from '../vendor/library-options.js';
import type { PreparedRoutine } from '../vendor/routine.js';
import { type PeerGroup, peersOf } from './peers.js';
import { arrivalsOf, ROUTE_BYTES, type Routes } from './routes.js';

/** CU_STREAM_WAIT_VALUE_EQ */
const EQUAL = 1;

/** A copy into the result of another rank. */
interface Copy {
  readonly source: number;
  /** How far into the result, in bytes. */
  readonly to: number;
  readonly bytes: number;
}

/** What a rank copies into the results of the others, by their places; none for itself. */
export type Sent = readonly (readonly Copy[])[];

/** @param bytes of an element */
export const sentBy = (routes: Routes, sender: number, ranks: number, bytes: number): Sent =>
  Array.from({ length: ranks }, (_, receiver) =>
    arrivalsOf(routes, receiver, ranks, ROUTE_BYTES / bytes)
      .arrivals.filter((a) => a.sender === sender)
      .map(({ source, at }) => ({ source, to: at * bytes, bytes: routes.counts[source]! * bytes })),
  );

export function prepareCopies(call: LibraryCall): PreparedRoutine {
  const o = optionsOf(call);
  const dtype = o.text('dtype') as DTypeName;
  const ranks = o.list('ranks');
  const counts = o.list('counts');
  const routes = { counts, senders: o.list('senders'), receivers: o.list('receivers') };
  const groupOf = (): PeerGroup => {
    const group = peersOf(ranks);
    if (group) return group;
    throw new DeviceError(
      `[${call.name}] the GPUs of ranks ${ranks.join(', ')} do not copy into each other's memory.`,
    );
  };
  const { graphs, index } = groupOf();
  const sent = sentBy(routes, index, ranks.length, DTYPES[dtype].bytes);
  const run = {
    ...{ name: call.name, dtype, op: o.text('op'), ranks, root: o.number('root') },
    ...{ elements: counts.reduce((sum, count) => sum + count, 0), orders: o.number('orders') },
  };
  return {
    workspaceBytes: 0,
    graphs,
    begins: () => noteCollective(run),
    enqueue(stream, args) {
      const addresses = args as readonly number[];
      const group = groupOf();
      const results = group.shown.get(addresses[counts.length]!);
      if (!results)
        throw new DeviceError(`[${call.name}] the result is in memory that other ranks cannot see.`);
      enqueueCopies(openDriver().api, stream, group, sent, addresses, results);
    },
    // What the ranks have shown each other is the group's.
    dispose() {},
  };
}

/**
 * Puts on a stream what one rank does: it says that its result may be written, copies into that of each other rank once that one has said
 * so, and waits until all others have copied into its own.
 * @param addresses of the sources
 * @param results where those of all ranks are
 */
export function enqueueCopies(
  api: Pick<DriverApi, 'cuMemcpyDtoDAsync_v2' | 'cuStreamWaitValue32_v2' | 'cuStreamWriteValue32_v2'>,
  stream: number,
  { boards, index }: Pick<PeerGroup, 'boards' | 'index'>,
  sent: Sent,
  addresses: readonly number[],
  results: readonly number[],
): void {
  const mine = boards[index]!;
  // Beginning with the next one, all links are in use.
  const others = Array.from({ length: boards.length - 1 }, (_, i) => (index + 1 + i) % boards.length);
  const tell = (flag: number): void => api.cuStreamWriteValue32_v2(stream, flag, 1, 0);
  const awaitFlag = (flag: number): void => {
    api.cuStreamWaitValue32_v2(stream, flag, 1, EQUAL);
    api.cuStreamWriteValue32_v2(stream, flag, 0, 0);
  };
  for (const other of others) tell(boards[other]!.ready(index));
  for (const other of others) {
    awaitFlag(mine.ready(other));
    for (const { source, to, bytes } of sent[other]!)
      api.cuMemcpyDtoDAsync_v2(results[other]! + to, addresses[source]!, bytes, stream);
    tell(boards[other]!.arrived(index));
  }
  for (const other of others) awaitFlag(mine.arrived(other));
}
