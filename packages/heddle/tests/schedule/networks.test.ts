/**
 * Training steps of networks that people train, planned for an H200: their convolutions run on tensor cores by warpgroups, with
 * channels last, and no generated kernel leaves large tensors to a few blocks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, i32 } from '../../src/core/dtype.js';
import { Trace } from '../../src/engine/trace.js';
import { autocast, cat, crossEntropy, nn, optim, type Tensor, useDevice, zeros } from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import type { ScheduledLaunch } from '../../src/schedule/launch.js';
import { schedule } from '../../src/schedule/schedule.js';
import { ResNet18, ResNet50 } from '../../src/train/resnet.js';

useDevice('cpu');
const target: Target = { ...H200, libraries: new Set<string>() };

interface Network extends nn.Module {
  forward(x: Tensor): Tensor;
}

/** A convolution, a batch norm and an activation. */
function layer(
  from: number,
  to: number,
  size: number,
  { stride = 1, groups = 1, activation = nn.ReLU as new () => Network } = {},
): Network[] {
  const options = { stride, groups, padding: (size - 1) / 2, bias: false };
  return [new nn.Conv2d(from, to, size, options), new nn.BatchNorm2d(to), new activation()];
}

const double = (from: number, to: number): nn.Sequential =>
  new nn.Sequential(...layer(from, to, 3), ...layer(to, to, 3));

/** K. Simonyan and A. Zisserman, Very deep convolutional networks for large-scale image recognition (2015), with batch norms. */
const vgg = (): Network =>
  new nn.Sequential(
    ...layer(3, 64, 3),
    new nn.MaxPool2d(2),
    ...layer(64, 128, 3),
    new nn.MaxPool2d(2),
    ...layer(128, 256, 3),
    ...layer(256, 256, 3),
    new nn.MaxPool2d(2),
    new nn.Flatten(),
    new nn.Linear(256 * 4 * 4, 10),
  );

/** Layers with depthwise convolutions, as in M. Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks (2018). */
function mobilenet(): Network {
  const inverted = (from: number, to: number, stride: number): Network[] => {
    const within = { activation: nn.ReLU6 };
    return [
      ...layer(from, 6 * from, 1, within),
      ...layer(6 * from, 6 * from, 3, { ...within, stride, groups: 6 * from }),
      ...layer(6 * from, to, 1, { activation: nn.Identity }),
    ];
  };
  return new nn.Sequential(
    ...layer(3, 32, 3, { stride: 2 }),
    ...inverted(32, 32, 1),
    ...inverted(32, 64, 2),
    ...inverted(64, 160, 2),
    new nn.AdaptiveAvgPool2d(1),
    new nn.Flatten(),
    new nn.Linear(160, 10),
  );
}

/** O. Ronneberger, P. Fischer and T. Brox, U-Net: convolutional networks for biomedical image segmentation (2015). */
class UNet extends nn.Module {
  readonly first = double(3, 32);
  readonly second = double(32, 64);
  readonly third = double(64, 128);
  readonly up2 = new nn.ConvTranspose2d(128, 64, 2, { stride: 2 });
  readonly merged2 = double(128, 64);
  readonly up1 = new nn.ConvTranspose2d(64, 32, 2, { stride: 2 });
  readonly merged1 = double(64, 32);
  readonly pool = new nn.MaxPool2d(2);
  readonly head = new nn.Conv2d(32, 16, 1);

  forward(x: Tensor): Tensor {
    const a = this.first.forward(x);
    const b = this.second.forward(this.pool.forward(a));
    const c = this.third.forward(this.pool.forward(b));
    const d = this.merged2.forward(cat([this.up2.forward(c), b], 1));
    const e = this.merged1.forward(cat([this.up1.forward(d), a], 1));
    return this.head.forward(e).mean([2, 3]);
  }
}

/** A dense block: each layer reads all before (G. Huang et al., Densely connected convolutional networks, 2017). */
class DenseNet extends nn.Module {
  readonly first = new nn.Conv2d(3, 48, 3, { padding: 1, bias: false });
  readonly layers = new nn.ModuleList(
    Array.from({ length: 4 }, (_, n) => {
      const channels = 48 + 24 * n;
      return new nn.Sequential(
        ...[new nn.BatchNorm2d(channels), new nn.ReLU(), new nn.Conv2d(channels, 96, 1, { bias: false })],
        ...[new nn.BatchNorm2d(96), new nn.ReLU(), new nn.Conv2d(96, 24, 3, { padding: 1, bias: false })],
      );
    }),
  );
  readonly tail = new nn.Sequential(new nn.BatchNorm2d(144), new nn.ReLU(), new nn.AdaptiveAvgPool2d(1));
  readonly head = new nn.Linear(144, 10);

  forward(x: Tensor): Tensor {
    let y = this.first.forward(x);
    for (const each of this.layers) y = cat([y, (each as nn.Sequential).forward(y)], 1);
    return this.head.forward(this.tail.forward(y).flatten(1));
  }
}

/** A step of SGD with momentum on `images` images, as it is planned. */
function planned(model: Network, images: number, size: number, isMixed: boolean): readonly ScheduledLaunch[] {
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01, momentum: 0.9 });
  const x: Tensor = zeros([images, 3, size, size]);
  const labels = zeros([images], { dtype: i32 });
  const trace = new Trace(() => {});
  const loss = trace.run(() => {
    const lossOf = (): Tensor => crossEntropy(model.forward(x), labels);
    const value = isMixed ? autocast(bf16, lossOf) : lossOf();
    value.backward();
    optimizer.step();
    return value;
  });
  return schedule([...trace.assigned.values(), loss.node], target).launches;
}

const nameOf = ({ work }: ScheduledLaunch): string => ('kernel' in work ? work.kernel.name : '');

/** Bytes from which a launch should keep all multiprocessors busy. */
const LARGE = 8 * 2 ** 20;

for (const [name, build, images, size] of [
  ['ResNet-18', () => new ResNet18(3, 10), 256, 32],
  ['ResNet-50', () => new ResNet50(3, 10), 64, 224],
  ['VGG', vgg, 256, 32],
  ['MobileNet', mobilenet, 128, 128],
  ['U-Net', () => new UNet(), 32, 128],
  ['DenseNet', () => new DenseNet(), 128, 32],
] as const)
  for (const isMixed of [false, true])
    test(`${name}, ${isMixed ? 'bf16' : 'tf32'}: tensor cores with channels last, and blocks for all multiprocessors`, () => {
      const launches = planned(build(), images, size, isMixed);
      const convolutions = launches.map(nameOf).filter((kernel) => kernel.startsWith('conv2d'));
      const others = convolutions.filter((kernel) => !/Warpgroups|DepthwiseLast|WeightSum/.test(kernel));
      assert.deepEqual(others, []);
      for (const { work, bytes } of launches) {
        if (!('kernel' in work) || bytes < LARGE) continue;
        const blocks = work.grid[0] * work.grid[1] * work.grid[2];
        assert.ok(blocks >= target.units * 0.7, `${work.kernel.name}: ${blocks} blocks for ${bytes} bytes`);
      }
    });
