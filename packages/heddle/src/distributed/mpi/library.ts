/** The functions of an MPI library, Open MPI's or one with the ABI of MPICH. */
import { DistributedError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import {
  type Functions,
  NativeMemory,
  openLibrary,
  type Signatures,
  symbolAddress,
} from '../../runtime/cuda/driver/native.js';
import type { FoundMpi } from './find.js';

/** Handles (communicators, groups, datatypes, error handlers) are `address` here: `int` for the ABI of MPICH. */
const SIGNATURES = {
  MPI_Initialized: ['memory'],
  MPI_Init_thread: ['memory', 'memory', 'i32', 'memory'],
  MPI_Finalize: [],
  MPI_Comm_rank: ['address', 'memory'],
  MPI_Comm_size: ['address', 'memory'],
  MPI_Comm_set_errhandler: ['address', 'address'],
  MPI_Comm_group: ['address', 'memory'],
  MPI_Group_incl: ['address', 'i32', 'memory', 'memory'],
  MPI_Comm_create_group: ['address', 'address', 'i32', 'memory'],
  MPI_Error_string: ['i32', 'memory', 'memory'],
  MPI_Get_library_version: ['memory', 'memory'],
  MPI_Bcast: ['memory', 'i32', 'address', 'i32', 'address'],
  MPI_Allgather: ['memory', 'i32', 'address', 'memory', 'i32', 'address', 'address'],
  MPI_Allgatherv: ['memory', 'i32', 'address', 'memory', 'memory', 'memory', 'address', 'address'],
  MPI_Alltoallv: [
    ...(['memory', 'memory', 'memory', 'address'] as const),
    ...(['memory', 'memory', 'memory', 'address', 'address'] as const),
  ],
} as const satisfies Signatures;

type MpiFunctions = Functions<typeof SIGNATURES>;
type MpiFunction = keyof MpiFunctions;

/** Of the threads of this process, only the one that initializes MPI calls it. */
const MPI_THREAD_FUNNELED = 1;
/** At least MPI_MAX_LIBRARY_VERSION_STRING and MPI_MAX_ERROR_STRING of both. */
const LONGEST_TEXT = 8192;

export class MpiLibrary {
  readonly path: string;
  /** The communicator of all processes. */
  readonly world: number;
  readonly byte: number;
  readonly #errorsReturn: number;
  readonly #functions: MpiFunctions;
  readonly #handlesAre: 'address' | 'i32';

  /** @throws DistributedError if it does not load */
  constructor({ path, abi }: FoundMpi) {
    this.path = path;
    this.#handlesAre = abi === 'openmpi' ? 'address' : 'i32';
    const types = Object.entries(SIGNATURES).map(([name, all]) => [
      name,
      all.map((type) => (type === 'address' ? this.#handlesAre : type)),
    ]);
    try {
      // Open MPI loads its components when it is initialized.
      this.#functions = openLibrary(path, Object.fromEntries(types) as typeof SIGNATURES, true);
      // Constants of mpi.h: addresses of variables, or numbers.
      const open = abi === 'openmpi';
      this.world = open ? symbolAddress(path, 'ompi_mpi_comm_world') : 0x44000000;
      this.byte = open ? symbolAddress(path, 'ompi_mpi_byte') : 0x4c00010d;
      this.#errorsReturn = open ? symbolAddress(path, 'ompi_mpi_errors_return') : 0x54000001;
    } catch (cause) {
      throw new DistributedError(`[distributed] ${(cause as Error).message}.`, { cause });
    }
    debug(1, () => `mpi: ${this.version}, ${path}`);
  }

  /** The first line of what the library says of itself. */
  get version(): string {
    const text = new NativeMemory(LONGEST_TEXT);
    this.#functions.MPI_Get_library_version(text.bytes, new NativeMemory(4).bytes);
    return text.text().split(/[\n,]/)[0]!.replaceAll(/\s+/g, ' ').trim();
  }

  /** Call a function of MPI. @throws DistributedError with MPI's own words */
  call<N extends MpiFunction>(name: N, ...args: Parameters<MpiFunctions[N]>): void {
    const status = (this.#functions[name] as (...all: Parameters<MpiFunctions[N]>) => number)(...args);
    if (status === 0) return;
    const text = new NativeMemory(LONGEST_TEXT);
    this.#functions.MPI_Error_string(status, text.bytes, new NativeMemory(4).bytes);
    throw new DistributedError(`[distributed] ${name} failed: ${text.text().trim()}.`);
  }

  /** Begin, unless someone in this process has. @returns this process's rank, and how many there are */
  initialize(): { readonly rank: number; readonly size: number } {
    const word = new NativeMemory(4);
    this.call('MPI_Initialized', word.bytes);
    if (word.i32() === 0) this.call('MPI_Init_thread', null, null, MPI_THREAD_FUNNELED, word.bytes);
    this.call('MPI_Comm_set_errhandler', this.world, this.#errorsReturn);
    this.call('MPI_Comm_rank', this.world, word.bytes);
    const rank = word.i32();
    this.call('MPI_Comm_size', this.world, word.bytes);
    return { rank, size: word.i32() };
  }

  /** The communicator of these ranks, all of which call this. */
  communicatorOf(ranks: readonly number[]): number {
    const handle = new NativeMemory(8);
    const taken = (): number => (this.#handlesAre === 'address' ? handle.u64() : handle.i32());
    this.call('MPI_Comm_group', this.world, handle.bytes);
    const all = taken();
    this.call('MPI_Group_incl', all, ranks.length, nativeInts(ranks), handle.bytes);
    this.call('MPI_Comm_create_group', this.world, taken(), 0, handle.bytes);
    const communicator = taken();
    this.call('MPI_Comm_set_errhandler', communicator, this.#errorsReturn);
    return communicator;
  }
}

/** An array that does not change place. */
export function nativeInts(values: readonly number[]): Int32Array {
  const ints = new Int32Array(new NativeMemory(4 * values.length).bytes.buffer, 0, values.length);
  ints.set(values);
  return ints;
}
