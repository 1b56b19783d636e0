/** The definitions in front of a kernel: only those it uses, each after what it needs itself. No headers. */
import { type DType, f32, isHalf } from '../../core/dtype.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import { F32, TAIL_RATIO_16 } from '../../kernel/math/formats.js';
import {
  LANES,
  literal,
  MEMORY_TYPE,
  memoryVectorName,
  postfix,
  REGISTER_TYPE,
  type Text,
  vectorName,
} from './text.js';

const inline = (signature: string, body: string): string => `__device__ inline ${signature} { ${body} }`;

/** Definitions that are the same for every kernel. A part that is generic is written for the type `T`. */
const PARTS = {
  f16: { needs: [], text: () => 'typedef unsigned short f16;  // the bits of an IEEE binary16' },
  bf16: { needs: [], text: () => 'typedef unsigned short bf16;  // the upper 16 bits of a float' },
  f16_to_float: {
    needs: ['f16'],
    text: () =>
      inline(
        'float f16_to_float(f16 bits)',
        'float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f;',
      ),
  },
  float_to_f16: {
    needs: ['f16'],
    text: () =>
      inline(
        'f16 float_to_f16(float f)',
        'f16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); return bits;',
      ),
  },
  bf16_to_float: {
    needs: ['bf16'],
    text: () => inline('float bf16_to_float(bf16 bits)', 'return __uint_as_float((unsigned)bits << 16);'),
  },
  // Of two at once: the conversion of one by itself (F2F) is a slower instruction. The first is the upper half.
  float_to_bf16: {
    needs: ['bf16'],
    text: () =>
      inline(
        'bf16 float_to_bf16(float f)',
        'unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f)); return (bf16)both;',
      ),
  },
  round_f16: {
    needs: ['f16_to_float', 'float_to_f16'],
    text: () => inline('float round_f16(float f)', 'return f16_to_float(float_to_f16(f));'),
  },
  round_bf16: {
    needs: [],
    text: () =>
      inline(
        'float round_bf16(float f)',
        'unsigned both; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(f), "f"(0.0f)); return __uint_as_float(both);',
      ),
  },
  exp2_normal: {
    needs: [],
    text: () =>
      inline(
        'float exp2_normal(float a)',
        'float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); return r;',
      ),
  },
  round_tf32: {
    needs: [],
    text: () =>
      inline(
        'float round_tf32(float f)',
        `
#if __CUDA_ARCH__ >= 900
  unsigned bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(f));
  return __uint_as_float(bits);
#else
  const unsigned bits = __float_as_uint(f);
  return f == f ? __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu) : f;
#endif
`,
      ),
  },
  // Signed overflow wraps; in C++ it would be undefined.
  wrap_add: { needs: [], text: (T) => inline(`${T} wrap_add(${T} a, ${T} b)`, unsigned(T, '+')) },
  wrap_sub: { needs: [], text: (T) => inline(`${T} wrap_sub(${T} a, ${T} b)`, unsigned(T, '-')) },
  wrap_mul: { needs: [], text: (T) => inline(`${T} wrap_mul(${T} a, ${T} b)`, unsigned(T, '*')) },
  wrap_neg: {
    needs: [],
    text: (T) => inline(`${T} wrap_neg(${T} a)`, `return (${T})(0 - (unsigned ${T})a);`),
  },
  wrap_abs: {
    needs: ['wrap_neg'],
    text: (T) => inline(`${T} wrap_abs(${T} a)`, 'return a < 0 ? wrap_neg(a) : a;'),
  },
  shl: {
    needs: [],
    text: (T) =>
      inline(`${T} shl(${T} a, ${T} b)`, `return (${T})((unsigned ${T})a << (b & ${countMask(T)}));`),
  },
  idiv: {
    needs: ['wrap_neg'],
    text: (T) => inline(`${T} idiv(${T} a, ${T} b)`, 'return b == 0 ? 0 : b == -1 ? wrap_neg(a) : a / b;'),
  },
  mod: {
    needs: [],
    text: (T) => inline(`${T} mod(${T} a, ${T} b)`, 'return b == 0 || b == -1 ? 0 : a % b;'),
  },
  udiv: { needs: [], text: (T) => inline(`${T} idiv(${T} a, ${T} b)`, 'return b == 0 ? 0 : a / b;') },
  umod: { needs: [], text: (T) => inline(`${T} mod(${T} a, ${T} b)`, 'return b == 0 ? 0 : a % b;') },
  // NaN if either is, as Math.min and Math.max; fminf and fmaxf would drop it.
  nan_min: {
    needs: [],
    text: () =>
      inline(
        'float nan_min(float a, float b)',
        'float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;',
      ),
  },
  nan_max: {
    needs: [],
    text: () =>
      inline(
        'float nan_max(float a, float b)',
        'float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;',
      ),
  },
  nan_min_f64: {
    needs: [],
    text: () => inline('double nan_min(double a, double b)', 'return a != a || b != b ? a + b : fmin(a, b);'),
  },
  nan_max_f64: {
    needs: [],
    text: () => inline('double nan_max(double a, double b)', 'return a != a || b != b ? a + b : fmax(a, b);'),
  },
  // Rounded to odd, so that rounding to 16 bits after it is as rounding once.
  odd_f64: { needs: [], text: () => odd('f64', 'double', 'double') },
  odd_i32: { needs: [], text: () => odd('i32', 'int', 'int') },
  odd_u32: { needs: [], text: () => odd('u32', 'unsigned', 'uint') },
  odd_i64: { needs: [], text: () => odd('i64', 'long long', 'll') },
  // a / b, exactly up to the levels of bytes; what is beyond them stays so. It takes no branches, and the compiler computes
  // 1 / b once where b is the same for many. Two steps correct the quotient, as in a division of its own; k keeps what they
  // compute within normal numbers.
  quotient: {
    needs: [],
    text: () =>
      inline(
        'float quotient(float a, float b)',
        `const float k = fabsf(b) < 0x1p-60f ? 0x1p80f : fabsf(b) > 0x1p60f ? 0x1p-80f : 1, n = a * k, d = b * k, r = 1 / d, q = n * r;
  const float once = fmaf(fmaf(-d, q, n), r, q);
  return fabsf(q) < 512 ? fmaf(fmaf(-d, once, n), r, once) : q;`,
      ),
  },
  // Conversions to integers: towards zero, saturating, NaN → 0.
  saturate_i32: {
    needs: [],
    text: (T) => inline(`int saturate_i32(${T} a)`, `return a != a ? 0 : __${T}2int_rz(a);`),
  },
  saturate_u32: {
    needs: [],
    text: (T) => inline(`unsigned saturate_u32(${T} a)`, `return a > 0 ? __${T}2uint_rz(a) : 0u;`),
  },
  saturate_i8: {
    needs: [],
    text: (T) =>
      inline(`signed char saturate_i8(${T} a)`, `return a != a ? 0 : max(min(__${T}2int_rz(a), 127), -128);`),
  },
  saturate_u8: {
    needs: [],
    text: (T) =>
      inline(`unsigned char saturate_u8(${T} a)`, `return a > 0 ? min(__${T}2uint_rz(a), 255u) : 0u;`),
  },
  saturate_i64: {
    needs: [],
    text: (T) => inline(`long long saturate_i64(${T} a)`, `return a != a ? 0 : __${T}2ll_rz(a);`),
  },
  // In half the instructions of CUDA's own, and without branches: elements beside each other overlap.
  normal_cdf: { needs: ['nan_min'], text: normalCdf },
  // The root of e^a, so that no number is flushed to zero that its square is not.
  exp16: {
    needs: [],
    text: () =>
      inline(
        'float exp16(float a)',
        `float root; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a * ${float(0.5 * Math.LOG2E)})); return root * root;`,
      ),
  },
  // The exponential's root, so that no number is flushed to zero that its square is not.
  normpdf16: {
    needs: [],
    text: () =>
      inline(
        'float normpdf16(float a)',
        `float root; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(a * a, ${float(-0.25 * Math.LOG2E)}, ${float(-0.25 * Math.log2(2 * Math.PI))}))); return root * root;`,
      ),
  },
  normcdf16: { needs: ['normpdf16'], text: normcdf16 },
  lane_id: {
    needs: [],
    text: () =>
      inline(
        'int lane_id()',
        'unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); __builtin_assume(id < 32); return id;',
      ),
  },
  cluster_rank: {
    needs: [],
    text: () =>
      inline(
        'int cluster_rank()',
        'unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); __builtin_assume(rank < 16); return rank;',
      ),
  },
  cluster_size: {
    needs: [],
    text: () =>
      inline(
        'int cluster_size()',
        'unsigned size; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size)); __builtin_assume(size <= 16); return size;',
      ),
  },
  // What cannot be negative divides by shifts and multiplications alone.
  index_below: {
    needs: [],
    text: () => inline('int index_below(unsigned i, unsigned end)', '__builtin_assume(i < end); return i;'),
  },
  warp_id: {
    needs: [],
    text: () =>
      inline(
        'int warp_id()',
        'return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u;',
      ),
  },
} as const satisfies Record<
  string,
  { readonly needs: readonly string[]; readonly text: (T: string) => string }
>;

const float = (v: number): string => literal(f32, Math.fround(v)).text;

/** A polynomial in a variable of that name, coefficients lowest first. */
const horner = (x: string, coefficients: readonly number[]): string =>
  coefficients
    .slice(0, -1)
    .reduceRight((text, k) => `fmaf(${text}, ${x}, ${float(k)})`, float(coefficients.at(-1)!));

/** As kernel/elementary has it. The compiler computes the density once for both. */
function normcdf16(): string {
  const { p, polynomial } = TAIL_RATIO_16;
  return inline(
    'float normcdf16(float a)',
    `
  float v;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(fmaf(fabsf(a), ${float(p)}, 1.0f)));
  const float tail = normpdf16(a) * (v * ${horner('v', polynomial)});
  return a < 0.0f ? tail : 1.0f - tail;
`,
  );
}

/**
 * Φ in f32 as kernel/elementary has it: Φ(−t) = e^(−t²/2)·P(u)/(t + c) with u = (t − c)/(t + c). t² is taken in two parts,
 * and its product with −½·log₂e, too; 2^x is that of its whole number times that of the rest.
 */
function normalCdf(): string {
  const { c, end, polynomial } = F32.tail;
  const [scale, rest] = [Math.fround(-0.5 * Math.LOG2E), -0.5 * Math.LOG2E - Math.fround(-0.5 * Math.LOG2E)];
  return inline(
    'float normal_cdf(float a)',
    `
  const float t = nan_min(fabsf(a), ${float(end)});
  const float high = __uint_as_float(__float_as_uint(t) & 0xfffff000u);
  const float square = high * high;
  const float power = square * ${float(scale)};
  const float whole = rintf(power);
  float part = fmaf(square, ${float(rest)}, fmaf(square, ${float(scale)}, -power));
  part = power - whole + fmaf((t - high) * (t + high), ${float(scale)}, part);
  float e, scale, inverse;
  asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(part));
  asm("ex2.approx.f32 %0, %1;" : "=f"(scale) : "f"(whole));
  const float sum = t + ${float(c)};
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(sum));
  inverse = fmaf(inverse, fmaf(-sum, inverse, 1.0f), inverse);
  const float u = fmaf(t * inverse, 2.0f, -1.0f);
  const float p = ${horner('u', polynomial)};
  const float tail = e * (p * inverse) * scale;
  return a < 0.0f ? tail : 1.0f - tail;
`,
  );
}

function odd(name: string, T: string, from: string): string {
  return inline(
    `float odd_${name}(${T} a)`,
    `const float f = __${from}2float_rz(a); return (${T})f == a || a != a ? f : __uint_as_float(__float_as_uint(f) | 1);`,
  );
}

function unsigned(T: string, operator: string): string {
  return `return (${T})((unsigned ${T})a ${operator} (unsigned ${T})b);`;
}

function countMask(T: string): number {
  return T === 'long long' ? 63 : 31;
}

export type PartName = keyof typeof PARTS;

export class Prelude {
  /** By key, in the order of definition. */
  readonly #definitions = new Map<string, string>();
  /** Whether every warp has all its 32 lanes, throughout. */
  readonly wholeWarps: boolean;
  /** Whether the blocks of a cluster work together. */
  readonly hasClusters: boolean;
  /** Sums that are registers of PTX until they are waited for. */
  readonly clearedSums: ReadonlySet<ArrayDecl>;

  constructor(
    wholeWarps = true,
    hasClusters = false,
    clearedSums: ReadonlySet<ArrayDecl> = new Set<ArrayDecl>(),
  ) {
    this.wholeWarps = wholeWarps;
    this.hasClusters = hasClusters;
    this.clearedSums = clearedSums;
  }

  /** Ask for a part, for type `T` if it is generic. */
  need(name: PartName, T = ''): void {
    const part: { readonly needs: readonly string[]; readonly text: (T: string) => string } = PARTS[name];
    for (const other of part.needs) this.need(other as PartName, T);
    this.define(`${name} ${part.text.length > 0 ? T : ''}`, () => part.text(T));
  }

  /** Add a definition unless one of this key is there. */
  define(key: string, text: () => string): void {
    if (this.#definitions.has(key)) return;
    const body = text();
    this.#definitions.set(key, body);
  }

  /** Declare the vector types of `t` in registers; its name. */
  vector(t: DType, lanes: Lanes): string {
    const name = vectorName(t, lanes);
    this.#struct(name, REGISTER_TYPE[t.name], isHalf(t) ? 4 : t.bytes, lanes);
    return name;
  }

  /** Declare the vector type of `t` in memory; its name. */
  memoryVector(t: DType, lanes: Lanes): string {
    const name = memoryVectorName(t, lanes);
    if (t.name === 'f16' || t.name === 'bf16') this.need(t.name);
    this.#struct(name, MEMORY_TYPE[t.name], t.bytes, lanes);
    return name;
  }

  /**
   * A function that does the same to every lane: `name(a, b)` with parameters of `types`, whose lane `a.x` is given
   * to `body`.
   */
  laneWise(
    signature: string,
    result: string,
    parameters: readonly string[],
    lanes: Lanes,
    body: (lane: readonly Text[]) => Text,
  ): void {
    this.define(`${signature}(${parameters.join(',')})`, () => {
      const names = ['a', 'b', 'c'];
      const list = parameters.map((type, i) => `${type} ${names[i]}`).join(', ');
      const values = LANES.slice(0, lanes).map(
        (lane) => body(parameters.map((_, i) => postfix(`${names[i]}.${lane}`))).text,
      );
      return inline(`${result} ${signature}(${list})`, `return {${values.join(', ')}};`);
    });
  }

  #struct(name: string, element: string, bytes: number, lanes: Lanes): void {
    const align = Math.min(16, bytes * lanes);
    this.define(
      name,
      () => `struct alignas(${align}) ${name} { ${element} ${LANES.slice(0, lanes).join(', ')}; };`,
    );
  }

  /** The definitions, a line each. */
  toString(): string {
    return [...this.#definitions.values()].map((d) => `${d}\n`).join('');
  }
}
