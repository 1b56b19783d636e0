/**
 * NCCL: collectives between the GPUs of several processes, `collective.allReduce` and so on. Each process has one GPU. Before
 * they are prepared, the ranks of a group are connected: one of them makes an id, which all use.
 *
 * A group has two communicators: one of as many blocks as NCCL wishes, and one of few, for exchanges that run beside other
 * launches. All ranks call both in the same order, and a program's exchanges run one after the other, whichever they use.
 *
 * NCCL itself chooses how it goes round: with the same GPUs and the same number of ranks it sums in the same order. 16-bit floats
 * are rounded after each of its steps.
 */
import { DeviceError } from '../../../core/errors.js';
import { EXCHANGE_UNITS, type LibraryCall } from '../../../kernel/ir/library-call.js';
import { loadLibrary, structOfBytes } from '../driver/native.js';
import { type CollectiveRun, noteCollective } from './collective-run.js';
import { optionsOf } from './library-options.js';
import type { CapturingGraph, PreparedRoutine } from './routine.js';
import { type Checked, created, findVendorLibrary, openVendorLibrary } from './vendor-library.js';

const SIGNATURES = {
  ncclGetVersion: ['memory'],
  ncclGetUniqueId: ['memory'],
  ncclCommDestroy: ['address'],
  ncclCommAbort: ['address'],
  ncclCommSplit: ['address', 'i32', 'i32', 'memory', 'memory'],
  ncclCommGetAsyncError: ['address', 'memory'],
  ncclGroupStart: [],
  ncclGroupEnd: [],
  ncclAllReduce: ['address', 'address', 'u64', 'i32', 'i32', 'address', 'address'],
  ncclBroadcast: ['address', 'address', 'u64', 'i32', 'i32', 'address', 'address'],
  ncclAllGather: ['address', 'address', 'u64', 'i32', 'address', 'address'],
  ncclReduceScatter: ['address', 'address', 'u64', 'i32', 'i32', 'address', 'address'],
} as const;

/** NCCL_UNIQUE_ID_BYTES. */
const ID_BYTES = 128;

/** Blocks of NCCL for exchanges that run beside other launches: two find room on a multiprocessor. */
const BESIDE_BLOCKS = 2 * EXCHANGE_UNITS;

/**
 * ncclConfig_t as of 2.17, the first one with maxCTAs; later versions take it as well. By default NCCL launches blocks in clusters of
 * four, which wait until multiprocessors near each other are free.
 */
function fewBlocks(): Uint8Array {
  const config = new DataView(new ArrayBuffer(40));
  const [MAGIC, VERSION, UNDEFINED] = [0xcafebeef, 21700, -(2 ** 31)];
  config.setUint32(0, config.byteLength, true);
  config.setUint32(8, MAGIC, true);
  config.setUint32(12, VERSION, true);
  const [blocking, clusterSize, leastBlocks, mostBlocks] = [UNDEFINED, 1, UNDEFINED, BESIDE_BLOCKS];
  [blocking, clusterSize, leastBlocks, mostBlocks].forEach((value, i) => {
    config.setInt32(16 + 4 * i, value, true);
  });
  return new Uint8Array(config.buffer);
}

/** ncclDataType_t and the bytes of an element; bool is a byte of 0 or 1. */
const NCCL_TYPES: Readonly<Record<string, readonly [type: number, bytes: number]>> = {
  ...{ i8: [0, 1], u8: [1, 1], bool: [1, 1], i32: [2, 4], u32: [3, 4], i64: [4, 8] },
  ...{ f16: [6, 2], f32: [7, 4], f64: [8, 8], bf16: [9, 2] },
};
/** ncclRedOp_t. */
const NCCL_OPS: Readonly<Record<string, number>> = { sum: 0, prod: 1, max: 2, min: 3 };
/** Of bytes that are 0 or 1, any is the largest and all the smallest. */
const BOOL_OPS: Readonly<Record<string, number>> = { sum: 2, prod: 3, max: 2, min: 3 };

interface Nccl extends Checked<typeof SIGNATURES> {
  /** Takes the id, a struct of 128 bytes, by value. */
  initRank(out: BigUint64Array, ranks: number, id: Uint8Array, index: number): void;
  errorText(status: number): string;
}

let opened: Nccl | undefined;

function nccl(): Nccl {
  if (opened) return opened;
  // Else NCCL maps the buffers of captured collectives into the other ranks, all of which would have to capture at the same time,
  // and never to free them; here a rank may run a program for the first time that another one has captured already.
  process.env.NCCL_GRAPH_REGISTER ??= '0';
  const functions = openVendorLibrary('nccl', SIGNATURES, 'ncclGetErrorString');
  const library = loadLibrary(findVendorLibrary('nccl')!.path);
  const text = library.func('ncclGetErrorString', 'str', ['int']);
  const init = library.func('ncclCommInitRank', 'int', ['void *', 'int', structOfBytes(ID_BYTES), 'int']);
  const errorText = (status: number): string => String(text(status));
  opened = {
    ...functions,
    errorText,
    initRank(out, ranks, bytes, index) {
      const status = init(out, ranks, { bytes }, index) as number;
      if (status !== 0)
        throw new DeviceError(
          `[ncclCommInitRank] NCCL answers with status ${status} (${errorText(status)}). Each rank needs its own GPU: is init() called ` +
            'before the first tensor is made? Set NCCL_DEBUG=WARN for details.',
        );
    },
  };
  return opened;
}

/** As 2.30.7. @throws DeviceError if NCCL is not there */
export function ncclVersion(): string {
  const word = new Int32Array(1);
  nccl().ncclGetVersion(word);
  const code = word[0]!;
  return `${Math.floor(code / 10000)}.${Math.floor(code / 100) % 100}.${code % 100}`;
}

/** What the ranks of a group use to find each other: one of them makes it and passes it on. */
export function createNcclId(): string {
  const id = new Uint8Array(ID_BYTES);
  nccl().ncclGetUniqueId(id);
  return Buffer.from(id).toString('base64');
}

/** Of a group. */
interface Communicators {
  readonly all: number;
  /** Of few blocks. */
  readonly few: number;
}

/** By the ranks that they connect. */
const communicators = new Map<string, Communicators>();

/** Graphs with collectives: NCCL lets no communicator go before they are gone. */
const graphs = new Set<CapturingGraph>();

/**
 * Connect the GPU of this process, whose context is current, with those of other ranks. Returns when all of them have called this.
 * @param index the place of this process in `ranks`
 * @param id what one of them has made by `createNcclId`
 * @throws DeviceError with NCCL's reason
 */
export function connectNccl(ranks: readonly number[], index: number, id: string): void {
  const bytes = new Uint8Array(Buffer.from(id, 'base64'));
  if (bytes.length !== ID_BYTES)
    throw new DeviceError(`an id of NCCL has ${ID_BYTES} bytes, this one has ${bytes.length}.`);
  const all = created((out) => nccl().initRank(out, ranks.length, bytes, index));
  const few = created((out) => nccl().ncclCommSplit(all, 0, index, out, fewBlocks()));
  communicators.set(ranks.join(), { all, few });
}

/** What has gone wrong between the GPUs since they were connected, if anything has. Does not wait. */
export function ncclFailure(): string | undefined {
  const status = new Int32Array(1);
  for (const [ranks, { all, few }] of communicators)
    for (const communicator of [all, few]) {
      nccl().ncclCommGetAsyncError(communicator, status);
      // 7 is ncclInProgress.
      if (status[0] !== 0 && status[0] !== 7) return `NCCL, ranks ${ranks}: ${nccl().errorText(status[0]!)}`;
    }
  return undefined;
}

/**
 * Let all communicators go. Programs that use them must not run any more.
 * @param abort while collectives may be running that will not end, since a rank is gone
 */
export function disconnectNccl(abort = false): void {
  for (const graph of [...graphs]) graph.dispose();
  const all = [...communicators.values()].flatMap((group) => [group.few, group.all]);
  communicators.clear();
  for (const communicator of all)
    if (abort) nccl().ncclCommAbort(communicator);
    else nccl().ncclCommDestroy(communicator);
}

function communicatorOf(call: LibraryCall, ranks: readonly number[], beside: boolean): number {
  const group = communicators.get(ranks.join());
  if (group) return beside ? group.few : group.all;
  throw new DeviceError(
    `[${call.name}] the GPUs of ranks ${ranks.join(', ')} are not connected. Make the group on all of its ranks before it is used.`,
  );
}

/**
 * `collective.allReduce`, `.broadcast`, `.allGather` and `.reduceScatter`. Arguments: the sources and the result; what
 * comes after them is left alone. Options: dtype, ranks (of the group), op, root (a place in ranks), beside (other launches run
 * meanwhile), counts (elements of each source), offsets (where the result of each begins, in elements), size (elements of the result),
 * orders (identifies the orders of dimensions that the sources are in).
 */
export function prepareCollective(call: LibraryCall): PreparedRoutine {
  const lib = nccl();
  const o = optionsOf(call);
  const [type, bytes] = o.lookup('dtype', NCCL_TYPES);
  const ranks = o.list('ranks');
  const counts = o.list('counts');
  const offsets = o.list('offsets');
  const [root, size] = [o.number('root'), o.number('size')];
  const op = o.lookup('op', o.text('dtype') === 'bool' ? BOOL_OPS : NCCL_OPS);
  const beside = o.flag('beside');
  communicatorOf(call, ranks, beside);
  /** Puts one source on its way: addresses, elements, communicator, stream. */
  type Send = (from: number, to: number, count: number, communicator: number, stream: number) => void;
  const sends: Readonly<Record<string, Send>> = {
    'collective.allReduce': (from, to, count, ...on) => lib.ncclAllReduce(from, to, count, type, op, ...on),
    'collective.broadcast': (from, to, count, ...on) => lib.ncclBroadcast(from, to, count, type, root, ...on),
    'collective.allGather': (from, to, count, ...on) => lib.ncclAllGather(from, to, count, type, ...on),
    // NCCL counts what a rank gets.
    'collective.reduceScatter': (from, to, _, ...on) =>
      lib.ncclReduceScatter(from, to, size, type, op, ...on),
  };
  const send = sends[call.name];
  if (!send) throw new DeviceError(`[${call.name}] NCCL has no such collective.`);
  const run: CollectiveRun = {
    ...{ name: call.name, dtype: o.text('dtype'), op: o.text('op'), ranks, root, orders: o.number('orders') },
    elements: counts.length > 1 ? size : counts[0]!,
  };
  return {
    workspaceBytes: 0,
    graphs,
    begins: () => noteCollective(run),
    enqueue(stream, args) {
      const communicator = communicatorOf(call, ranks, beside);
      const result = args[counts.length] as number;
      // As a group, many small ones are one kernel.
      lib.ncclGroupStart();
      try {
        for (const [i, count] of counts.entries())
          send(args[i] as number, result + offsets[i]! * bytes, count, communicator, stream);
      } finally {
        lib.ncclGroupEnd();
      }
    },
    // The communicator is the group's.
    dispose() {},
  };
}
