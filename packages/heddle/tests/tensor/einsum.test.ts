/** What einsum refuses, and says of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { einsum, f64, ones, type Tensor, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

test('einsum names the subscript that is wrong', () => {
  useDevice(DEVICES[0]!);
  const [x, y] = [ones([2, 3]), ones([4, 5])];
  const refused = (equation: string, tensors: readonly Tensor[], message: RegExp): void =>
    void assert.throws(() => einsum(equation, tensors), message);
  refused('ij,jk->ik', [x, y], /the subscript 'j' is 3 and 4: tensor 1 is \(4,5\)/);
  refused(
    'ij,jk->iz',
    [x, ones([3, 5])],
    /the result 'iz' has the subscript 'z', which none of the tensors 'ij,jk' has/,
  );
  refused('ij->ii', [x], /the subscript 'i' stands twice in the result 'ii'/);
  refused('ijk->i', [x], /'ijk' has 3 subscripts, tensor 0 is \(2,3\) with 2 dimensions/);
  refused('i->i', [x], /'i' has 1 subscripts, tensor 0/);
  refused('ij,jk->ik', [x], /has subscripts for 2 tensors, got 1/);
  refused('i1->i', [x], /'i1' is not a list of subscripts/);
  refused('i...j...->i', [x], /'i...j...' is not a list of subscripts/);
  refused('ij->i->j', [x], /has '->' more than once/);
  refused('...i,...i->...i', [x, ones([3, 3])], /the subscript '...' is 2 and 3/);
  refused('ij,ij', [x, x.cast(f64) as never], /dtypes differ: f32 and, of tensor 1, f64/);
  refused('->', [], /takes at least one tensor|has subscripts for 1 tensors, got 0/);
});
