/** The precision of matrix products: where it is said, what it reaches, what it means on each device. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { ArgumentError } from '../../src/core/errors.js';
import { topological } from '../../src/core/node.js';
import type { Precision } from '../../src/core/precision.js';
import * as b from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { getPrecision, nn, setPrecision, tensor } from '../../src/index.js';
import { matmul, matmulOp } from '../../src/ops/matmul/op.js';

afterEach(() => setPrecision({ matmul: 'f32', conv: 'tf32' }));

/** Of the matrix products that a node is made of. */
const precisionsOf = (root: GraphNode): Precision[] =>
  topological<GraphNode>([root]).flatMap((n) => {
    if (n.op !== 'call') return [];
    const { op, arg } = callOf(n);
    return op === (matmulOp as unknown) ? [(arg as { precision: Precision }).precision] : [];
  });

test('products are f32 and convolutions tf32 unless something else is said', () => {
  assert.deepEqual(getPrecision(), { matmul: 'f32', conv: 'tf32' });
  setPrecision({ matmul: 'tf32' });
  assert.deepEqual(getPrecision(), { matmul: 'tf32', conv: 'tf32' });
  setPrecision({ conv: 'f32' });
  assert.deepEqual(getPrecision(), { matmul: 'tf32', conv: 'f32' });
});

test('matmul and Linear take a precision, and the default otherwise', () => {
  const x = tensor([[1, 2]]);
  const w = tensor([[3], [4]]);
  assert.deepEqual(precisionsOf(x.matmul(w).node), ['f32']);
  assert.deepEqual(precisionsOf(x.matmul(w, { precision: 'bf16' }).node), ['bf16']);
  setPrecision({ matmul: 'tf32' });
  assert.deepEqual(precisionsOf(x.matmul(w).node), ['tf32']);
  assert.deepEqual(precisionsOf(new nn.Linear(2, 3).forward(x).node), ['tf32']);
  assert.deepEqual(precisionsOf(new nn.Linear(2, 3, { precision: 'f32' }).forward(x).node), ['f32']);
});

test('the gradients of a product have its precision', () => {
  const x = b.leaf([4, 3], f32, true);
  const y = b.leaf([3, 5], f32, true);
  const node = matmul(x, y, 'tf32');
  const gradients = matmulOp.grad!(node, b.leaf([4, 5], f32), { precision: 'tf32' });
  assert.deepEqual(
    gradients.flatMap((g) => precisionsOf(g!)),
    ['tf32', 'tf32'],
  );
});

test('another name is refused', () => {
  const wrong = 'fp8' as Precision;
  const says = (text: RegExp) => (e: unknown) => e instanceof ArgumentError && text.test(e.message);
  assert.throws(
    () => setPrecision({ matmul: wrong }),
    says(/\[setPrecision\] matmul is 'fp8', must be 'f32', 'tf32' or 'bf16'/),
  );
  assert.throws(
    () => tensor([[1]]).matmul(tensor([[1]]), { precision: wrong }),
    says(/\[matmul\] precision is 'fp8', must be 'f32', 'tf32' or 'bf16'/),
  );
});
