/** The copy engine, mbarriers and products of warpgroups: their meaning, on the simulator and on a GPU, and their faults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bf16,
  buffer,
  type DType,
  device,
  f16,
  f32,
  i8,
  i32,
  kernel,
  type PixelWalk,
  randint,
  randn,
  SimulatorError,
  tensorMap,
  u8,
  useDevice,
  zeros,
} from '../../src/index.js';
import { cudaReason } from '../cases/case-runner.js';
import {
  type Fault,
  type TileProduct,
  throughTiles,
  tileProduct,
  WALKED,
  type Walked,
  walked,
  walkedBack,
} from './hopper-kernels.js';

const DEVICES = ['sim', 'cuda'] as const;
const reasonOf = (name: string): string | undefined => (name === 'cuda' ? cudaReason() : undefined);

/** What wgmma multiplies: 8 bits of fraction of bf16, 11 of f16, 10 of tf32. */
const UNIT: Readonly<Record<string, number>> = { bf16: 0, f16: 0, f32: 2 ** -11 };

async function checkProduct(product: TileProduct): Promise<void> {
  const { M, N, K, dtype = bf16, transposedA, transposedB } = product;
  const drawn = (shape: number[]) =>
    dtype.kind === 'float'
      ? randn(shape).cast(dtype)
      : randint(dtype.kind === 'int' ? -128 : 0, dtype.kind === 'int' ? 128 : 256, shape, { dtype });
  const a = drawn([M, K]);
  const b = drawn([N, K]);
  const c = zeros([M, N], { dtype: dtype.kind === 'float' ? f32 : i32 });
  const given = { a: transposedA ? a.transpose().mul(1) : a, b: transposedB ? b.transpose().mul(1) : b };
  await tileProduct(product).launch({ grid: Math.ceil(M / 64), block: 256 }, { ...given, c });
  const [x, y, z] = await Promise.all([a.cast(f32).data(), b.cast(f32).data(), c.data()]);
  for (let i = 0; i < M; i++)
    for (let j = 0; j < N; j++) {
      let [sum, size] = [0, 0];
      for (let k = 0; k < K; k++) {
        const term = x[i * K + k]! * y[j * K + k]!;
        sum += term;
        size += Math.abs(term);
      }
      // Operands in tf32 are off by a unit each; sums in f32 by one for each of K / 8 additions, cut and not rounded. Whole
      // numbers are exact.
      const bound = dtype.kind === 'float' ? size * (2 * UNIT[dtype.name]! + (K / 8 + 1) * 2 ** -22) : 0;
      assert.ok(
        Math.abs(z[i * N + j]! - sum) <= bound,
        `(${i}, ${j}): ${z[i * N + j]} for ${sum} ± ${bound}`,
      );
    }
}

/** Tiles that begin within an image and end in another, in its padding or beyond the last. */
const WALKS: Readonly<Record<string, Walked>> = {
  'images, as a kernel of 3 × 3 with padding sees them': {
    sizes: [3, 5, 6, 12],
    walk: { from: [-1, -1], counts: [5, 6] },
    ...{ first: [0, 2, 4], offsets: [2, 0] },
  },
  'images, as a kernel does in steps of 2 and 3, dilated': {
    sizes: [2, 9, 14, 8],
    walk: { from: [-2, 0], counts: [5, 4], steps: [2, 3] },
    ...{ first: [1, 0, 1], offsets: [4, 3] },
  },
  'images that are smaller than the kernel': {
    sizes: [40, 1, 2, 16],
    walk: { from: [-3, -2], counts: [3, 2] },
    ...{ first: [7, 1, 1], offsets: [2, 1] },
  },
  rows: { sizes: [4, 21, 12], walk: { from: [-2], counts: [11], steps: [2] }, first: [1, 3], offsets: [3] },
  volumes: {
    sizes: [2, 3, 4, 5, 12],
    walk: { from: [-1, 0, -1], counts: [3, 2, 5], steps: [1, 2, 1] },
    ...{ first: [0, 1, 1, 3], offsets: [1, 2, 1] },
  },
};

/** Calls `visit` with each element of a tile, and of the images where it comes from: those that are outside are left out. */
function eachWalked(
  { sizes, walk, first, offsets }: Walked,
  visit: (inTile: number, inImages: number) => void,
): void {
  const perImage = walk.counts.reduce((n, count) => n * count, 1);
  const start = first.slice(1).reduce((n, p, d) => n * walk.counts[d]! + p, 0);
  for (let p = 0; p < WALKED[0]; p++) {
    let rest = (start + p) % perImage;
    const place = [first[0]! + Math.floor((start + p) / perImage)];
    for (let d = walk.counts.length - 1; d >= 0; d--) {
      place.splice(1, 0, walk.from[d]! + (rest % walk.counts[d]!) * (walk.steps?.[d] ?? 1) + offsets[d]!);
      rest = Math.floor(rest / walk.counts[d]!);
    }
    if (place.some((index, d) => index < 0 || index >= sizes[d]!)) continue;
    const pixel = place.reduce((n, index, d) => n * sizes[d]! + index, 0);
    const channels = sizes.at(-1)!;
    for (let c = 0; c < WALKED[1] && 4 + c < channels; c++)
      visit(p * WALKED[1] + c, pixel * channels + 4 + c);
  }
}

async function checkWalk(given: Walked): Promise<void> {
  const x = randn(given.sizes);
  const y = zeros(WALKED);
  await walked(given).launch({ grid: 1, block: 128 }, { x, y });
  const [values, got] = await Promise.all([x.data(), y.data()]);
  const wanted = new Float32Array(got.length);
  eachWalked(given, (inTile, inImages) => {
    wanted[inTile] = values[inImages]!;
  });
  assert.ok(wanted.some((v) => v !== 0));
  assert.deepEqual(got, wanted);
}

async function checkWalkBack(given: Omit<Walked, 'offsets'>): Promise<void> {
  const y = zeros(given.sizes);
  await walkedBack(given).launch({ grid: 1, block: 128 }, { y });
  const got = await y.data();
  const wanted = new Float32Array(got.length);
  eachWalked({ ...given, offsets: given.first.slice(1).map(() => 0) }, (inTile, inImages) => {
    wanted[inImages] = inTile + 1;
  });
  assert.deepEqual(got, wanted);
}

for (const name of DEVICES) {
  const reason = reasonOf(name);
  const on = (title: string, body: () => Promise<void>): void => {
    test(`${name}: ${title}`, { skip: reason ? `not run: ${reason}` : false }, async () => {
      const before = device().name;
      useDevice(name);
      try {
        await body();
      } finally {
        useDevice(before);
      }
    });
  };

  const sizes = { M: 104, N: 64, K: 384 };
  for (const dtype of [bf16, f16, f32, i8, u8] as DType[])
    on(`wgmma multiplies ${dtype.name}, rows beyond the matrix are zeros`, () =>
      checkProduct({ ...sizes, dtype }),
    );
  for (const dtype of [bf16, f32, i8] as DType[])
    for (const held of [false, true])
      on(
        `wgmma adds to cleared sums of ${dtype.name}, a ${held ? 'from registers' : 'from shared memory'}`,
        () => checkProduct({ ...sizes, dtype, held, cleared: true }),
      );
  for (const [transposedA, transposedB] of [
    [true, false],
    [false, true],
    [true, true],
  ] as const)
    on(
      `wgmma takes a ${transposedA ? 'transposed' : 'as it is'}, b ${transposedB ? 'transposed' : 'as it is'}`,
      () => checkProduct({ ...sizes, N: 192, K: 128, transposedA, transposedB }),
    );
  for (const dtype of [bf16, f16, f32, i8] as DType[])
    on(`wgmma takes a in ${dtype.name} from registers`, () => checkProduct({ ...sizes, dtype, held: true }));
  on('wgmma has 8 columns at least, and 256 at most', async () => {
    await checkProduct({ M: 64, N: 8, K: 64 });
    await checkProduct({ M: 64, N: 256, K: 64, dtype: f16 });
  });

  for (const [title, each] of Object.entries(WALKS))
    on(`a copy walks over the pixels of ${title}`, () => checkWalk(each));

  on('a copy walks over pixels that it writes, and leaves out those beyond the images', () =>
    checkWalkBack({
      sizes: [3, 4, 5, 12],
      walk: { from: [0, 0], counts: [4, 5] },
      first: [0, 2, 3],
    }),
  );

  on('tiles are read and written by threads where they lie, and copied back', async () => {
    const x = randn([100, 72]);
    const y = zeros([100, 72]);
    await throughTiles(100, 72).launch({ grid: [3, 2], block: 128 }, { x, y });
    assert.deepEqual(await y.data(), await x.mul(2).data());
  });
}

const finds = (title: string, run: () => unknown, kind: SimulatorError['kind'], message: RegExp): void => {
  test(`the simulator finds ${title}`, () => {
    assert.throws(run, (error: unknown) => {
      assert.ok(error instanceof SimulatorError, String(error));
      assert.equal(error.kind, kind, error.message);
      assert.match(error.message, message);
      assert.ok(error.at?.file.includes('hopper-kernels'), 'names its line');
      return true;
    });
  });
};

const faulty =
  (fault: Fault, held = false, cleared = false) =>
  (): unknown =>
    tileProduct({ M: 64, N: 16, K: 256, fault, held, cleared }).simulate(
      { grid: 1, block: 256 },
      { a: new Uint16Array(64 * 256), b: new Uint16Array(16 * 256), c: new Float32Array(64 * 16) },
    );

finds(
  'a tile that is read before it is there',
  faulty('wait'),
  'race',
  /wgmma reads what a tile copy writes.*waitBarrier/s,
);
finds(
  'a tile that is copied to while it is used',
  faulty('reuse'),
  'race',
  /a tile copy writes what a tile copy writes/,
);
finds(
  'an arrival before the product has been waited for',
  faulty('early'),
  'race',
  /a tile copy writes what wgmma reads.*waitWgmma/s,
);
finds(
  'a product that is not waited for',
  faulty('finish'),
  'race',
  /a tile copy writes what wgmma reads.*waitWgmma/s,
);
finds(
  'registers that change between wgmma and its fence',
  faulty('words-fence', true),
  'missing-fence',
  /wgmma reads words, which the thread has changed: call fenceWgmma\(words\)/,
);
finds(
  'registers that change while wgmma reads them',
  faulty('words-early', true),
  'unfinished',
  /words is written while wgmma.* may still read it/,
);
finds(
  'bytes that never come',
  faulty('bytes'),
  'deadlock',
  /full\[0\], 0\) waits for ever: phase 0 lacks 0 of 1 arrivals and 16 bytes/,
);
finds('arrivals that never come', faulty('arrivals'), 'deadlock', /phase 0 lacks 1 of 2 arrivals/);
finds('sums that were changed without a fence', faulty('sums-fence'), 'missing-fence', /fenceWgmma\(sums\)/);
finds(
  'sums that were cleared without a fence',
  faulty('sums-fence', false, true),
  'missing-fence',
  /fenceWgmma\(sums\)/,
);
finds(
  'sums that are left to wgmma and written',
  faulty('sums-written', false, true),
  'unfinished',
  /sums, which clearSums leaves to wgmma, is written/,
);
finds(
  'sums that are read while they are left to wgmma',
  faulty('sums-early', false, true),
  'unfinished',
  /sums, which clearSums leaves to wgmma, is read: call waitWgmma\(sums, 0\) first/,
);
finds(
  'mbarriers that others do not know of',
  faulty('init'),
  'mbarrier',
  /full\[0\] is used before it is initialized/,
);
finds(
  'a warpgroup that is divided',
  faulty('divergent'),
  'divergent-barrier',
  /wgmma\(\) is reached by 32 of 128 threads/,
);

finds(
  'pixels that are not of the walk',
  () =>
    walked({
      sizes: [1, 4, 4, 8],
      walk: { from: [-1, -1], counts: [2, 2], steps: [2, 2] },
      ...{ first: [0, 1, 2], offsets: [0, 0] },
    }).simulate({ grid: 1, block: 128 }, { x: new Float32Array(128), y: new Float32Array(512) }),
  'out-of-bounds',
  /begins with a pixel of the walk/,
);

test('what the copy engine cannot walk over is refused', () => {
  const map = (sizes: number[], walk: PixelWalk) => () => tensorMap(bf16, { sizes, box: [64, 16], walk });
  assert.throws(map([2, 8, 8, 8], { from: [0], counts: [8] }), /1 to 3 dimensions between image and channel/);
  assert.throws(map([2, 8, 8, 8], { from: [-129, 0], counts: [8, 8] }), /within 128 of the edges/);
  assert.throws(map([2, 8, 8], { from: [0], counts: [1], steps: [9] }), /steps \(1 to 8\)/);
  const around = { sizes: [3, 4, 5, 12], walk: { from: [0, 0], counts: [5, 5] }, first: [0, 0, 0] };
  assert.throws(() => walkedBack(around), /tmaStore walks over all pixels of images/);
});

/** Copies boxes of so many rows and columns of pixels, of 32 channels each, to the rows of a tile. */
const boxed = (rows: number, columns: number) => {
  const map = tensorMap(f32, { sizes: [2, 9, 9, 32], box: [1, rows, columns, 32] });
  return kernel(
    'boxed',
    { x: map, y: buffer(f32) },
    ({ x, y }, context) => {
      const { arriveExpect, barrier, f32, idiv, initBarrier, mbarriers, rows, columns } = context;
      const { sharedTile, threadIdx, tmaLoad, waitBarrier } = context;
      const tile = sharedTile(f32, 2, 64, 32);
      const full = mbarriers(1);
      if (threadIdx.x === 0) initBarrier(full, 0, 1);
      barrier();
      if (threadIdx.x === 0) {
        arriveExpect(full, 0, rows * columns * 128);
        tmaLoad(tile, 1, 0, 0, x, 1, -1, 3, 0, full, 0);
      }
      waitBarrier(full, 0, 0);
      for (let i = threadIdx.x; i < rows * columns * 32; i += 128) y[i] = tile[1][idiv(i, 32)][i % 32];
    },
    { rows, columns },
  );
};

test('a box of pixels lies in the rows of a tile, row by row', () => {
  const x = Float32Array.from({ length: 2 * 9 * 9 * 32 }, (_, i) => i + 1);
  const y = new Float32Array(4 * 8 * 32);
  boxed(4, 8).simulate({ grid: 1, block: 128 }, { x, y });
  y.forEach((got, i) => {
    const [row, column] = [Math.floor(i / 256) - 1, 3 + (Math.floor(i / 32) % 8)];
    const inside = row >= 0 && column < 9;
    assert.equal(got, inside ? x[((9 + row) * 9 + column) * 32 + (i % 32)] : 0, `${i}`);
  });
  assert.throws(() => boxed(9, 8), /a box of \(1,9,8,32\) does not lie in a tile of \(2,64,32\)/);
});

test('what the tensor cores cannot add is refused', () => {
  const product = (given: Partial<TileProduct>) => () =>
    tileProduct({ M: 64, N: 16, K: 256, dtype: u8, ...given });
  assert.throws(product({ transposedB: true }), /tiles of u8 as \(row of the product, k\) only/);
  assert.throws(product({ N: 40 }), /sums of i32.* by a multiple of 8: got 20/);
  assert.throws(product({ total: f32 }), /adds products of u8 to sums of i32: got a local array of f32/);
  assert.throws(
    product({ dtype: f16, total: i32 }),
    /adds products of f16 to sums of f32: got a local array of i32/,
  );
  product({ N: 24 })();
});

const faultyTiles = (fault: 'fence' | 'barrier' | 'unfinished') => (): unknown =>
  throughTiles(64, 32, fault).simulate(
    { grid: 1, block: 128 },
    { x: new Float32Array(2048), y: new Float32Array(2048) },
  );

finds(
  'writes that the copy engine does not see',
  faultyTiles('fence'),
  'missing-fence',
  /a tile store reads what thread \(0,0,0\) wrote.*fenceAsync/s,
);
finds(
  'writes that nothing orders before a copy',
  faultyTiles('barrier'),
  'uninitialized-read',
  /to\[0\]\[4\] is read before it is written/,
);
finds('tiles that are left while they are read', faultyTiles('unfinished'), 'unfinished', /tmaWait\(0\)/);
