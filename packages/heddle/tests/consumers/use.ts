// What a user's compiler sees of every entry point. It is checked only, never run.
import { buffer, f32, i32, jit, kernel, mse, nn, optim, type Tensor, tensor } from 'heddle';
import { ArrayDataset, Loader } from 'heddle/data';
import { readSafetensors } from 'heddle/io';
import { defineKernel } from 'heddle/kernel';
import { Linear } from 'heddle/nn';
import { Adam } from 'heddle/optim';
import { fit } from 'heddle/train';

export const double = kernel(
  'double',
  { x: buffer(f32), n: i32 },
  ({ x, n }, { globalId, shared, barrier, f32 }) => {
    const tile = shared(f32, 32);
    const i = globalId.x;
    tile[i % 32] = i < n ? x[i] : 0;
    barrier();
    if (i < n) x[i] = 2 * tile[i % 32];
  },
);

class Net extends nn.Module {
  readonly first = new Linear(4, 2);
  forward(x: Tensor): Tensor {
    return this.first.forward(x).relu();
  }
}

const model = new Net();
const optimizer = new Adam(model.parameters(), { lr: 1e-3 });
export const step = jit((x: Tensor, y: Tensor): Tensor => {
  const loss = mse(model.forward(x), y);
  loss.backward();
  optimizer.step();
  return loss;
});

export async function main(): Promise<number> {
  await double.launch({ grid: 1, block: 32 }, { x: tensor([1, 2]), n: 2 });
  return step(tensor([[1, 2, 3, 4]]), tensor([[0, 1]])).item();
}

export { ArrayDataset, defineKernel, fit, Loader, optim, readSafetensors };
