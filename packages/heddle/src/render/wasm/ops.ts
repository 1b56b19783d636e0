/** What each scalar operation is in WebAssembly. Operands are on the stack, the result replaces them. */
import { f32 } from '../../core/dtype.js';
import type { Elementary, WaveName } from '../../kernel/elementary/functions.js';
import type { ScalarOp } from '../../kernel/ir/ops.js';
import { F32, F64 } from '../../kernel/math/formats.js';
import { FunctionBuilder } from './encode.js';
import { vectorBytes } from './values.js';

type IntPrefix = 'i32' | 'i64';
type FloatPrefix = 'f32' | 'f64';
export type HelperName = 'fmod' | 'mulhi64' | WaveName;

export interface OpContext {
  readonly f: FunctionBuilder;
  /** Integers: compare, divide and shift as unsigned. */
  readonly unsigned: boolean;
  /** Whether the engine has relaxed SIMD. */
  readonly relaxed: boolean;
  /** The divisor is known to be neither 0 nor -1. */
  readonly safeDivisor: boolean;
  helper(name: HelperName): FunctionBuilder;
}

/** An op on one lane and on four; where four are missing it goes lane by lane. */
export interface OpInstructions {
  readonly float?: (c: OpContext, p: FloatPrefix) => void;
  readonly float4?: (c: OpContext) => void;
  readonly int?: (c: OpContext, p: IntPrefix) => void;
  readonly int4?: (c: OpContext) => void;
}

const sign = (c: OpContext): 's' | 'u' => (c.unsigned ? 'u' : 's');

const arithmetic = (name: 'add' | 'sub' | 'mul'): OpInstructions => ({
  float: ({ f }, p) => f.op(`${p}.${name}`),
  float4: ({ f }) => f.op(`f32x4.${name}`),
  int: ({ f }, p) => f.op(`${p}.${name}`),
  int4: ({ f }) => f.op(`i32x4.${name}`),
});

const float = (name: 'div' | 'sqrt' | 'floor' | 'ceil' | 'trunc' | 'nearest'): OpInstructions => ({
  float: ({ f }, p) => f.op(`${p}.${name}`),
  float4: ({ f }) => f.op(`f32x4.${name}`),
});

const order = (name: 'lt' | 'le' | 'gt' | 'ge'): OpInstructions => ({
  float: ({ f }, p) => f.op(`${p}.${name}`),
  float4: ({ f }) => f.op(`f32x4.${name}`),
  int: (c, p) => c.f.op(`${p}.${name}_${sign(c)}`),
  int4: (c) => c.f.op(`i32x4.${name}_${sign(c)}`),
});

const equality = (name: 'eq' | 'ne'): OpInstructions => ({
  float: ({ f }, p) => f.op(`${p}.${name}`),
  float4: ({ f }) => f.op(`f32x4.${name}`),
  int: ({ f }, p) => f.op(`${p}.${name}`),
  int4: ({ f }) => f.op(`i32x4.${name}`),
});

const bits = (name: 'and' | 'or' | 'xor'): OpInstructions => ({
  int: ({ f }, p) => f.op(`${p}.${name}`),
  int4: ({ f }) => f.op(`v128.${name}`),
});

const minmax = (name: 'min' | 'max', keep: 'lt' | 'gt'): OpInstructions => ({
  float: ({ f }, p) => f.op(`${p}.${name}`),
  float4: ({ f }) => f.op(`f32x4.${name}`),
  int: (c, p) => {
    const [a, b] = pop2(c.f, p);
    c.f.get(a);
    c.f.get(b);
    c.f.get(a);
    c.f.get(b);
    c.f.op(`${p}.${keep}_${sign(c)}`);
    c.f.op('select');
  },
  int4: (c) => c.f.op(`i32x4.${name}_${sign(c)}`),
});

function pop2(f: FunctionBuilder, p: IntPrefix | FloatPrefix) {
  const b = f.local('b', p);
  const a = f.local('a', p);
  f.set(b);
  f.set(a);
  return [a, b] as const;
}

const zero = (f: FunctionBuilder, p: IntPrefix): void =>
  p === 'i32' ? f.op('i32.const', 0) : f.op('i64.const', 0n);
const one = (f: FunctionBuilder, p: IntPrefix): void =>
  p === 'i32' ? f.op('i32.const', 1) : f.op('i64.const', 1n);

function pop3(f: FunctionBuilder, p: 'i32' | 'v128') {
  const c = f.local('c', p);
  const b = f.local('b', p);
  const a = f.local('a', p);
  f.set(c);
  f.set(b);
  f.set(a);
  return [a, b, c] as const;
}

/** [value for small arguments, argument]: kernel/passes/decompose.ts has made the one, for the others a function is called. */
function wave(name: WaveName): OpInstructions {
  /** The argument on the stack → the value. */
  const large = (c: OpContext, p: FloatPrefix): void => {
    if (p === 'f32') c.f.op('f64.promote_f32');
    c.f.op('call', c.helper(name));
    if (p === 'f32') c.f.op('f32.demote_f64');
  };
  return {
    float: (c, p) => {
      const { f } = c;
      const x = f.local('x', p);
      const near = f.local('near', p);
      f.set(x);
      f.set(near);
      f.get(x);
      f.op(`${p}.abs`);
      f.op(`${p}.const`, (p === 'f32' ? F32 : F64).waveRange);
      f.op(`${p}.lt`);
      f.when(
        () => f.get(near),
        () => {
          f.get(x);
          large(c, p);
        },
        p,
      );
    },
    float4: (c) => {
      const { f } = c;
      const x = f.local('x', 'v128');
      const near = f.local('near', 'v128');
      const isLarge = f.local('isLarge', 'v128');
      f.set(x);
      f.set(near);
      f.get(x);
      f.op('f32x4.abs');
      f.op('v128.const', vectorBytes(f32, new Array<number>(4).fill(F32.waveRange)));
      f.op('f32x4.ge');
      f.tee(isLarge);
      f.op('v128.any_true');
      f.when(() => {
        for (let lane = 0; lane < 4; lane++) {
          f.get(isLarge);
          f.op('i32x4.extract_lane', lane);
          f.when(() => {
            f.get(near);
            f.get(x);
            f.op('f32x4.extract_lane', lane);
            large(c, 'f32');
            f.op('f32x4.replace_lane', lane);
            f.set(near);
          });
        }
      });
      f.get(near);
    },
  };
}

/** [a, b, c] → c and the products of the bytes of a and b. @param positive no byte of b is negative */
function dotBytes(positive: boolean): OpInstructions {
  return {
    int: ({ f }) => {
      const [a, b, c] = pop3(f, 'i32');
      f.get(c);
      for (const shift of [0, 8, 16, 24]) {
        for (const word of [a, b]) {
          f.get(word);
          f.i32(shift);
          f.op('i32.shr_u');
          f.op('i32.extend8_s');
        }
        f.op('i32.mul');
        f.op('i32.add');
      }
    },
    int4: ({ f, relaxed }) => {
      if (positive && relaxed) {
        // Three instructions of x86. The one with the addition in it (relaxed_dot_i8x16_i7x16_add_s) is five in V8.
        const [a, b, c] = pop3(f, 'v128');
        f.get(a);
        f.get(b);
        f.op('i16x8.relaxed_dot_i8x16_i7x16_s');
        f.op('i32x4.extadd_pairwise_i16x8_s');
        f.get(c);
        f.op('i32x4.add');
        return;
      }
      // The bytes of a word as two pairs of 16 bits: those at even places, and those at odd ones.
      const [a, b, c] = pop3(f, 'v128');
      f.get(c);
      for (const isEven of [true, false]) {
        for (const word of [a, b]) {
          f.get(word);
          if (isEven) {
            f.i32(8);
            f.op('i16x8.shl');
          }
          f.i32(8);
          f.op('i16x8.shr_s');
        }
        f.op('i32x4.dot_i16x8_s');
        f.op('i32x4.add');
      }
    },
  };
}

/** What kernel/passes/decompose.ts leaves. */
const RULES = {
  add: arithmetic('add'),
  sub: arithmetic('sub'),
  mul: arithmetic('mul'),
  div: float('div'),
  idiv: {
    int: (c, p) => {
      const { f } = c;
      if (c.safeDivisor) {
        f.op(`${p}.div_${sign(c)}`);
        return;
      }
      const [a, b] = pop2(f, p);
      if (c.unsigned) {
        f.get(b);
        f.when(
          () => {
            f.get(a);
            f.get(b);
            f.op(`${p}.div_u`);
          },
          () => zero(f, p),
          p,
        );
        return;
      }
      // b is neither 0 nor -1 exactly if b + 1 > 1 unsigned; else the quotient is 0 or -a: b & -a.
      f.get(b);
      one(f, p);
      f.op(`${p}.add`);
      one(f, p);
      f.op(`${p}.gt_u`);
      f.when(
        () => {
          f.get(a);
          f.get(b);
          f.op(`${p}.div_s`);
        },
        () => {
          zero(f, p);
          f.get(a);
          f.op(`${p}.sub`);
          f.get(b);
          f.op(`${p}.and`);
        },
        p,
      );
    },
  },
  mod: {
    float: (c, p) => {
      const { f } = c;
      if (p === 'f32') {
        const b = f.local('b', 'f64');
        f.op('f64.promote_f32');
        f.set(b);
        f.op('f64.promote_f32');
        f.get(b);
      }
      f.op('call', c.helper('fmod'));
      if (p === 'f32') f.op('f32.demote_f64');
    },
    int: (c, p) => {
      const { f } = c;
      if (c.safeDivisor) {
        f.op(`${p}.rem_${sign(c)}`);
        return;
      }
      const [a, b] = pop2(f, p);
      f.get(b);
      if (p === 'i64') f.op('i64.eqz');
      else f.op('i32.eqz');
      f.when(
        () => zero(f, p),
        () => {
          f.get(a);
          f.get(b);
          f.op(`${p}.rem_${sign(c)}`);
        },
        p,
      );
    },
  },
  neg: {
    float: ({ f }, p) => f.op(`${p}.neg`),
    float4: ({ f }) => f.op('f32x4.neg'),
    int: ({ f }, p) => {
      const a = f.local('a', p);
      f.set(a);
      zero(f, p);
      f.get(a);
      f.op(`${p}.sub`);
    },
    int4: ({ f }) => f.op('i32x4.neg'),
  },
  abs: {
    float: ({ f }, p) => f.op(`${p}.abs`),
    float4: ({ f }) => f.op('f32x4.abs'),
    int: ({ f, unsigned }, p) => {
      if (unsigned) return;
      const a = f.local('a', p);
      f.set(a);
      zero(f, p);
      f.get(a);
      f.op(`${p}.sub`);
      f.get(a);
      f.get(a);
      zero(f, p);
      f.op(`${p}.lt_s`);
      f.op('select');
    },
    int4: ({ f, unsigned }) => {
      if (!unsigned) f.op('i32x4.abs');
    },
  },
  min: minmax('min', 'lt'),
  max: minmax('max', 'gt'),
  /** One lane has no fused instruction; the emitter chooses it for four. */
  fma: {},
  sqrt: float('sqrt'),
  sin: wave('sin'),
  cos: wave('cos'),
  floor: float('floor'),
  ceil: float('ceil'),
  trunc: float('trunc'),
  rint: float('nearest'),
  lt: order('lt'),
  le: order('le'),
  gt: order('gt'),
  ge: order('ge'),
  eq: equality('eq'),
  ne: equality('ne'),
  and: bits('and'),
  or: bits('or'),
  xor: bits('xor'),
  not: {
    int: ({ f }, p) => {
      if (p === 'i32') f.op('i32.const', -1);
      else f.op('i64.const', -1n);
      f.op(`${p}.xor`);
    },
    int4: ({ f }) => f.op('v128.not'),
  },
  // Four-lane shifts take one count; the emitter uses them where all counts are equal.
  shl: { int: ({ f }, p) => f.op(`${p}.shl`) },
  shr: { int: (c, p) => c.f.op(`${p}.shr_${sign(c)}`) },
  mulhi: {
    int: (c, p) => {
      const { f } = c;
      if (p === 'i64') {
        f.op('call', c.helper('mulhi64'));
        return;
      }
      const [a, b] = pop2(f, p);
      for (const v of [a, b]) {
        f.get(v);
        f.op(`i64.extend_i32_${sign(c)}`);
      }
      f.op('i64.mul');
      f.op('i64.const', 32n);
      f.op('i64.shr_u');
      f.op('i32.wrap_i64');
    },
  },
  dp4a: dotBytes(false),
  dp4aPositive: dotBytes(true),
} as const satisfies Record<Exclude<ScalarOp, Elementary> | WaveName, OpInstructions>;
export const ruleOf = (op: ScalarOp): OpInstructions => (op in RULES ? RULES[op as keyof typeof RULES] : {});

/** Functions that a rule may call, written by hand; each is in a module only if one does. */
export const HELPERS: Record<Exclude<HelperName, WaveName>, () => FunctionBuilder> = { fmod, mulhi64 };

/**
 * The remainder with the sign of the dividend, exactly: subtracts b·2^k for falling k, each time without rounding.
 */
function fmod(): FunctionBuilder {
  const f = new FunctionBuilder('fmod', 'f64');
  const a = f.param('a', 'f64');
  const b = f.param('b', 'f64');
  const rest = f.local('rest', 'f64');
  const divisor = f.local('divisor', 'f64');
  const step = f.local('step', 'f64');
  const number = (v: number): void => f.op('f64.const', v);
  f.get(a);
  f.op('f64.abs');
  f.set(rest);
  f.get(b);
  f.op('f64.abs');
  f.tee(divisor);
  f.set(step);
  // NaN operands, an infinite dividend and a zero divisor have no remainder.
  f.get(rest);
  number(Number.POSITIVE_INFINITY);
  f.op('f64.lt');
  f.get(divisor);
  number(0);
  f.op('f64.gt');
  f.op('i32.and');
  f.op('i32.eqz');
  f.when(() => {
    number(Number.NaN);
    f.op('return');
  });
  f.get(divisor);
  number(Number.POSITIVE_INFINITY);
  f.op('f64.eq');
  f.when(() => {
    f.get(a);
    f.op('return');
  });
  f.loop('grow', (again) => {
    f.get(step);
    f.get(rest);
    number(0.5);
    f.op('f64.mul');
    f.op('f64.le');
    f.when(() => {
      f.get(step);
      f.get(step);
      f.op('f64.add');
      f.set(step);
      f.branch(again);
    });
  });
  f.loop('subtract', (again) => {
    f.get(step);
    f.get(divisor);
    f.op('f64.ge');
    f.when(() => {
      f.get(rest);
      f.get(step);
      f.op('f64.ge');
      f.when(() => {
        f.get(rest);
        f.get(step);
        f.op('f64.sub');
        f.set(rest);
      });
      f.get(step);
      number(0.5);
      f.op('f64.mul');
      f.set(step);
      f.branch(again);
    });
  });
  f.get(rest);
  f.get(a);
  f.op('f64.copysign');
  return f;
}

/** The upper half of a signed 64×64-bit product, from four products of halves. */
function mulhi64(): FunctionBuilder {
  const f = new FunctionBuilder('mulhi64', 'i64');
  const a = f.param('a', 'i64');
  const b = f.param('b', 'i64');
  const middle = f.local('middle', 'i64');
  const low = (v: typeof a): void => {
    f.get(v);
    f.op('i64.const', 0xffffffffn);
    f.op('i64.and');
  };
  const high = (v: typeof a): void => {
    f.get(v);
    f.op('i64.const', 32n);
    f.op('i64.shr_s');
  };
  const cross = f.local('cross', 'i64');
  // middle = aHigh·bLow + (aLow·bLow >>> 32)
  high(a);
  low(b);
  f.op('i64.mul');
  low(a);
  low(b);
  f.op('i64.mul');
  f.op('i64.const', 32n);
  f.op('i64.shr_u');
  f.op('i64.add');
  f.set(middle);
  // cross = aLow·bHigh + low half of middle
  low(a);
  high(b);
  f.op('i64.mul');
  low(middle);
  f.op('i64.add');
  f.set(cross);
  high(a);
  high(b);
  f.op('i64.mul');
  high(middle);
  f.op('i64.add');
  high(cross);
  f.op('i64.add');
  return f;
}
