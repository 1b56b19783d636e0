/** Transformers: generation with a key-value cache, and what stacks refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArgumentError, ShapeError } from '../../src/core/errors.js';
import * as nn from '../../src/nn/index.js';
import { zeros } from '../../src/tensor/create.js';
import { jit } from '../../src/tensor/jit.js';
import { engineStats } from '../../src/tensor/modes.js';
import { manualSeed, randn } from '../../src/tensor/random.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

const options = { dimFeedforward: 8, batchFirst: true, normFirst: true };

test('with a cache, a prompt and then one position at a time give what all positions at once give', async () => {
  manualSeed(3);
  const encoder = new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(6, 2, options), 2).eval();
  const decoder = new nn.TransformerDecoder(() => new nn.TransformerDecoderLayer(6, 2, options), 1).eval();
  const [x, memory] = [randn([2, 7, 6]).realize(), randn([2, 5, 6]).realize()];
  const whole = decoder.forward(encoder.forward(x, { isCausal: true }), memory, { tgtIsCausal: true });
  const [caches, own] = [encoder.cache(2, 7), decoder.cache(2, 7)];
  const step = jit((x: Tensor) =>
    decoder.forward(encoder.forward(x, { cache: caches }), memory, { cache: own }),
  );
  const pieces = x.split([3, 1, 1, 1, 1], 1).map((piece) => piece.realize() as Tensor);
  const parts = [await step(pieces[0]!).data()];
  let compiled = 0;
  for (const piece of pieces.slice(1)) {
    parts.push(await step(piece).data());
    if (parts.length === 2) compiled = engineStats().compiled;
  }
  assert.equal(engineStats().compiled, compiled, 'all positions take one program');
  for (const [i, [from, to]] of [
    [0, 3],
    [3, 4],
    [4, 5],
    [5, 6],
    [6, 7],
  ].entries())
    assertClose(parts[i]!, await whole.at(':', `${from}:${to}`).data(), `positions ${from} to ${to}`);
  assert.equal(await caches[0]!.length.item(), 7);
  assert.ok((await step(x.at(':', '0:1')).isNaN().all().item()) === 1, 'a full cache gives NaN');
  for (const cache of [...caches, ...own]) cache.reset();
  assertClose(await step(x.at(':', '0:1')).data(), await whole.at(':', '0:1').data(), 'after a reset');
});

test('transformers name their parameters as PyTorch, and refuse what does not fit', () => {
  const layer = new nn.TransformerDecoderLayer(4, 2, { dimFeedforward: 3 });
  assert.deepEqual(
    Object.keys(layer.stateDict()).map((name) => name.split('.')[0]),
    ['selfAttn', 'linear1', 'linear2', 'norm1', 'norm2', 'multiheadAttn', 'norm3'].flatMap((name) =>
      name.endsWith('ttn') ? [name, name, name, name] : [name, name],
    ),
  );
  assert.throws(
    () => new nn.TransformerEncoder(() => layer as never, 1),
    (e) => e instanceof ArgumentError && /layer 0 .* must be a TransformerEncoderLayer/.test(e.message),
  );
  const same = new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 3 });
  assert.throws(
    () => new nn.TransformerEncoder(() => same, 2),
    (e) => e instanceof ArgumentError && /gives the same layer again/.test(e.message),
  );
  const encoder = new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(4, 2), 2);
  assert.throws(
    () => encoder.forward(zeros([3, 1, 4]), { cache: [] }),
    (e) => e instanceof ArgumentError && /cache has 0 elements, there are 2 layers/.test(e.message),
  );
  assert.throws(
    () => new nn.MultiheadAttention(6, 4),
    (e) => e instanceof ArgumentError && /4 heads do not divide embedDim 6/.test(e.message),
  );
  const attention = new nn.MultiheadAttention(4, 2);
  assert.throws(
    () => attention.forward(zeros([3, 1, 5])),
    (e) => e instanceof ShapeError && /query is \(3,1,5\), must be \(L,N,4\).*batchFirst/.test(e.message),
  );
  assert.throws(
    () => attention.forward(zeros([3, 2, 4]), zeros([5, 1, 4])),
    (e) => e instanceof ShapeError && /sizes differ/.test(e.message),
  );
  assert.throws(
    () => attention.forward(zeros([3, 2, 4]), undefined, undefined, { keyPaddingMask: zeros([3, 2]) }),
    (e) => e instanceof ShapeError && /keyPaddingMask is \(3,2\), must be \(2,3\)/.test(e.message),
  );
});
