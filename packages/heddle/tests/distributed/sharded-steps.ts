/** Training steps of ranks whose optimizer is sharded, beside those of ranks that all update everything. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  type AnyTensor,
  crossEntropy,
  device,
  i32,
  jit,
  manualSeed,
  nn,
  optim,
  randint,
  type Tensor,
} from 'heddle';
import { averageGradients, rank, shardOptimizer, worldSize } from 'heddle/distributed';
import { membership, setMembership } from 'heddle/internal/distributed/membership.js';

const [WORDS, TOKENS, BATCH, STEPS] = [400, 8, 16, 5];

/** Tokens, layers of which one is larger than a bucket, and some that are small. */
class Network extends nn.Module {
  readonly tokens = new nn.Embedding(WORDS, 96);
  readonly layers = new nn.Sequential(
    new nn.Linear(96, 700),
    new nn.ReLU(),
    new nn.Linear(700, 900),
    new nn.LayerNorm(900),
    new nn.Linear(900, 10),
  );

  forward(tokens: AnyTensor): Tensor {
    return this.layers.forward(this.tokens.forward(tokens).mean(1) as Tensor) as Tensor;
  }
}

/** Who updates the table of tokens of a sharded optimizer: its owner, or all ranks. */
type Table = 'owned' | 'replicated';

/**
 * What a training leaves: parameters, and the optimizer's state.
 * @param asRows whether the gradient of the embedding travels as rows, which are added up in another order
 */
async function trained(asRows: boolean, sharded?: Table): Promise<Map<string, Float32Array>> {
  manualSeed(3);
  const model = new Network();
  const parameters = model.parameters();
  const optimizer = new optim.AdamW(parameters, { lr: 1e-3 });
  if (sharded)
    shardOptimizer(optimizer, {
      averages: true,
      ...(sharded === 'replicated' && { replicated: [model.tokens.weight] }),
    });
  manualSeed(100 + rank());
  const step = jit((tokens: AnyTensor, labels: AnyTensor) => {
    const loss = crossEntropy(model.forward(tokens), labels as never);
    loss.backward();
    if (!sharded) averageGradients(parameters, { equalBatches: asRows });
    optimizer.step(sharded ? { equalBatches: asRows } : {});
    return loss;
  });
  for (let i = 0; i < STEPS; i++) {
    const tokens = randint(0, WORDS, [BATCH, TOKENS], { dtype: i32 });
    step(tokens as AnyTensor, randint(0, 10, [BATCH], { dtype: i32 }) as AnyTensor).dispose();
  }
  const left = new Map<string, Float32Array>();
  const all = { ...Object.fromEntries(model.namedParameters()), ...optimizer.stateDict() };
  for (const [name, value] of Object.entries(all)) left.set(name, (await value.data()) as Float32Array);
  step.dispose();
  return left;
}

/**
 * Train in each way. Of two ranks all sums have the same bits, whoever adds them up.
 * @returns a digest of what they leave
 */
export async function shardedSteps(): Promise<string> {
  const usual = membership();
  const digest = createHash('sha256');
  // On the CPU copies go by the transport; GPUs that cannot copy do not.
  const ways = device().name === 'cpu' ? [false, true] : [usual.copies];
  for (const asRows of [true, false]) {
    const expected = await trained(asRows);
    for (const table of asRows ? (['owned', 'replicated'] as const) : (['owned'] as const))
      for (const copies of ways) {
        setMembership({ ...usual, copies });
        const got = await trained(asRows, table);
        setMembership(usual);
        assert.deepEqual([...got.keys()], [...expected.keys()]);
        for (const [name, values] of expected) {
          const mine = got.get(name)!;
          if (worldSize() === 2)
            assert.deepEqual(mine, values, `${name}, copies ${copies}, as rows ${asRows}, ${table}`);
          digest.update(new Uint8Array(mine.buffer, mine.byteOffset, mine.byteLength));
        }
      }
  }
  return digest.digest('hex');
}
