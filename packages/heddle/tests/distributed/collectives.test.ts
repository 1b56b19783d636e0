import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import {
  allGather,
  allReduce,
  averageGradients,
  barrier,
  broadcast,
  init,
  isInitialized,
  newGroup,
  rank,
  reduceScatter,
  shardOptimizer,
  synchronizeBatchNorm,
  worldSize,
} from '../../src/distributed/index.js';
import { membership } from '../../src/distributed/membership.js';
import {
  type AnyTensor,
  DTypeError,
  embedding,
  f32,
  i32,
  jit,
  nn,
  noGrad,
  optim,
  randn,
  ShapeError,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { joinTwin, type Twins } from './twins.js';

let twins: Twins;
beforeEach(async () => {
  useDevice('cpu');
  twins = await joinTwin();
});
afterEach(() => twins.leave());

const values = async (x: AnyTensor): Promise<number[]> => Array.from((await x.data()) as ArrayLike<number>);

test('a reduction has the values of both ranks, as many tensors as wanted at a time', async () => {
  const [a, b] = [tensor([1, 2, 3]), tensor([[4], [5]])];
  const [sumA, sumB] = allReduce([a, b]);
  assert.deepEqual(await values(sumA!), [2, 4, 6]);
  assert.deepEqual(sumB!.shape, [2, 1]);
  assert.deepEqual(await values(sumB!), [8, 10]);
  assert.deepEqual(twins.calls, ['allReduce sum 32']);
  assert.deepEqual(await values(allReduce(a, { op: 'mean' })), [1, 2, 3]);
  assert.deepEqual(await values(allReduce(a, { op: 'max' })), [1, 2, 3]);
  assert.deepEqual(await values(allReduce(a, { op: 'prod' })), [1, 4, 9]);
});

test('the other collectives', async () => {
  const x = tensor([
    [1, 2],
    [3, 4],
  ]);
  assert.deepEqual(await values(broadcast(x, { root: 1 })), [1, 2, 3, 4]);
  const all = allGather(x);
  assert.deepEqual(all.shape, [4, 2]);
  assert.deepEqual(await values(all), [1, 2, 3, 4, 1, 2, 3, 4]);
  assert.deepEqual(await values(allGather(tensor(7))), [7, 7]);
  const mine = reduceScatter(x);
  assert.deepEqual(mine.shape, [1, 2]);
  assert.deepEqual(await values(mine), [2, 4]);
  await barrier();
  assert.deepEqual(twins.calls, [
    'broadcast 1 16',
    'allGather 4',
    'allGather 1',
    'reduceScatter sum 4',
    'allReduce sum 16',
  ]);
});

test('outside of jit a collective happens where it is called', () => {
  const x = tensor([1]);
  allReduce(x);
  broadcast(x);
  assert.deepEqual(twins.calls, ['allReduce sum 16', 'broadcast 0 16']);
});

test('within jit, collectives happen in the order of their calls, whatever their results are for', async () => {
  const step = jit((x: typeof a) => {
    const first = allReduce(x.mul(3));
    const second = allGather(x);
    const third = allReduce(x.add(1), { op: 'max' });
    return third.sum().add(first.sum()).add(second.sum().mul(0));
  });
  const a = tensor([1, 2]);
  for (let i = 0; i < 3; i++) assert.equal(await step(a).item(), 18 + 5);
  const once = ['allReduce sum 16', 'allGather 2', 'allReduce max 16'];
  assert.deepEqual(twins.calls, [...once, ...once, ...once]);
});

test('gradients flow through sums, means, gathered and scattered values', async () => {
  const weights = tensor([10, 20, 30, 40]);
  const gradientOf = async (f: (x: typeof weights) => typeof weights): Promise<number[]> => {
    const x = tensor([1, 2, 3, 4], { requiresGrad: true }) as typeof weights;
    f(x).sum().backward();
    return values(x.grad!);
  };
  // Both ranks take a loss of the sum: each value counts in both.
  assert.deepEqual(await gradientOf((x) => allReduce(x).mul(weights) as typeof weights), [20, 40, 60, 80]);
  assert.deepEqual(
    await gradientOf((x) => allReduce(x, { op: 'mean' }).mul(weights) as typeof weights),
    [10, 20, 30, 40],
  );
  assert.deepEqual(await gradientOf((x) => broadcast(x).mul(weights) as typeof weights), [20, 40, 60, 80]);
  assert.deepEqual(
    await gradientOf((x) => allGather(x).mul(allGather(noGrad(() => weights))) as unknown as typeof weights),
    [20, 40, 60, 80],
  );
  assert.deepEqual(
    await gradientOf((x) => reduceScatter(x).mul(tensor([1, 2])) as unknown as typeof weights),
    [1, 2, 1, 2],
  );
  assert.throws(
    () =>
      allReduce(tensor([1], { requiresGrad: true }), { op: 'max' })
        .sum()
        .backward(),
    /'sum' and 'mean'/,
  );
});

test('gradients are averaged in buckets, the last parameters first', async () => {
  const parameters = [1, 2, 3].map((v) => tensor([v, v], { requiresGrad: true }));
  const loss = jit(() => {
    const [a, b, c] = parameters as [typeof weights, typeof weights, typeof weights];
    a.mul(b).add(c).sum().backward();
    averageGradients(parameters, { bucketBytes: 16 });
    return parameters.map((p) => p.grad!);
  });
  const weights = parameters[0]!;
  assert.deepEqual(await Promise.all(loss().map(values)), [
    [2, 2],
    [1, 1],
    [1, 1],
  ]);
  assert.deepEqual(twins.calls, ['allReduce sum 32', 'allReduce sum 16']);
});

test('the gradient of an embedding travels as rows where these are fewer bytes than its table', async () => {
  const table = randn([64, 4], { requiresGrad: true });
  const gradientOf = async (count: number, equalBatches: boolean): Promise<number[]> => {
    const indices = tensor(Int32Array.from({ length: count }, (_, i) => (7 * i) % 64));
    const weights = randn([count, 4]);
    const step = jit((scale: typeof weights) => {
      table.grad = undefined;
      embedding(indices, table).mul(scale).sum().backward();
      averageGradients([table], { equalBatches });
      return table.grad!;
    });
    const expected = new Float32Array(64 * 4);
    const own = await weights.data();
    own.forEach((v, i) => {
      expected[4 * ((7 * (i >> 2)) % 64) + (i % 4)]! += v as number;
    });
    const got = await values(step(weights));
    // Of twins, the mean is what each has.
    got.forEach((v, i) => {
      assert.ok(Math.abs(v - expected[i]!) < 1e-6, `element ${i}: ${v} and ${expected[i]}`);
    });
    return got;
  };
  await gradientOf(51, true);
  assert.deepEqual(twins.calls.splice(0), ['allGather 51', 'allGather 204']);
  // 5 words for each position, of two ranks: half of that is not less than the table.
  await gradientOf(52, true);
  assert.deepEqual(twins.calls.splice(0), ['allReduce sum 256']);
  await gradientOf(3, false);
  assert.deepEqual(twins.calls.splice(0), ['allReduce sum 256']);
  // Outside of a program a rank may have computed its gradient before the others.
  table.grad = undefined;
  embedding(tensor(Int32Array.of(1, 2)), table)
    .sum()
    .backward();
  averageGradients([table], { equalBatches: true });
  assert.equal(await table.grad!.sum().item(), 8);
  assert.deepEqual(twins.calls.splice(0), ['allReduce sum 256']);
});

test('a group of one rank exchanges nothing, and others may not use it', async () => {
  const [mine, others] = [await newGroup([0]), await newGroup([1])];
  assert.deepEqual(await values(allReduce(tensor([3]), { group: mine })), [3]);
  assert.throws(() => allReduce(tensor([3]), { group: others }), /not one of the group's \(1\)/);
  assert.deepEqual(twins.calls, []);
});

test('what cannot be exchanged is refused', async () => {
  assert.throws(() => allReduce(tensor([1], { dtype: i32 }), { op: 'mean' }), DTypeError);
  assert.throws(() => reduceScatter(tensor([1, 2, 3])), ShapeError);
  assert.throws(() => broadcast(tensor([1]), { root: 2 }), /root is 2, must be a rank of the group \(0, 1\)/);
  await assert.rejects(newGroup([0, 0]), /different ranks from 0 to 1/);
  assert.throws(() => allReduce(tensor([1]), { op: 'median' as 'sum' }), /'median'/);
  assert.throws(() => allReduce([1] as never), /must be/);
});

test('empty tensors come back as they are', async () => {
  const [empty, one] = allReduce([tensor([], { shape: [0, 3], dtype: f32 }), tensor([1])]);
  assert.deepEqual(empty!.shape, [0, 3]);
  assert.deepEqual(await values(one!), [2]);
  assert.deepEqual(allGather(tensor([], { shape: [0, 3] })).shape, [0, 3]);
});

test('without other processes every collective is of one rank', async () => {
  await membership().close();
  assert.equal(isInitialized(), false);
  assert.throws(() => allReduce(tensor([1])), /await init\(\) first/);
  await init();
  assert.deepEqual([rank(), worldSize()], [0, 1]);
  await assert.rejects(init(), /has joined already/);
  assert.deepEqual(await values(allReduce(tensor([5]), { op: 'mean' })), [5]);
  assert.deepEqual(await values(allGather(tensor([5]))), [5]);
  assert.deepEqual(await values(reduceScatter(tensor([5]))), [5]);
  assert.deepEqual(await values(broadcast(tensor([5]))), [5]);
  await barrier();
});

test('a synchronized batch norm has the statistics of all ranks, and gradients through them', async () => {
  const x = randn([6, 3, 2]);
  const weights = randn([6, 3, 2]);
  const layers = [false, true].map((synchronized) => new nn.BatchNorm1d(3, { synchronized }));
  const [ys, gradients] = [[] as number[][], [] as number[][]];
  for (const layer of layers) {
    const given = tensor((await x.data()) as Float32Array, { shape: [6, 3, 2], requiresGrad: true });
    const y = layer.forward(given);
    y.mul(weights).sum().backward();
    ys.push(await values(y));
    gradients.push(await values(given.grad!));
    ys.push(await values(layer.runningMean));
  }
  const close = (a: number[], b: number[]): void => {
    for (const [i, v] of a.entries()) assert.ok(Math.abs(v - b[i]!) < 2e-5, `${v} and ${b[i]}`);
  };
  // Twice the same values have the same mean and biased variance; both ranks' losses count.
  close(ys[0]!, ys[2]!);
  close(ys[1]!, ys[3]!);
  close(gradients[0]!, gradients[1]!);
  const [alone, together] = await Promise.all(layers.map((layer) => values(layer.runningVar)));
  // (0.9 + 0.1·v·n/(n−1)): 12 values alone, 24 together.
  close(
    alone!.map((v) => 0.9 + (v - 0.9) * (11 / 12) * (24 / 23)),
    together!,
  );
  const model = new nn.Sequential(new nn.BatchNorm1d(3), new nn.ReLU());
  synchronizeBatchNorm(model);
  assert.ok([...model.namedModules()].some(([, m]) => m instanceof nn.BatchNorm1d && m.synchronized));
});

test('a sharded optimizer keeps the state of its parameters, and gets the others', async () => {
  const parameters = [4, 3, 2].map((n) => tensor(new Float32Array(n).fill(1), { requiresGrad: true }));
  const optimizer = new optim.SGD(parameters, { lr: 0.5, momentum: 0.9 });
  shardOptimizer(optimizer);
  for (const p of parameters) p.mul(2).sum().backward();
  twins.calls.length = 0;
  optimizer.step();
  // Of 4, 3 and 2 elements rank 0 has the first, rank 1 the others.
  assert.deepEqual(twins.calls, ['broadcast 0 16', 'broadcast 1 32']);
  assert.deepEqual(await values(parameters[0]!), [0, 0, 0, 0]);
  // The twin has not updated its own.
  assert.deepEqual(await values(parameters[1]!), [1, 1, 1]);
  const state = optimizer.stateDict();
  assert.deepEqual(Object.keys(state), ['0.lr', '0.0.momentum', '0.1.momentum', '0.2.momentum']);
  assert.deepEqual(await values(state['0.0.momentum']!), [2, 2, 2, 2]);
  await optimizer.loadStateDict({ ...state, '0.0.momentum': tensor([1, 2, 3, 4]) });
  assert.deepEqual(await values(optimizer.stateDict()['0.0.momentum']!), [1, 2, 3, 4]);
});

/** Three parameters of ones, of which rank 0 has the first. */
function three(): Tensor[] {
  return [4, 3, 2].map((n) => tensor(new Float32Array(n).fill(1), { requiresGrad: true }) as Tensor);
}

test('a sharded optimizer averages gradients in its step, if it is to, and all ranks update what is replicated', async () => {
  const parameters = three();
  const optimizer = new optim.SGD(parameters, { lr: 0.5, momentum: 0.9 });
  shardOptimizer(optimizer, { averages: true, replicated: [parameters[2]!] });
  for (const p of parameters) p.mul(2).sum().backward();
  twins.calls.length = 0;
  optimizer.step();
  // Gradients of the first two, the gradient of what is replicated, and the values of the first two.
  assert.deepEqual(twins.calls, ['allReduce sum 32', 'allReduce sum 16', 'broadcast 0 16', 'broadcast 1 16']);
  assert.deepEqual(await values(parameters[0]!), [0, 0, 0, 0]);
  assert.deepEqual(await values(parameters[1]!), [1, 1, 1]);
  assert.deepEqual(await values(parameters[2]!), [0, 0]);
  assert.deepEqual(Object.keys(optimizer.stateDict()), [
    '0.lr',
    '0.0.momentum',
    '0.1.momentum',
    '0.2.momentum',
  ]);
  for (const p of parameters) p.mul(2).sum().backward();
  // Of eight examples on two ranks: the sum is 4, the mean a half. With the momentum of 2 before it is 2.3.
  optimizer.step({ divisor: 8 });
  assert.ok((await values(parameters[2]!)).every((v) => Math.abs(Number(v) + 1.15) < 1e-6));
});

test('a sharded optimizer averages gradients in a step that is told a divisor, and in no other', async () => {
  const parameters = three();
  const optimizer = new optim.SGD(parameters, { lr: 0.5 });
  shardOptimizer(optimizer);
  for (const p of parameters) p.mul(2).sum().backward();
  twins.calls.length = 0;
  optimizer.step({ divisor: tensor(8) as Tensor });
  assert.deepEqual(twins.calls, ['allReduce sum 48', 'broadcast 0 16', 'broadcast 1 32']);
  assert.deepEqual(await values(parameters[0]!), [0.75, 0.75, 0.75, 0.75]);
  for (const p of parameters) p.mul(2).sum().backward();
  twins.calls.length = 0;
  optimizer.step();
  assert.deepEqual(twins.calls, ['broadcast 0 16', 'broadcast 1 32']);
});

test('what needs the gradients of all ranks says that a step will average them', () => {
  const parameters = three();
  const optimizer = new optim.SGD(parameters, { lr: 0.5 });
  shardOptimizer(optimizer, { averages: true });
  const alone = /the gradients are those of this rank alone until the optimizer steps/;
  for (const p of parameters) p.mul(2).sum().backward();
  assert.throws(() => optim.clipGradNorm(parameters, 1), alone);
  assert.throws(() => optim.clipGradValue(parameters, 1), alone);
  assert.throws(() => new optim.GradScaler().unscale(optimizer), alone);
  const another = new optim.SGD(three(), { lr: 0.5 });
  assert.throws(() => shardOptimizer(another, { replicated: [parameters[0]!] }), /does not update/);
  assert.throws(() => shardOptimizer(another, { averages: 1 as never }), /averages is 1/);
  assert.throws(
    () => another.step({ divisor: 'all' as never }),
    /divisor is 'all', must be a number or a tensor/,
  );
});
