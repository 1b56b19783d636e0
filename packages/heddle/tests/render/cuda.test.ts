/** What the CUDA renderer must get right whatever the kernel: names, numbers, precedence, loops, wide accesses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bf16, type DType, f32, f64, i8, i32, i64, u8 } from '../../src/core/dtype.js';
import type { Location } from '../../src/core/errors.js';
import {
  alu,
  arrayNode,
  assertion,
  block,
  breakLoop,
  bufferParam,
  cast,
  constant,
  declare,
  type Expr,
  forLoop,
  int,
  type KernelIr,
  lane,
  load,
  print,
  read,
  type Statement,
  scalarParam,
  set,
  special,
  splat,
  store,
  type Variable,
  when,
  whileLoop,
} from '../../src/kernel/ir/ir.js';
import { evaluate } from '../../src/kernel/ir/ops.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import { cudaEntry, renderCuda, renderCudaKernel } from '../../src/render/cuda/render.js';
import { property } from '../property.js';

const x = { name: 'x', schema: buffer(f32) };
const y = { name: 'y', schema: buffer(f32) };
const n = { name: 'n', schema: i32 };

const kernel = (body: readonly Statement[], more: Partial<KernelIr> = {}): KernelIr => ({
  name: 'k',
  params: [x, y, n],
  arrays: [],
  body: block(body),
  ...more,
});

const variable = (name: string, dtype: DType = i32, constantForGood = true): Variable => ({
  name,
  type: value(dtype),
  constant: constantForGood,
});

const writeY = (e: Expr, index: Expr = int(0)): Statement => store(bufferParam(y), e, [index]);
const readX = (index: Expr): Expr => load(bufferParam(x), [index]);
const text = (...body: Statement[]): string => renderCuda(kernel(body));

test('a buffer is const exactly if it is never stored to, and never restrict', () => {
  assert.match(text(writeY(readX(int(3)))), /void k\(const float\* x, float\* y, int n\)/);
});

test('a quotient that is rounded to a byte is one of a reciprocal, no other is', () => {
  const quotient = alu('div', [readX(int(0)), readX(int(1))]);
  const stored = (dtype: DType, e: Expr): string => text(writeY(cast(f32, cast(dtype, e))));
  const bytes = (dtype: DType): string => stored(dtype, alu('rint', [quotient]));
  assert.ok(bytes(i8).includes('max(min(__float2int_rn(quotient(x[0], x[1])), 127), -128)'));
  assert.ok(bytes(u8).includes('max(min(__float2int_rn(quotient(x[0], x[1])), 255), 0)'));
  assert.match(stored(i32, alu('rint', [quotient])), /rintf\(x\[0\] \/ x\[1\]\)/);
  assert.match(stored(i8, quotient), /saturate_i8\(x\[0\] \/ x\[1\]\)/);
});

test('floats become the nearest bytes, and bytes floats, without the instructions of single conversions', () => {
  const bytes = { name: 'bytes', schema: buffer(i8) };
  const floats = load(bufferParam(x), [int(0)], 4);
  const nearest = kernel([store(bufferParam(bytes), cast(i8, alu('rint', [floats])), [int(0)])], {
    params: [x, bytes],
  });
  const packed = renderCuda(nearest);
  assert.match(packed, /int x = __float2int_rn\(a\.x\), y = .*, w = __float2int_rn\(a\.w\);/);
  assert.match(packed, /cvt\.pack\.sat\.s8\.s32\.b32.*\(w\), "r"\(z\)[\s\S]*cvt\.pack.*\(y\), "r"\(x\)/);
  const wide = kernel([store(bufferParam(y), cast(f32, load(bufferParam(bytes), [int(0)], 2)), [int(0)])], {
    params: [bytes, y],
  });
  assert.match(renderCuda(wide), /\^ 0x8080u.*__byte_perm\(v, 0x4b000000, 0x7441\)\) - 8388736\.0f/);
});

test('quotients of lanes by the same number share its reciprocal, others do not', () => {
  const four = load(bufferParam(x), [int(0)], 4);
  const divided = (by: Expr): string => text(store(bufferParam(y), alu('div', [four, by]), [int(0)]));
  const other = load(bufferParam(x), [int(4)], 4);
  assert.match(divided(splat(readX(int(4)), 4)), /= .*shared_div_x4\(.*splat_f32x4\(x\[4\]\)\)/);
  assert.doesNotMatch(divided(other), /shared_div/);
  const by: Variable = { name: 'by', type: value(f32, 4), constant: true };
  const quotient = (at: number): Statement =>
    store(bufferParam(y), alu('div', [load(bufferParam(x), [int(at)], 4), read(by)]), [int(at)]);
  assert.doesNotMatch(text(declare(by, other), quotient(0)), /shared_div/);
  assert.match(text(declare(by, other), quotient(0), quotient(8)), /shared_div_x4\(.*, by\)/);
});

/** Numbers of f32 of these exponents, mantissas near powers of two among them. */
const numbers = (least: number, most: number): fc.Arbitrary<number> =>
  fc
    .tuple(
      fc.integer({ min: least, max: most }),
      fc.oneof(
        fc.integer({ min: 0, max: 2 ** 23 - 1 }),
        fc.integer({ min: 0, max: 15 }),
        fc.integer({ min: 2 ** 23 - 16, max: 2 ** 23 - 1 }),
      ),
      fc.boolean(),
    )
    .map(([exponent, mantissa, negative]) => (negative ? -1 : 1) * 2 ** exponent * (1 + mantissa / 2 ** 23));

property(
  'a quotient by a shared reciprocal and its remainder is rounded as one division',
  [numbers(-80, 79), numbers(-40, 39)],
  (a, b) => {
    const fma = (u: number, v: number, w: number): number => Number(evaluate('fma', f32, u, v, w));
    const r = Math.fround(1 / b);
    const s = Math.fround(fma(-b, r, 1) * r);
    const q = fma(a, r, Math.fround(a * s));
    assert.equal(fma(fma(-b, q, a), r, q), Math.fround(a / b));
  },
);

test('what is only stored in 16 bits is rounded there', () => {
  const half = { name: 'h', schema: buffer(bf16) };
  const h = bufferParam(half);
  const v: Variable = { name: 'v', type: value(bf16, 4), constant: true };
  const made = declare(v, cast(bf16, load(bufferParam(x), [int(0)], 4)));
  const storing = store(h, read(v), [int(0)]);
  const of = (...body: Statement[]): string => renderCuda(kernel(body, { params: [x, y, half] }));
  assert.doesNotMatch(of(made, storing), /cast_bf16x4/);
  assert.match(of(made, storing), /= store_bf16x4\(v\);/);
  assert.match(of(made, storing, writeY(lane(cast(f32, read(v)), 0))), /cast_bf16x4/);
});

test('several bytes are read and stored as one word', () => {
  const bytes = { name: 'b', schema: buffer(i8) };
  const b = bufferParam(bytes);
  const source = renderCuda(
    kernel([store(b, load(b, [int(4)], 4), [int(0)]), store(b, load(b, [int(10)], 2), [int(8)])], {
      params: [bytes],
    }),
  );
  for (const [type, word] of [
    ['i8x4', 'unsigned'],
    ['i8x2', 'unsigned short'],
  ] as const) {
    assert.match(source, new RegExp(`store_word_${type}\\(.*load_word_${type}\\(`));
    assert.ok(source.includes(`{ reinterpret_cast<${word}&>(place) = `));
  }
});

test('launch bounds are given on request', () => {
  const source = renderCuda(kernel([]), { maxThreads: 256 });
  assert.match(source, /^extern "C" __global__ void __launch_bounds__\(256\) k\(/);
  const several = renderCuda(kernel([], { resident: 4 }), { maxThreads: 256 });
  assert.match(several, /^extern "C" __global__ void __launch_bounds__\(256, 4\) k\(/);
});

test('names: keywords, prelude and repeated names get one of their own', () => {
  const [a, b, c] = [variable('float', f32), variable('x', f32), variable('x', f32)];
  const source = text(
    declare(a, readX(int(0))),
    declare(b, read(a)),
    declare(c, read(b)),
    writeY(alu('add', [read(b), read(c)])),
  );
  assert.match(source, /const float float_ = x\[0\];/);
  assert.match(source, /const float x_1 = float_;\n {2}const float x_2 = x_1;/);
  assert.match(source, /y\[0\] = x_1 \+ x_2;/);
  assert.equal(cudaEntry(kernel([], { name: 'exp' })), 'exp_');
  assert.equal(cudaEntry(kernel([], { name: 'relu→sum 2' })), 'relu_sum_2');
});

test('names: sibling scopes may use one name', () => {
  const loop = (): Statement => {
    const i = variable('i');
    return forLoop(i, int(0), int(4), int(1), block([writeY(readX(read(i)), read(i))]));
  };
  assert.equal(text(loop(), loop()).match(/for \(int i = 0; i < 4; i\+\+\)/g)?.length, 2);
});

test('numbers: the shortest that reads back, with what C++ cannot write spelled as bits', () => {
  const cases: readonly (readonly [number, string])[] = [
    [Math.fround(0.1), '0.1f'],
    [1, '1.0f'],
    [-0, '-0.0f'],
    [Math.fround(1e30), '1e+30f'],
    [16777217, '16777216.0f'],
    [Number.POSITIVE_INFINITY, '__uint_as_float(0x7f800000u)'],
    [Number.NEGATIVE_INFINITY, '__uint_as_float(0xff800000u)'],
    [Number.NaN, '__uint_as_float(0x7fc00000u)'],
  ];
  for (const [v, expected] of cases)
    assert.ok(text(writeY(constant(f32, Math.fround(v)))).includes(`y[0] = ${expected};`), expected);
  assert.match(text(declare(variable('v', i32), constant(i32, -(2 ** 31)))), /v = \(-2147483647 - 1\);/);
  assert.match(
    text(declare(variable('v', i64), constant(i64, -(2n ** 63n)))),
    /v = \(-9223372036854775807ll - 1\);/,
  );
  assert.match(text(declare(variable('v', f64), constant(f64, 0.1))), /const double v = 0\.1;/);
});

test('precedence: parentheses where the tree needs them and nowhere else', () => {
  const [a, b, c] = [readX(int(1)), readX(int(2)), readX(int(3))];
  const cases: readonly (readonly [Expr, string])[] = [
    [alu('sub', [alu('sub', [a, b]), c]), 'x[1] - x[2] - x[3]'],
    [alu('sub', [a, alu('sub', [b, c])]), 'x[1] - (x[2] - x[3])'],
    [alu('add', [a, alu('add', [b, c])]), 'x[1] + (x[2] + x[3])'],
    [alu('mul', [alu('add', [a, b]), c]), '(x[1] + x[2]) * x[3]'],
    [alu('add', [alu('mul', [a, b]), c]), 'x[1] * x[2] + x[3]'],
    [alu('neg', [alu('neg', [a])]), '-(-x[1])'],
    [alu('neg', [constant(f32, -1)]), '-(-1.0f)'],
    [alu('sub', [a, constant(f32, -1)]), 'x[1] - -1.0f'],
    [alu('div', [a, alu('mul', [b, c])]), 'x[1] / (x[2] * x[3])'],
  ];
  for (const [e, expected] of cases)
    assert.ok(text(writeY(e)).includes(`y[0] = ${expected};`), text(writeY(e)));
});

test('signed arithmetic wraps, except where it only makes an index', () => {
  const i = variable('i');
  const total = variable('total');
  const source = text(
    declare(i, alu('mul', [special('blockIdx.x'), int(64)])),
    declare(total, alu('mul', [scalarParam(n), int(64)])),
    when(alu('lt', [read(total), int(9)]), block([writeY(readX(alu('add', [read(i), int(1)])), read(i))])),
  );
  assert.match(source, /const int i = index_below\(blockIdx\.x, 0x7fffffff\) \* 64;/);
  assert.match(source, /const int total = wrap_mul\(n, 64\);/);
  assert.match(source, /y\[i\] = x\[i \+ 1\];/);
});

test('a masked index is hashing: its arithmetic wraps', () => {
  const hash = alu('and', [alu('mul', [scalarParam(n), int(747796405)]), int(255)]);
  assert.match(text(writeY(readX(hash))), /x\[wrap_mul\(n, 747796405\) & 255\]/);
});

test('a loop evaluates its end once', () => {
  const [i, end] = [variable('i'), variable('end', i32, false)];
  const source = text(
    declare(end, scalarParam(n)),
    forLoop(i, int(0), read(end), int(2), block([set(end, int(0))]), true),
  );
  assert.match(source, /#pragma unroll\n {2}for \(int i = 0, i_end = end; i < i_end; i \+= 2\) \{/);
});

test('a loop that is to stay is not unrolled by the compiler of its own accord', () => {
  const i = variable('i');
  const loop = (unroll: 'never' | 'rolled'): string =>
    text(forLoop(i, int(0), int(4), int(1), block([writeY(readX(read(i)), read(i))]), unroll));
  assert.match(loop('rolled'), /#pragma unroll 1\n {2}for \(int i = 0; i < 4; i\+\+\) \{/);
  assert.doesNotMatch(loop('never'), /#pragma/);
});

test('a while loop whose update is a statement still runs it on continue', () => {
  const i = variable('i', i32, false);
  const source = text(
    declare(i, int(0)),
    whileLoop(
      alu('lt', [read(i), scalarParam(n)]),
      block([breakLoop()]),
      block([writeY(readX(read(i)), read(i)), set(i, int(9))]),
    ),
  );
  assert.match(
    source,
    /for \(bool first = true;; first = false\) \{\n {4}if \(!first\) \{\n {6}y\[i\] = x\[i\];\n {6}i = 9;\n {4}\}\n {4}if \(!\(i < n\)\) break;\n {4}break;\n {2}\}/,
  );
});

test('shared memory is read wide where that is aligned for sure, and lane by lane elsewhere', () => {
  const wide = (columns: number, index: Expr): string => {
    const tile = { name: 'tile', dtype: f32, space: 'shared', dims: [8, columns], lanes: 1 } as const;
    const v: Variable = { name: 'v', type: value(f32, 4), constant: true };
    const body = [declare(v, load(arrayNode(tile), [special('threadIdx.y'), index], 4))];
    return renderCuda(kernel(body, { arrays: [tile] }));
  };
  const by4 = alu('mul', [special('threadIdx.x'), int(4)]);
  assert.match(wide(32, by4), /__shared__ alignas\(16\) float tile\[8\]\[32\];/);
  const lane = String.raw`index_below\(threadIdx\.x, 1024\) \* 4`;
  assert.match(
    wide(32, by4),
    new RegExp(`v = \\*reinterpret_cast<f32x4\\*>\\(&tile\\[.*\\]\\[${lane}\\]\\);`),
  );
  assert.match(wide(33, by4), /v = load_f32x4\(&tile/);
  assert.match(wide(32, special('threadIdx.x')), /v = load_f32x4\(&tile/);
});

test("the author's lines stand above what they became, once each", () => {
  const at = (line: number, source: string): Location => ({
    file: '/home/me/project/saxpy.ts',
    line,
    column: 5,
    text: `    ${source}`,
  });
  const body = block([writeY(readX(int(0))), store(bufferParam(y), readX(int(1)), [int(1)], at(5, 'f(x);'))]);
  const branch = when(alu('lt', [int(1), scalarParam(n)]), body, undefined, at(5, 'f(x);'));
  const tricky = store(bufferParam(y), constant(f32, 2), [int(2)], at(6, 'y[2] = 2; // \\'));
  const source = renderCuda(kernel([branch, tricky]));
  assert.equal(source.match(/saxpy\.ts:5/g)?.length, 1);
  assert.ok(source.includes('  // saxpy.ts:5  f(x);\n  if (1 < n) {\n'));
  assert.ok(
    source.includes('  // saxpy.ts:6  y[2] = 2; //\n  y[2] = 2.0f;\n'),
    'a backslash would join the lines',
  );
  assert.ok(!renderCuda(kernel([branch, tricky]), { comments: false }).includes('saxpy.ts'));
});

test('asserts and prints leave records, and the messages are beside the text', () => {
  const at: Location = { file: 'dir/rows.ts', line: 7, column: 1, text: '' };
  const positive = alu('lt', [int(0), scalarParam(n)]);
  const { text: source, messages } = renderCudaKernel(
    kernel([assertion(positive, 'n is "positive"', at), print('n is {}', [scalarParam(n)], at)]),
  );
  assert.ok(source.includes('if (!(0 < n)) {\n    record_message(1, 0);\n    asm volatile("exit;");\n  }\n'));
  assert.ok(
    source.includes(
      'if (long long* const message = record_message(2, 1)) {\n    message[0] = (long long)n;\n    __threadfence_system();\n  }\n',
    ),
  );
  assert.ok(source.includes('extern "C" { __device__ MessageLog k_log; }'));
  assert.deepEqual(
    messages.map(({ kind, kernel, text, at }) => [kind, kernel, text, at?.line]),
    [
      ['assert', 'k', 'n is "positive"', 7],
      ['print', 'k', 'n is {}', 7],
    ],
  );
});
