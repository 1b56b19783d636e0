/** What orders two accesses, in the simulator: that it finds those that nothing orders, and no others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatorError } from '../../src/index.js';
import {
  copiedTwice,
  counted,
  doubled,
  loadedTwice,
  multipliedTwice,
  type Order,
  passedOn,
  storedTwice,
  turned,
} from './order-kernels.js';

const finds = (title: string, run: () => unknown, message: RegExp, kind = 'race'): void => {
  test(`the simulator finds ${title}`, () => {
    assert.throws(run, (error: unknown) => {
      assert.ok(error instanceof SimulatorError, String(error));
      assert.equal(error.kind, kind, error.message);
      assert.match(error.message, message);
      assert.ok(error.at?.file.includes('order-kernels'), 'names its line');
      return true;
    });
  });
};

const counting = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => i + 1);

const turning = (order: Order, blocks = 1): Float32Array => {
  const x = counting(256);
  turned(order).simulate({ grid: blocks, block: 256 }, { x });
  return x;
};
for (const order of ['group', 'mbarrier'] as const)
  test(`threads that meet at ${order === 'group' ? 'a barrier of their group' : 'an mbarrier'} may write what others have read in global memory`, () => {
    const wanted = Float32Array.from({ length: 256 }, (_, i) => 128 * Math.floor(i / 128) + 128 - (i % 128));
    assert.deepEqual(turning(order), wanted);
  });
finds(
  'a barrier of a group that is narrower than what its threads share',
  () => turning('narrow'),
  /a race on x\[\d+\]: thread \(\d+,0,0\) writes what thread \(\d+,0,0\) reads.*nothing orders the two/s,
);
finds(
  'a barrier with threads of another group',
  () => turning('other'),
  /writes what .* reads.*nothing orders/s,
);
finds(
  'an mbarrier that not all arrive at who have read',
  () => turning('half'),
  /reads what .* writes.*nothing orders the two/s,
);
finds(
  'blocks that share elements, each with barriers of its groups',
  () => turning('group', 2),
  /of block \(0,0,0\).*nothing orders blocks/s,
);

const passing = (fault?: 'unmet'): Float32Array => {
  const y = new Float32Array(4);
  passedOn(fault).simulate({ grid: 4, block: 32, cluster: 2 }, { x: counting(4), y });
  return y;
};
test('blocks of a cluster that have met know of each other’s global memory', () => {
  assert.deepEqual(passing(), Float32Array.of(3, 2, 5, 4));
});
finds(
  'global memory that a block of the cluster writes, and another reads before they meet',
  () => passing('unmet'),
  /block \d of the cluster.*Put arriveCluster\(\) and waitCluster\(\) between/s,
);

const count = (fault?: 'plain' | 'read'): Int32Array => {
  const n = new Int32Array(2);
  counted(fault).simulate({ grid: 2, block: 128 }, { n });
  return n;
};
test('atomics of threads that have not met do not race', () => {
  assert.equal(count()[0], 256);
});
const single = (fault: 'plain' | 'read') => (): unknown =>
  counted(fault).simulate({ grid: 1, block: 128 }, { n: new Int32Array(2) });
finds(
  'a write beside atomics',
  single('plain'),
  /writes what .* atomically updates.*nothing orders the two/s,
);
finds('a read beside atomics', single('read'), /reads what .* atomically updates.*nothing orders the two/s);

const doubling = (fault?: Parameters<typeof doubled>[0]): Float32Array => {
  const y = counting(1024);
  doubled(fault).simulate({ grid: 1, block: 128 }, { y, raw: y });
  return y;
};
test('the copy engine stores over what threads have read, once they have met', () => {
  assert.deepEqual(
    doubling(),
    counting(1024).map((v) => 2 * v),
  );
});
finds(
  'a tile that is stored over what another thread may still read',
  () => doubling('narrow'),
  /a tile store to memory writes what thread \(96,0,0\) reads/,
);
finds(
  'two tiles that are stored to one place',
  () => doubling('twice'),
  /a tile store to memory writes what a tile store to memory writes/,
);
finds(
  'what a tile store writes, read in the same launch',
  () => doubling('late'),
  /reads what a tile store to memory writes.*once the launch has ended/s,
);
finds(
  'a tile of what a thread has just written to global memory',
  () => doubling('written'),
  /a tile copy reads what thread \(0,0,0\) wrote.*earlier launches/s,
  'missing-fence',
);

// One wait short: an agent's next step is not known by who has waited for the one before.
const loading = (fault?: 'short'): unknown =>
  loadedTwice(fault).simulate({ grid: 1, block: 128 }, { x: counting(512), y: new Float32Array(256) });
const storing = (fault?: 'short'): unknown =>
  storedTwice(fault).simulate({ grid: 1, block: 128 }, { y: new Float32Array(512) });
const multiplying = (fault?: 'short'): unknown =>
  multipliedTwice(fault).simulate({ grid: 1, block: 128 }, { c: new Float32Array(512) });
const copying = (fault?: 'short' | 'fence'): unknown =>
  copiedTwice(fault).simulate(
    { grid: 1, block: 32 },
    { x: counting(8), y: new Float32Array(256), z: new Float32Array(1) },
  );
test('two copies, stores, products and copies of a thread that are waited for one after the other', () => {
  for (const run of [loading, storing, multiplying, copying]) run();
});
finds(
  'a tile that is read after a wait for the one before it',
  () => loading('short'),
  /tiles\[1\]\[0\]\[0\].*reads what a tile copy writes/s,
);
finds(
  'a tile that is written after a wait for the store before its own',
  () => storing('short'),
  /tiles\[1\]\[0\]\[0\].*writes what a tile store reads/s,
);
finds(
  'a tile that is written after a wait for the product before its own',
  () => multiplying('short'),
  /as\[1\]\[0\]\[0\].*writes what wgmma reads/s,
);
finds(
  'elements that are read after a wait for the copy before theirs',
  () => copying('short'),
  /tile\[0\]\[4\].*reads what an asynchronous copy writes/s,
);
finds(
  'a copy after the fence for the one before it',
  () => copying('fence'),
  /tile\[0\]\[4\].*a tile store reads what an asynchronous copy wrote.*fenceAsync/s,
  'missing-fence',
);
