/** Reductions and norms along each axis of a matrix, beside a copy of it, by the names of torch_layers.py. */
import { bf16, type DType, f32, randn, type Tensor } from 'heddle';
import { compiled } from 'heddle/internal/cli/workload.js';
import type { KernelCase } from './device-cases.js';

/** J. L. Ba et al. (2016), without weights: (x − mean) / √(variance + ε). */
function standardized(x: Tensor, axis: number): Tensor {
  const centred = x.sub(x.mean(axis, { keepdim: true }));
  return centred.mul(centred.square().mean(axis, { keepdim: true }).add(1e-5).rsqrt());
}

/** B. Zhang and R. Sennrich (2019), without weights. */
const scaled = (x: Tensor, axis: number): Tensor =>
  x.mul(x.square().mean(axis, { keepdim: true }).add(1e-5).rsqrt());

/** Name, reads and writes of the matrix, and what is computed. */
const FUNCTIONS: readonly (readonly [string, number, (x: Tensor, axis: number) => Tensor])[] = [
  ['softmax', 2, (x, axis) => x.softmax(axis)],
  ['logSoftmax', 2, (x, axis) => x.logSoftmax(axis)],
  ['logsumexp', 1, (x, axis) => x.logSumExp(axis)],
  ['layernorm', 2, standardized],
  ['rmsnorm', 2, scaled],
  ['sum', 1, (x, axis) => x.sum(axis)],
  ['variance', 1, (x, axis) => x.variance(axis)],
];

/** @param s divides sides: 1 on a GPU */
export function axisCases(s: number): KernelCase[] {
  const of = (side: number, dtype: DType): KernelCase[] => {
    const size = `${side}x${side}${dtype === f32 ? '' : ` ${dtype.name}`}`;
    const bytes = side * side * dtype.bytes;
    const matrix = (): Tensor => (randn([side, side]) as Tensor).cast(dtype).realize() as Tensor;
    const named = (name: string, passes: number, fn: (x: Tensor) => Tensor): KernelCase => ({
      id: `${name} ${size}`.replaceAll(' ', '-'),
      title: `${name} ${size}`,
      peer: `${name} ${size}`,
      bytes: passes * bytes,
      prepare: () => compiled((x) => fn(x!), [matrix()]),
    });
    return [
      named('copy', 2, (x) => x),
      ...FUNCTIONS.flatMap(([name, passes, fn]) => [
        named(`${name} rows`, passes, (x) => fn(x, 1)),
        named(`${name} columns`, passes, (x) => fn(x, 0)),
      ]),
    ];
  };
  return [4096, 8192].flatMap((side) => [f32, bf16].flatMap((dtype) => of(side / s, dtype)));
}
