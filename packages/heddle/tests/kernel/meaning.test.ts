/** What kernels mean, where a pass, a renderer or the simulator could take it for something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toBf16, toF16 } from '../../src/core/float16.js';
import { buffer, f32, i32, type Kernel, kernel, tensor, useDevice, zeros } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const floats = { x: buffer(f32), y: buffer(f32) };
const ints = { x: buffer(i32), y: buffer(i32) };

/** Runs one block, a thread for each value, in the simulator and on every device: all must give what is expected. */
function means(
  name: string,
  k: Kernel<typeof floats> | Kernel<typeof ints>,
  expected: (t: number, x: number) => number,
  values: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8],
): void {
  const own = k as Kernel<typeof floats>;
  const dtype = own.source('cuda').includes('float* y') ? f32 : i32;
  const from = (): Float32Array =>
    (dtype === f32 ? Float32Array.from(values) : Int32Array.from(values)) as Float32Array;
  const wanted = Array.from(values, (x, t) => expected(t, x));
  const config = { grid: 1, block: values.length };
  test(`${name}: simulated`, () => {
    const y = from().fill(0);
    own.simulate(config, { x: from(), y });
    assert.deepEqual([...y], wanted);
  });
  for (const device of DEVICES) {
    test(`${name}: on ${device}`, async () => {
      useDevice(device);
      const y = zeros([values.length], { dtype });
      await own.launch(config, { x: tensor(from()), y });
      assert.deepEqual(Array.from(await y.data(), Number), wanted);
    });
  }
}

const define = (fn: Parameters<typeof kernel<typeof floats>>[2]): Kernel<typeof floats> =>
  kernel('meaning', floats, fn);

means(
  'a parameter that is changed after it was copied',
  define(({ x, y }, { threadIdx }) => {
    const t = threadIdx.x;
    const f = (v: number): number => {
      const first = v;
      v = v + 1;
      return first * 100 + v;
    };
    y[t] = f(x[t]! * 2);
  }),
  (_, x) => 2 * x * 100 + 2 * x + 1,
);

for (const [name, bitsOf] of [
  ['bf16', toBf16],
  ['f16', toF16],
] as const)
  means(
    `two ${name} as one word, the first in its lower half`,
    kernel(
      'pairs',
      floats,
      ({ x, y }, { bf16, bitcast, f16, f32, isBf16, threadIdx, u32, vec2 }) => {
        const t = threadIdx.x;
        const both = vec2(x[t] * 0.7, x[t] + 0.001);
        const bits = isBf16 ? bitcast(u32, bf16(both)) : bitcast(u32, f16(both));
        y[t] = f32(bits >>> 16) * 0.5 + f32(bits & 0xffff);
      },
      { isBf16: name === 'bf16' },
    ) as Kernel<typeof floats>,
    (_, x) =>
      Math.fround(bitsOf(Math.fround(x + Math.fround(0.001))) * 0.5) +
      bitsOf(Math.fround(x * Math.fround(0.7))),
    [1, -2, 3.3, -0.001, 1e20, 70000, 6e-6, 0].map(Math.fround),
  );

means(
  'a name for what has a name',
  define(({ x, y }, { threadIdx, f32 }) => {
    const t = threadIdx.x;
    const f = (v: number): number => {
      const w = v;
      return v * 100 + w;
    };
    const k = x[t]! > 3 ? 1 : 0;
    const m = k;
    const o = { v: x[t]! };
    const b = o.v;
    y[t] = f(x[t]! + 1) * 100 + f32(m * 10 + k) + b * 1e6 + o.v * 1e6;
  }),
  (_, x) => (x + 1) * 101 * 100 + (x > 3 ? 11 : 0) + 2e6 * x,
);

means(
  'a variable whose only reader goes',
  define(({ x, y }, { threadIdx, f32 }) => {
    const t = threadIdx.x;
    let a = x[t]!;
    const b = a;
    a = f32(t);
    y[t] = f32(t) + 0 * 1;
    if (t > 100) y[t] = b + a;
  }),
  (t) => t,
);

means(
  'shifts of constants',
  define(({ y }, { threadIdx, f32 }) => {
    const t = threadIdx.x;
    y[t] = t === 0 ? f32(-1 >>> 28) : t === 1 ? f32(4000000000 >> 1) : f32(-8 >> 1);
  }),
  (t) => [15, Math.fround(-147483648), -4][Math.min(t, 2)]!,
);

means(
  'a counter of the author that is called as coverage tools call theirs',
  define(({ y }, { threadIdx, f32 }) => {
    let cov_n = 0;
    cov_n++;
    cov_n++;
    y[threadIdx.x] = f32(cov_n);
  }),
  () => 2,
);

means(
  'Math.round',
  define(({ x, y }, { threadIdx }) => {
    y[threadIdx.x] = Math.round(x[threadIdx.x]!);
  }),
  (_, x) => Math.round(x),
  [8388609, 0.49999997, 0.5, 12582913, -8388609, 2.5, -2.5, -0.3].map(Math.fround),
);

means(
  'signs of zeros',
  define(({ x, y }, { threadIdx, load4, store4, splat4, rint }) => {
    if (threadIdx.x > 0) return;
    const low = Math.max(load4(x, 0), splat4(0));
    store4(y, 0, low);
    y[1] = 1 / y[0]!;
    y[4] = 1 / rint(x[4]!);
    y[5] = 1 / +x[5]!;
    store4(y, 8, Math.min(load4(x, 8), splat4(-0)));
    y[6] = 1 / y[8]!;
  }),
  (t) => [0, Infinity, 1, 0, -Infinity, -Infinity, -Infinity, 0, -0, -1, -0, -2][t]!,
  [-0, -1, 1, 0, -0.3, -0, 0, 0, 0, -1, 5, -2],
);

means(
  'warpSum of a warp that is not whole',
  define(({ x, y }, { threadIdx, warpSum }) => {
    y[threadIdx.x] = warpSum(x[threadIdx.x]!);
  }),
  () => 15,
  [1, 2, 3, 4, 5],
);

means(
  'warpMax of integers of a warp that is not whole',
  kernel('meaning', ints, ({ x, y }, { threadIdx, warpMax }) => {
    y[threadIdx.x] = warpMax(x[threadIdx.x]!);
  }),
  () => 9,
  [1, 2, 9, 4, 5, 6, 7],
);

means(
  'warpSum of the lanes that have not returned',
  define(({ x, y }, { threadIdx, warpSum }) => {
    if (threadIdx.x >= 5) return;
    y[threadIdx.x] = warpSum(x[threadIdx.x]!);
  }),
  (t) => (t < 5 ? 15 : 0),
);

test('what may not be: random numbers at compile time, a second dynamicShared, counting in u8', () => {
  const refused = (fn: () => unknown, message: RegExp): void => assert.throws(fn, message);
  refused(
    () =>
      define(({ y }, { threadIdx }) => {
        y[threadIdx.x] = Math.random();
      }),
    /Math\.random is not part of the kernel language/,
  );
  refused(
    () =>
      define(({ x, y }, { threadIdx, dynamicShared, f32 }) => {
        const a = dynamicShared(f32);
        const b = dynamicShared(f32);
        a[threadIdx.x] = x[threadIdx.x]!;
        b[threadIdx.x] = a[threadIdx.x]!;
        y[threadIdx.x] = b[threadIdx.x]!;
      }),
    /a block has one dynamicShared/,
  );
  refused(
    () =>
      define(({ y }, { threadIdx, u8, f32 }) => {
        let count = f32(0);
        for (let i = u8(0); i < u8(255); i += u8(2)) count += 1;
        y[threadIdx.x] = count;
      }),
    /a loop does not count in u8/,
  );
});

test('an asynchronous copy that is not waited for is a race', () => {
  const late = [
    define(({ x, y }, { threadIdx, shared, copyAsync, commitCopies, barrier, f32 }) => {
      const s = shared(f32, 8);
      copyAsync(s, threadIdx.x, x, threadIdx.x);
      commitCopies();
      barrier();
      y[threadIdx.x] = s[7 - threadIdx.x]!;
    }),
    define(({ x, y }, { threadIdx, shared, copyAsync, commitCopies, waitCopies, barrier, f32 }) => {
      const s = shared(f32, 8);
      s[threadIdx.x] = f32(threadIdx.x);
      barrier();
      copyAsync(s, threadIdx.x, x, threadIdx.x);
      commitCopies();
      barrier();
      y[threadIdx.x] = s[7 - threadIdx.x]!;
      waitCopies(0);
    }),
    define(({ x, y }, { threadIdx, shared, copyAsync, waitCopies, barrier, f32 }) => {
      const s = shared(f32, 8);
      copyAsync(s, threadIdx.x, x, threadIdx.x);
      waitCopies(0);
      barrier();
      y[threadIdx.x] = s[7 - threadIdx.x]!;
    }),
    define(({ x, y }, { threadIdx, shared, copyAsync, commitCopies, waitCopies, f32 }) => {
      const s = shared(f32, 8);
      copyAsync(s, threadIdx.x, x, threadIdx.x);
      commitCopies();
      waitCopies(0);
      y[threadIdx.x] = s[7 - threadIdx.x]!;
    }),
  ];
  for (const k of late) {
    const memory = { x: new Float32Array(8).fill(1), y: new Float32Array(8) };
    assert.throws(
      () => k.simulate({ grid: 1, block: 8 }, memory),
      /a race on s\[\d\]|s\[7\] is read before it is written/,
    );
  }
});

test('a parameter may be called copies', () => {
  const k = kernel(
    'named',
    { copies: buffer(f32), y: buffer(f32) },
    ({ copies, y }, { threadIdx, shared, copyAsync, commitCopies, waitCopies, barrier, f32 }) => {
      const s = shared(f32, 8);
      copyAsync(s, threadIdx.x, copies, threadIdx.x);
      commitCopies();
      waitCopies(0);
      barrier();
      y[threadIdx.x] = s[7 - threadIdx.x]!;
    },
  );
  const y = new Float32Array(8);
  k.simulate({ grid: 1, block: 8 }, { copies: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8), y });
  assert.deepEqual([...y], [8, 7, 6, 5, 4, 3, 2, 1]);
});

test('CUDA: what is compared with 0 wraps, so that the test says whether it has', () => {
  const hashed = kernel('hashed', { y: buffer(f32), n: i32 }, ({ y, n }, { globalId }) => {
    let h = globalId.x * 2654435 + 12345;
    if (h < 0) h = -h;
    if (h < n) y[h] = 7;
  });
  assert.match(hashed.source('cuda'), /int h = wrap_add\(wrap_mul\(wrap_add\(wrap_mul\(/);
  const plain = kernel('plain', { y: buffer(f32), n: i32 }, ({ y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[2 * i + 1] = 7;
  });
  assert.doesNotMatch(plain.source('cuda'), /wrap_/);
});

test('CUDA: a product is a multiple only of what one of its factors is', () => {
  const k = kernel(
    'squares',
    { y: buffer(f32), n: i32 },
    ({ y, n }, { threadIdx, local, load4, store4, f32 }) => {
      const a = local(f32, 128);
      for (let i = 0; i < 128; i++) a[i] = 1;
      const at = n + threadIdx.x;
      store4(y, 4 * threadIdx.x, load4(a, at * at));
    },
  );
  assert.doesNotMatch(k.source('cuda'), /f32x4\*>\(&a\[/);
});
