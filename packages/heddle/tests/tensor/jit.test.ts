/** `jit`: when it traces, what it keeps, what it updates in place, and what it refuses. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import {
  jit,
  manualSeed,
  noGrad,
  rand,
  randn,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('a function is traced once per shape and dtype, not per call', async () => {
    let traces = 0;
    const twice = jit((x: Tensor) => {
      traces++;
      return x.mul(2);
    });
    assert.equal(twice.launches, 0);
    for (const values of [
      [1, 2],
      [3, 4],
      [5, 6],
    ]) {
      assert.deepEqual(
        await list(twice(tensor(values))),
        values.map((v) => 2 * v),
      );
    }
    assert.equal(traces, 1);
    assert.equal(twice.launches, 1);
    await twice(tensor([1, 2, 3])).data();
    await twice(tensor([[1, 2]])).data();
    assert.equal(traces, 3);
    await twice(tensor([1, 2], { dtype: H.i32 })).data();
    assert.equal(traces, 4);
    await twice(tensor([7, 8])).data();
    assert.equal(traces, 4);
  });

  on('plain arguments are constants of the program', async () => {
    let traces = 0;
    const scaled = jit((x: Tensor, options: { by: number; name: string; list: (number | null)[] }) => {
      traces++;
      return x.mul(options.by).add(options.list[0] ?? 100);
    });
    const x = tensor([1, 2]);
    assert.deepEqual(await list(scaled(x, { by: 3, name: 'a', list: [1] })), [4, 7]);
    assert.deepEqual(await list(scaled(x, { by: 5, name: 'a', list: [1] })), [6, 11]);
    assert.deepEqual(await list(scaled(x, { by: 5, name: 'a', list: [null] })), [105, 110]);
    assert.deepEqual(await list(scaled(x, { by: 3, name: 'a', list: [1] })), [4, 7]);
    assert.equal(traces, 3);
    await scaled(x, { by: 3, name: 'b', list: [1] }).data();
    assert.equal(traces, 4);
  });

  on('arrays and records of tensors go in and come out', async () => {
    const f = jit(({ a, rest }: { a: Tensor; rest: Tensor[] }, flag: boolean) => ({
      sum: a.add(rest[0]!),
      others: [rest[1]!.neg(), flag, 'text', null, undefined] as const,
    }));
    const out = f({ a: tensor([1]), rest: [tensor([2]), tensor([3])] }, true);
    assert.deepEqual(await list(out.sum), [3]);
    assert.deepEqual(await list(out.others[0]), [-3]);
    assert.deepEqual(out.others.slice(1), [true, 'text', null, undefined]);
  });

  on('state is updated in place, and tensors made from it before keep the old values', async () => {
    const state = tensor([1, 2, 3]);
    const step = jit(() => {
      state.assign(state.mul(2).add(1));
    });
    const lazy = state.add(10);
    const view = state.at('::-1');
    const same = state.detach();
    step();
    assert.deepEqual(await list(state), [3, 5, 7]);
    const between = state.neg();
    step();
    step();
    assert.deepEqual(await list(lazy), [11, 12, 13]);
    assert.deepEqual(await list(view), [3, 2, 1]);
    assert.deepEqual(await list(same), [1, 2, 3]);
    assert.deepEqual(await list(between), [-3, -5, -7]);
    assert.deepEqual(await list(state), [15, 23, 31]);
  });

  on('repeated, it does what as many calls do', async () => {
    const [count, left, right] = [tensor(0), tensor([1, 2]), tensor([5, 7])];
    const step = jit((x: Tensor) => {
      count.assign(count.add(1));
      const before = left.detach();
      left.assign(right.mul(x));
      right.assign(before.add(count));
      return left.add(right);
    });
    assert.deepEqual(await list(step(tensor([2, 3]))), [12, 24]);
    const last = step.repeat(3, tensor([1, 2]));
    assert.deepEqual(await list(count), [4]);
    assert.deepEqual(await list(left), [5, 18]);
    assert.deepEqual(await list(right), [16, 50]);
    assert.deepEqual(await list(last), [21, 68]);
    assert.throws(() => step.repeat(0, tensor([1, 2])), /times is 0, must be an integer ≥ 1/);
    const counting = jit(() => {
      count.assign(count.add(1));
    });
    counting.repeat(1000);
    assert.equal(await count.item(), 1004);
  });

  on('prepared, it is traced and compiled, but not run', async () => {
    const count = tensor(0);
    let traces = 0;
    const step = jit((x: Tensor) => {
      traces++;
      count.assign(count.add(x.sum()));
    });
    step.prepare(tensor([1, 2]));
    assert.equal(await count.item(), 0);
    step(tensor([3, 4]));
    assert.equal(await count.item(), 7);
    assert.equal(traces, 1);
    assert.ok(step.prepare(tensor([5, 6])), 'nothing is left to compile');
  });

  on('assigning outside, between calls, is seen by the next call', async () => {
    const state = tensor([1, 1]);
    const step = jit((x: Tensor) => {
      state.assign(state.add(x));
      return state.sum();
    });
    assert.equal(await step(tensor([1, 2])).item(), 5);
    state.assign(tensor([100, 200]));
    assert.equal(await step(tensor([1, 2])).item(), 303);
    state.write([0, 0]);
    assert.equal(await step(tensor([1, 2])).item(), 3);
    state.assign(state.mul(10));
    assert.equal(await step(tensor([1, 2])).item(), 33);
  });

  on('outputs that are inputs, once and several times', async () => {
    const f = jit((x: Tensor, y: Tensor) => [x, y.add(1), x, y, x.reshape([2, 1])] as const);
    const [x, y] = [tensor([1, 2]), tensor([3, 4])];
    const out = f(x, y);
    x.write([9, 9]);
    assert.deepEqual(await Promise.all(out.map(list)), [
      [1, 2],
      [4, 5],
      [1, 2],
      [3, 4],
      [1, 2],
    ]);
    assert.deepEqual(out[4].shape, [2, 1]);
  });

  on('outputs of earlier calls keep their values', async () => {
    const f = jit((x: Tensor) => x.mul(x));
    const outputs = [1, 2, 3].map((v) => f(tensor([v])));
    assert.deepEqual(await Promise.all(outputs.map((t) => t.item())), [1, 4, 9]);
    const chain = f(f(f(tensor([2]))));
    assert.equal(await chain.item(), 256);
  });

  on('state returned before and after its update', async () => {
    const state = tensor([1, 2]);
    const step = jit(() => {
      const before = state.mul(1);
      state.assign(state.add(5));
      const middle = state.detach();
      state.assign(state.mul(2));
      return { before, middle, after: state };
    });
    const first = step();
    const second = step();
    assert.deepEqual(await list(first.before), [1, 2]);
    assert.deepEqual(await list(first.middle), [6, 7]);
    assert.deepEqual(await list(first.after), [12, 14]);
    assert.deepEqual(await list(second.before), [12, 14]);
    assert.deepEqual(await list(second.after), [34, 38]);
    assert.deepEqual(await list(state), [34, 38]);
  });

  on('two states exchanged, shifted, and made of each other', async () => {
    const [a, b, c] = [tensor([1, 2]), tensor([3, 4]), tensor([5, 6])];
    const step = jit((x: Tensor) => {
      const old = [a.detach(), b.detach(), c.detach()] as const;
      a.assign(old[1]);
      b.assign(old[0].add(old[2]));
      c.assign(x);
    });
    const model = { a: [1, 2], b: [3, 4], c: [5, 6] };
    for (const x of [
      [7, 8],
      [9, 10],
      [11, 12],
    ]) {
      step(tensor(x));
      const { a: p, b: q, c: r } = model;
      Object.assign(model, { a: q, b: p.map((v, i) => v + r[i]!), c: x });
      assert.deepEqual([await list(a), await list(b), await list(c)], [model.a, model.b, model.c]);
    }
  });

  on('state made of a moved view of itself, of a product with itself, and of a sum over itself', async () => {
    const [s, m, v] = [
      tensor([
        [1, 2],
        [3, 4],
      ]),
      tensor([
        [1, 1],
        [0, 1],
      ]),
      tensor([1, 2, 3, 4]),
    ];
    const step = jit(() => {
      s.assign(s.transpose().at('::-1'));
      m.assign(m.matmul(m));
      v.assign(v.sub(v.mean()));
    });
    step();
    assert.deepEqual(await s.array(), [
      [2, 4],
      [1, 3],
    ]);
    assert.deepEqual(await m.array(), [
      [1, 2],
      [0, 1],
    ]);
    assert.deepEqual(await v.array(), [-1.5, -0.5, 0.5, 1.5]);
    step();
    assert.deepEqual(await s.array(), [
      [4, 3],
      [2, 1],
    ]);
    assert.deepEqual(await m.array(), [
      [1, 4],
      [0, 1],
    ]);
  });

  on(
    'a state read by others in the same step: before its update the old value, after it the new',
    async () => {
      const s = tensor([2, 3]);
      const step = jit((x: Tensor) => {
        const before = s.mul(x).sum();
        s.assign(s.add(x));
        const after = s.mul(x).sum();
        return [before, after, s.square().sum()] as const;
      });
      const [before, after, square] = step(tensor([1, 10]));
      assert.deepEqual(await Promise.all([before, after, square].map((t) => t.item())), [32, 133, 178]);
    },
  );

  on('a state that ends one hand-written kernel and starts the next', async () => {
    const [s, m] = [
      tensor([1, 2, 3]),
      tensor([
        [1, 0],
        [1, 1],
      ]),
    ];
    const step = jit((x: Tensor) => {
      s.assign(x.softmax(0).mul(0).add(s));
      m.assign(m.matmul(m).add(1));
      return [s.softmax(0), m.transpose().matmul(m), s] as const;
    });
    const [p, q, r] = step(tensor([3, 1, 2]));
    assertClose(await list(p), [0.0900306, 0.2447285, 0.6652409], 'softmax', { relative: 1e-6 });
    assert.deepEqual(await q.array(), [
      [13, 8],
      [8, 5],
    ]);
    assert.deepEqual(await r.array(), [1, 2, 3]);
    assert.deepEqual(await m.array(), [
      [2, 1],
      [3, 2],
    ]);
  });

  on('tensors made from host data inside are the same at every run', async () => {
    const step = jit((x: Tensor) => x.add(tensor([10, 20])).mul(H.arange(2).cast(H.f32)));
    assert.deepEqual(await list(step(tensor([1, 2]))), [0, 22]);
    assert.deepEqual(await list(step(tensor([3, 4]))), [0, 24]);
  });

  on('random draws go on from step to step, and are those drawn without jit', async () => {
    const draw = (): Tensor[] => [rand([5]), randn([3]), H.dropout(H.ones([9]))];
    const collect = async (step: () => Tensor[]): Promise<number[][]> => {
      manualSeed(7);
      const rows: number[][] = [];
      for (let i = 0; i < 4; i++) rows.push((await Promise.all(step().map(list))).flat());
      return rows;
    };
    const plain = await collect(draw);
    const step = jit(draw);
    const jitted = await collect(step);
    assert.deepEqual(jitted, plain);
    assert.equal(new Set(plain.map((r) => r.join())).size, 4);
    assert.deepEqual(await collect(step), plain);
  });

  on('training by hand is the same with jit and without, run after run', async () => {
    const train = async (wrap: (f: (x: Tensor, y: Tensor) => Tensor) => (x: Tensor, y: Tensor) => Tensor) => {
      const random = new H.Generator(3);
      const w = randn([4, 3], { generator: random, requiresGrad: true });
      const c = zeros([3], { requiresGrad: true });
      const step = wrap((x, y) => {
        const loss = H.crossEntropy(x.matmul(w).add(c), y);
        loss.backward();
        noGrad(() => {
          for (const p of [w, c]) {
            p.assign(p.sub(p.grad!.mul(0.5)));
            p.grad = undefined;
          }
        });
        return loss;
      });
      const losses: number[] = [];
      for (let i = 0; i < 6; i++) {
        const x = randn([8, 4], { generator: random });
        losses.push(await step(x, x.argmax(1).minimum(2)).item());
      }
      return [...losses, ...(await list(w)), ...(await list(c))];
    };
    const plain = await train((f) => f);
    const jitted = await train((f) => jit(f));
    assert.deepEqual(await train((f) => jit(f)), jitted, 'two runs with one seed');
    assert.ok(plain[5]! < plain[0]!, 'the loss falls');
    for (const [i, v] of jitted.entries())
      assert.ok(Math.abs(v - plain[i]!) < 1e-5, `number ${i}: ${v} and ${plain[i]}`);
  });
}

beforeEach(() => {
  useDevice(DEVICES[0]!);
});

test('16 shapes are kept; the one that was made first is traced again after them', () => {
  let traces = 0;
  const f = jit((x: Tensor) => {
    traces++;
    return x.sum();
  });
  for (let n = 1; n <= 16; n++) f(zeros([n]));
  f(zeros([1]));
  assert.equal(traces, 16);
  f(zeros([17]));
  assert.equal(traces, 17);
  f(zeros([16]));
  assert.equal(traces, 17);
  f(zeros([1]));
  assert.equal(traces, 18);
  f.dispose();
  f(zeros([16]));
  assert.equal(traces, 19);
});

test('realize inside does nothing; the step computes all of it', async () => {
  const f = jit((x: Tensor) => {
    const y = x.add(1);
    H.realize(y, x);
    return y.mul(2);
  });
  assert.deepEqual(await list(f(tensor([1]))), [4]);
});

const refused = (message: RegExp) => ({ name: 'ArgumentError', code: 'HEDDLE_ARGUMENT', message });

test('a function of more than 2,000 operations, one on the other, is one program', async () => {
  useDevice('cpu');
  const one = zeros([2]).add(1).realize();
  const count = jit((x: Tensor) => {
    let y = x;
    for (let i = 0; i < 2100; i++) y = y.add(one);
    return y;
  });
  assert.deepEqual(await list(count(tensor([0, 0.5]))), [2100, 2100.5]);
});

test('a jitted function inside another is refused, and the outer one works afterwards', async () => {
  const inner = jit((x: Tensor) => x.add(1));
  let nested = true;
  const outer = jit((x: Tensor) => (nested ? inner(x) : x.sub(1)));
  assert.throws(
    () => outer(tensor([1])),
    refused(/^\[jit\] a jitted function cannot be called inside another: call the plain function there\.$/),
  );
  nested = false;
  assert.deepEqual(await list(outer(tensor([1]))), [0]);
});

test('values cannot be awaited inside, and the text says where they can', async () => {
  let inside: Promise<unknown> | undefined;
  const f = jit((x: Tensor) => {
    inside = x.add(1).item();
    inside.catch(() => {});
    return x;
  });
  f(tensor([1]));
  await assert.rejects(
    inside!,
    refused(
      /inside jit, values exist only when the step runs\. Return it from the function, then await it\.$/,
    ),
  );
});

test('an async function is refused, whatever becomes of its promise', async () => {
  const f = jit((async (x: Tensor) => {
    await x.add(1).data();
  }) as unknown as (x: Tensor) => undefined);
  assert.throws(
    () => f(tensor([1])),
    refused(/^\[jit\] the function must not be async: values cannot be awaited/),
  );
  // A rejection nobody handles would end the process here
  await new Promise((resolve) => setImmediate(resolve));
});

test('gradients that nothing used are refused', () => {
  const w = tensor([1, 2], { requiresGrad: true });
  const f = jit((x: Tensor) => {
    const loss = w.mul(x).sum();
    loss.backward();
    return loss;
  });
  assert.throws(
    () => f(tensor([3, 4])),
    refused(
      /^\[jit\] backward\(\) gave gradients to 1 parameter that no optimizer\.step\(\) in this function used: a tensor \(2\)\. Step/,
    ),
  );
  assert.equal(w.grad, undefined);
});

test('gradients can be returned', async () => {
  const w = tensor([1, 2], { requiresGrad: true });
  const f = jit((x: Tensor) => {
    w.mul(x).square().sum().backward();
    const g = w.grad!;
    w.grad = undefined;
    return g;
  });
  assert.deepEqual(await list(f(tensor([3, 4]))), [18, 64]);
  assert.deepEqual(await list(f(tensor([1, 1]))), [2, 4]);
});

test('a function that throws changes nothing and can be called again', async () => {
  const state = tensor([1, 2]);
  let fail = true;
  const f = jit((x: Tensor) => {
    state.assign(state.add(x));
    if (fail) throw new Error('on purpose');
    return state;
  });
  assert.throws(() => f(tensor([1, 1])), /on purpose/);
  assert.deepEqual(await list(state), [1, 2]);
  fail = false;
  assert.deepEqual(await list(f(tensor([1, 1]))), [2, 3]);
});

test('an argument that is assigned, within or as state, is refused', async () => {
  const state = tensor([1, 2]);
  const inside = jit((x: Tensor) => {
    x.assign(x.mul(2));
  });
  assert.throws(
    () => inside(state),
    refused(/^\[assign\] an argument of a jitted function cannot be assigned/),
  );
  const both = jit((x: Tensor) => {
    state.assign(state.add(x));
    return x.sum();
  });
  for (const call of [both, both.prepare, (x: Tensor) => both.repeat(2, x)]) {
    assert.throws(
      () => call(state),
      refused(/^\[jit\] tensor 1 of the arguments, \(2\), is also assigned by the function.*x\.detach\(\)/),
    );
    assert.deepEqual(await list(state), [1, 2]);
  }
  assert.equal(await both.repeat(2, state.detach()).item(), 3);
  assert.deepEqual(await list(state), [3, 6]);
  assert.throws(() => both(state), refused(/also assigned by the function/));
});

test('a gradient from outside is not applied again by every call', async () => {
  const w = tensor([1, 2], { requiresGrad: true });
  const optimizer = new H.optim.SGD([w], { lr: 1 });
  w.mul(3).sum().backward();
  assert.throws(
    () => jit(() => optimizer.step())(),
    refused(/^\[optim\] step\(\) within jit: the gradient of a parameter of shape \(2\) is from outside/),
  );
  optimizer.step();
  assert.deepEqual(await list(w), [-2, -1]);
});

test('writing inside is refused', () => {
  const state = tensor([1, 2]);
  const f = jit(() => {
    state.write([3, 4]);
  });
  assert.throws(() => f(), refused(/^\[write\] is not for traced functions: pass the values as an argument/));
});

test('a state that was disposed of is an error that says so', () => {
  const state = tensor([1, 2]);
  const f = jit((x: Tensor) => x.add(state));
  f(tensor([1, 1]));
  state.dispose();
  assert.throws(() => f(tensor([1, 1])), {
    name: 'DeviceError',
    message: /disposed of: its memory was given back/,
  });
});

test('tensors of two devices do not meet', async () => {
  useDevice('cpu');
  const x = tensor([1, 2]);
  useDevice('sim');
  const y = tensor([3, 4]);
  assert.deepEqual(await list(x.add(1)), [2, 3], 'a graph runs where its tensors are');
  await assert.rejects(x.add(y).data(), {
    name: 'DeviceError',
    message:
      "A tensor on sim cannot be used on cpu. Make all tensors of a computation after one useDevice('cpu').",
  });
  assert.throws(() => jit((t: Tensor) => t.add(1))(x), { name: 'DeviceError' });
});
