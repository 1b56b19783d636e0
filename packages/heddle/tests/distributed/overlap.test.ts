/** On a GPU gradients are exchanged while those of earlier layers are computed. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { allReduceOf, type CollectiveArg, unpacked } from '../../src/distributed/collective-op.js';
import { bucketsOf } from '../../src/distributed/data-parallel.js';
import { averageGradients } from '../../src/distributed/index.js';
import { membership, setMembership } from '../../src/distributed/membership.js';
import { Trace } from '../../src/engine/trace.js';
import { callOf } from '../../src/graph/fused-op.js';
import { argOf } from '../../src/graph/node.js';
import {
  autocast,
  bf16,
  crossEntropy,
  embedding,
  i32,
  nn,
  optim,
  randn,
  setPrecision,
  useDevice,
  zeros,
} from '../../src/index.js';
import { EXCHANGE_UNITS, type LibraryCall } from '../../src/kernel/ir/library-call.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import type { Schedule } from '../../src/schedule/launch.js';
import { runsBefore } from '../../src/schedule/passes/needs.js';
import { schedule } from '../../src/schedule/schedule.js';
import { nodeOf } from '../../src/tensor/tracing.js';
import { ResNet18 } from '../../src/train/resnet.js';
import { joinTwin } from './twins.js';

useDevice('cpu');
const twins = await joinTwin();
after(() => twins.leave());

const COLLECTIVES = ['allReduce', 'allGather', 'gatherOthers'].map((kind) => `collective.${kind}`);
const TARGET: Target = { ...H200, libraries: new Set(COLLECTIVES) };

/** Once with exchanges by NCCL, once with copies between the GPUs. */
function eachWay(title: string, run: () => void): void {
  for (const copies of [false, true])
    test(`${title}${copies ? ', where the GPUs copy from each other' : ''}`, () => {
      const usual = membership();
      setMembership({ ...usual, copies });
      try {
        run();
      } finally {
        setMembership(usual);
      }
    });
}

/** What a step assigns, on two H200. */
function scheduled(step: () => void): Schedule {
  const trace = new Trace(() => {});
  trace.run(step);
  return schedule([...trace.assigned.values()], TARGET);
}

/** A step of four layers of 512. */
function trained(exchange: (parameters: ReturnType<nn.Module['parameters']>) => void): Schedule {
  const layers = Array.from({ length: 4 }, () => new nn.Linear(512, 512));
  const model = new nn.Sequential(...layers.flatMap((layer) => [layer, new nn.ReLU()]));
  const parameters = model.parameters();
  const optimizer = new optim.SGD(parameters, { lr: 0.1 });
  const [x, y] = [randn([16384, 512]), zeros([16384], { dtype: i32 })];
  return scheduled(() => {
    crossEntropy(model.forward(x), y as never).backward();
    exchange(parameters);
    optimizer.step();
  });
}

const exchangesOf = ({ launches }: Schedule): LibraryCall[] =>
  launches.flatMap(({ work }) => ('library' in work ? [work.library] : []));

eachWay('an exchange needs the gradients of its bucket only, and no gradient waits for it', () => {
  const { launches } = trained((p) => averageGradients(p, { bucketBytes: 2 ** 20 }));
  const names = launches.map(({ work }) => ('library' in work ? work.library.name : work.kernel.name));
  const before = runsBefore(launches.map(({ needs }) => needs));
  const exchanges = names.flatMap((name, i) => (name.startsWith('collective.') ? [i] : []));
  assert.equal(exchanges.length, 4, names.join('\n'));
  // One after the other, in the same order on all ranks.
  exchanges.slice(1).forEach((exchange, i) => {
    assert.ok(before(exchanges[i]!, exchange));
  });
  const gradients = launches.flatMap(({ work }, i) => ('library' in work ? [] : [i]));
  const [first] = exchanges as [number];
  const beside = gradients.filter((i) => !before(i, first) && !before(first, i));
  const after = gradients.filter((i) => before(first, i));
  // The products of three layers' gradients, for weights and inputs, run beside the first exchange.
  const products = beside.filter((i) => names[i]!.includes('matmul'));
  assert.ok(
    products.length >= 5,
    `beside: ${beside.map((i) => names[i]).join(', ')}; after: ${after.map((i) => names[i]).join(', ')}`,
  );
  assert.ok(
    after.every((i) => !names[i]!.includes('matmul')),
    after.map((i) => names[i]).join(', '),
  );
});

test('gradients are exchanged in the order in which they are made, whatever that of the parameters', () => {
  const beforeFirst = (reorder: (p: ReturnType<nn.Module['parameters']>) => typeof p): number => {
    const { launches } = trained((p) => averageGradients(reorder(p), { bucketBytes: 2 ** 20 }));
    const before = runsBefore(launches.map(({ needs }) => needs));
    const first = launches.findIndex(({ work }) => 'library' in work);
    return launches.filter((_, i) => before(i, first)).length;
  };
  const usual = beforeFirst((p) => p);
  assert.equal(
    beforeFirst((p) => p.toReversed()),
    usual,
  );
  assert.equal(
    beforeFirst((p) => [...p.slice(4), ...p.slice(0, 4)]),
    usual,
  );
});

eachWay('no gradient waits for an exchange: not for its kernel, and not for its memory', () => {
  const model = new ResNet18(3, 10);
  const parameters = model.parameters();
  const optimizer = new optim.SGD(parameters, { lr: 0.1, momentum: 0.9 });
  const [x, y] = [randn([64, 3, 32, 32]), zeros([64], { dtype: i32 })];
  const { launches } = scheduled(() => {
    crossEntropy(model.forward(x), y as never).backward();
    averageGradients(parameters);
    optimizer.step();
  });
  const before = runsBefore(launches.map(({ needs }) => needs));
  const exchanges = launches.flatMap(({ work }, i) => ('library' in work ? [i] : []));
  assert.ok(exchanges.length > 4);
  for (const exchange of exchanges) {
    const late = launches.flatMap(({ work }, i) =>
      'kernel' in work && before(exchange, i) && before(i, exchanges.at(-1)!) ? [work.kernel.name] : [],
    );
    assert.deepEqual(late, []);
  }
});

eachWay('gradients of convolutions are sent as they were made, and the update reads them so', () => {
  const channels = [64, 128, 128, 64];
  const layers = channels
    .slice(1)
    .map((to, i) => new nn.Conv2d(channels[i]!, to, 3, { padding: 1, bias: false }));
  const model = new nn.Sequential(...layers.flatMap((layer) => [layer, new nn.ReLU()]));
  const x = randn([64, 64, 16, 16]);
  const namesOf = (isAveraged: boolean): string[] => {
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const planned = scheduled(() => {
      autocast(bf16, () => model.forward(x).square().mean()).backward();
      if (isAveraged) averageGradients(model.parameters(), { bucketBytes: 1 });
      optimizer.step();
      optimizer.zeroGrad();
    });
    assert.ok(exchangesOf(planned).every(({ options }) => options.orders !== 0));
    assert.equal(exchangesOf(planned).length, isAveraged ? layers.length : 0);
    return planned.launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));
  };
  const permutations = (names: readonly string[]): string[] =>
    names.filter((name) => name.startsWith('permute'));
  assert.deepEqual(permutations(namesOf(true)), permutations(namesOf(false)));
});

eachWay(
  'an update reads its part of what was exchanged, and stores nothing but a parameter and its state',
  () => {
    const parameters = [1536, 512, 2048].map((n) => randn([1536, n], { requiresGrad: true }));
    const optimizer = new optim.AdamW(parameters, { lr: 0.1 });
    const x = randn([64, 1536]);
    const planned = scheduled(() => {
      for (const p of parameters) x.matmul(p).square().mean().backward();
      averageGradients(parameters);
      optimizer.step();
    });
    assert.ok(exchangesOf(planned).some(({ options }) => (options.counts as number[]).length > 1));
    const stored = planned.launches.flatMap(({ work }) =>
      'kernel' in work && work.kernel.name === 'detach_1536x1536'
        ? [work.kernel.params.filter(({ name }) => name.startsWith('y')).length]
        : [],
    );
    assert.deepEqual(stored, [3]);
  },
);

/** Blocks of the products that have one on each multiprocessor: of those before the first exchange, and of the others. */
function widest({ launches }: Schedule): { readonly before: number; readonly beside: number } {
  const isBefore = runsBefore(launches.map(({ needs }) => needs));
  const first = launches.findIndex(({ work }) => 'library' in work);
  const blocks = (isWanted: (launch: number) => boolean): number =>
    Math.max(
      ...launches.map(({ work }, i) =>
        isWanted(i) && 'kernel' in work && /warpgroup/i.test(work.kernel.name)
          ? work.grid.reduce((n, d) => n * d, 1)
          : 0,
      ),
    );
  const runsFirst = (i: number): boolean => first >= 0 && isBefore(i, first);
  return { before: blocks(runsFirst), beside: blocks((i) => !runsFirst(i)) };
}

test('kernels leave multiprocessors to exchanges beside them; nothing runs beside the last one', () => {
  setPrecision({ matmul: 'tf32' });
  const { units } = H200;
  const buckets = trained((p) => averageGradients(p, { bucketBytes: 2 ** 20 }));
  assert.deepEqual(
    exchangesOf(buckets).map(({ options }) => options.beside),
    [true, true, true, false],
  );
  assert.deepEqual(widest(buckets), { before: units, beside: units - EXCHANGE_UNITS });
  const [one, none] = [trained((p) => averageGradients(p.slice(0, 2))), trained(() => {})];
  assert.deepEqual(
    exchangesOf(one).map(({ options }) => options.beside),
    [false],
  );
  assert.deepEqual(widest(one), { before: units, beside: 0 });
  assert.equal(widest(none).beside, units);
  setPrecision({ matmul: 'f32' });
});

test('where rows belong is exchanged before all gradients, the rows before the last bucket, and both are added up', () => {
  const table = randn([5000, 64], { requiresGrad: true });
  const layer = new nn.Linear(64, 5000);
  const indices = zeros([512], { dtype: i32 });
  const parameters = [table, ...layer.parameters()];
  const optimizer = new optim.SGD(parameters, { lr: 0.1 });
  const { launches } = scheduled(() => {
    layer.forward(embedding(indices, table)).square().mean().backward();
    averageGradients(parameters, { bucketBytes: 2 ** 20, equalBatches: true });
    optimizer.step();
  });
  const names = launches.map(({ work }) => ('library' in work ? work.library.name : work.kernel.name));
  const exchanges = names.flatMap((name, i) => (name.startsWith('collective.') ? [i] : []));
  assert.deepEqual(
    exchanges.map((i) => names[i]),
    ['allGather', 'allGather', 'allReduce'].map((kind) => `collective.${kind}`),
  );
  const before = runsBefore(launches.map(({ needs }) => needs));
  const [places, rows, last] = exchanges as [number, number, number];
  assert.deepEqual(launches[places]!.needs, []);
  const sorts = names.flatMap((name, i) => (/^(sort|merge|rowStarts)/.test(name) ? [i] : []));
  assert.ok(sorts.length > 0);
  for (const i of sorts)
    assert.ok(before(places, i) && !before(rows, i) && before(i, names.indexOf('addRows')));
  const adds = names.indexOf('addRows');
  assert.ok(before(rows, adds));
  // The last bucket is exchanged while rows are added up.
  assert.ok(before(rows, last) && !before(adds, last) && !before(last, adds));
});

test('small tensors travel as one, large ones from where they are', () => {
  new Trace(() => {}).run(() => {
    const src = [100, 2 ** 20, 3, 7].map((n) => nodeOf(randn([n])));
    const flat = allReduceOf(src, { ranks: [0, 1], op: 'sum' });
    const { counts, offsets } = callOf(flat).arg as CollectiveArg;
    assert.deepEqual(
      [counts, offsets],
      [
        [144, 2 ** 20],
        [0, 144],
      ],
    );
    const starts = unpacked(flat, src).map((cut) => argOf(cut, 'slice').start);
    assert.deepEqual(starts, [[0], [144], [112], [128]]);
  });
});

test('buckets become smaller towards the first layers', () => {
  const MB = 1e6;
  const bytes = (sizes: readonly number[], most?: number): number[] =>
    bucketsOf(sizes, most).map((bucket) => bucket.reduce((sum, i) => sum + sizes[i]!, 0));
  const shapes = new ResNet18(3, 10)
    .parameters()
    .map(({ size }) => 4 * size)
    .reverse();
  const resnet18 = bytes(shapes);
  assert.ok(
    resnet18.every((size) => size <= 12 * 2 ** 20),
    resnet18.join(),
  );
  assert.ok(resnet18.at(-1)! < MB, resnet18.join());
  assert.deepEqual(
    bucketsOf(shapes).flat(),
    shapes.map((_, i) => i),
  );
  // A network of few bytes has one bucket, and a large tensor is one of its own.
  assert.deepEqual(bytes(Array.from({ length: 10 }, () => 1e5)), [MB]);
  assert.deepEqual(bytes([9 * MB, 2 * MB, 9 * MB, 9 * MB, 154 * MB]), [11 * MB, 9 * MB, 9 * MB, 154 * MB]);
  assert.deepEqual(bytes([8, 8, 8], 16), [16, 8]);
  // What is left besides is exchanged with the last one.
  assert.deepEqual(bucketsOf([9 * MB, 9 * MB, 2 * MB]), [[0], [1], [2]]);
  assert.deepEqual(bucketsOf([9 * MB, 9 * MB, 2 * MB], undefined, 25 * MB), [[0], [1, 2]]);
  // No bucket waits for a small one that is made after the others, as the bias of the next layer.
  assert.deepEqual(bucketsOf([100, 9 * MB, 100, 9 * MB, 200, 100, 6 * MB]), [
    [0, 1],
    [2, 3],
    [4, 5, 6],
  ]);
  assert.deepEqual(bucketsOf([]), []);
});
