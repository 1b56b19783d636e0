/**
 * NCCL itself, on a GPU. A group of one rank needs no second GPU, and yet everything is called: the id, the communicator, each
 * collective by itself and captured in the graph of a program.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { DTYPES } from '../../src/core/dtype.js';
import {
  allGatherOf,
  allReduceOf,
  broadcastOf,
  reduceScatterOf,
} from '../../src/distributed/collective-op.js';
import { currentDevice } from '../../src/engine/storage.js';
import type { GraphNode } from '../../src/graph/node.js';
import { jit, tensor, useDevice } from '../../src/index.js';
import { findLibraries } from '../../src/runtime/cuda/driver/find.js';
import {
  connectNccl,
  createNcclId,
  disconnectNccl,
  ncclFailure,
} from '../../src/runtime/cuda/vendor/nccl.js';
import type { AnyTensor } from '../../src/tensor/checks.js';
import { nodeOf, tensorOf } from '../../src/tensor/tracing.js';
import { cudaReason } from '../cases/case-runner.js';

const reason = cudaReason() ?? (findLibraries('nccl', ['nccl'])[0] ? undefined : 'NCCL is not installed');

const ranks = [0];
const KINDS: Readonly<Record<string, (x: GraphNode) => GraphNode>> = {
  allReduce: (x) => allReduceOf([x], { ranks, op: 'sum' }),
  'allReduce beside other launches': (x) => allReduceOf([x], { ranks, op: 'sum', beside: true }),
  broadcast: (x) => broadcastOf([x], { ranks, root: 0 }),
  allGather: (x) => allGatherOf(x, { ranks }),
  reduceScatter: (x) => reduceScatterOf(x, { ranks, op: 'sum' }),
};

/** Elements of an all-reduce and a broadcast are aligned. */
const startOf = async (x: AnyTensor, length: number): Promise<number[]> =>
  Array.from((await x.data()) as Iterable<number | bigint | boolean>, Number).slice(0, length);

describe('NCCL on a GPU', { skip: reason ? `not run: ${reason}` : false }, () => {
  before(async () => {
    useDevice('cuda');
    await currentDevice().synchronize();
    connectNccl(ranks, 0, createNcclId());
  });
  after(async () => {
    await currentDevice().synchronize();
    assert.equal(ncclFailure(), undefined);
    disconnectNccl();
  });

  for (const [name, collective] of Object.entries(KINDS)) {
    test(`${name} of every dtype`, async () => {
      for (const dtype of Object.values(DTYPES)) {
        const values = [1, 0, 1, 1, 0];
        const sent = tensor(dtype.name === 'bool' ? values.map(Boolean) : values, { dtype });
        assert.deepEqual(await startOf(tensorOf(collective(nodeOf(sent))), 5), values, dtype.name);
      }
    });

    test(`${name} in the graph of a program, between kernels`, async () => {
      const step = jit((x: AnyTensor) => tensorOf(collective(nodeOf(x.mul(2)))).add(1));
      for (const first of [3, 5, 7]) {
        const [x, more] = [tensor([first, 1, 2]), [2 * first + 1, 3, 5]];
        assert.deepEqual(await startOf(step(x), 3), more);
      }
    });
  }

  test('many tensors are one exchange, also of 100 MB', async () => {
    const sizes = [1, 1000, 25_000_000];
    const all = sizes.map((n, i) => tensor(new Float32Array(n).fill(i + 1)));
    const sums = await tensorOf(allReduceOf(all.map(nodeOf), { ranks, op: 'max' })).data();
    assert.deepEqual([sums[0], sums[16], sums[1015], sums[1024], sums[25_001_023]], [1, 2, 2, 3, 3]);
  });
});
