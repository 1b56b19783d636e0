/** Matrix products of any shape in the simulator, each by any of its variants, beside the composition in f64. */
import { after } from 'node:test';
import fc from 'fast-check';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';
import { type Built, requireAnyVariant } from './random-variants.js';

after(closeDevices);

const product = fc.record({
  kind: fc.constantFrom<{ readonly dtype: DType; readonly precision: Precision }[]>(
    { dtype: bf16, precision: 'f32' },
    { dtype: f16, precision: 'f32' },
    { dtype: f32, precision: 'tf32' },
    { dtype: f32, precision: 'f32' },
  ),
  /** Without batches, or so many. */
  batches: fc.constantFrom(0, 0, 2, 3),
  M: fc.oneof(fc.integer({ min: 1, max: 150 }), fc.constantFrom(8, 64, 128)),
  N: fc.oneof(fc.integer({ min: 1, max: 150 }), fc.constantFrom(8, 64, 128)),
  K: fc.oneof(fc.integer({ min: 1, max: 150 }), fc.constantFrom(8, 64, 128, 300)),
  /** Whether the operands are transposes. */
  transposed: fc.tuple(fc.boolean(), fc.boolean()),
  followed: fc.constantFrom('nothing', 'bias', 'residual', 'sums'),
  pick: fc.nat(1000),
});
type Product = typeof product extends fc.Arbitrary<infer T> ? T : never;

function built({ kind, batches, M, N, K, transposed, followed }: Product, dtype: DType): Built {
  const leaves: GraphNode[] = [];
  const leaf = (...shape: number[]): GraphNode => {
    const made = b.leaf(shape, dtype);
    leaves.push(made);
    return made;
  };
  const lead = batches > 0 ? [batches] : [];
  const operand = (rows: number, columns: number, turned: boolean): GraphNode =>
    turned ? b.transpose(leaf(...lead, columns, rows)) : leaf(...lead, rows, columns);
  const made = matmul(operand(M, K, transposed[0]), operand(K, N, transposed[1]), kind.precision);
  const { shape } = made;
  const zero = b.full(shape, dtype, 0);
  switch (followed) {
    case 'nothing':
      return { leaves, roots: [made] };
    case 'bias':
      return { leaves, roots: [b.map('max', b.add(made, b.expand(leaf(N), shape)), zero)] };
    case 'residual':
      return { leaves, roots: [b.map('max', b.add(made, leaf(...shape)), zero)] };
    case 'sums':
      return { leaves, roots: [made, b.sum(b.wide(made), [shape.length - 2])] };
  }
}

property(
  'sim: a matrix product is what its composition is, by any variant',
  [product],
  (p) => {
    const { kind, pick, K, M } = p;
    return requireAnyVariant((dtype) => built(p, dtype), kind.dtype, { pick, terms: K + M });
  },
  { runs: 12, share: 5 },
);
