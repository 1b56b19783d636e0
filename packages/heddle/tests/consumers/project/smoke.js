// What a user's test does first: tensors, a jitted training step, a kernel with shared memory, launched and simulated.
import assert from 'node:assert/strict';
import { buffer, f32, jit, kernel, mse, nn, ones, optim, tensor, zeros } from 'heddle';

const BLOCK = 8;

const reverseBlocks = kernel(
  'reverseBlocks',
  { x: buffer(f32), y: buffer(f32) },
  ({ x, y }, { threadIdx, globalId, shared, barrier, f32, BLOCK }) => {
    const tile = shared(f32, BLOCK);
    tile[threadIdx.x] = x[globalId.x];
    barrier();
    y[globalId.x] = tile[BLOCK - 1 - threadIdx.x];
  },
  { BLOCK },
);

export async function smoke() {
  // Other tools' variables: vitest itself makes DEV '1'.
  assert.equal(process.env.DEV, '1');
  assert.equal(process.env.DEBUG, 'express:*');
  assert.equal(process.env.CHECK, 'yes');

  const matrix = tensor([
    [1, 2],
    [3, 4],
  ]);
  assert.deepEqual(await matrix.matmul(matrix).array(), [
    [7, 10],
    [15, 22],
  ]);

  // Large enough for the threads of the CPU device.
  const large = ones([256, 256]);
  assert.equal(await large.matmul(large).sum().item(), 256 ** 3);

  const x = tensor([[-1], [0], [1], [2]]);
  const y = x.mul(3).add(1).detach();
  const model = new nn.Linear(1, 1);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.2 });
  const step = jit((inputs, targets) => {
    const loss = mse(model.forward(inputs), targets);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (let i = 0; i < 200; i++) step(x, y);
  assert.ok(Math.abs((await model.weight.item()) - 3) < 1e-4);
  assert.ok(Math.abs((await model.bias.item()) - 1) < 1e-4);

  const values = Float32Array.from({ length: 2 * BLOCK }, (_, i) => i);
  const expected = values.map((_, i) => Math.floor(i / BLOCK) * BLOCK + BLOCK - 1 - (i % BLOCK));
  const launched = zeros([2 * BLOCK]);
  await reverseBlocks.launch({ grid: 2, block: BLOCK }, { x: tensor(values), y: launched });
  assert.deepEqual(await launched.data(), expected);
  const simulated = new Float32Array(2 * BLOCK);
  reverseBlocks.simulate({ grid: 2, block: BLOCK }, { x: values, y: simulated });
  assert.deepEqual(simulated, expected);
}
