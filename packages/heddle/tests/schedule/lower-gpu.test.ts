/**
 * Generated GPU kernels against those of the CPU, on sizes that reach every way of sharing out the work: vectors and
 * what is left of them, rows of a thread to rows longer than a block holds, columns, parts, and transposes. The
 * simulator watches every access for races and bounds.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32, i32, u8 } from '../../src/core/dtype.js';
import { decode, encode } from '../../src/engine/realize.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  avgPool2d,
  crossEntropy,
  jit,
  manualSeed,
  nllLoss,
  rand,
  randn,
  type Tensor,
  tensor,
  transforms,
  useDevice,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { crossEntropyGradientOp, crossEntropyOp } from '../../src/ops/cross-entropy/op.js';
import { softmax, softmaxOp } from '../../src/ops/softmax/op.js';
import { standardize } from '../../src/ops/standardize/op.js';
import { SimDevice } from '../../src/runtime/sim/device.js';
import { schedule } from '../../src/schedule/schedule.js';
import { deviation as deviationOf, logSumExp, mean, variance } from '../../src/tensor/reductions.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

const GPUS = DEVICES.filter((d) => d !== 'cpu');

/** Values around zero that differ from their neighbours, and repeat late. */
const values = (shape: readonly number[], dtype: DType = f32, seed = 1, requiresGrad = false): Tensor => {
  const size = shape.reduce((n, d) => n * d, 1);
  const whole = dtype.kind !== 'float';
  const at = (i: number): number => ((i * 7919 + seed * 104729) % 1009) / 504.5 - 1;
  const numbers = new Float64Array(size);
  for (let i = 0; i < size; i++) numbers[i] = whole ? Math.round(100 + 100 * at(i)) : at(i);
  return tensor(numbers, { shape: [...shape], dtype, requiresGrad }) as Tensor;
};

const layerNorm = (x: Tensor, axes: readonly number[]): Tensor => {
  const centred = x.sub(x.mean(axes, { keepdim: true }));
  return centred.div(x.variance(axes, { keepdim: true, correction: 0 }).add(1e-5).sqrt());
};

interface Result {
  readonly [name: string]: () => Tensor | Tensor[];
}

/** Launches of a result's program for a GPU. */
const launches = (...roots: Tensor[]): number =>
  schedule(
    roots.map((t) => t.node),
    H200,
  ).launches.length;

async function resultsOn(device: string, make: () => Tensor | Tensor[]): Promise<number[][]> {
  useDevice(device);
  const results = [make()].flat();
  return Promise.all(results.map(async (t) => Array.from(await t.data(), Number)));
}

function agree(title: string, cases: Result, tolerance = { relative: 2e-5, absolute: 2e-5 }): void {
  for (const gpu of GPUS)
    test(`${gpu}: ${title}`, async () => {
      for (const [name, make] of Object.entries(cases)) {
        const expected = await resultsOn('cpu', make);
        const found = await resultsOn(gpu, make);
        assert.equal(found.length, expected.length);
        found.forEach((f, i) => {
          assertClose(f, expected[i]!, `${name}, result ${i}`, tolerance);
        });
      }
    });
}

agree('elements in vectors, and what is left of them', {
  'a size of four vectors a thread': () =>
    values([128, 1024])
      .mul(2)
      .add(values([1024]))
      .relu(),
  'one vector more': () => values([131076]).mul(2).add(1),
  'an odd size': () => values([40001]).mul(2),
  'rows of an odd size': () => values([4001, 10]).add(values([10])),
  bytes: () => values([300, 128], u8).cast(f32).div(255),
  'a row of indices': () => values([50, 36]).at(tensor([7, 0, 49, 7], { dtype: i32 })),
});

agree(
  'halves in vectors',
  {
    f16: () =>
      values([256, 256], f16)
        .mul(2)
        .add(values([256], f16))
        .cast(f32),
    bf16: () => values([256, 256], bf16).relu().cast(f32),
    'sums of rows': () => values([8, 384], f16).cast(f32).sum([1]),
  },
  { relative: 1e-2, absolute: 1e-2 },
);

agree('transposes by squares', {
  'whole squares': () => values([128, 256]).transpose().add(1),
  'squares cut off': () =>
    values([132, 164])
      .transpose()
      .mul(values([132])),
  'the middle of three': () => values([5, 68, 68]).permute([0, 2, 1]).mul(2),
  'with what is not turned': () =>
    values([128, 256])
      .transpose()
      .add(values([256, 128], f32, 2)),
  'an odd side': () => values([129, 131]).transpose().add(1),
});

const softmaxOf = (shape: readonly number[]): Tensor => values(shape).mul(3).softmax(-1);
agree('rows', {
  'of one thread': () => softmaxOf([300, 2]),
  'of a part of a warp': () => softmaxOf([67, 10]),
  'of a warp': () => softmaxOf([70, 33]),
  'of a warp, in vectors': () => softmaxOf([9, 128]),
  'of a warp, several vectors each': () => softmaxOf([130, 300]),
  'of a block': () => softmaxOf([3, 1000]),
  'of a block, in vectors, with a rest': () => softmaxOf([2, 4100]),
  'longer than a block holds': () => softmaxOf([2, 17000]),
  'with an odd length, longer than a block holds': () => softmaxOf([1, 16411]),
  'of 16-bit floats, longer than a block holds': () => values([3, 18004], bf16).mul(3).softmax(1).cast(f32),
  'normalised over two dimensions': () => layerNorm(values([6, 4, 32]), [1, 2]),
  'spread over the dimensions': () =>
    values([4, 6, 32])
      .sub(values([4, 6, 32]).mean([0, 2], { keepdim: true }))
      .square()
      .mean([0, 2]),
  'several of one row, longer than a block holds': () => {
    const x = values([2, 33001]);
    const norm = x.square().sum([1], { keepdim: true }).sqrt();
    return [x.sum(1), x.max(1), norm, x.div(norm).abs().sum(1)];
  },
  'largest and smallest': () => [values([5, 77]).max(1), values([5, 77]).min(1), values([3, 4], i32).max(1)],
});

agree('columns', {
  few: () => values([64, 10]).sum([0]),
  'of a small matrix': () => values([64, 128]).sum([0]),
  'of an odd matrix': () => values([77, 33]).sum([0]),
  'of a long matrix, in parts': () => values([4096, 66]).sum([0]),
  'of a wide matrix, in vectors': () => values([512, 516]).sum([0]),
  'in the middle': () => values([3, 50, 40]).max(1),
  'of images': () => values([8, 6, 10, 10]).sum([0, 2, 3]),
});

agree('columns that are reduced and needed again', {
  'of one warp': () => values([5, 3]).mul(3).softmax(0),
  'of more than a warp': () => values([70, 33]).mul(3).softmax(0),
  'in vectors': () => values([64, 4100]).mul(3).softmax(0),
  'in the middle, with the largest': () => {
    const x = values([3, 50, 40]).mul(3);
    return [x.softmax(1), x.max(1), x.logSumExp(1)];
  },
  'normalised, and the sums': () => {
    const x = values([77, 36]);
    return [layerNorm(x, [0]), x.sum(0), x.variance(0)];
  },
  'over two dimensions': () => layerNorm(values([6, 3, 8, 5]), [0, 2]),
});

agree('gradients around columns', {
  'of softmax': () => {
    const x = values([40, 24], f32, 1, true);
    x.mul(3)
      .softmax(0)
      .mul(values([40, 24], f32, 2))
      .sum()
      .backward();
    return [x.grad!];
  },
  'of a norm': () => {
    const [x, w] = [values([48, 20], f32, 1, true), values([20], f32, 2, true)];
    layerNorm(x, [0])
      .mul(w)
      .mul(values([48, 20], f32, 3))
      .sum()
      .backward();
    return [x.grad!, w.grad!];
  },
});

/** The values of a node by the launches for a GPU of such limits, in the simulator. */
async function simulated(make: (x: GraphNode) => GraphNode, x: Tensor, target: Target): Promise<number[]> {
  const { launches: made } = schedule([make(b.leaf(x.shape, x.dtype))], target);
  assert.equal(made.length, 1);
  const { work, args } = made[0]!;
  assert.ok('kernel' in work);
  const device = new SimDevice();
  const [input, output] = ['x', 'y'].map((name) => device.allocate(x.size * x.dtype.bytes, name));
  device.write(input!, encode(await x.data(), x.dtype));
  const slots = args.map((place) => ({ slot: 'leaf' in place ? 0 : 1, offset: 0 }));
  device.compile([{ ...work, args: slots }]).run([input!, output!]);
  return Array.from(decode(await device.read(output!), x.dtype), Number);
}

test('columns in registers, in shared memory, and read again', async () => {
  useDevice('cpu');
  const x = values([4096, 64]).mul(3);
  const few: Target = { ...H200, units: 2, capability: 80 };
  const lessShared = { sharedBytesPerBlock: 170_000, sharedBytesPerMultiprocessor: 171_024 };
  const less: Target = { ...few, limits: { ...H200.limits, ...lessShared } };
  const softmaxOf = (of: GraphNode): GraphNode => softmax(of, 0, false);
  const [whole, part] = [few, less].map((target) => {
    const { work } = schedule([softmaxOf(b.leaf(x.shape, f32))], target).launches[0]!;
    return 'kernel' in work ? (work.sharedBytes ?? 0) : 0;
  });
  const strip = 4096 * 8 * 4;
  assert.ok(whole! > strip / 2 && whole! < strip, 'registers and shared memory hold all of a strip');
  assert.ok(part! > 0 && part! < whole!, 'some of it is read again');
  const expected = Array.from(await x.softmax(0).data(), Number);
  for (const target of [few, less])
    assertClose(await simulated(softmaxOf, x, target), expected, 'softmax', {
      relative: 2e-6,
      absolute: 1e-9,
    });
});

test('columns that the blocks of a cluster share', async () => {
  const few: Target = { ...H200, units: 1 };
  const softmaxOf = (of: GraphNode, axis: number): GraphNode => softmax(of, axis, false);
  const normOf = (of: GraphNode, axis: number): GraphNode => standardize(of, [axis], 1e-5);
  const check = async (
    shape: readonly number[],
    axis: number,
    dtype: DType,
    make: typeof softmaxOf = softmaxOf,
  ): Promise<void> => {
    const what = `${dtype.name} (${shape}), axis ${axis}`;
    useDevice('cpu');
    const x = values(shape).mul(3).cast(dtype).realize() as Tensor;
    const { work } = schedule([make(b.leaf(x.shape, dtype), axis)], few).launches[0]!;
    assert.ok('kernel' in work && (work.cluster?.[0] ?? 1) > 1, what);
    const wide = x.cast(f32) as Tensor;
    const expected = make === normOf ? layerNorm(wide, [axis]) : wide.softmax(axis);
    const tolerance = dtype === f32 ? { relative: 5e-6, absolute: 2e-6 } : { relative: 5e-3, absolute: 1e-6 };
    const found = await simulated((of) => make(of, axis), x, few);
    assertClose(found, Array.from(await expected.data(), Number), what, tolerance);
  };
  await check([4096, 64], 0, bf16);
  // Neither strips nor pieces are whole.
  await check([2, 2061, 68], 1, f32);
  await check([2, 2061, 68], 1, f32, normOf);
  await check([4093, 67], 0, f32);
  // Partly in shared memory.
  await check([40001, 8], 0, f32);
  await check([4100, 72], 0, bf16);
});

test('long rows in the shared memory of a cluster, of a block, and read again', async () => {
  useDevice('cpu');
  const x = values([5, 17004]).mul(3);
  const before: Target = { ...H200, capability: 80 };
  const less: Target = { ...before, limits: { ...H200.limits, sharedBytesPerBlock: 60_000 } };
  const softmaxOf = (of: GraphNode): GraphNode => softmax(of, 1, false);
  const expected = Array.from(await x.softmax(1).data(), Number);
  const kept = async (target: Target): Promise<{ bytes: number; blocks: number }> => {
    const { work } = schedule([softmaxOf(b.leaf(x.shape, f32))], target).launches[0]!;
    assert.ok('kernel' in work);
    assertClose(await simulated(softmaxOf, x, target), expected, 'softmax', {
      relative: 2e-6,
      absolute: 1e-9,
    });
    return { bytes: work.sharedBytes ?? 0, blocks: work.cluster?.[0] ?? 1 };
  };
  const cluster = await kept(H200);
  assert.ok(cluster.blocks > 1 && cluster.bytes * cluster.blocks >= 17004 * 4, 'a cluster holds a row');
  const block = await kept(before);
  assert.ok(block.blocks === 1 && block.bytes >= 17004 * 4, 'a block holds a row');
  assert.equal((await kept(less)).bytes, 0, 'a row is read again');
});

test('a long row that is read once stays nowhere', () => {
  for (const [name, make, isKept] of [
    ['sum', (x: GraphNode) => b.sum(x, [1]), false],
    ['two sums', (x: GraphNode) => b.add(b.sum(x, [1]), b.sum(b.mul(x, x), [1])), false],
    ['softmax', (x: GraphNode) => softmax(x, 1, false), true],
    ['deviations', (x: GraphNode) => b.sum(b.mul(deviation(x), deviation(x)), [1]), true],
  ] as const) {
    const { work } = schedule([make(b.leaf([300, 20_000], f32))], H200).launches[0]!;
    assert.ok('kernel' in work);
    assert.equal((work.sharedBytes ?? 0) > 0, isKept, name);
  }
});

/** From the mean of a row. */
function deviation(x: GraphNode): GraphNode {
  const [rows, columns] = x.shape as [number, number];
  const mean = b.mul(b.sum(x, [1]), b.full([rows, 1], f32, 1 / columns));
  return b.sub(x, b.expand(mean, x.shape));
}

/** The names of the arrays of the one kernel that computes a node. */
const arraysOf = (node: GraphNode, target: Target): string[] => {
  const { work } = schedule([node], target).launches[0]!;
  return 'kernel' in work ? work.kernel.arrays.map(({ name }) => name) : [];
};

for (const [dtype, columns] of [
  // An odd and an even number of pieces of a thread, a row that ends within one, and one whose elements come one by one.
  ...[18000, 20480, 20484, 16999].map((n) => [bf16, n] as const),
  [f32, 18000],
] as const)
  test(`exponentials take the place of ${columns} ${dtype.name} in shared memory`, async () => {
    useDevice('cpu');
    const x = values([3, columns])
      .mul(3)
      .cast(dtype as typeof f32)
      .realize();
    const softmaxOf = (of: GraphNode): GraphNode => softmax(of, 1, false);
    assert.ok(arraysOf(softmaxOf(b.leaf(x.shape, dtype)), H200).includes('carried'));
    const expected = await x.softmax(1).cast(f32).data();
    assertClose(await simulated(softmaxOf, x, H200), Array.from(expected), 'softmax', {
      relative: dtype === bf16 ? 2 ** -7 : 2e-6,
      absolute: 1e-9,
    });
  });

test('elements stay where later results need them, or where it saves little', () => {
  const x = b.leaf([3, 18000], f32);
  // The logarithm is made of the elements, the deviation of one subtraction.
  assert.ok(!arraysOf(softmax(x, 1, true), H200).includes('carried'));
  const deviation = b.sub(x, b.reduce('max', x, [1]));
  assert.ok(!arraysOf(b.mul(deviation, b.sum(deviation, [1])), H200).includes('carried'));
});

test('a loss and its gradient read long rows of logits once', () => {
  const logits = b.leaf([8192, 50304], bf16);
  const labels = b.leaf([8192], i32);
  const loss = b.call(crossEntropyOp, [logits, labels], null);
  const gradient = b.call(crossEntropyGradientOp, [logits, labels], null);
  for (const target of [H200, { ...H200, capability: 80 }]) {
    const { launches: made } = schedule([loss, gradient], target);
    assert.equal(made.length, 1);
    const { work } = made[0]!;
    assert.ok('kernel' in work && work.sharedBytes! * (work.cluster?.[0] ?? 1) >= 50304 * 2);
    assert.ok(work.kernel.resident! >= 2, 'while a row is moved, another is computed');
    const bytes = work.kernel.resident! * (work.sharedBytes! + 1024 + target.limits.sharedBytesReserved);
    assert.ok(bytes <= target.limits.sharedBytesPerMultiprocessor);
  }
});

agree('all elements', {
  'in parts': () => values([256, 512]).sum(),
  'of a size without divisors': () => values([40009]).sum(),
  largest: () => values([300, 300]).max(),
});

agree('variance', {
  'in parts': () => values([40, 3, 30, 30]).variance([0, 2, 3]),
  'in parts of the second dimension that is reduced': () => values([37, 2, 30, 60]).variance([0, 2, 3]),
  'in parts that differ, far from zero': () => {
    const drift = values([40, 1, 1, 1]).mul(5).add(1000);
    return values([40, 3, 30, 30]).add(drift).variance([0, 2, 3], { correction: 0 });
  },
  'of a long row, and what is made of it': () => layerNorm(values([2, 35000]), [1]),
});

agree('log-sum-exp', {
  'of columns in parts': () => values([4096, 66]).mul(30).logSumExp(0),
  'of columns in parts, of which one ends within a vector': () => values([4080, 67]).mul(3).logSumExp(0),
  'of columns in the middle': () => values([3, 2048, 44]).mul(3).logSumExp(1),
  'of all elements': () => values([512, 600]).mul(9).logSumExp(),
});

for (const gpu of GPUS)
  test(`${gpu}: log-sum-exp of infinite numbers and NaN in some parts of columns`, async () => {
    const [rows, columns] = [4096, 64];
    const { POSITIVE_INFINITY: inf, NEGATIVE_INFINITY: none, NaN: nan } = Number;
    const x = new Float32Array(rows * columns);
    const fill = (column: number, from: number, to: number, value: number): void => {
      for (let row = from; row < to; row++) x[row * columns + column] = value;
    };
    fill(0, 0, rows, none);
    fill(1, 0, rows / 2, none);
    fill(2, 700, 701, inf);
    fill(3, 0, rows / 2, inf);
    fill(3, rows - 1, rows, none);
    fill(4, rows - 1, rows, nan);
    fill(5, 0, 1, nan);
    fill(5, 1, rows, none);
    fill(6, 0, 1, inf);
    fill(6, rows - 1, rows, nan);
    fill(7, 0, rows, 1e4);
    const make = (): Tensor => tensor(x, { shape: [rows, columns] }).logSumExp(0);
    const [found, expected] = [(await resultsOn(gpu, make))[0]!, (await resultsOn('cpu', make))[0]!];
    assert.deepEqual(expected.slice(0, 7), [none, Math.fround(Math.log(rows / 2)), inf, inf, nan, nan, nan]);
    const special = (all: readonly number[]): number[] => all.map((v) => (Number.isFinite(v) ? 0 : v));
    assert.deepEqual(special(found), special(expected));
    assertClose(found.filter(Number.isFinite), expected.filter(Number.isFinite), 'finite results');
  });

agree('gradients around rows', {
  'of cross-entropy of long rows': () => {
    const x = values([3, 17001], f32, 1, true);
    const loss = crossEntropy(x.mul(4), tensor([16999, 0, 7], { dtype: i32 }));
    loss.backward();
    return [loss, x.grad!];
  },
  'of cross-entropy': () => {
    const x = values([32, 10], f32, 1, true);
    const labels = tensor(
      Array.from({ length: 32 }, (_, i) => (i * 3) % 10),
      { dtype: i32 },
    );
    const loss = crossEntropy(x.mul(4), labels);
    loss.backward();
    return [loss, x.grad!];
  },
  'of a layer norm': () => {
    const x = values([12, 64], f32, 1, true);
    const [w, b] = [values([64], f32, 2, true), values([64], f32, 3, true)];
    layerNorm(x, [1])
      .mul(w)
      .add(b)
      .mul(values([12, 64], f32, 4))
      .sum()
      .backward();
    return [x.grad!, w.grad!, b.grad!];
  },
});

for (const gpu of GPUS) {
  test(`${gpu}: random numbers in vectors are those of the CPU`, async () => {
    const draw = (): Tensor[] => {
      manualSeed(3);
      // The largest takes several vectors a thread.
      return [rand([64, 1024]), rand([37, 5]), randn([262152])];
    };
    const expected = await resultsOn('cpu', draw);
    const found = await resultsOn(gpu, draw);
    assert.deepEqual(found.slice(0, 2), expected.slice(0, 2));
    assertClose(found[2]!, expected[2]!, 'normal', { relative: 1e-4, absolute: 1e-5 });
  });

  test(`${gpu}: a state that a row's kernel both updates and reads`, async () => {
    const run = async (device: string): Promise<number[]> => {
      useDevice(device);
      const s = values([6, 40]);
      const step = jit((x: Tensor) => {
        s.assign(s.sub(x.sub(x.mean([1], { keepdim: true })).mul(0.1)));
        return s.softmax(1);
      });
      step(values([6, 40], f32, 2));
      const y = step(values([6, 40], f32, 3));
      return [...Array.from(await y.data(), Number), ...Array.from(await s.data(), Number)];
    };
    assertClose(await run(gpu), await run('cpu'), 'softmax of the state, and the state', {
      absolute: 1e-6,
      relative: 1e-5,
    });
  });
}

test('few long columns are spread over blocks of many threads, short ones share blocks', async () => {
  useDevice('cpu');
  const gridOf = (shape: readonly number[]) => {
    const { work } = schedule([b.sum(b.leaf(shape, f32), [0])], H200).launches.at(-1)!;
    assert.ok('kernel' in work);
    return [work.grid[0], work.block[0]];
  };
  assert.deepEqual(gridOf([3136, 64]), [8, 1024], 'a sector of 32 bytes for each block');
  assert.deepEqual(gridOf([64, 64]), [2, 256]);
  const x = values([3136, 60]);
  const sums = await simulated((of) => b.reshape(b.sum(of, [0]), [60]), x, H200);
  assertClose(sums.slice(0, 60), Array.from(await x.sum(0).data(), Number), 'sums', {
    relative: 1e-5,
    absolute: 1e-4,
  });
});

test('many sums of columns of the same numbers fit into the shared memory of their launches', () => {
  const added = Array.from({ length: 30 }, (_, i) => values([2048, 256], f32, i + 1));
  let sum: Tensor = added[0]!;
  const roots = added.slice(1).map((x) => {
    sum = sum.add(x);
    return sum.sum(0);
  });
  const { launches: made } = schedule(
    roots.map((t) => t.node),
    H200,
  );
  assert.ok(made.length < roots.length, 'those that read the same numbers share a launch');
  for (const { work } of made) {
    assert.ok('kernel' in work);
    const bytes = work.kernel.arrays.map(({ dims, dtype }) => dims.reduce((n, d) => n * d, dtype.bytes));
    assert.ok(bytes.reduce((a, b) => a + b, 0) <= 48 * 1024, `${work.kernel.name}: ${bytes}`);
  }
});

test('one launch where columns are reduced and needed again', () => {
  for (const dtype of [f32, bf16])
    for (const side of [4096, 8192]) {
      const x = b.leaf([side, side], dtype);
      const g = b.leaf([side, side], dtype);
      const of = (node: GraphNode): number => schedule([node], H200).launches.length;
      assert.equal(of(softmax(x, 0, false)), 1, 'softmax');
      assert.equal(of(softmax(x, 0, true)), 1, 'log-softmax');
      assert.equal(of(b.sub(x, logSumExp(x, 0, { keepdim: true }))), 1, 'log-sum-exp');
      assert.equal(of(standardize(x, [0], 1e-5)), 1, 'norm');
      assert.equal(of(softmaxOp.grad!(x, g, { axis: 0, log: false })[0]!), 1, "softmax's gradient");
    }
  // Of few columns each kernel shares out the rows: one block for each strip would leave the GPU idle.
  assert.ok(schedule([softmax(b.leaf([65536, 64], f32), 0, false)], H200).launches.length > 1);
  assert.equal(schedule([softmax(b.leaf([2, 2 ** 20], f32), 0, false)], H200).launches.length, 1, 'short');
  // What is not needed again is not kept.
  const sums = schedule([b.sum(b.leaf([8192, 8192], f32), [0])], H200).launches;
  assert.ok(sums.every(({ work }) => 'kernel' in work && work.sharedBytes === undefined));
});

test('columns that are only reduced are read once, in parts that no blocks share', () => {
  for (const [dtype, rows, columns] of [
    [f32, 4096, 4096],
    [bf16, 8192, 8192],
    [f32, 2048, 16384],
    [bf16, 5000, 3000],
  ] as const) {
    const x = b.leaf([rows, columns], dtype);
    for (const [name, roots] of Object.entries({
      'log-sum-exp': [logSumExp(x, 0)],
      variance: [variance(x, 0)],
      'standard deviation': [deviationOf(x, 0)],
      'mean and variance': [mean(x, 0), variance(x, 0)],
    })) {
      const { launches: made } = schedule(roots, H200);
      assert.equal(made.length, 2, `${name} of ${rows} × ${columns}`);
      const [parts, merge] = made.map(({ work }) => work);
      assert.ok('kernel' in parts! && parts.cluster === undefined && parts.grid[0] > H200.units, name);
      const reads = (of: (typeof made)[number]): number => of.args.filter((place) => 'leaf' in place).length;
      assert.deepEqual(made.map(reads), [1, 0], `${name}: the merge reads parts alone`);
      assert.ok('kernel' in merge! && merge.cluster === undefined);
    }
  }
});

test('one launch where the rows are at hand', () => {
  const x = values([64, 512]);
  assert.equal(launches(x.softmax(1)), 1);
  assert.equal(
    launches(
      layerNorm(x, [1])
        .mul(values([512]))
        .add(values([512])),
    ),
    1,
  );
  const labels = tensor(new Array<number>(64).fill(3), { dtype: i32 });
  assert.equal(launches(crossEntropy(x, labels)), 2);
  assert.equal(launches(x.sum([1]), x.square().sum([1]), x.max(1)), 1);
  // The parts' means and deviations, what they are together, and the elementwise rest.
  assert.equal(launches(layerNorm(values([64, 8, 32, 32]), [0, 2, 3])), 3);
  // Two images make too few parts.
  assert.equal(launches(values([2, 3, 256, 256]).variance([0, 2, 3])), 2);
  const gradient = (fn: (of: Tensor) => Tensor, shape: readonly number[]): Tensor => {
    const of = values(shape, f32, 1, true);
    fn(of)
      .mul(values(fn(of).shape, f32, 2))
      .sum()
      .backward();
    return of.grad!;
  };
  // One kernel of the rows of x and of its gradient, which each standardize or sum.
  assert.equal(launches(gradient((of) => layerNorm(of, [1]), [256, 512])), 1);
  // A padding's gradient is never written.
  assert.equal(launches(gradient((of) => avgPool2d(of, 3, { stride: 2, padding: 1 }), [2, 3, 9, 9])), 1);
  assert.equal(launches(gradient((of) => nllLoss(of, labels), [64, 512])), 1);
  // Random numbers of each image; the places of rows and columns that follow from them are computed where the pixels are.
  const vary = transforms.compose([
    transforms.randomCrop(28, { padding: 2 }),
    transforms.randomHorizontalFlip(),
  ]);
  assert.equal(launches(vary(values([128, 1, 28, 28]))), 2);
});
