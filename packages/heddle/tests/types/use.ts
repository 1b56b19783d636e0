/** What the published types say, as those see it who import the package. Compiled by types.test.ts. */
import {
  type AnyTensor,
  allocate,
  arange,
  bool,
  buffer,
  cat,
  crossEntropy,
  f32,
  f64,
  fit,
  full,
  i32,
  i64,
  jit,
  kernel,
  mse,
  nn,
  ones,
  optim,
  type Shape,
  type Tensor,
  tensor,
  u8,
  zeros,
} from 'heddle';

/** Compiles if T and U are the same type. */
const same = <T, U>(..._: [T] extends [U] ? ([U] extends [T] ? [] : [never]) : [never]): void => {};

// The dtype says what data() gives.
export async function values(model: nn.Layer): Promise<number> {
  const x = ones([2, 3]);
  same<typeof x, Tensor<[2, 3], 'f32'>>();
  const product = (await x.data())[0]! * 2;
  const floats: Float32Array = await x.mul(2).add(1).relu().sum().data();
  const counts: Int32Array = await x.argmax(1).data();
  const flags: Uint8Array = await x.gt(0).data();
  const large: bigint = (await x.cast(i64).data())[0]!;
  const wide: Float64Array = await zeros([2], { dtype: f64 }).data();
  const bytes: Int32Array = await tensor([1], { dtype: u8 }).sum().data();
  const listed: Int32Array = await tensor(new Int32Array(2)).data();
  const made: Uint8Array = await tensor([true, false]).data();
  const filled: Int32Array = await full([2], 3, { dtype: i32 }).data();
  const joined: Float32Array = await cat([x, x]).data();
  // Where nothing is known of it, the elements are numbers.
  const scores = model.forward(x);
  const last = (await scores.data()).at(-1)! + Number(large);
  const rows: number[][] = await scores.array(2);
  const truths: boolean[] = await scores.gt(0).array(1);
  // @ts-expect-error: of any dtype, they may be bigints
  const unknown = (await (scores as AnyTensor).data())[0]! * 2;
  const lengths = [floats, counts, flags, wide, bytes, listed, made, filled, joined].map((a) => a.length);
  return product + last + lengths.length + rows[0]![0]! + truths.length + unknown;
}

// Any tensor meets any other, and numbers.
export const sums = (x: Tensor, y: Tensor<Shape, 'f32'>): readonly Tensor[] => [
  x.add(y),
  y.add(x),
  y.mul(2),
  x.gt(0).where(x, y),
  arange(3).cast(f32),
];
// @ts-expect-error: a string is not an operand
export const wrongOperand = (x: Tensor): Tensor => x.add('2');
// @ts-expect-error: an option of another name
export const wrongOption = ones([2]).sum(0, { keepDim: true });
// @ts-expect-error: no such setting
export const wrongSetting = new optim.SGD([], { learningRate: 0.1 });

// jit takes interfaces.
interface Batch {
  readonly x: Tensor;
  readonly labels: Tensor;
}
interface Result {
  readonly loss: Tensor;
}
export const step = jit(({ x, labels }: Batch): Result => ({ loss: crossEntropy(x, labels) }));
export const stepped: Result = step({ x: ones([1, 2]), labels: zeros([1], { dtype: i32 }) });
export const silent = jit((x: Tensor) => {
  x.sum().backward();
})(ones([2]));
// @ts-expect-error: an async function
export const asynchronous = jit(async (x: Tensor) => x);
// @ts-expect-error: a batch without labels
step({ x: ones([1]) });

// Modules take and return what they like; what fit and Sequential take goes from tensor to tensor.
type State = readonly [hidden: Tensor, cell: Tensor];
export class Cell extends nn.Module {
  readonly inner = new nn.Linear(2, 2);
  forward(x: Tensor, [hidden, cell]: State, steps: number): { readonly out: Tensor; readonly state: State } {
    const out = this.inner.forward(x.add(hidden).mul(steps));
    return { out, state: [out, cell] };
  }
}
const cell = new Cell();
export const { out, state } = cell.forward(ones([1, 2]), [zeros([1, 2]), zeros([1, 2])], 3);
export const chain = new nn.Sequential(new nn.Linear(2, 2), new nn.ReLU());
// @ts-expect-error: a cell is not a layer
export const broken = new nn.Sequential(new nn.Linear(2, 2), cell);
// @ts-expect-error: nor can it be fitted
export const unfit = fit(cell, { loss: mse });

// Kernels: launch and simulate take what the schema says.
const scale = kernel('scale', { x: buffer(f32), n: i32, on: bool }, ({ x, n, on }, { globalId }) => {
  if (on && globalId.x < n) x[globalId.x] = 1;
});
const one = { grid: 1, block: 32 } as const;
export const launched = scale.launch(one, { x: allocate(f32, 4), n: 4, on: true });
export const simulated = scale.simulate(one, { x: new Float32Array(4), n: 4, on: true });
// @ts-expect-error: an array of another dtype
export const wrongArray = scale.simulate(one, { x: new Int32Array(4), n: 4, on: true });
// @ts-expect-error: no such parameter
export const wrongName = scale.simulate(one, { y: new Float32Array(4), n: 4, on: true });
// @ts-expect-error: a parameter is missing
export const missing = scale.simulate(one, { x: new Float32Array(4), n: 4 });
// @ts-expect-error: a number is not a flag
export const wrongScalar = scale.launch(one, { x: ones([4]), n: 4, on: 1 });

// @ts-expect-error: what is internal is not there
export const internal = ones([1]).ownNode;
