/** Tensor cores and asynchronous copies in the kernel language: their meaning in the simulator, and their text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32, i32, u32 } from '../../src/core/dtype.js';
import { KernelError } from '../../src/core/errors.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import { evaluate } from '../../src/kernel/ir/ops.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { SIM_TARGET, simulate } from '../../src/runtime/sim/launch.js';
import { noise } from './harness.js';

/** C (16×8) += A (16×8) · B (8×8), one warp. */
const product = (rounding: boolean) =>
  defineKernel(
    'product',
    { a: buffer(f32), b: buffer(f32), c: buffer(f32) },
    ({ a, b, c }, { laneId, idiv, vec2, vec4, lane, tf32, mma, ROUNDING }) => {
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const at = (i: number) => (ROUNDING ? tf32(a[i]) : a[i]);
      const left = vec4(at(g * 8 + t), at((g + 8) * 8 + t), at(g * 8 + t + 4), at((g + 8) * 8 + t + 4));
      const right = vec2(b[t * 8 + g], b[(t + 4) * 8 + g]);
      const own = vec4(
        c[g * 8 + 2 * t],
        c[g * 8 + 2 * t + 1],
        c[(g + 8) * 8 + 2 * t],
        c[(g + 8) * 8 + 2 * t + 1],
      );
      const sum = mma(left, right, own);
      c[g * 8 + 2 * t] = lane(sum, 0);
      c[g * 8 + 2 * t + 1] = lane(sum, 1);
      c[(g + 8) * 8 + 2 * t] = lane(sum, 2);
      c[(g + 8) * 8 + 2 * t + 1] = lane(sum, 3);
    },
    { ROUNDING: rounding },
  );

const bits = (v: number): number => new Uint32Array(Float32Array.of(v).buffer)[0]!;
const fromBits = (v: number): number => new Float32Array(Uint32Array.of(v).buffer)[0]!;
/** Half a unit of the tenth bit less the smallest, and that if the bit is 1. */
const nearestTf32 = (v: number): number => fromBits((bits(v) + 0xfff + ((bits(v) >>> 13) & 1)) & 0xffffe000);

for (const rounding of [true, false]) {
  test(`mma multiplies in tf32, operands ${rounding ? 'rounded' : 'cut'}`, () => {
    const [a, b, c] = [noise(128, 1), noise(64, 2), noise(128, 3)];
    const out = c.slice();
    simulate(product(rounding), { grid: 1, block: 32 }, { a, b, c: out });
    const left = Array.from(a, (v) => (rounding ? nearestTf32(v) : fromBits(bits(v) & 0xffffe000)));
    const right = Array.from(b, (v) => fromBits(bits(v) & 0xffffe000));
    for (let i = 0; i < 16; i++) {
      for (let j = 0; j < 8; j++) {
        let sum = c[i * 8 + j]!;
        for (let k = 0; k < 8; k++) sum += left[i * 8 + k]! * right[k * 8 + j]!;
        assert.equal(out[i * 8 + j], Math.fround(sum), `element ${i}, ${j}`);
      }
    }
  });
}

for (const [name, toBits] of [
  ['mmaF16', toF16],
  ['mmaBf16', toBf16],
] as const) {
  test(`${name} multiplies pairs`, () => {
    const kernel = defineKernel(
      'product16',
      { a: buffer(u32), b: buffer(u32), c: buffer(f32) },
      ({ a, b, c }, context) => {
        const { laneId, idiv, vec2, vec4, splat4, lane, mmaF16, mmaBf16, name } = context;
        const g = idiv(laneId, 4);
        const t = laneId % 4;
        const left = vec4(a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]);
        const right = vec2(b[g * 8 + t], b[g * 8 + t + 4]);
        const sum = name === 'mmaF16' ? mmaF16(left, right, splat4(1)) : mmaBf16(left, right, splat4(1));
        c[g * 8 + 2 * t] = lane(sum, 0);
        c[g * 8 + 2 * t + 1] = lane(sum, 1);
        c[(g + 8) * 8 + 2 * t] = lane(sum, 2);
        c[(g + 8) * 8 + 2 * t + 1] = lane(sum, 3);
      },
      { name },
    );
    const whole = (n: number, seed: number) => Array.from(noise(n, seed), (v) => Math.round(v * 64));
    // A (16×16) by rows, B (16×8) by columns: pairs are neighbours along K.
    const [a, b] = [whole(256, 4), whole(128, 5)];
    const c = new Float32Array(128);
    const words = (values: number[]) => new Uint32Array(Uint16Array.from(values, toBits).buffer);
    simulate(kernel, { grid: 1, block: 32 }, { a: words(a), b: words(b), c });
    for (let i = 0; i < 16; i++) {
      for (let j = 0; j < 8; j++) {
        let sum = 1;
        for (let k = 0; k < 16; k++) sum += a[i * 16 + k]! * b[j * 16 + k]!;
        assert.equal(c[i * 8 + j], sum);
      }
    }
  });
}

test('mmaI8 multiplies bytes and adds them in i32', () => {
  const kernel = defineKernel(
    'productI8',
    { a: buffer(u32), b: buffer(u32), c: buffer(i32) },
    ({ a, b, c }, { laneId, idiv, vec2, vec4, lane, mmaI8 }) => {
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const left = vec4(a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]);
      const right = vec2(b[g * 8 + t], b[g * 8 + t + 4]);
      const upper = g * 8 + 2 * t;
      const lower = upper + 64;
      const sum = mmaI8(left, right, vec4(c[upper], c[upper + 1], c[lower], c[lower + 1]));
      c[upper] = lane(sum, 0);
      c[upper + 1] = lane(sum, 1);
      c[lower] = lane(sum, 2);
      c[lower + 1] = lane(sum, 3);
    },
  );
  const bytes = (n: number, seed: number) => Int8Array.from(noise(n, seed), (v) => Math.round(v * 128));
  const [a, b] = [bytes(512, 4), bytes(256, 5)];
  const c = Int32Array.from({ length: 128 }, (_, i) => (i === 0 ? 2 ** 31 - 1 : i * 1_000_003));
  const before = c.slice();
  const words = (values: Int8Array) => new Uint32Array(values.buffer);
  simulate(kernel, { grid: 1, block: 32 }, { a: words(a), b: words(b), c });
  for (let i = 0; i < 16; i++)
    for (let j = 0; j < 8; j++) {
      let sum = before[i * 8 + j]!;
      for (let k = 0; k < 32; k++) sum = (sum + a[i * 32 + k]! * b[j * 32 + k]!) | 0;
      assert.equal(c[i * 8 + j], sum, `element ${i}, ${j}`);
    }
});

test('tf32 rounds to 10 bits of fraction, ties to even', () => {
  const cases = [
    0,
    -0,
    1,
    1 + 2 ** -11,
    1 + 3 * 2 ** -11,
    1 + 2 ** -12,
    -1 - 2 ** -11,
    3.4e38,
    2 ** -140,
    Infinity,
    -Infinity,
    NaN,
    ...noise(50, 7),
  ];
  for (const v of cases) {
    const x = Math.fround(v);
    const wanted = Number.isFinite(x) ? nearestTf32(x) : x;
    assert.ok(
      Object.is(evaluate('tf32', f32, x), wanted),
      `${x}: ${evaluate('tf32', f32, x)}, not ${wanted}`,
    );
  }
});

const copier = (wait: boolean) =>
  defineKernel(
    'copier',
    { x: buffer(f32), y: buffer(f32) },
    (
      { x, y },
      { threadIdx, shared, barrier, copyAsync4, commitCopies, waitCopies, load4, store4, f32, WAIT },
    ) => {
      const tile = shared(f32, 2, 32);
      const at = threadIdx.x * 4;
      for (let s = 0; s < 2; s++) {
        copyAsync4(tile, s, at, x, s * 32 + at, s === 0 || threadIdx.x < 4);
        commitCopies();
      }
      if (WAIT) waitCopies(1);
      barrier();
      const other = 28 - at;
      store4(y, at, load4(tile, 0, other));
      if (WAIT) waitCopies(0);
      barrier();
      store4(y, 32 + at, load4(tile, 1, other));
    },
    { WAIT: wait },
  );

test('copyAsync4 arrives when it is waited for, zeros where its condition is false', () => {
  const x = Float32Array.from({ length: 64 }, (_, i) => i + 1);
  const y = new Float32Array(64);
  simulate(copier(true), { grid: 1, block: 8 }, { x, y });
  const wanted = Array.from({ length: 64 }, (_, i) => {
    const from = 28 - 4 * Math.floor((i % 32) / 4) + (i % 4);
    return i < 32 ? from + 1 : from < 16 ? 33 + from : 0;
  });
  assert.deepEqual([...y], wanted);
});

test('without waitCopies it is a race', () => {
  const memory = { x: new Float32Array(64).fill(1), y: new Float32Array(64) };
  assert.throws(
    () => simulate(copier(false), { grid: 1, block: 8 }, memory),
    /a race on tile\[0\]\[\d+\]: .* what the asynchronous copy of .* is on its way to/,
  );
});

test('CUDA: copies and products are single instructions', () => {
  const cuda = { ...SIM_TARGET, name: 'cuda' } as const;
  const copies = renderCuda(compile(copier(true), cuda));
  assert.match(copies, /cp\.async\.ca\.shared\.global \[%0\], \[%1\], 16, %2;/);
  assert.match(copies, /cp\.async\.wait_group 1;/);
  assert.match(
    renderCuda(compile(product(true), cuda)),
    /mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32/,
  );
});

test('copyAsync copies from a buffer to a shared array of its dtype', () => {
  const define = () =>
    defineKernel('wrong', { x: buffer(f32) }, ({ x }, { copyAsync, shared, i32 }) => {
      const tile = shared(i32, 4);
      copyAsync(tile, 0, x, 0);
    });
  assert.throws(
    define,
    (e) => e instanceof KernelError && /keeps the dtype: tile is i32, x f32/.test(e.message),
  );
});

for (const transposed of [false, true]) {
  test(`loadMatrix4 gives each lane its pairs${transposed ? ', transposed' : ''}`, () => {
    const kernel = defineKernel(
      'matrices',
      { x: buffer(bf16), y: buffer(u32) },
      ({ x, y }, context) => {
        const {
          laneId,
          idiv,
          shared,
          barrier,
          bf16,
          loadMatrix4,
          loadMatrix4Transposed,
          store4,
          TRANSPOSED,
        } = context;
        const tile = shared(bf16, 16, 24);
        for (let i = laneId; i < 256; i += 32) tile[idiv(i, 16)][i % 16] = x[i];
        barrier();
        const row = (laneId % 8) + (idiv(laneId, 8) % 2) * 8;
        const column = idiv(laneId, 16) * 8;
        if (TRANSPOSED) store4(y, laneId * 4, loadMatrix4Transposed(tile, row, column));
        else store4(y, laneId * 4, loadMatrix4(tile, row, column));
      },
      { TRANSPOSED: transposed },
    );
    const y = new Uint32Array(128);
    const x = Uint16Array.from({ length: 256 }, (_, i) => toBf16(i % 16 < 8 ? i : -i));
    simulate(kernel, { grid: 1, block: 32 }, { x, y });
    for (let lane = 0; lane < 32; lane++) {
      for (let matrix = 0; matrix < 4; matrix++) {
        const [g, t] = [lane >> 2, lane % 4];
        const at = (a: number, b: number) =>
          x[((transposed ? b : a) + (matrix % 2) * 8) * 16 + (transposed ? a : b) + (matrix >> 1) * 8]!;
        assert.equal(y[lane * 4 + matrix], (at(g, 2 * t) | (at(g, 2 * t + 1) << 16)) >>> 0);
      }
    }
  });
}

test('loadMatrix4 of f32 gives each lane an element of four matrices of 8 × 4', () => {
  const kernel = defineKernel('matrices32', { x: buffer(f32), y: buffer(u32) }, ({ x, y }, context) => {
    const { laneId, idiv, shared, barrier, f32, loadMatrix4, store4 } = context;
    const tile = shared(f32, 16, 12);
    for (let i = laneId; i < 128; i += 32) tile[idiv(i, 8)][i % 8] = x[i];
    barrier();
    store4(y, laneId * 4, loadMatrix4(tile, laneId % 16, idiv(laneId, 16) * 4));
  });
  const y = new Uint32Array(128);
  const x = noise(128, 9);
  simulate(kernel, { grid: 1, block: 32 }, { x, y });
  for (let lane = 0; lane < 32; lane++) {
    for (let matrix = 0; matrix < 4; matrix++) {
      const at = ((lane >> 2) + (matrix % 2) * 8) * 8 + (lane % 4) + (matrix >> 1) * 4;
      assert.equal(y[lane * 4 + matrix], bits(x[at]!));
    }
  }
});

test('loadMatrix4Transposed takes no f32', () => {
  const define = () =>
    defineKernel(
      'wrong',
      { y: buffer(u32) },
      ({ y }, { laneId, shared, f32, loadMatrix4Transposed, store4 }) => {
        const tile = shared(f32, 128);
        store4(y, laneId * 4, loadMatrix4Transposed(tile, laneId * 4));
      },
    );
  assert.throws(
    define,
    (e) => e instanceof KernelError && /shared array of f16 or bf16 or u32, got shared f32/.test(e.message),
  );
});

test('copyAsync4Once copies past the cache of a multiprocessor', () => {
  const kernel = defineKernel('once', { x: buffer(f32), y: buffer(f32) }, ({ x, y }, context) => {
    const { threadIdx, shared, f32, copyAsync4Once, commitCopies, waitCopies, load4, store4 } = context;
    const tile = shared(f32, 32);
    copyAsync4Once(tile, threadIdx.x * 4, x, threadIdx.x * 4);
    commitCopies();
    waitCopies(0);
    store4(y, threadIdx.x * 4, load4(tile, threadIdx.x * 4));
  });
  const x = noise(32, 5);
  const y = new Float32Array(32);
  simulate(kernel, { grid: 1, block: 8 }, { x, y });
  assert.deepEqual(y, x);
  assert.match(renderCuda(compile(kernel, { ...SIM_TARGET, name: 'cuda' })), /cp\.async\.cg\.shared\.global/);
});
