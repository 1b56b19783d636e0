/**
 * Operations that involve more than one value: barriers, warp shuffles, votes and reductions, tensor cores, atomics,
 * and the waiting for asynchronous copies. One record each: a type rule, a simulated meaning here, and their text in
 * render/cuda/intrinsics.ts. Those of Hopper's copy engine and warpgroups are in asynchronous.ts.
 */
import { bool, type DType, i32, u32 } from '../../core/dtype.js';
import { ASYNCHRONOUS } from './asynchronous.js';
import { type IntrinsicRecord, type LaneValue, VECTORS, type WarpArguments } from './intrinsic-record.js';
import { evaluate, type Scalar } from './ops.js';
import { fragments, multiplyBf16, multiplyBytes, multiplyF16, multiplyTf32 } from './tensor-core.js';
import { type ValueType, value } from './types.js';

/** A lane that asks for one outside of the warp gets its own value back, as from `__shfl_sync`. */
const shuffle = (doc: string, source: (lane: number, by: number) => number) =>
  ({
    scope: 'warp',
    params: ['T', 'i32'],
    result: 'T',
    doc,
    source,
    warp: (_t: DType, lanes: WarpArguments): (LaneValue | undefined)[] =>
      lanes.map((args, lane) => args && (lanes[source(lane, args[1] as number)] ?? args)[0]),
  }) as const satisfies IntrinsicRecord;

/**
 * Butterfly order, as the GPU's xor-shuffle reduction adds: 16, 8, 4, 2, 1. Of a warp that is not whole, in the order of
 * its lanes.
 */
const reduction =
  (op: 'add' | 'min' | 'max') =>
  (t: DType, lanes: WarpArguments): (Scalar | undefined)[] => {
    const there = lanes.flatMap((args) => (args ? [args[0] as Scalar] : []));
    if (there.length < 32) {
      const total = there.reduce((a, b) => evaluate(op, t, a, b));
      return lanes.map((args) => args && total);
    }
    let now = lanes.map((args) => args?.[0] as Scalar | undefined);
    for (let by = 16; by > 0; by >>= 1) {
      now = now.map((mine, lane) => {
        const other = now[lane ^ by];
        return mine === undefined || other === undefined ? mine : evaluate(op, t, mine, other);
      });
    }
    return now;
  };

const vote =
  (decide: (yes: number, taking: number) => Scalar) =>
  (_t: DType, lanes: WarpArguments): (Scalar | undefined)[] => {
    let yes = 0;
    let taking = 0;
    lanes.forEach((args, lane) => {
      if (!args) return;
      taking |= 1 << lane;
      if (args[0]) yes |= 1 << lane;
    });
    return lanes.map((args) => (args ? decide(yes >>> 0, taking >>> 0) : undefined));
  };

const atomic = (doc: string, update: IntrinsicRecord['update'], params: IntrinsicRecord['params'] = ['T']) =>
  ({
    scope: 'thread',
    params,
    result: 'T',
    atomic: true,
    doc,
    update: update!,
  }) as const satisfies IntrinsicRecord;

const updateBy =
  (op: 'add' | 'sub' | 'min' | 'max' | 'and' | 'or' | 'xor') =>
  (t: DType, old: Scalar, args: readonly Scalar[]): Scalar =>
    evaluate(op, t, old, args[0]!);

const multiplyPairs = (dtype: 'f16' | 'bf16', warp: NonNullable<IntrinsicRecord['warp']>) =>
  ({
    scope: 'warp',
    params: ['u32x4', 'u32x2', 'f32x4'],
    result: 'f32x4',
    doc: `a · b + c of 16 × 8 × 16 in ${dtype} on a tensor core`,
    whole: true,
    warp,
  }) as const satisfies IntrinsicRecord;

export const INTRINSICS = {
  barrier: {
    scope: 'block',
    params: [],
    result: 'none',
    doc: 'waits for all threads of the block; shared and global writes before it are seen after it',
  },
  shuffle: shuffle('the value of lane b (modulo 32)', (_lane, by) => by & 31),
  shuffleUp: shuffle('the value of the lane b below', (lane, by) => lane - by),
  shuffleDown: shuffle('the value of the lane b above', (lane, by) => lane + by),
  shuffleXor: shuffle('the value of lane (own xor b)', (lane, by) => lane ^ by),
  warpSum: {
    scope: 'warp',
    params: ['T'],
    result: 'T',
    doc: 'the sum over the warp, in every lane',
    warp: reduction('add'),
  },
  warpMax: {
    scope: 'warp',
    params: ['T'],
    result: 'T',
    doc: 'the largest value of the warp, in every lane',
    warp: reduction('max'),
  },
  warpMin: {
    scope: 'warp',
    params: ['T'],
    result: 'T',
    doc: 'the smallest value of the warp, in every lane',
    warp: reduction('min'),
  },
  any: {
    scope: 'warp',
    params: ['bool'],
    result: 'bool',
    doc: 'whether any lane says true',
    warp: vote((yes) => yes !== 0),
  },
  all: {
    scope: 'warp',
    params: ['bool'],
    result: 'bool',
    doc: 'whether every lane says true',
    warp: vote((yes, taking) => yes === taking),
  },
  ballot: {
    scope: 'warp',
    params: ['bool'],
    result: 'u32',
    doc: 'a bit per lane that says true',
    warp: vote((yes) => yes),
  },
  mma: {
    scope: 'warp',
    params: ['f32x4', 'f32x2', 'f32x4'],
    result: 'f32x4',
    doc: 'a · b + c of 16 × 8 × 8 in tf32 on a tensor core',
    whole: true,
    warp: multiplyTf32,
  },
  mmaF16: multiplyPairs('f16', multiplyF16),
  mmaBf16: multiplyPairs('bf16', multiplyBf16),
  mmaI8: {
    scope: 'warp',
    params: ['u32x4', 'u32x2', 'i32x4'],
    result: 'i32x4',
    doc: 'a · b + c of 16 × 8 × 32 in i8 on a tensor core',
    whole: true,
    warp: multiplyBytes,
  },
  loadMatrix4: {
    scope: 'warp',
    params: [],
    result: 'u32x4',
    rows: ['f16', 'bf16', 'f32', 'u32'],
    doc: 'fragments of four matrices of 8 × 8 (8 × 4 of f32), whose rows begin at the places of lanes 0 to 7, 8 to 15…',
    whole: true,
    warp: fragments(false),
  },
  loadMatrix4Transposed: {
    scope: 'warp',
    params: [],
    result: 'u32x4',
    rows: ['f16', 'bf16', 'u32'],
    doc: 'fragments of four matrices of 8 × 8, whose columns begin at the places of lanes 0 to 7, 8 to 15…',
    whole: true,
    warp: fragments(true),
  },
  loadRemote: {
    scope: 'thread',
    params: ['i32'],
    result: 'T',
    remote: true,
    cluster: true,
    doc: 'what stands at a place in shared memory of another block of the cluster',
  },
  commitCopies: {
    scope: 'thread',
    params: [],
    result: 'none',
    doc: 'makes a group of the copies started since the last',
  },
  waitCopies: {
    scope: 'thread',
    params: ['i32'],
    result: 'none',
    doc: 'waits until at most the n groups committed last are on their way',
  },
  waitForEarlierLaunches: {
    scope: 'thread',
    params: [],
    result: 'none',
    internal: true,
    doc: 'waits until the launches that this one needs have ended, and what they wrote can be read',
  },
  startLaterLaunches: {
    scope: 'thread',
    params: [],
    result: 'none',
    internal: true,
    doc: 'lets launches that need this one start: they wait for its end themselves',
  },
  atomicAdd: atomic('x[i] += v; returns the old value', updateBy('add')),
  atomicSub: atomic('x[i] -= v; returns the old value', updateBy('sub')),
  atomicMin: atomic('x[i] = min(x[i], v); returns the old value', updateBy('min')),
  atomicMax: atomic('x[i] = max(x[i], v); returns the old value', updateBy('max')),
  atomicAnd: atomic('x[i] &= v; returns the old value', updateBy('and')),
  atomicOr: atomic('x[i] |= v; returns the old value', updateBy('or')),
  atomicXor: atomic('x[i] ^= v; returns the old value', updateBy('xor')),
  atomicExchange: atomic('x[i] = v; returns the old value', (_t, _old, args) => args[0]!),
  atomicCompareExchange: atomic(
    'if (x[i] === a) x[i] = b; returns the old value',
    (_t, old, args) => (old === args[0] ? args[1]! : old),
    ['T', 'T'],
  ),
  ...ASYNCHRONOUS,
} as const satisfies Record<string, IntrinsicRecord>;

export type Intrinsic = keyof typeof INTRINSICS;

/** The type of an intrinsic's result where its `T` is `t`; undefined for none. */
export function resultOf(name: Intrinsic, t: DType): ValueType | undefined {
  const result: IntrinsicRecord['result'] = INTRINSICS[name].result;
  switch (result) {
    case 'none':
      return undefined;
    case 'T':
      return value(t);
    case 'bool':
      return value(bool);
    case 'u32':
      return value(u32);
    default:
      return VECTORS[result];
  }
}

/** The types of arguments other than `T`. */
export const PARAM_TYPE = { i32: value(i32), u32: value(u32), bool: value(bool), ...VECTORS } as const;
