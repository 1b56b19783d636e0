/** What pages compute in tests, and Node for comparison. */
import {
  accuracy,
  buffer,
  crossEntropy,
  f32,
  fit,
  i32,
  io,
  jit,
  kernel,
  Loader,
  listDevices,
  loadImages,
  loadWeights,
  manualSeed,
  memory,
  ones,
  optim,
  type Tensor,
  tensor,
  useDevice,
} from 'heddle';
import { buffer as bufferOf } from 'heddle/kernel';
import { Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential } from 'heddle/nn';

const mlp = (): Sequential =>
  new Sequential(new Flatten(), new Linear(784, 128), new ReLU(), new Linear(128, 10));

const lenet5 = (): Sequential =>
  new Sequential(
    ...[new Conv2d(1, 6, 5, { padding: 2 }), new ReLU(), new MaxPool2d(2)],
    ...[new Conv2d(6, 16, 5), new ReLU(), new MaxPool2d(2), new Flatten()],
    ...[new Linear(400, 120), new ReLU(), new Linear(120, 84), new ReLU(), new Linear(84, 10)],
  );

/** A user's kernel, with a helper, a constant and two scopes of one name, which a bundler may rename. */
const scale = kernel(
  'scale',
  { x: buffer(f32), n: i32 },
  ({ x, n }, { globalId, f32, TABLE }) => {
    const i = globalId.x;
    for (let c = 0; c < 3; c++) if (i < n) x[i] = x[i]! + f32(c);
    for (let u = 0; u < TABLE.length; u++) {
      const row = TABLE[u]!;
      if (i < n) x[i] = x[i]! * row.by;
    }
  },
  { TABLE: [{ by: 2 }, { by: 3 }] },
);

/** A race: no barrier between a write to shared memory and a read of another thread's. */
const race = kernel('race', { y: bufferOf(f32) }, ({ y }, { f32, threadIdx, shared }) => {
  const tile = shared(f32, 32);
  tile[threadIdx.x] = f32(threadIdx.x);
  y[threadIdx.x] = tile[31 - threadIdx.x]!;
});

export interface Computed {
  readonly device: string;
  readonly devices: readonly string[];
  /** Losses of ten steps. */
  readonly mlp: readonly number[];
  readonly lenet5: readonly number[];
  /** Loss and accuracy on the test images after `fit`. */
  readonly fitted: readonly number[];
  readonly launched: readonly number[];
  readonly simulated: string;
  readonly loaded: readonly number[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly cuda: string;
  readonly buffers: boolean;
  /** Seconds of a step of lenet5, the median. */
  readonly stepSeconds: number;
}

/** @param files folder, or URL of one: the four files of MNIST, and weights.safetensors of a Linear(3, 2) */
export async function compute(files: string, rounds = 0): Promise<Computed> {
  const device = useDevice('cpu').description;
  const { train, test } = await loadImages(files);
  const losses = async (build: () => Sequential): Promise<{ losses: number[]; seconds: number }> => {
    manualSeed(1);
    const model = build();
    const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
    const step = jit((x: Tensor, y: Tensor) => {
      const loss = crossEntropy(model.forward(x) as Tensor, y);
      loss.backward();
      optimizer.step();
      return loss;
    });
    const all: number[] = [];
    const times: number[] = [];
    for (let epoch = 0; epoch <= rounds; epoch++)
      for await (const { inputs, labels, size } of new Loader(train, { batchSize: 64 })) {
        const x = tensor(inputs, { shape: [size, 1, 28, 28] });
        const started = performance.now();
        const loss = await step(x, tensor(labels)).item();
        times.push((performance.now() - started) / 1000);
        if (epoch === 0) all.push(loss);
      }
    return { losses: all, seconds: times.sort((a, b) => a - b)[times.length >> 1]! };
  };
  const first = await losses(mlp);
  const second = await losses(lenet5);
  manualSeed(2);
  const model = lenet5();
  const history = await fit(model, {
    train: new Loader(train, { batchSize: 64, shuffle: true }),
    validation: new Loader(test, { batchSize: 64 }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 }),
    loss: crossEntropy,
    metrics: { accuracy },
    epochs: 1,
  });
  const { loss, validation } = history.epochs.at(-1)!;
  const y = ones([6]);
  await scale.launch({ grid: 1, block: 8 }, { x: y, n: 5 });
  let simulated = 'no error';
  try {
    race.simulate({ grid: 1, block: 32 }, { y: new Float32Array(32) });
  } catch (error) {
    simulated = (error as Error).message.split('\n')[0]!;
  }
  const linear = new Linear(3, 2);
  await loadWeights(linear, `${files}/weights.safetensors`);
  const { metadata } = await io.readSafetensors(`${files}/weights.safetensors`);
  return {
    device,
    devices: listDevices().map(({ name }) => name),
    mlp: first.losses,
    lenet5: second.losses,
    fitted: [loss, validation!.loss, validation!.metrics.accuracy!],
    launched: Array.from(await y.data()),
    simulated,
    loaded: Array.from(await linear.forward(ones([1, 3])).data()),
    metadata,
    cuda: scale.source('cuda').slice(0, 40),
    buffers: memory().buffers > 0,
    stepSeconds: second.seconds,
  };
}
