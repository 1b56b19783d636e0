/** Trains LeNet-5 on MNIST and classifies what is drawn, off the page's main thread. */
import {
  accuracy,
  crossEntropy,
  fit,
  Loader,
  loadImages,
  manualSeed,
  nn,
  optim,
  relu,
  type Tensor,
  tensor,
  useDevice,
} from 'heddle';

/** What a worker is asked for. */
export type Question =
  | { readonly kind: 'train'; readonly data: string; readonly epochs: number }
  /** 784 bytes, white on black. */
  | { readonly kind: 'classify'; readonly pixels: Uint8Array }
  /** A test image, by its number. */
  | { readonly kind: 'example'; readonly index: number };

/** Activations of a layer: `count` maps of size × size. */
export interface Maps {
  readonly count: number;
  readonly size: number;
  readonly values: Float32Array;
}

export type Answer =
  | { readonly kind: 'device'; readonly text: string }
  | { readonly kind: 'loss'; readonly step: number; readonly loss: number }
  | {
      readonly kind: 'epoch';
      readonly step: number;
      readonly accuracy: number;
      readonly imagesPerSecond: number;
    }
  | { readonly kind: 'trained' }
  | { readonly kind: 'example'; readonly pixels: Uint8Array; readonly label: number }
  | { readonly kind: 'class'; readonly probabilities: readonly number[]; readonly maps: readonly Maps[] }
  | { readonly kind: 'failed'; readonly message: string };

class LeNet5 extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 6, 5, { padding: 2 });
  readonly conv2 = new nn.Conv2d(6, 16, 5);
  readonly fc1 = new nn.Linear(400, 120);
  readonly fc2 = new nn.Linear(120, 84);
  readonly fc3 = new nn.Linear(84, 10);
  readonly pool = new nn.MaxPool2d(2);

  /** The activations after each convolution. */
  features(x: Tensor): readonly [Tensor, Tensor] {
    const first = relu(this.conv1.forward(x));
    return [first, relu(this.conv2.forward(this.pool.forward(first)))];
  }

  classify(second: Tensor): Tensor {
    const flat = this.pool.forward(second).flatten(1);
    return this.fc3.forward(relu(this.fc2.forward(relu(this.fc1.forward(flat)))));
  }

  forward(x: Tensor): Tensor {
    return this.classify(this.features(x)[1]);
  }
}

const answer = (message: Answer): void => postMessage(message);

let model: LeNet5 | undefined;
let set: Awaited<ReturnType<typeof loadImages>> | undefined;

async function train({ data, epochs }: Extract<Question, { kind: 'train' }>): Promise<void> {
  answer({ kind: 'device', text: useDevice('cpu').description });
  set ??= await loadImages(data);
  manualSeed(0);
  model = new LeNet5();
  const loader = new Loader(set.train, { batchSize: 64, shuffle: true });
  await fit(model, {
    train: loader,
    validation: new Loader(set.test, { batchSize: 100 }),
    optimizer: new optim.Adam(model.parameters(), { lr: 2e-3 }),
    loss: crossEntropy,
    metrics: { accuracy },
    epochs,
    logEvery: 5,
    callbacks: [
      {
        onLog: ({ epoch, step, loss }) => answer({ kind: 'loss', step: epoch * loader.length + step, loss }),
        onEpochEnd: ({ epoch, validation, examplesPerSecond }) =>
          answer({
            kind: 'epoch',
            step: (epoch + 1) * loader.length,
            accuracy: validation!.metrics.accuracy!,
            imagesPerSecond: examplesPerSecond,
          }),
      },
    ],
  });
  answer({ kind: 'trained' });
}

async function classify(pixels: Uint8Array): Promise<void> {
  if (!model || !set) return;
  const { mean, std } = set.train.normalize as { readonly mean: number; readonly std: number };
  const inputs = Float32Array.from(pixels, (byte) => (byte / 255 - mean) / std);
  const [first, second] = model.features(tensor(inputs, { shape: [1, 1, 28, 28] }));
  const mapsOf = async (t: Tensor): Promise<Maps> => {
    const [, count, size] = t.shape as readonly [number, number, number];
    return { count, size, values: Float32Array.from(await t.data()) };
  };
  answer({
    kind: 'class',
    maps: [await mapsOf(first), await mapsOf(second)],
    probabilities: Array.from(await model.classify(second).softmax(1).data()),
  });
}

function example(index: number): void {
  if (!set) return;
  const { inputs, labels } = set.test;
  const pixels = Uint8Array.from(inputs.subarray(index * 784, (index + 1) * 784));
  answer({ kind: 'example', pixels, label: labels[index]! });
}

addEventListener('message', async ({ data }: MessageEvent<Question>) => {
  try {
    if (data.kind === 'train') await train(data);
    else if (data.kind === 'classify') await classify(data.pixels);
    else example(data.index);
  } catch (error) {
    answer({ kind: 'failed', message: (error as Error).message });
  }
});
