/** The ways to walk a graph of nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { find, type IrNode, preorder, some, topological } from '../../src/core/node.js';

interface Named extends IrNode {
  readonly src: readonly Named[];
}
const node = (op: string, ...src: Named[]): Named => ({ op, type: null, src, arg: null });
const names = (nodes: Iterable<Named>): string => [...nodes].map((n) => n.op).join(' ');

const shared = node('d');
const [b, c] = [node('b', shared), node('c', shared, node('e'))];
const root = node('a', b, c);

test('sources before users, or users before sources; each node once, the first source first', () => {
  assert.equal(names(topological([root])), 'd b e c a');
  assert.equal(names(preorder([root])), 'a b d c e');
  assert.equal(names(preorder([c, b, root])), 'c d e b a');
  assert.equal(names(preorder([root], (n) => (n === c ? [] : n.src))), 'a b d c');
});

test('a search finds the first in preorder, and looks no further', () => {
  const seen: string[] = [];
  const looks = (n: Named): boolean => {
    seen.push(n.op);
    return n.src.includes(shared);
  };
  assert.equal(find([root], looks), b);
  assert.deepEqual(seen, ['a', 'b']);
  assert.equal(
    some([root], (n) => n.op === 'e'),
    true,
  );
  assert.equal(
    some(
      [root],
      (n) => n.op === 'e',
      (n) => (n === c ? [] : n.src),
    ),
    false,
  );
});

test('graphs may be deep, and shared over and over', () => {
  let [deep, twice] = [node('leaf'), node('leaf')];
  for (let i = 0; i < 100_000; i++) deep = node('next', deep);
  for (let i = 0; i < 60; i++) twice = node('twice', twice, twice);
  assert.equal(find([deep], (n) => n.op === 'leaf')?.op, 'leaf');
  assert.equal([...preorder([deep])].length, 100_001);
  assert.equal(
    some([twice], (n) => n.op === 'other'),
    false,
  );
});
