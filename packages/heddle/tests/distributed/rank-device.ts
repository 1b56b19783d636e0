/**
 * A rank of tests that exchange tensors on any device: `rank-device.js <scenario> [argument as JSON]`. It prints what the tests
 * read; a value that is not what it should be ends it.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  type AnyTensor,
  crossEntropy,
  device,
  embedding,
  i32,
  type JitValue,
  jit,
  nn,
  optim,
  randint,
  randn,
  setPrecision,
  type Tensor,
  tensor,
  time,
} from 'heddle';
import * as distributed from 'heddle/distributed';
import { averageGradients } from 'heddle/distributed';
import { DTYPES, type DTypeName, type TypedArray } from 'heddle/internal/core/dtype.js';
import { fromBf16, fromF16 } from 'heddle/internal/core/float16.js';
import { sumInBuckets } from 'heddle/internal/distributed/data-parallel.js';
import { membership } from 'heddle/internal/distributed/membership.js';
import { ALL_DTYPES, ALL_OPS, reducedValues, valuesOfRank } from './rank-values.js';
import { shardedSteps } from './sharded-steps.js';

const [scenario = '', argument = 'null'] = process.argv.slice(2);
setPrecision({ matmul: 'f32', conv: 'f32' });
await distributed.init();
const rank = distributed.rank();
const n = distributed.worldSize();
const everyone = Array.from({ length: n }, (_, i) => i);
const say = (text: string): void => void process.stdout.write(`${rank}: ${text}\n`);

/** 16-bit floats as numbers; all others as they are. */
const numbersOf = (dtype: DTypeName, values: TypedArray): ArrayLike<number | bigint> => {
  if (dtype === 'f16') return Float32Array.from(values as Uint16Array, fromF16);
  if (dtype === 'bf16') return Float32Array.from(values as Uint16Array, fromBf16);
  return values as ArrayLike<number>;
};

const tensorOf = (dtype: DTypeName, values: TypedArray): AnyTensor =>
  tensor(numbersOf(dtype, values) as TypedArray, { dtype: DTYPES[dtype] }) as AnyTensor;

/** What a collective is called with and gives, on this rank. */
interface Exchange {
  readonly what: string;
  readonly call: (x: AnyTensor) => AnyTensor;
  /** From what each rank has. */
  readonly expected: (all: readonly TypedArray[]) => TypedArray;
  /** Its result is the same on all ranks. */
  readonly isCommon: boolean;
  /** Elements that a rank has, of so many. */
  readonly size: (count: number) => number;
}

const same = (count: number): number => count;

const exchangesOf = (dtype: DTypeName): Exchange[] => [
  ...ALL_OPS.flatMap((op): Exchange[] => [
    {
      what: `allReduce ${op}`,
      call: (x) => distributed.allReduce(x as Tensor, { op }) as unknown as AnyTensor,
      expected: (all) => reducedValues(op, dtype, all),
      ...{ isCommon: true, size: same },
    },
    {
      what: `reduceScatter ${op}`,
      call: (x) => distributed.reduceScatter(x as Tensor, { op }) as unknown as AnyTensor,
      expected: (all) => {
        const sum = reducedValues(op, dtype, all);
        return sum.subarray((sum.length / n) * rank, (sum.length / n) * (rank + 1)) as TypedArray;
      },
      ...{ isCommon: false, size: (count) => n * count },
    },
  ]),
  {
    what: 'broadcast',
    call: (x) => distributed.broadcast(x as Tensor, { root: n - 1 }) as unknown as AnyTensor,
    expected: (all) => all[n - 1]!,
    ...{ isCommon: true, size: same },
  },
  {
    what: 'allGather',
    call: (x) => distributed.allGather(x as Tensor) as unknown as AnyTensor,
    expected: (all) => {
      const joined = new (all[0]!.constructor as new (length: number) => TypedArray)(n * all[0]!.length);
      all.forEach((values, i) => {
        (joined as Uint8Array).set(values as Uint8Array, i * values.length);
      });
      return joined;
    },
    ...{ isCommon: true, size: same },
  },
];

const SIZES = [0, 1, 7, 1001];
const digest = createHash('sha256');

/** @returns how many results there were, all of which are right */
async function checkAll(
  dtype: DTypeName,
  seed: number,
  run: (xs: readonly AnyTensor[]) => readonly AnyTensor[],
): Promise<number> {
  const cases = exchangesOf(dtype).flatMap((exchange) => SIZES.map((count) => ({ exchange, count })));
  const values = cases.map(({ exchange, count }, i) =>
    everyone.map((r) => valuesOfRank(dtype, exchange.size(count), r, seed + i)),
  );
  const results = run(values.map((all) => tensorOf(dtype, all[rank]!)));
  for (const [i, { exchange, count }] of cases.entries()) {
    const got = (await results[i]!.data()) as TypedArray;
    const expected = numbersOf(dtype, exchange.expected(values[i]!));
    assert.deepEqual(
      Array.from<number | bigint>(got as ArrayLike<number>),
      Array.from(expected),
      `${exchange.what} of ${count} ${dtype}, rank ${rank}`,
    );
    if (exchange.isCommon) digest.update(new Uint8Array(got.buffer, got.byteOffset, got.byteLength));
  }
  return cases.length;
}

/** 100 MB, whose elements begin again after a thousand. */
function large(valueAt: (i: number) => number): Float32Array {
  const values = new Float32Array(25_000_003);
  let length = 1000;
  for (let i = 0; i < length; i++) values[i] = valueAt(i);
  for (; length < values.length; length *= 2) values.copyWithin(length, 0, length);
  return values;
}

/** Each collective with each dtype, size and operation, by itself. */
async function suite(): Promise<void> {
  let calls = 0;
  for (const [d, dtype] of ALL_DTYPES.entries()) {
    const exchanges = exchangesOf(dtype).flatMap(({ call }) => SIZES.map(() => call));
    calls += await checkAll(dtype, 100 * d, (xs) => xs.map((x, i) => exchanges[i]!(x)));
  }
  const sum = (await distributed.allReduce(tensor(large((i) => i + rank))).data()) as Float32Array;
  const expected = large((i) => n * i + (n * (n - 1)) / 2);
  assert.equal(Buffer.compare(new Uint8Array(sum.buffer), new Uint8Array(expected.buffer)), 0);
  say(`${calls + 1} calls are right, digest ${digest.digest('hex')}`);
}

/** The same within programs: run as they are the first time, as graphs from then on, with inputs at other addresses. */
async function captured(): Promise<void> {
  let calls = 0;
  for (const [d, dtype] of ALL_DTYPES.entries()) {
    const exchanges = exchangesOf(dtype).flatMap(({ call }) => SIZES.map(() => call));
    const step = jit((...xs: JitValue[]) => xs.map((x, i) => exchanges[i]!(x as AnyTensor)) as JitValue[]);
    for (let run = 0; run < 4; run++)
      calls += await checkAll(
        dtype,
        1000 * run + 100 * d,
        (xs) => step(...(xs as unknown as JitValue[])) as unknown as AnyTensor[],
      );
  }
  say(`${calls} calls are right, digest ${digest.digest('hex')}`);
}

/** Ranks in groups, and programs that one rank has captured and another one runs for the first time. */
async function groups(): Promise<void> {
  const all = await distributed.newGroup(everyone);
  const alone = await Promise.all(everyone.map((r) => r)).then(async (list) => {
    const made: Awaited<ReturnType<typeof distributed.newGroup>>[] = [];
    for (const r of list) made.push(await distributed.newGroup([r]));
    return made;
  });
  const x = tensor([rank + 1, 2]);
  assert.deepEqual(await distributed.allReduce(x, { group: alone[rank]! }).array(), [rank + 1, 2]);
  assert.deepEqual(await distributed.allReduce(x, { group: all }).array(), [(n * (n + 1)) / 2, 2 * n]);
  const step = jit((values: Tensor) => distributed.allReduce(values.mul(2).sum()));
  for (let round = 0; round < 6; round++) {
    // Rank 0 has the same length again and again, the others always a new one.
    const length = rank === 0 ? 3 : 3 + round;
    const others = everyone.slice(1).length * (3 + round);
    const values = tensor(new Float32Array(length).fill(1)) as unknown as Tensor;
    assert.equal(await (step(values) as unknown as Tensor).sum().item(), 2 * (3 + others));
  }
  await distributed.barrier();
  say('groups are right');
}

/** Gradients that are averaged in several exchanges of one program, of which all but the last run beside others. */
async function buckets(): Promise<void> {
  const parameters = [3, 300, 80_000, 7, 500].map((size, i) =>
    tensor(new Float32Array(size).fill(i + 1), { requiresGrad: true }),
  );
  const step = jit((scale: Tensor) => {
    for (const p of parameters) p.grad = undefined;
    const losses = parameters.map((p) => p.mul(p).sum());
    losses
      .reduce((sum, loss) => sum.add(loss) as typeof loss)
      .mul(scale)
      .backward();
    averageGradients(parameters, { bucketBytes: 1000 });
    return parameters.map((p) => p.grad!);
  });
  for (let round = 1; round <= 5; round++) {
    const gradients = step(tensor(round * (rank + 1)) as unknown as Tensor) as unknown as Tensor[];
    for (const [i, gradient] of gradients.entries()) {
      const values = (await gradient.data()) as Float32Array;
      assert.ok(
        values.every((v) => v === round * (i + 1) * (n + 1)),
        `round ${round}, parameter ${i}: ${values[0]}`,
      );
    }
  }
  say('buckets are right');
}

/** Sums of copies are those of an all-reduce, of small tensors and of large ones. */
async function copies(): Promise<void> {
  if (device().name !== 'cpu' && !membership().copies) return say('these GPUs do not copy from each other');
  const sizes = ALL_DTYPES.filter((dtype) => dtype !== 'bool').flatMap((dtype) =>
    [1, 1001, 80_000, ...(dtype === 'f32' ? [9_000_001, 7] : [])].map((size) => ({ dtype, size })),
  );
  const step = jit((...own: JitValue[]) => {
    const twice = (own as unknown as Tensor[]).map((x) => x.add(x)) as unknown as AnyTensor[];
    const ways = [true, false].map((byCopies) =>
      sumInBuckets(twice, { bucketBytes: 300_000, copies: byCopies }),
    );
    return ways.flat() as unknown as JitValue[];
  });
  for (let round = 1; round <= 4; round++) {
    const own = sizes.map(({ dtype, size }, i) =>
      tensorOf(dtype, valuesOfRank(dtype, size, rank, 100 * round + i)),
    );
    const sums = step(...(own as unknown as JitValue[])) as unknown as AnyTensor[];
    for (const [i, { dtype, size }] of sizes.entries()) {
      const [got, expected] = (await Promise.all([sums[i]!.data(), sums[i + sizes.length]!.data()])) as [
        TypedArray,
        TypedArray,
      ];
      assert.deepEqual(got, expected, `round ${round}, ${size} ${dtype}`);
      digest.update(new Uint8Array(got.buffer, got.byteOffset, got.byteLength));
    }
  }
  say(`copies are right, digest ${digest.digest('hex')}`);
}

/**
 * Gradients of two embeddings, one of which has a table of fewer bytes than its rows, and of what comes after them. A GPU adds
 * some positions up by a kernel for few, others by that for many.
 */
async function rows(): Promise<void> {
  const [count, width] = [600, 8];
  const tables = [2000, 16].map((size) =>
    tensor(new Float32Array(size * width).fill(1), { shape: [size, width], requiresGrad: true }),
  );
  const scale = tensor(new Float32Array(width).fill(1), { requiresGrad: true });
  const indicesOf = (r: number, size: number): Int32Array =>
    Int32Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 7 : (i * i + 3 * r) % size));
  const weightsOf = (r: number): Float32Array => valuesOfRank('f32', count * width, r, 5) as Float32Array;
  const step = jit((first: AnyTensor, second: AnyTensor, weights: AnyTensor) => {
    for (const p of [...tables, scale]) p.grad = undefined;
    const x = [first, second].map(
      (indices, i) => embedding(indices, tables[i]! as never) as unknown as Tensor,
    );
    x[0]!
      .add(x[1]!)
      .mul(scale)
      .mul(weights as Tensor)
      .sum()
      .backward();
    averageGradients([...tables, scale], { equalBatches: true, bucketBytes: 1000 });
    return [...tables, scale].map((p) => p.grad!);
  });
  const expected = tables.map(({ size }) => new Float64Array(size));
  for (const r of everyone)
    tables.forEach(({ shape }, t) => {
      const weights = weightsOf(r);
      indicesOf(r, shape[0]!).forEach((index, i) => {
        for (let c = 0; c < width; c++) expected[t]![index * width + c]! += weights[i * width + c]! / n;
      });
    });
  const own = tables.map(({ shape }) => tensor(indicesOf(rank, shape[0]!)) as AnyTensor);
  const weights = tensor(weightsOf(rank), { shape: [count, width] });
  for (let round = 0; round < 4; round++) {
    const gradients = step(own[0]!, own[1]!, weights as AnyTensor) as unknown as Tensor[];
    for (const [t, sums] of expected.entries()) {
      const got = (await gradients[t]!.data()) as Float32Array;
      sums.forEach((v, i) => {
        assert.ok(
          Math.abs(got[i]! - v) <= 1e-4 * Math.max(1, Math.abs(v)),
          `table ${t}, ${i}: ${got[i]} and ${v}`,
        );
      });
      digest.update(new Uint8Array(got.buffer, got.byteOffset, got.byteLength));
    }
  }
  say(`rows are right, digest ${digest.digest('hex')}`);
}

async function sharded(): Promise<void> {
  say(`sharded steps are right, digest ${await shardedSteps()}`);
}

/** A training step with an exchange, over and over. */
async function endless(): Promise<void> {
  const model = new nn.Sequential(new nn.Linear(256, 512), new nn.ReLU(), new nn.Linear(512, 10));
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
  const [x, y] = [randn([64, 256]), randint(0, 10, [64], { dtype: i32 })];
  const step = jit(() => {
    const loss = crossEntropy(model.forward(x as unknown as Tensor), y as never);
    loss.backward();
    averageGradients(model.parameters(), { bucketBytes: 100_000 });
    optimizer.step();
    return loss;
  });
  for (let i = 0; ; i++) {
    const loss = step();
    if (i % 10 === 9) await loss.item();
    if (i === 29) say('trains');
  }
}

/** The last rank comes late, after a time in which it does not answer. */
async function slow(): Promise<void> {
  const step = jit((x: Tensor) => distributed.allReduce(x.mul(2)));
  for (const seconds of [0, 0, 7.5]) {
    if (rank === n - 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 * seconds);
    const sum = step(tensor([rank]) as unknown as Tensor) as unknown as Tensor;
    assert.deepEqual(await sum.array(), [n * (n - 1)]);
  }
}

interface OwnCall {
  readonly kind: 'allReduce' | 'broadcast';
  readonly count: number;
  readonly dtype?: DTypeName;
}

/** Each rank makes the call that it is given. */
async function different(): Promise<void> {
  const calls = JSON.parse(argument) as OwnCall[];
  await distributed.allReduce(tensor([1])).data();
  const { kind, count, dtype = 'f32' } = calls[rank]!;
  const x = tensorOf(dtype, valuesOfRank(dtype, count, rank, 1)) as Tensor;
  const result = kind === 'allReduce' ? distributed.allReduce(x) : distributed.broadcast(x, { root: 1 });
  await result.data();
  // A GPU may have exchanged something: the ranks end in a moment.
  await new Promise((resolve) => setTimeout(resolve, 8000));
  say('nothing was noticed');
}

/** What takes its time on the device: products that depend on each other, an exchange, and both. */
async function overlap(): Promise<void> {
  const [a, b] = [randn([4096, 4096]), randn([4096, 4096])];
  const large = randn([256 * 2 ** 20]);
  const products = (x: Tensor): Tensor => {
    let y = x;
    for (let i = 0; i < 2; i++) y = y.matmul(b as never) as unknown as Tensor;
    return y.sum() as unknown as Tensor;
  };
  const sum = (): Tensor => distributed.allReduce(large).at('0:1') as unknown as Tensor;
  const work = {
    products: jit(() => products(a as unknown as Tensor)),
    exchange: jit(sum),
    both: jit(() => [sum(), products(a as unknown as Tensor)]),
  };
  const least: Record<string, number> = {};
  for (let round = 0; round < 8; round++)
    for (const [name, run] of Object.entries(work)) {
      await distributed.barrier();
      const us = await time(() => void run());
      if (round >= 3) least[name] = Math.min(least[name] ?? Number.POSITIVE_INFINITY, us);
    }
  say(`times ${JSON.stringify(least)}`);
}

const SCENARIOS: Readonly<Record<string, () => Promise<void>>> = {
  ...{ suite, captured, groups, buckets, copies, rows, slow, sharded, endless, different, overlap },
};
say(`on ${device().name}`);
await SCENARIOS[scenario]!();
await distributed.close();
say('closed');
