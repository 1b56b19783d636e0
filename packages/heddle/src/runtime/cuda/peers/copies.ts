/**
 * The routine `collective.gatherOthers`: each rank copies what the others have, by way of their windows. Arguments: the sources and
 * the result, which has the values of one rank after those of another. Options: see runtime/cuda/vendor/nccl.ts.
 */
import { DTYPES, type DTypeName } from '../../../core/dtype.js';
import { DeviceError } from '../../../core/errors.js';
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import { type DriverApi, openDriver } from '../driver/driver.js';
import { noteCollective } from '../vendor/collective-run.js';
import { optionsOf } from '../vendor/library-options.js';
import type { PreparedRoutine } from '../vendor/routine.js';
import { type PeerWindows, peerWindowsOf, SLOT_BYTES, SLOTS } from './windows.js';

/** CU_STREAM_WAIT_VALUE_EQ */
const EQUAL = 1;

/** What lies one after the other in the window of a rank, a slot after the other. */
export interface Sent {
  /** Where each source begins, and its bytes. */
  readonly sources: readonly { readonly at: number; readonly bytes: number }[];
  /** All of them. */
  readonly bytes: number;
}

export function prepareCopies(call: LibraryCall): PreparedRoutine {
  const o = optionsOf(call);
  const dtype = o.text('dtype') as DTypeName;
  const { bytes } = DTYPES[dtype];
  const ranks = o.list('ranks');
  const offsets = o.list('offsets');
  const counts = o.list('counts');
  const own = o.number('size') / (ranks.length - 1);
  const sent: Sent = {
    sources: counts.map((count, i) => ({ at: offsets[i]! * bytes, bytes: count * bytes })),
    bytes: own * bytes,
  };
  const groupOf = (): PeerWindows => {
    const group = peerWindowsOf(ranks);
    if (group) return group;
    throw new DeviceError(
      `[${call.name}] the GPUs of ranks ${ranks.join(', ')} do not copy from each other.`,
    );
  };
  const { graphs } = groupOf();
  const run = {
    ...{ name: call.name, dtype, op: o.text('op'), ranks, root: o.number('root') },
    ...{ elements: own, orders: o.number('orders') },
  };
  return {
    workspaceBytes: 0,
    graphs,
    begins: () => noteCollective(run),
    enqueue(stream, args) {
      const addresses = args as readonly number[];
      enqueueCopies(openDriver().api, stream, groupOf(), sent, addresses, addresses[counts.length]!);
    },
    // The windows are the group's.
    dispose() {},
  };
}

/** Puts on a stream what one rank does. @param addresses of the sources */
export function enqueueCopies(
  api: Pick<DriverApi, 'cuMemcpyDtoDAsync_v2' | 'cuStreamWaitValue32_v2' | 'cuStreamWriteValue32_v2'>,
  stream: number,
  { windows, index }: Pick<PeerWindows, 'windows' | 'index'>,
  { sources, bytes }: Sent,
  addresses: readonly number[],
  result: number,
): void {
  const mine = windows[index]!;
  // Beginning with the next one, all links are in use.
  const others = Array.from({ length: windows.length - 1 }, (_, i) => (index + 1 + i) % windows.length);
  const tell = (flag: number): void => api.cuStreamWriteValue32_v2(stream, flag, 1, 0);
  const awaitFlag = (flag: number): void => {
    api.cuStreamWaitValue32_v2(stream, flag, 1, EQUAL);
    api.cuStreamWriteValue32_v2(stream, flag, 0, 0);
  };
  const copy = (to: number, from: number, length: number): void =>
    api.cuMemcpyDtoDAsync_v2(to, from, length, stream);
  for (let from = 0, turn = 0; from < bytes; from += SLOT_BYTES, turn++) {
    const to = Math.min(from + SLOT_BYTES, bytes);
    const slot = turn % SLOTS;
    for (const other of others) awaitFlag(mine.taken(other, slot));
    sources.forEach((source, i) => {
      const [first, last] = [Math.max(from, source.at), Math.min(to, source.at + source.bytes)];
      if (first < last) copy(mine.slot(slot) + first - from, addresses[i]! + first - source.at, last - first);
    });
    for (const other of others) tell(windows[other]!.full(index, slot));
    for (const other of others) {
      awaitFlag(mine.full(other, slot));
      const place = other < index ? other : other - 1;
      copy(result + place * bytes + from, windows[other]!.slot(slot), to - from);
      tell(windows[other]!.taken(index, slot));
    }
  }
}
