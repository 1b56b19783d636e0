/** Weights by PyTorch's names: PyTorch has read the golden file strictly (golden/names.py), and gives the same result. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  arange,
  f32,
  loadWeights,
  manualSeed,
  nn,
  saveWeights,
  setPrecision,
  type Tensor,
} from '../../src/index.js';
import { readSafetensors } from '../../src/io/index.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-names-'));
after(() => rm(place, { recursive: true }));
const golden = (name: string): URL => new URL(`../../../tests/golden/${name}`, import.meta.url);

/** The network of golden/names.py. */
class Net extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 4, 3);
  readonly bn1 = new nn.BatchNorm2d(4);
  readonly upConv = new nn.ConvTranspose2d(4, 2, 2);
  readonly encoder = new nn.TransformerEncoderLayer(10, 2, { dimFeedforward: 12, batchFirst: true });
  readonly lstm = new nn.LSTM(10, 5, { numLayers: 2, bidirectional: true, batchFirst: true });
  readonly cell = new nn.GRUCell(10, 6);
  readonly head = new nn.Sequential(new nn.LayerNorm(6), new nn.PReLU(), new nn.Linear(6, 3));
  forward(x: Tensor): Tensor {
    const y = this.upConv.forward(this.bn1.forward(this.conv1.forward(x)).relu() as Tensor);
    const encoded = this.encoder.forward(y.reshape([2, 5, 10]) as Tensor);
    const [outputs] = this.lstm.forward(encoded);
    return this.head.forward(this.cell.forward(outputs.at(':', -1) as Tensor));
  }
}

setPrecision({ matmul: 'f32', conv: 'f32' });

const made = (seed: number): Net => {
  manualSeed(seed);
  const net = new Net();
  net.bn1.runningMean.assign(arange(4, { dtype: f32 }).mul(0.1));
  net.bn1.runningVar.assign(arange(4, { dtype: f32 }).add(0.5));
  return net.eval();
};

test('the file is the one that PyTorch has read, and so are its names and its result', async () => {
  const path = join(place, 'net.safetensors');
  const file = fileURLToPath(golden('files/pytorch-names.safetensors'));
  // Remove the file to have it made anew; then run names.py.
  if (!existsSync(file)) await saveWeights(made(1), file, { names: 'pytorch' });
  const net = made(2);
  await loadWeights(net, file);
  await saveWeights(net, path, { names: 'pytorch' });
  assert.ok((await readFile(path)).equals(await readFile(file)));
  const { names, output } = JSON.parse(await readFile(golden('names.json'), 'utf8')) as {
    readonly names: readonly string[];
    readonly output: readonly number[];
  };
  assert.deepEqual(Object.keys((await readSafetensors(path)).tensors).toSorted(), names);
  const x = arange(72, { dtype: f32 }).reshape([2, 1, 6, 6]).div(36).sub(1) as Tensor;
  const own = Array.from(await net.forward(x).data(), Number);
  own.forEach((v, i) => void assert.ok(Math.abs(v - output[i]!) < 2e-5, `${v}, ${output[i]}`));
});

test('a name that would not come back stays as it is; names and metadata are checked', async () => {
  class Odd extends nn.Module {
    readonly my_layer = new nn.Linear(1, 1);
    readonly qkvW = new nn.Linear(1, 1);
    readonly outerURL = new nn.BatchNorm1d(1);
    forward(x: Tensor): Tensor {
      return x;
    }
  }
  const path = join(place, 'odd.safetensors');
  await saveWeights(new Odd(), path, { names: 'pytorch', metadata: { epoch: '3' } });
  const { tensors, metadata } = await readSafetensors(path);
  assert.deepEqual(metadata, { epoch: '3' });
  assert.deepEqual(Object.keys(tensors).toSorted(), [
    ...['my_layer.bias', 'my_layer.weight', 'outerURL.bias', 'outerURL.num_batches_tracked'],
    ...['outerURL.running_mean', 'outerURL.running_var', 'outerURL.weight', 'qkv_w.bias', 'qkv_w.weight'],
  ]);
  await loadWeights(new Odd(), path);
  await assert.rejects(saveWeights(new Odd(), path, { names: 'torch' as never }), /names is 'torch'/);
  await assert.rejects(saveWeights(new Odd(), path, { epoch: '3' } as never), /unknown option 'epoch'/);
});
