/** Where MPI libraries are. Only looks at file names. */
import { basename, dirname, join } from 'node:path';
import { env } from '../../core/env.js';
import { DistributedError } from '../../core/errors.js';
import {
  librariesIn,
  type Surroundings,
  surroundings,
  systemFolders,
} from '../../runtime/cuda/driver/find.js';
import { fileExists } from '../../runtime/disk-cache.js';

/** Which binary interface a library has: Open MPI's, or MPICH's, which Intel MPI, MVAPICH and Cray MPICH share. */
export type MpiAbi = 'openmpi' | 'mpich';

/** An MPI library that was found. */
export interface FoundMpi {
  readonly path: string;
  readonly abi: MpiAbi;
}

/** Names as of libmpi.so.40: Open MPI has 40 since its version 4, the ABI of MPICH has 12. */
const NAMES: readonly { readonly name: string; readonly major: number; readonly abi: MpiAbi }[] = [
  { name: 'mpi', major: 40, abi: 'openmpi' },
  { name: 'mpi', major: 12, abi: 'mpich' },
  { name: 'mpich', major: 12, abi: 'mpich' },
];

/**
 * The libraries there are, that of the launcher which started this process first: in folders that the launcher's variables name,
 * beside the mpirun on the PATH, and in the system's.
 * @throws DistributedError if HEDDLE_MPI leads nowhere
 */
export function findMpi(around: Surroundings = surroundings()): FoundMpi[] {
  const named = env('HEDDLE_MPI');
  if (named !== '') {
    if (fileExists(named)) return [{ path: named, abi: abiOf(named) }];
    throw new DistributedError(
      `[distributed] HEDDLE_MPI=${named}: there is no such file. It must be the path of libmpi.so.40 or libmpi.so.12.`,
    );
  }
  const found = [
    ...prefixes(around).flatMap((p) => [join(p, 'lib'), join(p, 'lib64')]),
    ...systemFolders(around),
  ].flatMap((folder) =>
    NAMES.flatMap(({ name, major, abi }) => {
      const library = librariesIn(folder, name).find((one) => one.major === major);
      return library ? [{ path: library.path, abi }] : [];
    }),
  );
  const wanted: MpiAbi = around.env.PMI_SIZE !== undefined ? 'mpich' : 'openmpi';
  return found.sort((a, b) => Number(b.abi === wanted) - Number(a.abi === wanted));
}

const abiOf = (path: string): MpiAbi => (/^libmpich|\.so\.12\b/.test(basename(path)) ? 'mpich' : 'openmpi');

/** Where MPI may be installed as a whole. */
function prefixes({ env: { OPAL_PREFIX, MPI_HOME, I_MPI_ROOT, PATH } }: Surroundings): string[] {
  const launcher = PATH?.split(':').find((folder) => fileExists(join(folder, 'mpirun')));
  return [OPAL_PREFIX, MPI_HOME, I_MPI_ROOT, launcher && dirname(launcher)].filter((p) => p !== undefined);
}
