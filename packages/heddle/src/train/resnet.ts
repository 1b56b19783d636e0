/** Residual networks (He, Zhang, Ren and Sun, Deep residual learning for image recognition, 2016). */
import * as nn from '../nn/index.js';
import { withoutDraws } from '../nn/parameter.js';
import type { Tensor } from '../tensor/tensor.js';

const convolution = (from: number, to: number, size: number, stride: number): nn.Conv2d =>
  new nn.Conv2d(from, to, size, { stride, padding: (size - 1) / 2, bias: false });

/** What makes a block's input as large as its output; undefined where it is so already. */
const shortcut = (from: number, to: number, stride: number): nn.Sequential | undefined =>
  stride === 1 && from === to
    ? undefined
    : new nn.Sequential(convolution(from, to, 1, stride), new nn.BatchNorm2d(to));

/** Two 3×3 convolutions, added to what they got; named as in torchvision. */
export class BasicBlock extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly bn1: nn.BatchNorm2d;
  readonly conv2: nn.Conv2d;
  readonly bn2: nn.BatchNorm2d;
  readonly downsample: nn.Sequential | undefined;
  readonly relu = new nn.ReLU();

  constructor(from: number, to: number, stride: number) {
    super();
    this.conv1 = convolution(from, to, 3, stride);
    this.bn1 = new nn.BatchNorm2d(to);
    this.conv2 = convolution(to, to, 3, 1);
    this.bn2 = new nn.BatchNorm2d(to);
    this.downsample = shortcut(from, to, stride);
  }

  /** @param x (N, from, H, W) · @returns (N, to, ⌈H/stride⌉, ⌈W/stride⌉) */
  forward(x: Tensor): Tensor {
    const { relu, conv1, bn1, conv2, bn2, downsample } = this;
    const inner = bn2.forward(conv2.forward(relu.forward(bn1.forward(conv1.forward(x)))));
    return relu.forward(inner.add(downsample ? downsample.forward(x) : x));
  }
}

/**
 * A 3×3 convolution between two of 1×1, added to what they got; named as in torchvision, and with the stride at the 3×3
 * convolution, as there.
 */
export class Bottleneck extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly bn1: nn.BatchNorm2d;
  readonly conv2: nn.Conv2d;
  readonly bn2: nn.BatchNorm2d;
  readonly conv3: nn.Conv2d;
  readonly bn3: nn.BatchNorm2d;
  readonly downsample: nn.Sequential | undefined;
  readonly relu = new nn.ReLU();

  constructor(from: number, to: number, stride: number) {
    super();
    const inner = to / 4;
    this.conv1 = convolution(from, inner, 1, 1);
    this.bn1 = new nn.BatchNorm2d(inner);
    this.conv2 = convolution(inner, inner, 3, stride);
    this.bn2 = new nn.BatchNorm2d(inner);
    this.conv3 = convolution(inner, to, 1, 1);
    this.bn3 = new nn.BatchNorm2d(to);
    this.downsample = shortcut(from, to, stride);
  }

  /** @param x (N, from, H, W) · @returns (N, to, ⌈H/stride⌉, ⌈W/stride⌉) */
  forward(x: Tensor): Tensor {
    const { relu, conv1, bn1, conv2, bn2, conv3, bn3, downsample } = this;
    const first = relu.forward(bn1.forward(conv1.forward(x)));
    const inner = bn3.forward(conv3.forward(relu.forward(bn2.forward(conv2.forward(first)))));
    return relu.forward(inner.add(downsample ? downsample.forward(x) : x));
  }
}

/** How a block is made. */
type BlockOf = new (from: number, to: number, stride: number) => BasicBlock | Bottleneck;

/** Blocks after each other, the first with the stride. What they draw is overwritten below. */
const stage = (Block: BlockOf, count: number, [from, to]: [number, number], stride: number): nn.Sequential =>
  withoutDraws(
    () =>
      new nn.Sequential(
        ...Array.from({ length: count }, (_, i) => new Block(i ? to : from, to, i ? 1 : stride)),
      ),
  );

/** What residual networks differ in. */
interface ResNetSizes {
  readonly Block: BlockOf;
  /** Blocks of each stage, and their outputs' channels. */
  readonly stages: readonly [count: number, channels: number][];
  /** For large images: the first convolution is 7×7 of stride 2, and a pooling of stride 2 follows it. */
  readonly large: boolean;
}

class ResNet extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly bn1 = new nn.BatchNorm2d(64);
  readonly relu = new nn.ReLU();
  readonly maxpool: nn.MaxPool2d | undefined;
  readonly layer1: nn.Sequential;
  readonly layer2: nn.Sequential;
  readonly layer3: nn.Sequential;
  readonly layer4: nn.Sequential;
  readonly fc: nn.Linear;

  constructor(channels: number, classes: number, { Block, stages, large }: ResNetSizes) {
    super();
    this.conv1 = large ? convolution(channels, 64, 7, 2) : convolution(channels, 64, 3, 1);
    if (large) this.maxpool = new nn.MaxPool2d(3, { stride: 2, padding: 1 });
    const layer = (i: number): nn.Sequential => {
      const [count, to] = stages[i]!;
      return stage(Block, count, [stages[i - 1]?.[1] ?? 64, to], i === 0 ? 1 : 2);
    };
    this.layer1 = layer(0);
    this.layer2 = layer(1);
    this.layer3 = layer(2);
    this.layer4 = layer(3);
    this.fc = new nn.Linear(stages.at(-1)![1], classes);
    for (const [, module] of this.namedModules())
      if (module instanceof nn.Conv2d)
        nn.init.kaimingNormal(module.weight, { mode: 'fanOut', nonlinearity: 'relu' });
  }

  /** @param x (N, channels, H, W) · @returns logits (N, classes) */
  forward(x: Tensor): Tensor {
    const { relu, conv1, bn1, maxpool, layer1, layer2, layer3, layer4, fc } = this;
    const first = relu.forward(bn1.forward(conv1.forward(x)));
    const pooled = maxpool ? maxpool.forward(first) : first;
    const last = [layer1, layer2, layer3, layer4].reduce((y, layer) => layer.forward(y), pooled);
    return fc.forward(last.mean([2, 3]));
  }
}

/** ResNet-18, for small images unless it is said to be for large ones. */
export class ResNet18 extends ResNet {
  constructor(channels: number, classes: number, { large = false }: { readonly large?: boolean } = {}) {
    const stages: ResNetSizes['stages'] = [64, 128, 256, 512].map((width) => [2, width]);
    super(channels, classes, { Block: BasicBlock, stages, large });
  }
}

/** ResNet-50, for large images. */
export class ResNet50 extends ResNet {
  constructor(channels: number, classes: number) {
    const stages: ResNetSizes['stages'] = [
      [3, 256],
      [4, 512],
      [6, 1024],
      [3, 2048],
    ];
    super(channels, classes, { Block: Bottleneck, stages, large: true });
  }
}
