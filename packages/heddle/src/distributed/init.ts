/** Joining the other processes, and leaving them. */
import { above, oneOf, type Rules, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, DeviceError, DistributedError } from '../core/errors.js';
import { currentDevice, useDeviceOfRank } from '../engine/storage.js';
import { connectPeers, disconnectPeers, type PeerGroup } from '../runtime/cuda/peers/peers.js';
import { onCollective } from '../runtime/cuda/vendor/collective-run.js';
import { connectNccl, createNcclId, disconnectNccl, ncclFailure } from '../runtime/cuda/vendor/nccl.js';
import { headerWords, type ToldKind } from './call.js';
import { type Control, openControl } from './control/control.js';
import { MOST_COPYING } from './data-parallel.js';
import { placeFromEnvironment, type WorldPlace } from './environment.js';
import { registerCollectives } from './host-collectives.js';
import { join, type Ways } from './join.js';
import { isMember, membership } from './membership.js';
import { isMpiProcess, openMpiTransport } from './mpi/transport.js';
import { openTcpTransport } from './tcp/transport.js';
import type { ReductionOp } from './transport.js';

/** Options of `init`. */
export interface InitOptions {
  /** How long to wait for the other ranks, in seconds (default 300). */
  readonly timeout?: number;
  /** How values travel between CPUs: by MPI (default in processes that mpirun has started) or over TCP (default elsewhere). */
  readonly transport?: 'tcp' | 'mpi';
}

const INIT: Rules<InitOptions> = { timeout: above(0), transport: oneOf('tcp', 'mpi') };

/** In seconds. */
const TIMEOUT = 300;

/**
 * Join the other processes: those that were started together with this one, by `heddle launch`, torchrun, mpirun or srun. Call
 * it once, at the start. A process that was started alone is a world of one. From then on, if a rank ends before it has called
 * `close`, or fails, all others end within 10 seconds with a message that names it.
 * @example
 * ```ts
 * import * as distributed from 'heddle/distributed';
 *
 * await distributed.init();
 * console.log(distributed.rank(), distributed.worldSize()); // → 0 1
 * await distributed.close();
 * ```
 * @throws ArgumentError if it has joined already; DistributedError if variables of the environment contradict each other, or
 * ranks do not come in time, differ in their version, or disagree on their number
 */
export async function init(options: InitOptions = {}): Promise<void> {
  requireOptions('init', options, INIT);
  if (isMember())
    throw new ArgumentError('[init] this process has joined already. Call init() once, at the start.');
  const place = placeFromEnvironment(process.env);
  const { rank, worldSize, localRank } = place;
  await join(rank, worldSize, localRank, worldSize > 1 ? await waysOf(place, options) : undefined);
}

async function waysOf(place: WorldPlace, options: InitOptions): Promise<Ways> {
  useDeviceOfRank(place.localRank, place.localWorldSize);
  const { name } = currentDevice();
  if (name === 'sim')
    throw new DeviceError('[init] the simulator does not communicate: use the CPU or GPUs.');
  const { timeout = TIMEOUT } = options;
  const control = await openControl(place, { timeoutMs: 1000 * timeout });
  try {
    return name === 'cpu' ? await waysOfHost(control, options) : waysOfGpu(control);
  } catch (error) {
    await control.close();
    throw error;
  }
}

async function waysOfHost(
  control: Control,
  { timeout = TIMEOUT, transport: kind }: InitOptions,
): Promise<Ways> {
  const byMpi = (kind ?? (isMpiProcess(process.env) ? 'mpi' : 'tcp')) === 'mpi';
  const transport = byMpi ? openMpiTransport(process.env) : await openTcpTransport(control, { timeout });
  registerCollectives(transport, control.rank);
  return {
    rendezvous: control,
    // The transport knows its peers by their ranks.
    connect: async () => {},
    async close() {
      await transport.close();
      await control.close();
    },
  };
}

/** Milliseconds between two checks whether NCCL has failed. */
const LOOK_MS = 1000;

function waysOfGpu(control: Control): Ways {
  const connected = new Set<string>();
  const sequences = new Map<string, number>();
  let peers: PeerGroup | undefined;
  onCollective(({ name, dtype, op, ...run }) => {
    const group = run.ranks.join();
    const sequence = sequences.get(group) ?? 0;
    sequences.set(group, sequence + 1);
    const kind = name.slice(name.indexOf('.') + 1) as ToldKind;
    control.note(headerWords({ kind, dtype: dtype as DTypeName, op: op as ReductionOp, sequence, ...run }));
  });
  // What waits for a GPU is not told that the network between GPUs has failed.
  const look = setInterval(() => {
    const failure = ncclFailure();
    if (failure === undefined) return;
    clearInterval(look);
    disconnectNccl(true);
    throw new DistributedError(`[distributed] communication between the GPUs failed: ${failure}`);
  }, LOOK_MS).unref();
  return {
    rendezvous: control,
    async connect({ ranks, index }) {
      const key = `nccl ${ranks.join()}`;
      if (connected.has(key)) return;
      connected.add(key);
      if (index === 0) await control.set(key, createNcclId());
      const id = await control.get(key);
      // NCCL connects the GPU whose context is current.
      await currentDevice().synchronize();
      connectNccl(ranks, index, id);
      if (ranks.length === control.worldSize && ranks.length <= MOST_COPYING)
        peers = await connectPeers(ranks, index, async (what, mine) => {
          await control.set(`${what} ${index}`, mine);
          return Promise.all(ranks.map((_, i) => control.get(`${what} ${i}`)));
        });
    },
    copies: () => peers !== undefined,
    show: (buffer) => peers?.show(buffer && currentDevice().addressOf!(buffer)) ?? false,
    async close() {
      await currentDevice().synchronize();
      clearInterval(look);
      // Another rank may still read the memory of this one. Who has left by now has done so.
      await control.barrier().catch(() => {});
      disconnectPeers();
      disconnectNccl();
      await control.close();
    },
  };
}

/** Whether `init` has been called, and `close` has not. */
export const isInitialized = isMember;

/** The number of this process among all, from 0. @throws ArgumentError before `init` */
export function rank(): number {
  const { world } = membership();
  return world.ranks[world.index]!;
}

/** How many processes there are. @throws ArgumentError before `init` */
export const worldSize = (): number => membership().world.size;

/** The number of this process among those of its host, from 0. @throws ArgumentError before `init` */
export const localRank = (): number => membership().localRank;

/** Leave the other processes, in good order: a rank that ends without it, while others go on, counts as lost. */
export const close = (): Promise<void> => membership().close();
