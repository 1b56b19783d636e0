/** Attention's kernels, forward and backward, against their composition: in the simulator, and on a GPU. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { withoutKernels } from '../../src/engine/realize.js';
import * as b from '../../src/graph/build.js';
import { vjp } from '../../src/graph/grad.js';
import type { GraphNode } from '../../src/graph/node.js';
import * as H from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { schedule } from '../../src/schedule/schedule.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { cudaReason } from '../cases/case-runner.js';
import { property } from '../property.js';

interface Shape {
  readonly batch?: number;
  readonly heads?: number;
  readonly keyHeads?: number;
  readonly queries: number;
  readonly keys?: number;
  readonly width: number;
  readonly isCausal?: boolean;
  readonly scale?: number;
  readonly dtype?: DType;
  /** Of bools or of floats, of (L, S) or of (B, 1, 1, S). */
  readonly mask?: 'bool' | 'float' | 'padding' | undefined;
  /** Queries, keys and values are columns of one product, as in a layer: (B, L, 3, H, E). */
  readonly packed?: boolean;
  readonly dropout?: number;
  /** Rows begin where copies of 16 bytes cannot. */
  readonly uneven?: boolean;
}

type Sources = readonly [H.Tensor, H.Tensor, H.Tensor];

/** Leaves, and queries, keys and values of them as (B, H, L, E). */
function made(s: Shape): { readonly leaves: H.Tensor[]; readonly sources: () => Sources } {
  const { batch = 1, heads = 1, keyHeads = heads, queries, keys = queries, width, dtype = bf16 } = s;
  const of = (...shape: number[]): H.Tensor =>
    H.randn(shape, { dtype: dtype as typeof bf16, requiresGrad: true }).realize() as H.AnyTensor as H.Tensor;
  if (s.packed) {
    const all = of(batch, queries, 3, heads, s.uneven ? width + 1 : width);
    const part = (i: number): H.Tensor =>
      all.at(':', ':', i, ':', s.uneven ? '1:' : ':').permute([0, 2, 1, 3]) as H.Tensor;
    return { leaves: [all], sources: () => [part(0), part(1), part(2)] };
  }
  const [q, k, v] = [
    of(batch, heads, queries, width),
    of(batch, keyHeads, keys, width),
    of(batch, keyHeads, keys, width),
  ];
  return { leaves: [q, k, v], sources: () => [q, k, v] };
}

function maskOf({ batch = 1, queries, keys = queries, mask }: Shape): H.AnyTensor | undefined {
  if (mask === undefined) return undefined;
  const shape = mask === 'padding' ? [batch, 1, 1, keys] : [queries, keys];
  const numbers = H.rand(shape);
  if (mask === 'float') return H.randn(shape).realize();
  // Row 0 may attend to nothing.
  const row = H.arange(shape[0]!).reshape([shape[0]!, ...shape.slice(1).map(() => 1)]);
  return numbers.gt(0.4).and(row.gt(0)).realize();
}

/** The output and the gradients, one after the other. */
async function results(
  s: Shape,
  device: string,
  kernels = true,
): Promise<{ readonly all: Float64Array; readonly sizes: number[] }> {
  H.useDevice(device);
  H.manualSeed(7);
  const { leaves, sources } = made(s);
  const mask = maskOf(s);
  const { isCausal = false, scale, keyHeads, heads = 1, dropout = 0 } = s;
  const [q, k, v] = sources();
  const y = H.scaledDotProductAttention(q, k, v, {
    mask,
    isCausal,
    scale,
    dropout,
    enableGqa: keyHeads !== undefined && keyHeads !== heads,
  });
  const g = H.randn(y.shape).cast(y.dtype).realize();
  y.mul(g).sum().backward();
  const values = [y, ...leaves.map((x) => x.grad! as H.Tensor)];
  if (kernels) H.realize(...values);
  else withoutKernels(() => H.realize(...values));
  const data = await Promise.all(values.map((x) => x.cast(f32).data()));
  const sizes = data.map((d) => d.length);
  const all = new Float64Array(sizes.reduce((sum, size) => sum + size));
  let from = 0;
  data.forEach((d, i) => {
    all.set(d, from);
    from += sizes[i]!;
  });
  return { all, sizes };
}

/** @param oracle the device that computes the composition */
async function check(device: string, s: Shape, oracle = 'cpu'): Promise<void> {
  const got = await results(s, device);
  const wanted = await results(s, oracle, oracle === 'cpu');
  let from = 0;
  wanted.sizes.forEach((size, i) => {
    let [off, all] = [0, 0];
    for (let n = from; n < from + size; n++) {
      assert.ok(Number.isFinite(got.all[n]), `result ${i} has ${got.all[n]} for ${wanted.all[n]}`);
      off += (got.all[n]! - wanted.all[n]!) ** 2;
      all += wanted.all[n]! ** 2;
    }
    from += size;
    // In norm: weights, their gradients, the output and the results are each rounded to half a unit.
    const bound = 4 * (s.dtype === f16 ? 2 ** -12 : 2 ** -9);
    assert.ok(Math.sqrt(off / (all || 1)) < bound, `result ${i}: off by ${Math.sqrt(off / (all || 1))}`);
  });
}

test('columns of a product are read where they lie', () => {
  const [x, weight] = [b.leaf([32, 256, 64], bf16, true), b.leaf([64, 768], bf16, true)];
  const columns = new Tensor(matmul(x, weight)).split(256, -1);
  const [q, k, v] = columns.map((t) => t.reshape([32, 256, 4, 64]).permute([0, 2, 1, 3]));
  const y = H.scaledDotProductAttention(q!, k!, v!).permute([0, 2, 1, 3]).node;
  const gradients = vjp([y], [b.leaf(y.shape, bf16)], [x, weight]) as GraphNode[];
  const { launches } = schedule([y, ...gradients], H200);
  const names = launches.map(({ work }) => ('kernel' in work ? work.kernel.name : work.library.name));
  assert.ok(
    names.includes('attentionGroups') && !names.some((name) => name.includes('x4x256x64')),
    `${names}`,
  );
});

const SHAPES: Readonly<Record<string, Shape>> = {
  causal: { queries: 130, width: 16, isCausal: true },
  'by warpgroups': { queries: 70, keys: 66, width: 64, isCausal: true },
  'more keys than queries': { queries: 33, keys: 100, width: 48, isCausal: true, dtype: f16 },
  'more queries than keys': { queries: 70, keys: 33, width: 128, isCausal: true, scale: -0.3 },
  'one query': { batch: 2, queries: 1, keys: 66, width: 16 },
  'shared heads': { heads: 4, keyHeads: 2, queries: 34, keys: 20, width: 32, isCausal: true },
  'a mask of bools': { heads: 2, queries: 40, keys: 70, width: 32, mask: 'bool' },
  'a mask that is added': { queries: 40, keys: 90, width: 32, mask: 'float', isCausal: true },
  padding: { batch: 3, queries: 20, keys: 40, width: 16, mask: 'padding' },
  'columns of one product': { batch: 2, heads: 2, queries: 20, width: 64, packed: true, isCausal: true },
  dropout: { heads: 2, queries: 70, keys: 90, width: 32, dropout: 0.3 },
  'dropout of keys in no whole blocks': {
    ...{ batch: 2, heads: 4, keyHeads: 2, queries: 37, keys: 67, width: 64, dropout: 0.1, dtype: f16 },
    isCausal: true,
  },
  'dropout by warpgroups': { heads: 2, queries: 150, keys: 133, width: 64, isCausal: true, dropout: 0.2 },
  'dropout by warpgroups, wide heads': {
    heads: 2,
    keyHeads: 1,
    queries: 70,
    keys: 130,
    width: 128,
    dropout: 0.4,
  },
  'dropout with a mask': { heads: 2, queries: 40, keys: 70, width: 128, mask: 'bool', dropout: 0.6 },
  'dropout of all': { queries: 20, keys: 40, width: 16, dropout: 1 },
  'rows of uneven places': { heads: 2, queries: 20, width: 16, packed: true, uneven: true },
};

/** The launches of the output and the gradients on a GPU, and the memory between them. */
function planned(length: number, dropout = 0): { readonly names: string[]; readonly bytes: number } {
  const source = () => b.leaf([2, length, 4, 64], bf16, true);
  const leaves = [source(), source(), source()];
  const [q, k, v] = leaves.map((x) => new Tensor(b.permute(x, [0, 2, 1, 3])));
  const y = H.scaledDotProductAttention(q!, k!, v!, { isCausal: true, dropout }).permute([0, 2, 1, 3]).node;
  const gradients = vjp([y], [b.leaf(y.shape, bf16)], leaves) as GraphNode[];
  const { launches, arenaBytes } = schedule([y, ...gradients], H200);
  const names = launches.map(({ work }) => ('kernel' in work ? work.kernel.name : work.library.name));
  return { names, bytes: arenaBytes };
}

for (const dropout of [0, 0.1])
  test(`no matrix of scores is in memory, nothing is copied, and the log-sum-exp comes with the output${dropout ? ', with dropout' : ''}`, () => {
    const { names, bytes } = planned(1024, dropout);
    assert.equal(names.length, 4, names.join(', '));
    for (const name of ['attention', 'attentionQueryGradient', 'attentionKeyValueGradient'])
      assert.ok(names.includes(`${name}Groups`), names.join(', '));
    // Two numbers for each query, each with room for its alignment.
    assert.ok(bytes <= 2 * 4 * 2 * 4 * 1024 + 512, `${bytes} bytes`);
  });

/** What becomes of each weight: keys are the features of the values. */
async function requireDropout(device: string): Promise<void> {
  H.useDevice(device);
  const [heads, length, p] = [3, 48, 0.3];
  H.manualSeed(3);
  const source = (): H.Tensor<H.Shape, 'bf16'> =>
    H.randn([1, heads, length, length], { dtype: bf16 }).realize();
  const [q, k] = [source(), source()];
  const v = H.zeros([1, heads, length, length], { dtype: bf16, requiresGrad: true });
  H.noGrad(() => v.assign(H.eye(length).cast(bf16).expand(v.shape)));
  const attend = (dropout: number): H.AnyTensor => H.scaledDotProductAttention(q, k, v, { dropout });
  const floats = async (x: H.AnyTensor): Promise<number[]> => Array.from(await x.cast(f32).data(), Number);
  const all = await floats(attend(0));
  H.manualSeed(4);
  const first = attend(p);
  const weights = await floats(first);
  const cleared = weights.filter((w) => w === 0).length / weights.length;
  assert.ok(Math.abs(cleared - p) < 0.03, `${cleared} of the weights are 0`);
  weights.forEach((w, i) => {
    const kept = all[i]! / (1 - p);
    assert.ok(w === 0 || Math.abs(w - kept) <= 2 ** -6 * kept, `weight ${i} is ${w}, must be 0 or ${kept}`);
  });
  const second = await floats(attend(p));
  assert.notDeepEqual(second, weights);
  // The generator has gone on, and the gradient is of what was dropped before.
  first.sum().backward();
  const [gradient, expected] = [await floats(v.grad!), await floats(first.cast(f32).sum(2))];
  gradient.forEach((g, i) => {
    const wanted = expected[Math.floor(i / length)]!;
    assert.ok(Math.abs(g - wanted) < 2 ** -5 * Math.max(1, wanted), `${i}: ${g} for ${wanted}`);
  });
  H.manualSeed(4);
  assert.deepEqual(await floats(attend(p)), weights);
}

for (const device of ['cpu', 'sim'])
  test(`${device}: dropout clears a share of p, in the gradients those of the output`, () =>
    requireDropout(device));

for (const [name, shape] of Object.entries(SHAPES)) test(`sim: ${name}`, () => check('sim', shape));

property(
  'sim: attention and its gradients are what their composition is',
  [
    fc.record({
      batch: fc.integer({ min: 1, max: 2 }),
      shared: fc.constantFrom(1, 1, 2, 3),
      keyHeads: fc.constantFrom(1, 2),
      queries: fc.integer({ min: 1, max: 150 }),
      // Of fewer keys, the exact gradients of queries are next to nothing.
      keys: fc.integer({ min: 16, max: 150 }),
      width: fc.constantFrom(8, 16, 24, 32, 48, 64, 64, 80, 96, 128),
      isCausal: fc.boolean(),
      mask: fc.constantFrom('bool', 'float', 'padding', undefined, undefined),
      packed: fc.boolean(),
      dropout: fc.constantFrom(0, 0, 0.1, 0.5),
      dtype: fc.constantFrom(bf16, f16),
    }),
  ],
  async ({ shared, packed, mask, ...s }) => {
    const heads = shared * s.keyHeads;
    if (packed) await check('sim', { ...s, packed, heads, keyHeads: heads, queries: s.keys, mask });
    else await check('sim', { ...s, heads, mask });
  },
  { runs: 6, share: 3 },
);
/** More blocks than a GPU has multiprocessors. */
const LARGE: Readonly<Record<string, Shape>> = {
  'many blocks': { batch: 4, heads: 12, queries: 500, width: 64, isCausal: true, packed: true },
  'many blocks, wide heads': { batch: 4, heads: 12, keyHeads: 6, queries: 400, keys: 450, width: 128 },
  'many blocks, dropout': { batch: 4, heads: 12, queries: 430, width: 64, isCausal: true, dropout: 0.2 },
  'many blocks, narrow heads': { batch: 4, heads: 12, queries: 430, width: 96, isCausal: true, dtype: f16 },
};
const reason = cudaReason();
const onGpu = (name: string, body: () => Promise<void>): void => {
  test(`cuda: ${name}`, { skip: reason ? `not run: ${reason}` : false }, body);
};
onGpu('dropout clears a share of p, in the gradients those of the output', () => requireDropout('cuda'));
for (const [name, shape] of Object.entries(SHAPES)) onGpu(name, () => check('cuda', shape));
for (const [name, shape] of Object.entries(LARGE))
  onGpu(name, async () => {
    await check('cuda', shape, 'cuda');
    const [first, again] = [await results(shape, 'cuda'), await results(shape, 'cuda')];
    assert.deepEqual(again.all, first.all, 'the same bits again');
  });
