/** Clusters of blocks, and copies that mbarriers wait for: their meaning, on the simulator and on a GPU, and their faults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bf16,
  buffer,
  device,
  f32,
  KernelError,
  kernel,
  ones,
  randn,
  SimulatorError,
  tensor,
  tensorMap,
  useDevice,
  zeros,
} from '../../src/index.js';
import { cudaReason } from '../cases/case-runner.js';
import { type ClusterFault, clusterProduct, clusterSum, copiedProduct, sentSum } from './cluster-kernels.js';

for (const name of ['sim', 'cuda'] as const) {
  const reason = name === 'cuda' ? cudaReason() : undefined;
  const on = (title: string, body: () => Promise<void>): void => {
    test(`${name}: ${title}`, { skip: reason ? `not run: ${reason}` : false }, async () => {
      const before = device().name;
      useDevice(name);
      try {
        await body();
      } finally {
        useDevice(before);
      }
    });
  };

  for (const [size, N] of [
    [1, 64],
    [2, 256],
    [4, 256],
  ] as const)
    on(`a product in clusters of ${size}, each block of which copies a part of a to all`, async () => {
      const [M, K] = [64, 256];
      const [a, b, c] = [randn([M, K]).cast(bf16), randn([N, K]).cast(bf16), zeros([M, N])];
      const launched = clusterProduct({ M, N, K, size });
      await launched.launch({ grid: [N / 64, M / 64], block: 256, cluster: size }, { a, b, c });
      const wanted = await a.cast(f32).matmul(b.cast(f32).transpose()).data();
      const got = await c.data();
      for (const [i, v] of got.entries())
        assert.ok(Math.abs(v - wanted[i]!) < 1e-3, `${i}: ${v} for ${wanted[i]}`);
    });

  on('blocks of a cluster read what the others have written to shared memory', async () => {
    const x = tensor(Float32Array.from({ length: 64 * 6 }, (_, i) => i));
    for (const cluster of [3, 2, 1]) {
      const y = zeros([6 / cluster]);
      await clusterSum().launch({ grid: 6, block: 64, cluster }, { x, y });
      assert.deepEqual(
        await y.data(),
        await x
          .reshape([6 / cluster, 64 * cluster])
          .sum(1)
          .data(),
      );
    }
  });

  on('blocks of a cluster get what the others send', async () => {
    const x = tensor(Float32Array.from({ length: 32 * 12 }, (_, i) => i));
    for (const cluster of [4, 3, 1]) {
      const y = zeros([12]);
      await sentSum().launch({ grid: 12, block: 32, cluster }, { x, y });
      const sums = await x
        .reshape([12 / cluster, 32 * cluster])
        .sum(1)
        .data();
      assert.deepEqual(
        Array.from(await y.data()),
        Array.from({ length: 12 }, (_, i) => sums[Math.floor(i / cluster)]),
      );
    }
  });

  on('blocks of a cluster are numbered x fastest', async () => {
    const ranks = kernel(
      'ranks',
      { y: buffer(f32) },
      ({ y }, { blockIdx, clusterRank, clusterSize, f32, gridDim }) => {
        y[blockIdx.y * gridDim.x + blockIdx.x] = f32(10 * clusterSize + clusterRank);
      },
    );
    const y = zeros([2, 4]);
    await ranks.launch({ grid: [4, 2], block: 1, cluster: [2, 2] }, { y });
    assert.deepEqual(await y.array(), [
      [40, 41, 40, 41],
      [42, 43, 42, 43],
    ]);
  });

  on('copies of threads are there when the mbarrier that they arrive at says so', async () => {
    const [a, b, c] = [randn([64, 64]), randn([64, 64]), zeros([64, 64])];
    await copiedProduct().launch({ grid: 1, block: 256 }, { a, b, c });
    const wanted = await a.matmul(b.transpose(), { precision: 'f32' }).data();
    const got = await c.data();
    for (const [i, v] of got.entries())
      assert.ok(Math.abs(v - wanted[i]!) < 0.1, `${i}: ${v} for ${wanted[i]}`);
  });
}

const finds = (title: string, run: () => unknown, kind: SimulatorError['kind'], message: RegExp): void => {
  test(`the simulator finds ${title}`, () => {
    assert.throws(run, (error: unknown) => {
      assert.ok(error instanceof SimulatorError, String(error));
      assert.equal(error.kind, kind, error.message);
      assert.match(error.message, message);
      assert.ok(error.at?.file.includes('cluster-kernels'), 'names its line');
      return true;
    });
  });
};

const faulty = (fault: ClusterFault) => (): unknown =>
  clusterProduct({ M: 64, N: 128, K: 256, size: 2, fault }).simulate(
    { grid: [2, 1], block: 256, cluster: 2 },
    { a: new Uint16Array(64 * 256), b: new Uint16Array(128 * 256), c: new Float32Array(64 * 128) },
  );

finds(
  'a mask that leaves a block out',
  faulty('mask'),
  'deadlock',
  /full\[0\].*waits for ever.* bytes of tiles/s,
);
finds(
  'a mask of blocks that the cluster has not',
  faulty('beyond'),
  'out-of-bounds',
  /the mask 7 .* of a cluster of 2: 1 to 3/,
);
finds('bytes that are counted wrong', faulty('bytes'), 'deadlock', /full\[0\].*waits for ever.*-128 bytes/s);
finds(
  'a tile that is copied to before all blocks are done with it',
  faulty('reuse'),
  'race',
  /a tile copy writes what/,
);
finds(
  'a tile that is copied to when only one block is done with it',
  faulty('own-only'),
  'race',
  /a tile copy writes what (a tile copy|wgmma) (reads|writes)/,
);
finds(
  'remote memory that is used before the cluster has met',
  faulty('no-start'),
  'mbarrier',
  /full\[0\] of block 1 of the cluster is used before it is initialized.*arriveCluster\(\) and waitCluster\(\)/s,
);
finds(
  'a block that may end before others arrive at its mbarriers',
  faulty('no-end'),
  'unfinished',
  /arriveRemote\(\) arrives at empty of block \d of the cluster, which may have ended/,
);
finds(
  'two arrivals of a thread at the barrier of the cluster',
  faulty('end-twice'),
  'divergent-barrier',
  /arriveCluster\(\) comes twice/,
);

finds(
  'a block that ends before the others do',
  faulty('end-alone'),
  'unfinished',
  /arriveRemote\(\) arrives at empty of block \d of the cluster, which may have ended/,
);

const faultySum = (fault: 'unmet' | 'left' | 'rank' | 'early' | 'absent') => (): unknown =>
  clusterSum(fault).simulate(
    { grid: 2, block: 64, cluster: 2 },
    { x: new Float32Array(128), y: new Float32Array(1) },
  );
finds(
  'shared memory of another block that nothing orders',
  faultySum('unmet'),
  'race',
  /reads what thread \(0,0,0\) of block 1 of the cluster writes.*arriveCluster\(\) and waitCluster\(\)/s,
);
finds(
  'a block that may end while others read its shared memory',
  faultySum('left'),
  'unfinished',
  /loadRemote\(\) reads parts of block 1/,
);
finds(
  'a block that the cluster has not',
  faultySum('rank'),
  'out-of-bounds',
  /loadRemote names block 2 of a cluster of 2/,
);
finds(
  'a wait with no arrival',
  faultySum('early'),
  'divergent-barrier',
  /waitCluster\(\) comes with no arriveCluster\(\)/,
);

const faultySent = (fault: NonNullable<Parameters<typeof sentSum>[0]>) => (): unknown =>
  sentSum(fault).simulate(
    { grid: 2, block: 32, cluster: 2 },
    { x: new Float32Array(64), y: new Float32Array(2) },
  );
finds(
  'values that are sent before the mbarrier is there',
  faultySent('unmet'),
  'mbarrier',
  /full\[0\] of block 1 of the cluster is used before it is initialized/,
);
finds('values that never come', faultySent('bytes'), 'deadlock', /full\[0\].*waits for ever.* 16 bytes/s);
finds(
  'values that are read before they have come',
  faultySent('unwaited'),
  'race',
  /sums\[1\]\[\d\].*reads what a store from another block writes.*waitBarrier/s,
);
finds(
  'values that two blocks send to one place',
  faultySent('twice'),
  'race',
  /sums\[1\]\[0\].*a store from another block writes what a store from another block writes/s,
);
finds('values for a place that is not there', faultySent('place'), 'out-of-bounds', /sums.* is outside/);
finds(
  'values for a block that the cluster has not',
  faultySent('rank'),
  'out-of-bounds',
  /storeRemote names block 2 of a cluster of 2/,
);

const faultyCopies = (fault: 'fence' | 'arrival' | 'count' | 'reuse') => (): unknown =>
  copiedProduct(fault).simulate(
    { grid: 1, block: 256 },
    { a: new Float32Array(4096), b: new Float32Array(4096), c: new Float32Array(4096) },
  );
finds(
  'copies that wgmma does not see',
  faultyCopies('fence'),
  'missing-fence',
  /wgmma reads what an asynchronous copy wrote.*fenceAsync\(\) after waiting/s,
);
finds(
  'an arrival that does not wait for copies',
  faultyCopies('arrival'),
  'race',
  /wgmma reads what an asynchronous copy writes.*arriveCopies/s,
);
finds(
  'arrivals of copies that never come',
  faultyCopies('count'),
  'deadlock',
  /phase 0 lacks 64 of 192 arrivals/,
);
finds(
  'a tile that threads copy to while it is used',
  faultyCopies('reuse'),
  'race',
  /writes what an asynchronous copy writes.*arriveCopies/s,
);
finds(
  'threads that do not come to the barrier of the cluster',
  faultySum('absent'),
  'deadlock',
  /waitCluster\(\) waits for ever: 64 of the cluster's 128 threads have arrived, thread \(32,0,0\) has not/,
);

test('what is not of a cluster is refused', () => {
  const map = tensorMap(bf16, { sizes: [64, 64], box: [64, 64] });
  const refused = (message: RegExp, define: () => unknown): void => {
    assert.throws(define, (error) => error instanceof KernelError && message.test(error.message));
  };
  refused(/loadRemote reads a shared array, got x, global memory/, () =>
    kernel('k', { x: buffer(f32) }, ({ x }, { loadRemote }) => {
      x[0] = loadRemote(x, 0, 1);
    }),
  );
  refused(/loadRemote\(x, i, v\).* takes 3 arguments, got 2/s, () =>
    kernel('k', { x: buffer(f32) }, ({ x }, { f32, loadRemote, shared }) => {
      x[0] = (loadRemote as (...args: unknown[]) => number)(shared(f32, 4), 0);
    }),
  );
  refused(/arriveRemote takes one of mbarriers\(n\) here/, () =>
    kernel('k', {}, (_, { arriveRemote, f32, shared }) => {
      arriveRemote(shared(f32, 4), 0, 1);
    }),
  );
  refused(/storeRemote takes a place in a shared array of numbers of 4 or 8 bytes here/, () =>
    kernel('k', {}, (_, { bf16, mbarriers, shared, storeRemote }) => {
      storeRemote(shared(bf16, 4), 0, mbarriers(1), 0, 1, 1);
    }),
  );
  refused(/storeRemote.* takes 2 arguments after its places, got 1/s, () =>
    kernel('k', {}, (_, { f32, mbarriers, shared, storeRemote }) => {
      storeRemote(shared(f32, 4), 0, mbarriers(1), 0, 1);
    }),
  );
  refused(/arriveCopies.* takes 0 arguments after its places, got 1/s, () =>
    kernel('k', {}, (_, { arriveCopies, mbarriers }) => {
      (arriveCopies as (...args: unknown[]) => void)(mbarriers(1), 0, 1);
    }),
  );
  refused(/a box of \(64,64\) does not lie in a tile of \(32,64\)/, () =>
    kernel('k', { map }, ({ map }, { bf16, mbarriers, sharedTile, tmaLoadMulticast }) => {
      tmaLoadMulticast(sharedTile(bf16, 32, 64), 0, 0, map, 0, 0, mbarriers(1), 0, 3);
    }),
  );
  refused(/tmaLoadMulticast.* takes 1 argument after its places, got 0/s, () =>
    kernel('k', { map }, ({ map }, { bf16, mbarriers, sharedTile, tmaLoadMulticast }) => {
      tmaLoadMulticast(sharedTile(bf16, 64, 64), 0, 0, map, 0, 0, mbarriers(1), 0);
    }),
  );
});

test('the CPU device runs clusters in the simulator', async () => {
  const before = device().name;
  useDevice('cpu');
  try {
    const y = zeros([1]);
    await clusterSum().launch({ grid: 2, block: 64, cluster: 2 }, { x: ones([128]), y });
    assert.equal(await y.item(), 128);
  } finally {
    useDevice(before);
  }
});
