/** The place of a process, from the variables of those that start it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DistributedError } from '../../src/core/errors.js';
import { DEFAULT_PORT, firstHost, placeFromEnvironment } from '../../src/distributed/environment.js';

type Variables = Readonly<Record<string, string>>;

const TORCHRUN: Variables = {
  ...{ RANK: '5', WORLD_SIZE: '8', LOCAL_RANK: '1', LOCAL_WORLD_SIZE: '4' },
  ...{ MASTER_ADDR: 'node0', MASTER_PORT: '29400' },
};
const OPEN_MPI: Variables = {
  ...{ OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2' },
  ...{
    OMPI_COMM_WORLD_LOCAL_RANK: '1',
    OMPI_COMM_WORLD_LOCAL_SIZE: '2',
    PMIX_NAMESPACE: '1201078273',
    PMIX_RANK: '1',
  },
};
const HYDRA: Variables = { PMI_RANK: '2', PMI_SIZE: '4', MPI_LOCALRANKID: '2', MPI_LOCALNRANKS: '4' };
const SLURM: Variables = {
  ...{ SLURM_PROCID: '5', SLURM_NTASKS: '7', SLURM_LOCALID: '1', SLURM_NODEID: '2', SLURM_JOB_ID: '4711' },
  ...{ SLURM_STEP_ID: '0', SLURM_TASKS_PER_NODE: '2(x3),1', SLURM_NODELIST: 'gpu[03-05,09]' },
};

describe('the place of a process', () => {
  test('without variables it is alone', () => {
    assert.deepEqual(placeFromEnvironment({ PATH: '/bin', RANK: '' }), {
      ...{ rank: 0, worldSize: 1, localRank: 0, localWorldSize: 1 },
      ...{ address: '127.0.0.1', port: 0, job: '', restart: 0 },
    });
  });

  test('heddle launch and torchrun', () => {
    assert.deepEqual(
      placeFromEnvironment({ ...TORCHRUN, HEDDLE_RESTART: '2', TORCHELASTIC_RUN_ID: 'mine' }),
      {
        ...{ rank: 5, worldSize: 8, localRank: 1, localWorldSize: 4 },
        ...{ address: 'node0', port: 29400, job: 'mine', restart: 2 },
      },
    );
  });

  test('one process for each pod', () => {
    const { LOCAL_RANK: _, LOCAL_WORLD_SIZE: __, ...pod } = TORCHRUN;
    const { localRank, localWorldSize } = placeFromEnvironment(pod);
    assert.deepEqual([localRank, localWorldSize], [0, 1]);
  });

  test('one rank needs no address', () => {
    assert.equal(placeFromEnvironment({ RANK: '0', WORLD_SIZE: '1' }).worldSize, 1);
  });

  test('Open MPI, on one host and on several', () => {
    const place = placeFromEnvironment(OPEN_MPI);
    assert.deepEqual([place.rank, place.worldSize, place.localRank, place.address], [1, 2, 1, '127.0.0.1']);
    assert.ok(place.port >= 15_000 && place.port < 30_000, `${place.port}`);
    assert.equal(
      placeFromEnvironment({ ...OPEN_MPI, OMPI_COMM_WORLD_RANK: '0', OMPI_COMM_WORLD_LOCAL_RANK: '0' }).port,
      place.port,
    );
    const several = { ...OPEN_MPI, OMPI_COMM_WORLD_LOCAL_RANK: '0', OMPI_COMM_WORLD_LOCAL_SIZE: '1' };
    assert.throws(
      () => placeFromEnvironment(several),
      /MASTER_ADDR is not: set it to the host of rank 0 \(mpirun -x MASTER_ADDR=…\)/,
    );
    const { address, port } = placeFromEnvironment({ ...several, MASTER_ADDR: 'node7', MASTER_PORT: '4000' });
    assert.deepEqual([address, port], ['node7', 4000]);
  });

  test('MPICH and Intel MPI', () => {
    const { rank, worldSize, localRank, port } = placeFromEnvironment(HYDRA);
    assert.deepEqual([rank, worldSize, localRank, port], [2, 4, 2, DEFAULT_PORT]);
  });

  test('Slurm', () => {
    const place = placeFromEnvironment(SLURM);
    assert.deepEqual(
      [place.rank, place.worldSize, place.localRank, place.localWorldSize, place.address, place.job],
      [5, 7, 1, 2, 'gpu03', '4711.0'],
    );
    assert.equal(placeFromEnvironment({ ...SLURM, SLURM_PROCID: '0', SLURM_LOCALID: '0' }).port, place.port);
    assert.notEqual(placeFromEnvironment({ ...SLURM, SLURM_JOB_ID: '4712' }).port, place.port);
    const last = placeFromEnvironment({ ...SLURM, SLURM_PROCID: '6', SLURM_LOCALID: '0', SLURM_NODEID: '3' });
    assert.equal(last.localWorldSize, 1);
  });

  test('a step of Slurm comes before the job around it', () => {
    const step = {
      SLURM_STEP_NUM_TASKS: '2',
      SLURM_STEP_TASKS_PER_NODE: '1(x2)',
      SLURM_STEP_NODELIST: 'gpu[04-05]',
    };
    const place = placeFromEnvironment({
      ...SLURM,
      ...step,
      SLURM_PROCID: '1',
      SLURM_LOCALID: '0',
      SLURM_NODEID: '1',
    });
    assert.deepEqual([place.rank, place.worldSize, place.localWorldSize, place.address], [1, 2, 1, 'gpu04']);
  });

  test('PMI under Slurm is its own', () => {
    assert.equal(placeFromEnvironment({ ...SLURM, PMI_RANK: '5', PMI_SIZE: '7' }).address, 'gpu03');
  });

  test('a batch script of one task is one process', () => {
    const { SLURM_STEP_ID: _, ...batch } = SLURM;
    assert.equal(placeFromEnvironment({ ...batch, SLURM_NTASKS: '1', SLURM_PROCID: '0' }).worldSize, 1);
  });

  test('mpirun under srun, and heddle launch under both', () => {
    assert.equal(placeFromEnvironment({ ...SLURM, ...OPEN_MPI }).worldSize, 2);
    assert.equal(placeFromEnvironment({ ...SLURM, ...OPEN_MPI, ...TORCHRUN }).worldSize, 8);
  });

  test('the first host of a list', () => {
    for (const [list, first] of [
      ['n1', 'n1'],
      ['n1,n2', 'n1'],
      ['gpu[03-05,09],big1', 'gpu03'],
      ['gpu[7]', 'gpu7'],
      ['rack[2,3]-node[10-12]', 'rack2-node10'],
      ['a-b[1-2].example', 'a-b1.example'],
    ] as const)
      assert.equal(firstHost(list), first);
  });
});

describe('variables that say too little, or nothing sensible', () => {
  const without = (variables: Variables, ...names: readonly string[]): Variables =>
    Object.fromEntries(Object.entries(variables).filter(([name]) => !names.includes(name)));
  const cases: readonly (readonly [string, Variables, RegExp])[] = [
    ['no world size', without(TORCHRUN, 'WORLD_SIZE'), /^RANK is set, but WORLD_SIZE is not\. Set both/],
    ['no rank', without(TORCHRUN, 'RANK'), /^WORLD_SIZE is set, but RANK is not\./],
    ['no address', without(TORCHRUN, 'MASTER_ADDR'), /^RANK is set, but MASTER_ADDR is not\./],
    ['no port', without(TORCHRUN, 'MASTER_PORT'), /^RANK is set, but MASTER_PORT is not\./],
    [
      'half a local rank',
      without(TORCHRUN, 'LOCAL_RANK'),
      /^LOCAL_WORLD_SIZE is set, but LOCAL_RANK is not\./,
    ],
    ['an address alone', { MASTER_ADDR: 'node0' }, /^MASTER_ADDR is set, but RANK and WORLD_SIZE are not\./],
    ['PMIx alone', { PMIX_RANK: '1' }, /^PMIX_RANK is set, but RANK and WORLD_SIZE are not\./],
    [
      'a rank that is not a number',
      { ...TORCHRUN, RANK: 'one' },
      /^RANK=one: must be a whole number, at least 0\./,
    ],
    ['a negative rank', { ...TORCHRUN, RANK: '-1' }, /^RANK=-1: must be a whole number/],
    [
      'a port out of range',
      { ...TORCHRUN, MASTER_PORT: '70000' },
      /^MASTER_PORT=70000: must be a whole number, from 1 to 65535/,
    ],
    [
      'a rank too high',
      { ...TORCHRUN, RANK: '8' },
      /^RANK is 8, but WORLD_SIZE is 8: ranks are numbered from 0 to 7\./,
    ],
    [
      'a local rank too high',
      { ...TORCHRUN, LOCAL_RANK: '4' },
      /^LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4/,
    ],
    [
      'more on the host than there are',
      { ...TORCHRUN, LOCAL_WORLD_SIZE: '9' },
      /^RANK is 5 of 8, but on this host it is 1 of 9/,
    ],
    [
      'a restart that is none',
      { ...TORCHRUN, HEDDLE_RESTART: 'x' },
      /^HEDDLE_RESTART=x: must be a whole number/,
    ],
    [
      'ranks within ranks',
      { ...OPEN_MPI, RANK: '0', WORLD_SIZE: '1' },
      /^RANK is 0 and WORLD_SIZE is 1, but OMPI_COMM_WORLD_RANK is 1 and OMPI_COMM_WORLD_SIZE is 2\. Unset/,
    ],
    [
      'other ranks',
      { ...OPEN_MPI, ...TORCHRUN, RANK: '0', LOCAL_RANK: '0', WORLD_SIZE: '2', LOCAL_WORLD_SIZE: '2' },
      /^RANK is 0 and WORLD_SIZE is 2, but OMPI_/,
    ],
    [
      'Open MPI without a size',
      without(OPEN_MPI, 'OMPI_COMM_WORLD_SIZE'),
      /^OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not/,
    ],
    [
      'Hydra without local ranks',
      without(HYDRA, 'MPI_LOCALRANKID'),
      /^MPI_LOCALNRANKS is set, but MPI_LOCALRANKID is not/,
    ],
    [
      'the batch script',
      without(SLURM, 'SLURM_STEP_ID'),
      /^SLURM_NTASKS is 7, but SLURM_STEP_ID is not set: this process is the batch script/,
    ],
    [
      'Slurm without a local rank',
      without(SLURM, 'SLURM_LOCALID'),
      /^SLURM_PROCID is set, but SLURM_LOCALID is not/,
    ],
    [
      'Slurm without tasks',
      without(SLURM, 'SLURM_TASKS_PER_NODE'),
      /SLURM_TASKS_PER_NODE is not: the tasks of this node are unknown/,
    ],
    [
      'malformed tasks',
      { ...SLURM, SLURM_TASKS_PER_NODE: 'two' },
      /^SLURM_TASKS_PER_NODE=two: must be numbers of tasks, such as 2\(x3\),1/,
    ],
    [
      'a node too high',
      { ...SLURM, SLURM_NODEID: '4' },
      /^SLURM_NODEID is 4, but the nodes of SLURM_TASKS_PER_NODE=2\(x3\),1 are 4/,
    ],
    [
      'a local task too high',
      { ...SLURM, SLURM_LOCALID: '2' },
      /^SLURM_LOCALID is 2, but the tasks of this node are 2/,
    ],
  ];
  for (const [name, variables, expected] of cases)
    test(name, () => {
      assert.throws(
        () => placeFromEnvironment(variables),
        (error: Error) =>
          (error instanceof DistributedError && expected.test(error.message)) || assert.fail(error.message),
      );
    });
});
