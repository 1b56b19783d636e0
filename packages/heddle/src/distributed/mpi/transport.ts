/**
 * Collectives by MPI, in a process that mpirun, mpiexec or srun has started. MPI moves the bytes and Heddle reduces them:
 * MPI leaves open in which order its own reductions take the values, and whether all ranks get the same bits, and most
 * libraries have none for 16-bit floats.
 */
import { DistributedError } from '../../core/errors.js';
import { blocksOf, cut, piecesOf } from '../blocks.js';
import { CallCounter, type CollectiveCall, HEADER_BYTES, headerOf, requireSameCall } from '../call.js';
import { reduceInOrder } from '../reduction.js';
import type { HostValues, Peers, ReductionOp, Transport } from '../transport.js';
import { findMpi } from './find.js';
import { MpiLibrary, nativeInts } from './library.js';

/** Variables of the launchers that say how many processes there are: Open MPI's, and MPICH's, Intel's and srun's. */
const SIZES = ['OMPI_COMM_WORLD_SIZE', 'PMI_SIZE', 'SLURM_NTASKS'];

/** Bytes of a rank's part of a reduction. */
const PART = 1024 * 1024;
/** The most bytes of one message; MPI counts them by `int`. */
const LONGEST_MESSAGE = 2 ** 30;

/** Whether a launcher of MPI has started a process of that environment. */
export const isMpiProcess = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  environment.OMPI_COMM_WORLD_SIZE !== undefined || environment.PMI_SIZE !== undefined;

/**
 * @param environment of the process
 * @param longestMessage in bytes, for tests
 * @throws DistributedError where MPI is not installed, or no launcher of MPI has started this process
 */
export function openMpiTransport(
  environment: Readonly<Record<string, string | undefined>>,
  longestMessage: number = LONGEST_MESSAGE,
): MpiTransport {
  const variable = SIZES.find((name) => environment[name] !== undefined);
  if (variable === undefined)
    throw new DistributedError(
      `[distributed] this process was not started by MPI: ${SIZES.join(', ')} are not set. ` +
        'Start it with mpirun -n 2 node …, or with heddle launch, which needs no MPI.',
    );
  const found = findMpi()[0];
  if (!found)
    throw new DistributedError(
      '[distributed] no MPI library was found: libmpi.so.40 of Open MPI, libmpi.so.12 or libmpich.so.12 of MPICH. Install one (on ' +
        'Debian and Ubuntu: apt-get install openmpi-bin), or name its file in HEDDLE_MPI. heddle launch needs no MPI.',
    );
  const library = new MpiLibrary(found);
  const { rank, size } = library.initialize();
  const expected = Number(environment[variable]);
  if (size !== expected)
    throw new DistributedError(
      `[distributed] ${library.version} sees ${size} process(es), ${variable} is ${expected}: ${library.path} belongs to another ` +
        'MPI than the launcher. Use the mpirun of this library, or name the library of that mpirun in HEDDLE_MPI.',
    );
  return new MpiTransport(library, rank, size, longestMessage);
}

export class MpiTransport implements Transport {
  readonly name = 'mpi';
  readonly rank: number;
  readonly worldSize: number;
  readonly #mpi: MpiLibrary;
  readonly #longest: number;
  readonly #calls = new CallCounter();
  /** By their ranks. */
  readonly #communicators = new Map<string, number>();
  #closed = false;
  /** mpirun takes a process that ends in good order without this for one that has failed. */
  readonly #onExit = (code: number): void => {
    if (code === 0) this.#finalize();
  };

  constructor(library: MpiLibrary, rank: number, worldSize: number, longestMessage: number) {
    this.#mpi = library;
    this.rank = rank;
    this.worldSize = worldSize;
    this.#longest = longestMessage;
    process.once('exit', this.#onExit);
  }

  allReduce(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void {
    this.#reduce(this.#begin(this.#calls.next('allReduce', peers, from, to, { op })));
  }

  reduceScatter(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void {
    this.#reduce(this.#begin(this.#calls.next('reduceScatter', peers, from, to, { op })));
  }

  broadcast(peers: Peers, root: number, values: HostValues): void {
    const { communicator, call } = this.#begin(
      this.#calls.next('broadcast', peers, values, values, { root }),
    );
    this.#broadcast(communicator, root, call.from);
  }

  allGather(peers: Peers, from: HostValues, to: HostValues): void {
    const { communicator, call } = this.#begin(this.#calls.next('allGather', peers, from, to));
    const bytes = call.from.length;
    const { byte } = this.#mpi;
    if (bytes <= this.#longest) {
      this.#mpi.call('MPI_Allgather', call.from, bytes, byte, call.to, bytes, byte, communicator);
      return;
    }
    call.to.set(call.from, call.index * bytes);
    for (const r of call.ranks.keys())
      this.#broadcast(communicator, r, call.to.subarray(r * bytes, (r + 1) * bytes));
  }

  /** To exchange headers is one. */
  barrier(peers: Peers): void {
    this.#begin(this.#calls.next('barrier', peers));
  }

  async close(): Promise<void> {
    process.removeListener('exit', this.#onExit);
    this.#finalize();
  }

  #finalize(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#mpi.call('MPI_Finalize');
  }

  /** All ranks of the group learn what the others do before they exchange values. */
  #begin(call: CollectiveCall): { readonly communicator: number; readonly call: CollectiveCall } {
    if (this.#closed) throw new DistributedError('[distributed] the transport has been closed.');
    const communicator = this.#communicatorOf(call.ranks);
    const header = headerOf(call);
    const all = new Uint8Array(call.ranks.length * HEADER_BYTES);
    const { byte } = this.#mpi;
    this.#mpi.call('MPI_Allgather', header, HEADER_BYTES, byte, all, HEADER_BYTES, byte, communicator);
    for (const [r, rank] of call.ranks.entries())
      requireSameCall(call, header, rank, all.subarray(r * HEADER_BYTES, (r + 1) * HEADER_BYTES));
    return { communicator, call };
  }

  #communicatorOf(ranks: readonly number[]): number {
    if (ranks.length === this.worldSize) return this.#mpi.world;
    const key = ranks.join();
    const communicator = this.#communicators.get(key) ?? this.#mpi.communicatorOf(ranks);
    this.#communicators.set(key, communicator);
    return communicator;
  }

  #broadcast(communicator: number, root: number, values: Uint8Array): void {
    for (const piece of piecesOf(values.length, this.#longest)) {
      const bytes = cut(values, piece);
      this.#mpi.call('MPI_Bcast', bytes, bytes.length, this.#mpi.byte, root, communicator);
    }
  }

  #reduce({ communicator, call }: { readonly communicator: number; readonly call: CollectiveCall }): void {
    const { kind, ranks, index, op, dtype, from, to } = call;
    const { byte } = this.#mpi;
    // A rank's part may have an element more than those of others.
    const room = Math.min(PART, from.length) * ranks.length;
    const [packed, incoming] = [new Uint8Array(room), new Uint8Array(room)];
    for (const { parts, result } of blocksOf(call, PART)) {
      const lengths = parts.map(({ begin, end }) => end - begin);
      const places = lengths.map((_, r) => lengths.slice(0, r).reduce((sum, bytes) => sum + bytes, 0));
      const block = { begin: parts[0]!.begin, end: parts.at(-1)!.end };
      const together = kind === 'allReduce';
      // The parts of a reduceScatter may lie further apart than an int can say.
      if (!together) for (const [r, part] of parts.entries()) packed.set(cut(from, part), places[r]);
      const [counts, displacements] = [nativeInts(lengths), nativeInts(places)];
      const mine = lengths[index]!;
      const slots = ranks.map((_, r) => ({ begin: r * mine, end: (r + 1) * mine }));
      this.#mpi.call(
        ...(['MPI_Alltoallv', together ? cut(from, block) : packed, counts, displacements, byte] as const),
        ...([
          incoming,
          nativeInts(slots.map(() => mine)),
          nativeInts(slots.map(({ begin }) => begin)),
        ] as const),
        ...([byte, communicator] as const),
      );
      const sources = slots.map((slot) => cut(incoming, slot));
      // Not in `to`: MPI wants it elsewhere than where it puts the others', and its address may be odd.
      const reduced = packed.subarray(0, mine);
      reduceInOrder(op, dtype, sources, reduced);
      if (together)
        this.#mpi.call(
          ...(['MPI_Allgatherv', reduced, mine, byte] as const),
          ...([cut(to, block), counts, displacements, byte, communicator] as const),
        );
      else cut(to, result).set(reduced);
    }
  }
}
