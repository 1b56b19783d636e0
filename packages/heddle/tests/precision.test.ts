/**
 * Products and convolutions in less than f32, forward and backward, within the bound that rounding the operands has.
 *
 * With operands rounded to a relative error of u each, and sums in f32, a product a·b is off by at most (2u + u²)·|a|·|b|;
 * so a sum of products is by that times the same sum of the absolute values. tf32 keeps 10 bits of the mantissa and
 * bf16 7, rounded to nearest: u = 2⁻¹¹ and 2⁻⁸. Sums of n products in f32 add n·2⁻²⁴ at most.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { f32, f64 } from '../src/core/dtype.js';
import { PRECISIONS } from '../src/core/precision.js';
import {
  conv2d,
  getPrecision,
  jit,
  type Precision,
  realize,
  setPrecision,
  type Tensor,
  tensor,
  useDevice,
} from '../src/index.js';
import { cudaReason, DEVICES } from './case-runner.js';

/** Of the rounding of operands. */
const UNIT = { f32: 0, tf32: 2 ** -11, bf16: 2 ** -8 } as const satisfies Record<Precision, number>;

/** A function that is linear in each of two inputs. */
interface Bilinear {
  readonly name: string;
  readonly shapes: readonly [readonly number[], readonly number[]];
  readonly run: (a: Tensor, b: Tensor) => Tensor;
  /** The most products that any result or gradient sums. */
  readonly terms: number;
}

const FUNCTIONS = [
  {
    name: 'a·b',
    shapes: [
      [65, 130],
      [130, 47],
    ],
    run: (a, b) => a.matmul(b),
    terms: 130,
  },
  {
    name: 'aᵀ·b',
    shapes: [
      [64, 96],
      [64, 128],
    ],
    run: (a, b) => a.transpose().matmul(b),
    terms: 128,
  },
  {
    name: 'a·bᵀ',
    shapes: [
      [96, 64],
      [40, 64],
    ],
    run: (a, b) => a.matmul(b.transpose()),
    terms: 96,
  },
  {
    name: 'batches',
    shapes: [
      [3, 33, 20],
      [3, 20, 17],
    ],
    run: (a, b) => a.matmul(b),
    terms: 33,
  },
  {
    name: 'convolution 3×3',
    shapes: [
      [4, 16, 12, 12],
      [32, 16, 3, 3],
    ],
    run: (x, w) => conv2d(x, w, undefined, { padding: 1 }),
    terms: 4 * 144,
  },
  {
    name: 'convolution 5×5 of one channel',
    shapes: [
      [4, 1, 16, 16],
      [6, 1, 5, 5],
    ],
    run: (x, w) => conv2d(x, w),
    terms: 4 * 144,
  },
  {
    name: 'convolution with stride and groups',
    shapes: [
      [2, 8, 11, 10],
      [12, 4, 3, 3],
    ],
    run: (x, w) => conv2d(x, w, undefined, { stride: 2, padding: 1, groups: 2 }),
    terms: 108,
  },
] as const satisfies readonly Bilinear[];

let state = 11;
const random = (n: number): Float64Array =>
  Float64Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround(state / 2 ** 31 - 1);
  });
const size = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);

/** The result, and the gradients of its sum weighted by `g`. */
type Values = readonly [Float64Array, Float64Array, Float64Array];

async function compute(
  { run, shapes }: Bilinear,
  dtype: typeof f32 | typeof f64,
  values: readonly Float64Array[],
  compiled: boolean,
): Promise<Values> {
  const [a, b] = shapes.map((shape, i) => tensor(values[i]!, { shape, dtype, requiresGrad: true })) as [
    Tensor,
    Tensor,
  ];
  const step = (): Tensor[] => {
    const y = run(a, b);
    y.mul(tensor(values[2]!, { shape: y.shape, dtype }))
      .sum()
      .backward();
    const all = [y, a.grad!, b.grad!];
    a.grad = undefined;
    b.grad = undefined;
    return all;
  };
  const all = compiled ? jit(step)() : step();
  realize(...all);
  return (await Promise.all(
    all.map(async (t) => Float64Array.from(await t.data(), Number)),
  )) as unknown as Values;
}

const before = getPrecision();
after(() => setPrecision(before));

/** The CPU computes in f32 whatever is asked for. */
const RUNS: readonly { readonly device: string; readonly precisions: readonly Precision[] }[] = [
  { device: 'cpu', precisions: ['tf32'] },
  ...(DEVICES.includes('cuda') ? [{ device: 'cuda', precisions: PRECISIONS }] : []),
];
const PARTS = ['result', 'gradient of a', 'gradient of b'] as const;

for (const f of FUNCTIONS) {
  test(f.name, async (t) => {
    useDevice('cpu');
    const zeros = f.shapes.map((shape) => tensor(new Float64Array(size(shape)), { shape }));
    const results = size(f.run(zeros[0]!, zeros[1]!).shape);
    const values = [...f.shapes.map((s) => random(size(s))), random(results)];
    const magnitudes = values.map((v) => v.map(Math.abs));
    const exact = await compute(f, f64, values, false);
    const magnitude = await compute(f, f64, magnitudes, false);
    for (const { device, precisions } of RUNS) {
      useDevice(device);
      for (const precision of precisions) {
        setPrecision({ matmul: precision, conv: precision });
        const u = device === 'cpu' ? 0 : UNIT[precision];
        const bound = 2 * u + u * u + f.terms * 2 ** -24;
        for (const compiled of [false, true]) {
          const found = await compute(f, f32, values, compiled);
          let worst = 0;
          for (const [k, expected] of exact.entries()) {
            for (const [i, e] of expected.entries()) {
              const off = Math.abs(found[k]![i]! - e) / magnitude[k]![i]!;
              const what = `${device} in ${precision}${compiled ? ', jit' : ''}, ${PARTS[k]}`;
              assert.ok(
                off <= bound,
                `${what}: element ${i} is ${found[k]![i]}, expected ${e}: off by ${off} > ${bound}`,
              );
              worst = Math.max(worst, off);
            }
          }
          t.diagnostic(
            `${device} in ${precision}${compiled ? ', jit' : ''}: off by ${(worst / bound).toFixed(3)} of what is allowed`,
          );
        }
      }
    }
  });
}

const reason = cudaReason();
if (reason)
  test('cuda', {
    skip: `${FUNCTIONS.length} functions in ${PRECISIONS.length} precisions not run: ${reason}`,
  }, () => {});
