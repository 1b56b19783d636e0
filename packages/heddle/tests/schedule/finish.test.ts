/**
 * What is computed where a kernel stores its result, and what must not be: reductions beside it, other dtypes. Planning
 * ends for programs that read a value at very many positions.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { i32, u32 } from '../../src/core/dtype.js';
import { InternalError } from '../../src/core/errors.js';
import { topological } from '../../src/core/node.js';
import {
  conv2d,
  crossEntropy,
  jit,
  linear,
  maxPool2d,
  mse,
  ones,
  optim,
  realize,
  softplus,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import type { Group } from '../../src/schedule/group.js';
import { align } from '../../src/schedule/lower/coordinates.js';
import { lowerGroup } from '../../src/schedule/lower/lower.js';
import { canonicalize } from '../../src/schedule/passes/canonical.js';
import { canFinish } from '../../src/schedule/passes/finish.js';
import { partition } from '../../src/schedule/passes/partition.js';
import { verifyGroups } from '../../src/schedule/passes/verify.js';
import { schedule } from '../../src/schedule/schedule.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

process.env.HEDDLE_CHECK = '1';

const list = async (t: Tensor | undefined): Promise<number[]> => Array.from(await t!.data(), Number);
const parameter = (shape: readonly number[], seed = 1): Tensor => {
  const size = shape.reduce((n, d) => n * d, 1);
  const values = Array.from({ length: size }, (_, i) => (((i + seed) * 7919) % 101) / 50 - 1);
  return tensor(values, { shape: [...shape], requiresGrad: true });
};
const isClose = (got: readonly number[], wanted: readonly number[]): void =>
  assertClose(got, wanted, 'values');

/** Results computed together, which is where they meet in one kernel, and each alone. */
async function together(make: () => Tensor[]): Promise<void> {
  const [alone, all] = [make(), make()];
  await realize(...all);
  for (const [i, t] of all.entries()) isClose(await list(t), await list(alone[i]));
}

for (const device of DEVICES) {
  const on = (title: string, run: () => Promise<void>): void => {
    test(`${device}: ${title}`, async () => {
      useDevice(device);
      await run();
    });
  };

  on('a reduction beside a product of as many elements is not computed at its store', async () => {
    await together(() => {
      const m = tensor([[0.1, 0.2]]).matmul(tensor([[1], [1]]));
      return [m.add(tensor([1, 2, 3]).sum()), m];
    });
    await together(() => {
      const [x, labels] = [parameter([4, 3]), tensor([0, 2, 1, 1], { dtype: i32 })];
      const loss = crossEntropy(x, labels, { reduction: 'none' });
      return [loss, loss.add(x.square().sum(1).mul(0.1))];
    });
  });

  on('gradients of a reduction beside a product', async () => {
    const [p, t, x, w] = [
      parameter([2, 3]),
      parameter([4, 2, 3], 5),
      parameter([2, 5], 9),
      parameter([5, 3], 17),
    ];
    p.mul(x.matmul(w)).sin().sum().add(t.mul(p).sum()).backward();
    const [values, product] = [await list(p), await list(x.matmul(w))];
    const sums = await list(t.sum(0));
    isClose(
      await list(p.grad),
      values.map((v, i) => Math.cos(v * product[i]!) * product[i]! + sums[i]!),
    );
  });

  on('the loss that a step returns, of one element and with a penalty', async () => {
    const [x, y, w, p] = [tensor([[1, 2]]), tensor([[4]]), parameter([2, 1]), parameter([3], 4)];
    const [start, penalty] = [await list(w), (await list(p)).reduce((n, v) => n + v * v, 0)];
    const optimizer = new optim.SGD([w, p], { lr: 0.1 });
    const loss = mse(x.matmul(w), y).add(p.square().sum());
    loss.backward();
    optimizer.step();
    isClose([await loss.item()].map(Number), [(start[0]! + 2 * start[1]! - 4) ** 2 + penalty]);
  });

  on('softmax and products over what a reduction keeps', async () => {
    const x = tensor([1, 2, 3], { requiresGrad: true });
    x.max(0, { keepdim: true }).softmax(0).sum().backward();
    assert.deepEqual((await list(x.grad)).map(Math.abs), [0, 0, 0]);

    const y = parameter([4, 6, 5]);
    y.max(1)
      .logSoftmax(1)
      .mul(parameter([4, 5], 3))
      .sum()
      .backward();
    const shares = await list(y.grad!.sum([1, 2]));
    isClose(shares, [0, 0, 0, 0]); // a gradient of log softmax has sum 0 in each row

    const [z, w, b, c] = [parameter([4, 2]), parameter([3, 1], 2), parameter([3], 7), parameter([4, 3], 11)];
    linear(softplus(z.min(1, { keepdim: true }), { threshold: 5 }), w, b)
      .mul(c)
      .sum()
      .backward();
    const [least, weights, factors] = [await list(z.min(1)), await list(w), await list(c)];
    const rows = least.map((v, i) => {
      const along = [0, 1, 2].reduce((n, j) => n + factors[3 * i + j]! * weights[j]!, 0);
      return along / (1 + Math.exp(-v));
    });
    isClose(await list(z.grad!.sum(1)), rows);
    isClose(
      await list(b.grad),
      [0, 1, 2].map((j) => [0, 1, 2, 3].reduce((n, i) => n + factors[3 * i + j]!, 0)),
    );
  });

  on('results of another dtype right after a fused op', async () => {
    const image = parameter([1, 1, 4, 4]);
    const cases: readonly (readonly [string, Tensor])[] = [
      [
        'softmax',
        tensor([
          [1, 4],
          [3, 1],
        ])
          .softmax(1)
          .mul(10),
      ],
      [
        'logSoftmax',
        tensor([
          [1, 4],
          [3, 1],
        ]).logSoftmax(1),
      ],
      ['matmul', tensor([[1, 2]]).matmul(tensor([[1.6], [2]]))],
      ['conv2d', conv2d(ones([1, 1, 4, 4]), ones([1, 1, 3, 3]))],
      ['maxPool2d', maxPool2d(image.mul(9), 2).floor()],
      ['crossEntropy', crossEntropy(tensor([[1, 4]]), tensor([0], { dtype: i32 }))],
    ];
    for (const [name, x] of cases) {
      const wanted = (await list(x)).map((v) => Math.trunc(v) + 0);
      for (const integer of [i32, ...(wanted.every((v) => v >= 0) ? [u32] : [])]) {
        const again = jit((v: Tensor) => [
          x.cast(integer),
          x.cast(integer).add(1),
          x.cast(integer).cast(x.dtype),
          v,
        ]);
        const [whole, next, back] = again(ones([1])) as Tensor[];
        assert.deepEqual(await list(whole), wanted, `${name} as ${integer.name}`);
        assert.deepEqual(
          await list(next),
          wanted.map((v) => v + 1),
          `${name} as ${integer.name}, plus 1`,
        );
        assert.deepEqual(await list(back), wanted, `${name} as ${integer.name} and back`);
      }
    }
    assert.deepEqual(
      await list(
        tensor([[1, 2]])
          .softmax(1)
          .reshape([2, 1])
          .argmax(1),
      ),
      [0, 0],
    );
  });

  on('a value that is read at 2^n positions is computed in parts', async () => {
    // A running sum by doubling, and the same step many times more than a kernel could repeat its operands.
    let sums: Tensor = ones([64]);
    for (let by = 1; by < 64; by *= 2) sums = sums.add(sums.at(`:${-by}`).pad([[by, 0]]));
    assert.deepEqual(
      await list(sums),
      Array.from({ length: 64 }, (_, i) => i + 1),
    );
    const x = parameter([6]);
    let folded: Tensor = x;
    for (let i = 0; i < 40; i++) folded = folded.add(folded.flip(0)).mul(0.5);
    folded.sum().backward();
    const values = await list(x);
    isClose(
      await list(folded),
      values.map((v, i) => (v + values[5 - i]!) / 2),
    );
    isClose(await list(x.grad), [1, 1, 1, 1, 1, 1]);
  });
}

const CPU: Target = { ...H200, name: 'cpu', model: 'blocks', units: 2, capability: 0 };

test('planning ends: coordinates that do not fit and kernels without end are internal errors', () => {
  assert.throws(() => align([{ size: 15, value: { constant: 0, terms: [] } }], [4]), InternalError);
  assert.throws(() => align([], [4]), InternalError);
  let x = ones([4]).add(tensor([1, 2, 3, 4]));
  for (let i = 0; i < 40; i++) x = x.add(x.flip(0));
  assert.throws(() => lowerGroup('endless', { roots: [x.node] }, (n) => n.isLeaf, CPU), {
    name: 'InternalError',
    message: /steps for one kernel/,
  });
});

test('HEDDLE_CHECK=1 finds groups that break the rules', () => {
  useDevice('cpu');
  const m = parameter([4, 5]).matmul(parameter([5, 4], 3));
  const [sum, beside] = [parameter([16, 3]).sum(1).reshape([4, 4]), m.relu()];
  const after = m.add(beside.transpose());
  const canonical = canonicalize(
    [m, m.add(sum), beside, after].map((t) => t.node),
    CPU,
  );
  const { groups, stored } = partition(canonical, CPU);
  verifyGroups(groups, stored, 'partition');
  const [call, added, rectified, last] = canonical.roots.map((r) => groups.find((g) => g.roots.includes(r))!);
  assert.ok(call?.call && added && rectified && last);
  const without = (...gone: readonly (Group | undefined)[]): Group[] =>
    groups.filter((g) => !gone.includes(g));
  const broken = (of: readonly Group[], has: ReadonlySet<unknown>, rule: RegExp): void =>
    assert.throws(() => verifyGroups(of, has as typeof stored, 'test'), {
      name: 'InternalError',
      message: rule,
    });

  broken(without(call), stored, /no group makes a node/);
  broken([...groups, rectified], stored, /two groups make a node/);
  const joined = { ...call, roots: [...call.roots, ...rectified.roots] };
  verifyGroups([joined, ...without(call, rectified)], stored, 'join');
  const circle = { ...call, roots: [...call.roots, ...last.roots] };
  broken([circle, ...without(call, last)], stored, /wait for each other/);
  // The sum has no memory: it would have to be computed at the product's store.
  const reduction = topological([added.roots[0]!]).find((n) => n.op === 'reduce')!;
  const less = new Set(
    [...stored].filter((n) => n === added.roots[0] || !topological([n]).includes(reduction)),
  );
  assert.equal(canFinish(added.roots[0]!, call.call.node, less, 'threads'), false);
  broken([{ ...call, roots: [...call.roots, ...added.roots] }, rectified], less, /cannot finish/);
});

test('a schedule under HEDDLE_CHECK=1 of everything at once', () => {
  const x = parameter([4, 6]);
  const w = parameter([6, 6], 3);
  const y = x.matmul(w).relu();
  const loss = y.softmax(1).matmul(w).cast(i32).sum().cast(x.dtype).add(y.square().mean());
  loss.backward();
  assert.ok(schedule([loss.node, x.grad!.node, w.grad!.node], CPU).launches.length > 3);
});
