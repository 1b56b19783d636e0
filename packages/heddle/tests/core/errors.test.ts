/** What is said when arguments do not fit: class, code and text, word for word. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import {
  type DType,
  f16,
  f32,
  f64,
  i32,
  ones,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const CODES = {
  ShapeError: 'HEDDLE_SHAPE',
  DTypeError: 'HEDDLE_DTYPE',
  ArgumentError: 'HEDDLE_ARGUMENT',
  DeviceError: 'HEDDLE_DEVICE',
} as const;

type Row = readonly [what: string, run: () => unknown, name: keyof typeof CODES, message: string];

/** Each call throws exactly this. */
function throwing(name: string, rows: readonly Row[]): void {
  test(name, () => {
    for (const [what, run, error, message] of rows) {
      assert.throws(run, { name: error, code: CODES[error], message }, what);
      assert.throws(run, H.HeddleError, what);
    }
  });
}

beforeEach(() => {
  useDevice(DEVICES[0]!);
});

const x = (...shape: number[]): Tensor => zeros(shape);
const ints = (...shape: number[]): Tensor => zeros(shape, { dtype: i32 });
const bools = (...shape: number[]): Tensor => zeros(shape, { dtype: H.bool });
const as = (dtype: DType, ...shape: number[]): H.AnyTensor => zeros(shape, { dtype });

throwing('making tensors', [
  [
    'values and shape',
    () => tensor([1, 2, 3], { shape: [2, 2] }),
    'ShapeError',
    '3 values do not fill (2,2), which has 4 elements.',
  ],
  [
    'uneven rows',
    () => tensor([[1, 2], [3]]),
    'ShapeError',
    '[tensor] rows differ in length: 2 and 1 at depth 1.',
  ],
  [
    'uneven depth',
    () => tensor([[1], 2]),
    'ShapeError',
    '[tensor] nesting differs: a number where 1 more levels were expected.',
  ],
  [
    'a size that is none',
    () => zeros([2, -1]),
    'ShapeError',
    '[zeros] shape is [2, -1], must be a list of integers ≥ 0, as in [2, 3].',
  ],
  [
    'half a size',
    () => H.rand([1.5]),
    'ShapeError',
    '[rand] shape is [1.5], must be a list of integers ≥ 0, as in [2, 3].',
  ],
  ['a step of 0', () => H.arange(0, 3, { step: 0 }), 'ArgumentError', '[arange] step must not be 0.'],
  ['eye of −1', () => H.eye(-1), 'ArgumentError', '[eye] n is -1, must be an integer ≥ 0.'],
  ['cat of none', () => H.cat([]), 'ArgumentError', '[cat] takes at least one tensor.'],
  [
    'cat of others',
    () => H.cat([x(2, 3), x(3, 2)]),
    'ShapeError',
    '[cat] shapes differ outside axis 0: (2,3) and (3,2).',
  ],
  [
    'a seed that is none',
    () => H.manualSeed(-1),
    'ArgumentError',
    '[manualSeed] seed is -1, must be an integer ≥ 0.',
  ],
  [
    'an unknown device',
    () => useDevice('tpu'),
    'DeviceError',
    "'tpu' is not a device. Expected one of: cuda, cpu, sim (cuda:1 is the second GPU). Without a name the fastest is used.",
  ],
]);

throwing('arithmetic', [
  [
    'shapes that do not broadcast',
    () => x(2, 3).add(x(2, 4)),
    'ShapeError',
    '[add] shapes do not broadcast: (2,3) and (2,4), 3 ≠ 4 in dimension -1. Sizes must be equal, or one of them 1.',
  ],
  [
    'other dtypes',
    () => x(2).mul(ints(2)),
    'DTypeError',
    '[mul] dtypes differ: f32 and i32. Convert one with .cast(f32).',
  ],
  [
    'div of integers',
    () => ints(2).div(ints(2)),
    'DTypeError',
    '[div] takes float operands, got i32. Convert with .cast(f32), .cast(i32)…',
  ],
  [
    'idiv of floats',
    () => x(2).idiv(x(2)),
    'DTypeError',
    '[idiv] takes integer operands, got f32. Convert with .cast(f32), .cast(i32)…',
  ],
  [
    'add of bools',
    () => bools(2).add(bools(2)),
    'DTypeError',
    '[add] takes number operands, got bool. Convert with .cast(f32), .cast(i32)…',
  ],
  [
    'and of floats',
    () => x(2).and(x(2)),
    'DTypeError',
    '[and] takes bits operands, got f32. Convert with .cast(f32), .cast(i32)…',
  ],
  [
    'a fraction beside integers',
    () => ints(2).add(0.5),
    'DTypeError',
    '[add] 0.5 cannot be represented as i32 (an integer from -2147483648 to 2147483647). Convert the tensor first: .cast(f32).',
  ],
  [
    'a number beside bools',
    () => bools(2).eq(1),
    'DTypeError',
    '[eq] 1 cannot be represented as bool (true or false). Convert the tensor first: .cast(f32).',
  ],
  [
    'a condition of floats',
    () => x(2).where(x(2), 0),
    'DTypeError',
    '[where] the condition must be bool, got f32. Compare first, as in x.gt(0).',
  ],
  [
    'other branches',
    () => bools(2).where(x(2), ints(2)),
    'DTypeError',
    '[where] dtypes differ: f32 and i32. Convert one with .cast(…).',
  ],
  [
    'branches that do not broadcast',
    () => bools(2).where(x(3), 0),
    'ShapeError',
    '[where] shapes do not broadcast: (2) and (3) and (), 2 ≠ 3 in dimension -1. Sizes must be equal, or one of them 1.',
  ],
]);

throwing('reductions', [
  [
    'an axis too far',
    () => x(2, 3).sum(2),
    'ShapeError',
    '[sum] axis 2 is out of range for 2 dimensions: use -2 to 1.',
  ],
  [
    'an axis of one',
    () => x(2).max(-2),
    'ShapeError',
    '[max] axis -2 is out of range for 1 dimension: use -1 to 0.',
  ],
  ['an axis twice', () => x(2, 3).mean([1, -1]), 'ShapeError', '[mean] axes (1,1) repeat.'],
  [
    'a sum of bools',
    () => bools(2).sum(),
    'DTypeError',
    '[sum] takes numbers, got bool. Convert with .cast(i32).',
  ],
  [
    'the maximum of nothing',
    () => x(2, 0).max(1),
    'ShapeError',
    '[max] of no elements: (2,0) over axes 1. There is no max of an empty set.',
  ],
  [
    'argmax of too few',
    () => x().argmax(0),
    'ShapeError',
    '[argmax] axis 0 is out of range for 0 dimensions: use 0 to -1.',
  ],
  [
    'softmax of integers',
    () => ints(2).softmax(0),
    'DTypeError',
    '[softmax] x must be floats, got i32. Convert with .cast(f32).',
  ],
]);

throwing('movement', [
  [
    'reshape to another size',
    () => x(2, 3).reshape([4]),
    'ShapeError',
    '[reshape] sizes differ: (2,3) has 6 elements, (4) 4.',
  ],
  [
    'reshape with no answer',
    () => x(2, 3).reshape([-1, 4]),
    'ShapeError',
    '[reshape] cannot infer the −1 dimension: (2,3) (6 elements) to (-1,4).',
  ],
  [
    'reshape with two',
    () => x(2, 3).reshape([-1, -1]),
    'ShapeError',
    '[reshape] cannot infer the −1 dimension: (2,3) (6 elements) to (-1,-1).',
  ],
  ['permute that repeats', () => x(2, 3).permute([0, 0]), 'ShapeError', '[permute] axes (0,0) repeat.'],
  [
    'permute that forgets',
    () => x(2, 3).permute([0]),
    'ShapeError',
    '[permute] (0) does not name each of 2 dimensions once.',
  ],
  [
    'transpose of a vector',
    () => x(2).transpose(),
    'ShapeError',
    '[transpose] axis -2 is out of range for 1 dimension: use -1 to 0.',
  ],
  [
    'expand of what is not 1',
    () => x(2, 3).expand([4, 3]),
    'ShapeError',
    '[expand] (2,3) does not broadcast to (4,3): only sizes of 1 can be repeated.',
  ],
  [
    'expand to fewer',
    () => x(1, 3).expand([3]),
    'ShapeError',
    '[expand] (1,3) does not broadcast to (3): only sizes of 1 can be repeated.',
  ],
  [
    'squeeze of 2',
    () => x(2, 3).squeeze(0),
    'ShapeError',
    '[squeeze] dimension 0 of (2,3) has size 2, not 1.',
  ],
  [
    'pad of too few',
    () => x(2, 3).pad([[1, 1]]),
    'ArgumentError',
    '[pad] amounts is [[1, 1]], must be [before, after] ≥ 0 for each of the 2 dimensions, as in pad([[0, 0], [1, 1]]).',
  ],
  [
    'pad by less than 0',
    () => x(2).pad([[-1, 0]]),
    'ArgumentError',
    '[pad] amounts is [[-1, 0]], must be [before, after] ≥ 0 for each of the 1 dimensions, as in pad([[0, 0], [1, 1]]).',
  ],
  [
    'flip of no axis',
    () => x(2).flip(1),
    'ShapeError',
    '[flip] axis 1 is out of range for 1 dimension: use -1 to 0.',
  ],
]);

throwing('indexing', [
  [
    'a position too far',
    () => x(2, 3).at(0, 3),
    'ShapeError',
    '[at] 3 is out of range for dimension 1 of (2,3): use -3 to 2.',
  ],
  [
    'a fraction',
    () => x(2, 3).at(0.5),
    'ShapeError',
    '[at] 0.5 is out of range for dimension 0 of (2,3): use -2 to 1.',
  ],
  ['too many', () => x(2).at(0, 0), 'ShapeError', '[at] 2 indices for the 1 dimensions of (2).'],
  [
    'no slice',
    () => x(2).at('one'),
    'ArgumentError',
    `[at] "one" is not a slice. Write 'start:stop:step', any part left out, as in '1:3' or '::-1'.`,
  ],
  ['a step of 0', () => x(2).at('::0'), 'ArgumentError', '[at] "::0": step must not be 0.'],
  ['dots twice', () => x(2).at('...', '...'), 'ArgumentError', "[at] takes '...' once."],
  [
    'two tensors',
    () => x(2, 2).at(ints(1), ints(1)),
    'ArgumentError',
    '[at] takes one tensor of positions at a time: index in two steps.',
  ],
  [
    'positions of floats',
    () => x(2, 2).at(x(1)),
    'ArgumentError',
    '[at] positions must be i32, got f32. Convert with .cast(i32).',
  ],
  [
    'gather with floats',
    () => x(2, 2).gather(0, x(2, 2)),
    'DTypeError',
    '[gather] the index must be i32, got f32. Convert with .cast(i32).',
  ],
  [
    'gather of another shape',
    () => x(2, 3).gather(0, ints(5, 2)),
    'ShapeError',
    '[gather] index (5,2) and values (2,3) may differ in dimension 0 only.',
  ],
]);

throwing('matrix products and images', [
  [
    'inner sizes',
    () => x(2, 3).matmul(x(4, 5)),
    'ShapeError',
    '[matmul] inner sizes differ: (2,3) × (4,5), 3 ≠ 4. Transpose the right side?',
  ],
  [
    'a scalar',
    () => x().matmul(x(3, 2)),
    'ShapeError',
    '[matmul] takes vectors and matrices, got () × (3,2). Use mul for numbers.',
  ],
  [
    'a dot product of matrices',
    () => x(2, 3).dot(x(3)),
    'ShapeError',
    '[dot] takes two vectors, got (2,3) and (3). Flatten them, or use matmul.',
  ],
  [
    'split into other sizes',
    () => x(5, 2).split([2, 2]),
    'ShapeError',
    '[split] sizes 2 + 2 are 4, but axis 0 of (5,2) has 5.',
  ],
  [
    'a layer norm of another size',
    () => H.layerNorm(x(2, 3), 4),
    'ShapeError',
    '[layerNorm] x is (2,3), but normalizedShape is (4): x must end with it.',
  ],
  [
    'batches',
    () => x(2, 2, 2).matmul(x(3, 2, 2)),
    'ShapeError',
    '[matmul] shapes do not broadcast: (2) and (3), 2 ≠ 3 in dimension -1. Sizes must be equal, or one of them 1.',
  ],
  [
    'dtypes',
    () => x(2, 2).matmul(as(f64, 2, 2)),
    'DTypeError',
    '[matmul] dtypes differ: f32 and f64. Convert one with .cast(f32).',
  ],
  [
    'integers',
    () => ints(2, 2).matmul(ints(2, 2)),
    'DTypeError',
    '[matmul] x must be floats, got i32. Convert with .cast(f32).',
  ],
  [
    'convolution of three dimensions',
    () => H.conv2d(x(1, 4, 4), x(1, 1, 3, 3)),
    'ShapeError',
    '[conv2d] takes x (N,C,H,W) and w (O,C/groups,kH,kW), got x (1,4,4), w (1,1,3,3).',
  ],
  [
    'channels',
    () => H.conv2d(x(1, 2, 4, 4), x(1, 3, 3, 3)),
    'ShapeError',
    '[conv2d] channels do not fit: x (1,2,4,4), w (1,3,3,3), 1 group. w must be (O, 2/groups, kH, kW) with O a multiple of groups.',
  ],
  [
    'a kernel too large',
    () => H.conv2d(x(1, 1, 4, 4), x(1, 1, 5, 3)),
    'ShapeError',
    '[conv2d] a 5×3 kernel (dilation 1×1) does not fit into 4×4 with padding 0×0. Pad more, or use a smaller kernel.',
  ],
  [
    'a stride of 0',
    () => H.conv2d(x(1, 1, 4, 4), x(1, 1, 3, 3), undefined, { stride: 0 }),
    'ArgumentError',
    '[conv2d] stride is 0, must be an integer ≥ 1, or two of them: [height, width].',
  ],
  [
    'other dtypes',
    () => H.conv2d(x(1, 1, 4, 4), as(f16, 1, 1, 3, 3)),
    'DTypeError',
    '[conv2d] takes two of the same float dtype, got f32 and f16. Convert with .cast(f32).',
  ],
  [
    'pooling of three dimensions',
    () => H.maxPool2d(x(1, 4, 4), 2),
    'ShapeError',
    '[maxPool2d] takes (N,C,H,W), got (1,4,4).',
  ],
  [
    'pooling with too much padding',
    () => H.maxPool2d(x(1, 1, 4, 4), 2, { padding: 2 }),
    'ShapeError',
    '[maxPool2d] padding 2×2 is more than half the kernel 2×2: windows of nothing but padding have no maximum. Pad less.',
  ],
  [
    'a window too large',
    () => H.avgPool2d(x(1, 1, 2, 2), 3),
    'ShapeError',
    '[avgPool2d] a 3×3 window does not fit into 2×2 with padding 0×0.',
  ],
]);

throwing('assignment, gradients, single elements', [
  [
    'assign another dtype',
    () => x(2).assign(ints(2)),
    'DTypeError',
    '[assign] dtypes differ: f32 ← i32. Convert with .cast(f32).',
  ],
  ['assign another shape', () => x(2).assign(x(1, 2)), 'ShapeError', '[assign] shapes differ: (2) ← (1,2).'],
  [
    'write too many',
    () => x(2).write([1, 2, 3]),
    'ShapeError',
    '[write] 3 values do not fill (2), which has 2 elements.',
  ],
  [
    'backward of several elements',
    () => ones([2], { requiresGrad: true }).mul(2).backward(),
    'ShapeError',
    '[backward] starts from one element, this tensor is (2). Reduce it first: .mean() or .sum().',
  ],
  [
    'backward of nothing that requires a gradient',
    () => x(2).sum().backward(),
    'ArgumentError',
    '[backward] nothing here requires a gradient: make parameters with { requiresGrad: true }.',
  ],
  [
    'backward without gradients on',
    () => H.noGrad(() => ones([2], { requiresGrad: true }).sum()).backward(),
    'ArgumentError',
    '[backward] nothing here requires a gradient: make parameters with { requiresGrad: true }.',
  ],
  [
    'noGrad around a promise',
    () => H.noGrad(async () => {}),
    'ArgumentError',
    '[noGrad] takes a function that is not async: gradients are off only until it returns.',
  ],
]);

throwing('functions', [
  [
    'linear of another width',
    () => H.linear(x(2, 3), x(4, 5)),
    'ShapeError',
    '[linear] x is (2,3), weight (4,5): the last size of x must be 5. Flatten images first: .flatten(1).',
  ],
  [
    'crossEntropy of one-hot labels',
    () => H.crossEntropy(x(2, 3), ints(2, 3)),
    'ShapeError',
    '[crossEntropy] takes scores (N,C,…) and labels (N,…), got (2,3) and (2,3). One class index per row; one-hot rows are for crossEntropy, as floats.',
  ],
  [
    'crossEntropy of float labels',
    () => H.crossEntropy(x(2, 3), x(2)),
    'DTypeError',
    '[crossEntropy] labels must be i32 class indices, got f32. Convert with .cast(i32).',
  ],
  [
    'mse of other shapes',
    () => H.mse(x(2, 1), x(2)),
    'ShapeError',
    '[mse] shapes differ: x is (2,1), target (2). They must be equal: nothing is broadcast here. Use .reshape() or .expand().',
  ],
  [
    'dropout of 2',
    () => H.dropout(x(2), { p: 2 }),
    'ArgumentError',
    '[dropout] p is 2, must be a number from 0 to 1.',
  ],
  [
    'relu of integers',
    () => H.relu(ints(2)),
    'DTypeError',
    '[relu] x must be floats, got i32. Convert with .cast(f32).',
  ],
]);

const rejected = (error: keyof typeof CODES, message: string): object => ({
  name: error,
  code: CODES[error],
  message,
});

test('asking for one element of several', async () => {
  await assert.rejects(
    x(2, 2).item(),
    rejected('ShapeError', '[item] is for one element, this tensor is (2,2). Use .data().'),
  );
});

test('a tensor that was disposed of', async () => {
  const t = tensor([1, 2]);
  t.dispose();
  const message = 'This tensor has been disposed of: its memory was given back.';
  await assert.rejects(t.data(), rejected('DeviceError', message));
  await assert.rejects(t.add(1).data(), rejected('DeviceError', message));
  assert.throws(() => t.write([1, 2]), rejected('DeviceError', message));
  t.dispose();
});

test('what cannot be computed is an error where it is asked for, and only there', async () => {
  useDevice('cpu');
  const gone = (): Tensor => {
    const t = tensor([1, 2]);
    const made = t.mul(3);
    t.dispose();
    return made;
  };
  /** More than there is memory for. */
  const huge = (): Tensor => H.rand([2 ** 15, 2 ** 16 - 2 ** 6]).mul(2);
  const refused = { name: /^(DeviceError|OutOfMemoryError)$/ };
  const step = H.jit((t: Tensor) => t.add(1));
  const works = async (): Promise<void> => {
    assert.deepEqual([...(await ones([2]).add(1).data())], [2, 2]);
    assert.deepEqual([...(await step(ones([2])).data())], [2, 2]);
  };
  for (const broken of [gone, huge]) {
    const state = ones(broken().shape);
    // What is pending comes along with what is asked for next, which does not need it.
    state.assign(broken());
    await works();
    await assert.rejects(state.data(), refused);
    assert.throws(() => H.realize(broken(), ones([3])), refused);
    assert.throws(() => H.jit(() => broken().add(1))(), refused);
    await works();
    state.assign(zeros(state.shape));
    await works();
    assert.equal(await state.at(0, ...state.shape.slice(1).map(() => 0)).item(), 0);
  }
  // So does a loss whose gradients have been made.
  const parameter = tensor([1, 2], { requiresGrad: true });
  parameter.mul(gone()).sum().backward();
  await works();
  assert.throws(() => new H.optim.SGD([parameter], { lr: 1 }).step(), refused);
  await works();
  // A step that fails changes nothing.
  assert.deepEqual([...(await parameter.data())], [1, 2]);
  await works();
});

test('a gradient that is wrong names the element and both numbers', async () => {
  const wrong = (t: Tensor): Tensor => t.mul(t.detach());
  await assert.rejects(H.gradcheck(wrong, [tensor([3, 1])]), {
    name: 'NumericError',
    code: 'HEDDLE_NUMERIC',
    message: /^\[gradcheck\] input 0, element 0: the gradient is 3, differences give (6|5\.99999)/,
  });
  await H.gradcheck((t) => t.mul(t), [tensor([3, 1], { dtype: f32 })]);
});
