/**
 * Which of the processes this is, from the variables that starters of processes set: `heddle launch` and torchrun (RANK),
 * Open MPI (OMPI_COMM_WORLD_RANK), MPICH and Intel MPI (PMI_RANK), Slurm (SLURM_PROCID).
 */
import { DistributedError } from '../core/errors.js';

type Variables = Readonly<Record<string, string | undefined>>;

/** The place of a process among those that train together. */
export interface WorldPlace {
  /** From 0. */
  readonly rank: number;
  readonly worldSize: number;
  /** Among the processes of its host, from 0. */
  readonly localRank: number;
  readonly localWorldSize: number;
  /** The host on which rank 0 listens, as the others reach it. */
  readonly address: string;
  readonly port: number;
  /** Tells these processes from those of another job that come to the same port. */
  readonly job: string;
  /** How often `heddle launch` has started the job again. */
  readonly restart: number;
}

type Numbers = Pick<WorldPlace, 'rank' | 'worldSize' | 'localRank' | 'localWorldSize'>;

/** What a starter says of a process. */
interface Told extends Numbers {
  /** The variables of the rank and the number of ranks, for errors. */
  readonly names: readonly [string, string];
  /** The host of rank 0, if the starter says it. */
  readonly address: string | undefined;
  readonly job: string;
}

/** torchrun's, where a job has no number of its own to derive one from. */
export const DEFAULT_PORT = 29_500;

/**
 * The place of this process. RANK comes before the variables of MPI, and these before Slurm's, since `srun` may start
 * `mpirun`, and both may start `heddle launch`. MASTER_ADDR and MASTER_PORT hold for all of them. Without any of these
 * variables it is a world of one process.
 * @param variables usually `process.env`; empty ones count as missing
 * @throws DistributedError naming the variables that are missing, malformed or contradict each other
 */
export function placeFromEnvironment(variables: Variables): WorldPlace {
  const vars = new VariableReader(variables);
  const others = [openMpi(vars), pmi(vars), slurm(vars)].filter((told) => told !== undefined);
  const direct = ranks(vars);
  for (const other of others) if (direct) refuseContradiction(direct, other);
  const told = direct ?? others[0];
  if (!told) {
    refuseRest(vars);
    return { ...ALONE, address: '127.0.0.1', port: 0, job: '', restart: restartOf(vars) };
  }
  const { names: _, address, ...place } = told;
  const asked = vars.text('MASTER_ADDR') ?? address;
  if (asked === undefined && place.worldSize > 1) throw new DistributedError(noAddress(told));
  return {
    ...place,
    address: asked ?? '127.0.0.1',
    port: vars.whole('MASTER_PORT', 1, 65_535) ?? portOf(place.job),
    restart: restartOf(vars),
  };
}

const ALONE: Numbers = { rank: 0, worldSize: 1, localRank: 0, localWorldSize: 1 };

const restartOf = (vars: VariableReader): number => vars.whole('HEDDLE_RESTART', 0) ?? 0;

/** `heddle launch`, torchrun, and whoever sets them by hand. */
function ranks(vars: VariableReader): Told | undefined {
  if (vars.lacks('RANK') && vars.lacks('WORLD_SIZE')) return undefined;
  const [rank, worldSize] = vars.rankAmong('RANK', 'WORLD_SIZE');
  if (worldSize > 1) for (const name of ['MASTER_ADDR', 'MASTER_PORT']) vars.need(name, 'RANK');
  const hasLocal = !vars.lacks('LOCAL_RANK') || !vars.lacks('LOCAL_WORLD_SIZE');
  // One process for each pod: no starter counts them by host.
  const local = hasLocal ? vars.rankAmong('LOCAL_RANK', 'LOCAL_WORLD_SIZE') : ([0, 1] as const);
  const job = vars.text('TORCHELASTIC_RUN_ID') ?? '';
  return told(['RANK', 'WORLD_SIZE'], [rank, worldSize], local, undefined, job);
}

function openMpi(vars: VariableReader): Told | undefined {
  const names = ['OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'] as const;
  if (names.every((name) => vars.lacks(name))) return undefined;
  const local = vars.rankAmong('OMPI_COMM_WORLD_LOCAL_RANK', 'OMPI_COMM_WORLD_LOCAL_SIZE');
  return told(names, vars.rankAmong(...names), local, undefined, vars.text('PMIX_NAMESPACE') ?? '');
}

/** The process manager Hydra of MPICH and Intel MPI. Under `srun --mpi=pmi2` Slurm's own variables say more. */
function pmi(vars: VariableReader): Told | undefined {
  const names = ['PMI_RANK', 'PMI_SIZE'] as const;
  if (!vars.lacks('SLURM_STEP_ID') || names.every((name) => vars.lacks(name))) return undefined;
  const all = vars.rankAmong(...names);
  const local = all[1] === 1 ? ([0, 1] as const) : vars.rankAmong('MPI_LOCALRANKID', 'MPI_LOCALNRANKS');
  return told(names, all, local, undefined, '');
}

/** A step of Slurm, which `srun` starts. The batch script itself has SLURM_PROCID=0 as well, and is no rank. */
function slurm(vars: VariableReader): Told | undefined {
  if (vars.lacks('SLURM_PROCID')) return undefined;
  const sizeName = vars.lacks('SLURM_STEP_NUM_TASKS') ? 'SLURM_NTASKS' : 'SLURM_STEP_NUM_TASKS';
  if (vars.lacks('SLURM_STEP_ID')) {
    const tasks = vars.whole('SLURM_NTASKS', 1) ?? 1;
    // What `heddle launch` is told in a batch script comes first.
    if (tasks === 1 || !vars.lacks('RANK')) return undefined;
    throw new DistributedError(
      `SLURM_NTASKS is ${tasks}, but SLURM_STEP_ID is not set: this process is the batch script, which is no task. ` +
        'Start the program with srun, or with heddle launch.',
    );
  }
  const all = vars.rankAmong('SLURM_PROCID', sizeName);
  const hosts =
    vars.text('SLURM_STEP_NODELIST') ?? vars.text('SLURM_NODELIST') ?? vars.text('SLURM_JOB_NODELIST');
  const step = `${vars.text('SLURM_JOB_ID') ?? vars.text('SLURM_JOBID') ?? ''}.${vars.text('SLURM_STEP_ID')}`;
  vars.need('SLURM_LOCALID', 'SLURM_PROCID');
  const local = [vars.whole('SLURM_LOCALID', 0)!, tasksHere(vars, all[1])] as const;
  requireBelow('SLURM_LOCALID', local[0], 'the tasks of this node', local[1]);
  return told(['SLURM_PROCID', sizeName], all, local, hosts && firstHost(hosts), step);
}

/** Tasks of this node: `2(x3),1` are two on each of three nodes and one on the fourth. */
function tasksHere(vars: VariableReader, worldSize: number): number {
  const name = vars.lacks('SLURM_STEP_TASKS_PER_NODE') ? 'SLURM_TASKS_PER_NODE' : 'SLURM_STEP_TASKS_PER_NODE';
  const text = vars.text(name);
  if (text === undefined) {
    if (worldSize === 1) return 1;
    throw new DistributedError(
      `SLURM_PROCID is set, but ${name} is not: the tasks of this node are unknown.`,
    );
  }
  const counts = text.split(',').flatMap((part) => {
    const [, tasks, nodes = '1'] = /^(\d+)(?:\(x(\d+)\))?$/.exec(part) ?? [];
    if (tasks === undefined)
      throw new DistributedError(`${name}=${text}: must be numbers of tasks, such as 2(x3),1.`);
    return Array<number>(Number(nodes)).fill(Number(tasks));
  });
  const node = vars.whole('SLURM_NODEID', 0) ?? 0;
  requireBelow('SLURM_NODEID', node, `the nodes of ${name}=${text}`, counts.length);
  return counts[node]!;
}

/** The first host of Slurm's list: `gpu[03-05,09],big1` begins with gpu03. */
export const firstHost = (list: string): string =>
  /^(?:[^,[]|\[[^\]]*\])*/.exec(list)![0].replace(/\[([^\],-]*)[^\]]*\]/g, '$1');

/** @throws DistributedError if the rank on the host does not fit the rank in the world */
function told(
  names: readonly [string, string],
  [rank, worldSize]: readonly [number, number],
  [localRank, localWorldSize]: readonly [number, number],
  address: string | undefined,
  job: string,
): Told {
  if (localWorldSize > worldSize || localRank > rank)
    throw new DistributedError(
      `${names[0]} is ${rank} of ${worldSize}, but on this host it is ${localRank} of ${localWorldSize}: ` +
        'a host has no more ranks than there are, and counts them in the same order.',
    );
  // All ranks are here.
  const here = worldSize === localWorldSize ? '127.0.0.1' : undefined;
  return { rank, worldSize, localRank, localWorldSize, names, address: here ?? address, job };
}

/** As a starter would contradict itself that is started by another one. */
function refuseContradiction(direct: Told, other: Told): void {
  const same = direct.worldSize === other.worldSize;
  if (direct.worldSize > other.worldSize || (same && direct.rank === other.rank)) return;
  throw new DistributedError(
    `RANK is ${direct.rank} and WORLD_SIZE is ${direct.worldSize}, but ${other.names[0]} is ${other.rank} and ` +
      `${other.names[1]} is ${other.worldSize}. Unset RANK and WORLD_SIZE, or start the program in one way only.`,
  );
}

/** Variables that say something of ranks, but not which one this is. */
function refuseRest(vars: VariableReader): void {
  const rest = ['LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT', 'PMIX_RANK'].filter((name) => !vars.lacks(name));
  if (rest.length === 0) return;
  throw new DistributedError(
    `${rest.join(', ')} ${rest.length === 1 ? 'is' : 'are'} set, but RANK and WORLD_SIZE are not. ` +
      'Set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, unset all of them, or use heddle launch.',
  );
}

const noAddress = ({ names }: Told): string =>
  `${names[0]} and ${names[1]} are set, and the ranks are on several hosts, but MASTER_ADDR is not: set it to the host ` +
  `of rank 0${names[0].startsWith('OMPI') ? ' (mpirun -x MASTER_ADDR=…)' : ''}.`;

/** From 15,000 on, below the ports that systems give out themselves; the same for all processes of a job. */
function portOf(job: string): number {
  if (job === '') return DEFAULT_PORT;
  let hash = 0;
  for (const character of job) hash = (hash * 31 + character.charCodeAt(0)) % 15_000;
  return 15_000 + hash;
}

function requireBelow(name: string, value: number, what: string, size: number): void {
  if (value < size) return;
  throw new DistributedError(
    `${name} is ${value}, but ${what} are ${size}: it must be from 0 to ${size - 1}.`,
  );
}

/** Variables as texts and numbers. */
class VariableReader {
  readonly #variables: Variables;

  constructor(variables: Variables) {
    this.#variables = variables;
  }

  text(name: string): string | undefined {
    return this.#variables[name] || undefined;
  }

  lacks(name: string): boolean {
    return this.text(name) === undefined;
  }

  need(name: string, because: string): string {
    const text = this.text(name);
    if (text !== undefined) return text;
    throw new DistributedError(`${because} is set, but ${name} is not. Set both, or use heddle launch.`);
  }

  whole(name: string, low: number, high = 2 ** 31 - 1): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^\s*\d+\s*$/.test(text) && value >= low && value <= high) return value;
    const range = high === 2 ** 31 - 1 ? `at least ${low}` : `from ${low} to ${high}`;
    throw new DistributedError(`${name}=${text}: must be a whole number, ${range}.`);
  }

  /** A rank, and the number of ranks. */
  rankAmong(rankName: string, sizeName: string): readonly [number, number] {
    this.need(rankName, sizeName);
    this.need(sizeName, rankName);
    const rank = this.whole(rankName, 0)!;
    const size = this.whole(sizeName, 1)!;
    if (rank >= size)
      throw new DistributedError(
        `${rankName} is ${rank}, but ${sizeName} is ${size}: ranks are numbered from 0 to ${size - 1}.`,
      );
    return [rank, size];
  }
}
