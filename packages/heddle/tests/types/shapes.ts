/** What the published types know of shapes. Compiled by types.test.ts. */
import {
  type AnyTensor,
  arange,
  bool,
  cat,
  conv2d,
  crossEntropy,
  dropout,
  eye,
  full,
  gelu,
  i32,
  jit,
  layerNorm,
  linear,
  maxPool2d,
  mse,
  type NumberDType,
  nn,
  ones,
  rand,
  randn,
  relu,
  type Shape,
  type shapes,
  softmax,
  stack,
  type Tensor,
  tensor,
  where,
  zeros,
} from 'heddle';

/** Compiles if T and U are the same type. */
const same = <T, U>(..._: [T] extends [U] ? ([U] extends [T] ? [] : [never]) : [never]): void => {};

declare const count: number;
declare const sizes: Shape;
declare const plain: Tensor;
declare const batch: Tensor<[number, 784], 'f32'>;
const x = randn([64, 784]);
const w = randn([784, 10]);

// Creation.
same<typeof x, Tensor<[64, 784], 'f32'>>();
same<typeof x.shape, readonly [64, 784]>();
export const made = [
  zeros([2, 3]) satisfies Tensor<[2, 3], 'f32'>,
  full([2], true) satisfies Tensor<[2], 'bool'>,
  rand([2, 3], { requiresGrad: true }) satisfies Tensor<[2, 3], 'f32'>,
  ones([2], { dtype: i32 }) satisfies Tensor<[2], 'i32'>,
  eye(3) satisfies Tensor<[3, 3], 'f32'>,
  tensor([1, 2, 3, 4], { shape: [2, 2] }) satisfies Tensor<[2, 2], 'f32'>,
  tensor([1, 0], { shape: [2, 1], dtype: bool }) satisfies Tensor<[2, 1], 'bool'>,
  tensor(3) satisfies Tensor<[], 'f32'>,
  zeros([]) satisfies Tensor<[], 'f32'>,
];
same<typeof range, Tensor<[10], 'i32' | 'f32'>>();
const range = arange(10);
same<typeof steps, Tensor<[number], 'i32' | 'f32'>>();
const steps = arange(10, { step: 2 });

// Elementwise, with broadcasting.
const logits = x
  .matmul(w)
  .add(zeros([10]))
  .relu();
same<typeof logits, Tensor<[64, 10], 'f32'>>();
const grid = zeros([8, 1, 3]).mul(zeros([4, 1]));
same<typeof grid, Tensor<[8, 4, 3], 'f32'>>();
const compared = x.gt(0);
same<typeof compared, Tensor<[64, 784], 'bool'>>();
const chosen = compared.where(x, 0);
same<typeof chosen, Tensor<[64, 784], 'f32'>>();
const scalar = tensor(2).mul(x);
same<typeof scalar, Tensor<[64, 784], 'f32'>>();

// Products.
const batches = zeros([8, 1, 3, 4]).matmul(zeros([5, 4, 6]));
same<typeof batches, Tensor<[8, 5, 3, 6], 'f32'>>();
const column = w.matmul(zeros([10]));
same<typeof column, Tensor<[784], 'f32'>>();
const row = zeros([784]).matmul(w);
same<typeof row, Tensor<[10], 'f32'>>();

// Movement.
const images = zeros([64, 1, 28, 28]);
const flat = images.flatten(1);
same<typeof flat, Tensor<[64, 784], 'f32'>>();
const inferred = images.reshape([64, -1]);
same<typeof inferred, Tensor<[64, 784], 'f32'>>();
const moved = images.permute([0, 2, 3, 1]).transpose(0, -1).squeeze(0).unsqueeze(-1);
same<typeof moved, Tensor<[28, 28, 64, 1], 'f32'>>();
const flipped = w.transpose();
same<typeof flipped, Tensor<[10, 784], 'f32'>>();

// Reductions.
same<typeof total, Tensor<[], 'f32'>>();
const total = x.sum();
const perRow = x.mean(-1);
same<typeof perRow, Tensor<[64], 'f32'>>();
const kept = images.max([2, 3], { keepdim: true });
same<typeof kept, Tensor<[64, 1, 1, 1], 'f32'>>();
const normal = x.sub(x.mean(1, { keepdim: true })).div(x.std(1, { keepdim: true }));
same<typeof normal, Tensor<[64, 784], 'f32'>>();
const best = logits.argmax(1);
same<typeof best, Tensor<[64], 'i32'>>();

// A size that is not known is `number`, and fits any; of a rank that is not known nothing is.
const scores = batch.matmul(w).add(1);
same<typeof scores, Tensor<[number, 10], 'f32'>>();
const some = zeros([count, 3]);
same<typeof some, Tensor<[number, 3], 'f32'>>();
const unknown = zeros(sizes);
same<typeof unknown, Tensor<Shape, 'f32'>>();
export const fallbacks: readonly Tensor[] = [
  x.matmul(plain),
  plain.matmul(x),
  unknown.add(x),
  unknown.reshape([2, -1]).flatten(1),
  x.sum(count),
  x.reshape([count, -1]),
  x.permute(sizes),
];
const lost = x.add(plain);
same<typeof lost, Tensor<Shape, 'f32'>>();
const from = x.at('0:10');
same<typeof from, Tensor<Shape, 'f32'>>();

// One of several shapes: what fits one of them is allowed.
const either = count > 0 ? zeros([2, 3]) : zeros([4], { dtype: i32 });
export const twice = either.mul(2).sum();
const wide = either.add(zeros([3]));
same<typeof wide, Tensor<[2, 3], 'f32' | 'i32'>>();
export const norms: readonly Tensor[] = [x, w, logits].map((t) => t.square().sum().sqrt());

// A known shape is a tensor like any other.
export const anyOf: AnyTensor = x;
export const plainly: Tensor = x;
export const partly: Tensor<[number, 784]> = x;
export const listed: Tensor[] = [x, w, plain];
const double = (t: Tensor): Tensor => t.mul(2);
export const doubled = double(x);
same<Tensor, Tensor<Shape, NumberDType>>();
export const step = jit((inputs: Tensor<[64, 784]>, labels: Tensor<[64], 'i32'>) =>
  inputs.matmul(w).argmax(1).eq(labels).sum(),
)(x, zeros([64], { dtype: i32 }));
export class Head extends nn.Module {
  forward(t: Tensor<[number, 784]>): Tensor<[number, 10]> {
    return t.matmul(w);
  }
}
export const network = new nn.Sequential(new Head(), new nn.ReLU());
/** Whatever the shape is: it is kept. */
export const scaled = <S extends Shape>(t: Tensor<S>): Tensor<S> => t.exp().relu();

// The arithmetic, by its names.
same<shapes.Broadcast<[64, 1, 10], [3, 1]>, [64, 3, 10]>();
same<shapes.Reshaped<[60000, 28, 28], [60000, 784]>, [60000, 784]>();
same<shapes.Flattened<[123, 45, 67], 0>, [370845]>();

// Lists of tensors.
const joined = cat([zeros([2, 3]), zeros([4, 3]), ones([1, 3])]);
same<typeof joined, Tensor<[7, 3], 'f32'>>();
const sideways = cat([x, zeros([64, 16])], -1);
same<typeof sideways, Tensor<[64, 800], 'f32'>>();
const layered = stack([x, x, x], 1);
same<typeof layered, Tensor<[64, 3, 784], 'f32'>>();
export const listedJoins: readonly Tensor[] = [cat([x, plain]), cat([x, w].slice(1)), stack([plain, x])];
const picked = where(x.gt(0), x, zeros([784]));
same<typeof picked, Tensor<[64, 784], 'f32'>>();

// Functions of shapes as they are, layers and losses.
const active = softmax(dropout(layerNorm(relu(x), [784])));
same<typeof active, Tensor<[64, 784], 'f32'>>();
export const activated = [x, w].map((t) => gelu(t).sum());
const hidden = linear(x, zeros([10, 784]), zeros([10]));
same<typeof hidden, Tensor<[64, 10], 'f32'>>();
const fc = new nn.Linear(784, 10);
same<typeof fc, nn.Linear<784, 10>>();
const outputs = new nn.ReLU().forward(fc.forward(x));
same<typeof outputs, Tensor<[64, 10], 'f32'>>();
const perToken = fc.forward(zeros([8, 16, 784]));
same<typeof perToken, Tensor<[8, 16, 10], 'f32'>>();
const conv = new nn.Conv2d(1, 6, 5, { padding: 2 });
const maps = new nn.BatchNorm2d(6).forward(conv.forward(images));
same<typeof maps, Tensor<[64, 6, number, number], 'f32'>>();
const features = fc.forward(maxPool2d(new nn.AvgPool2d(2).forward(maps), 2).flatten(1));
same<typeof features, Tensor<[64, 10], 'f32'>>();
const convolved = conv2d(images, zeros([16, 1, 3, 3]));
same<typeof convolved, Tensor<[64, 16, number, number], 'f32'>>();
const loss = crossEntropy(outputs, zeros([64], { dtype: i32 }));
same<typeof loss, Tensor<[], 'f32'>>();
const each = mse(x, x, { reduction: 'none' });
same<typeof each, Tensor<Shape, 'f32'>>();

// Layers whose sizes are not known, and of any kind.
const anyLinear: nn.Linear = fc;
let value: Tensor = x;
for (const layer of [fc, conv, new nn.ReLU(), new nn.MaxPool2d(2), new nn.Flatten()])
  value = layer.forward(value);
export const last = value;
export const layers: readonly nn.Layer[] = [fc, conv, anyLinear, new nn.Flatten(), new nn.ReLU()];
export const through: Tensor = anyLinear.forward(plain);
const sized = new nn.Linear(count, 10).forward(x);
same<typeof sized, Tensor<[64, 10], 'f32'>>();
