/** Barriers, warp operations and atomics in C++. */
import { type DType, f32, i32, u32 } from '../../core/dtype.js';
import type { Intrinsic } from '../../kernel/ir/intrinsics.js';
import { needsRounding, type ScalarOp } from '../../kernel/ir/ops.js';
import type { Asynchronous } from './asynchronous.js';
import { fromMemory, rounded, scalarOp, toMemory } from './ops.js';
import type { Prelude } from './prelude.js';
import {
  call,
  convertTo,
  infix,
  MEMORY_TYPE,
  PRECEDENCE,
  postfix,
  prefix,
  REGISTER_TYPE,
  type Text,
  ternary,
} from './text.js';

/** One use of an intrinsic. */
interface IntrinsicUse {
  readonly prelude: Prelude;
  /** The dtype of its `T`. */
  readonly t: DType;
  readonly args: readonly Text[];
  /** Of atomics, `rows` and what is remote: the address of the element. */
  readonly place: Text;
}

type IntrinsicText = (use: IntrinsicUse) => Text;

/** All 32 lanes take part; those that have returned or never were do not count. */
const WARP = postfix('0xffffffffu');

const warp =
  (name: string): IntrinsicText =>
  ({ args }) =>
    call(name, WARP, ...args);

/**
 * Integers of 32 bits have an instruction for it; others add in butterfly order: 16, 8, 4, 2, 1. Where lanes may be
 * missing, those that are there are added one after the other.
 */
const reduction =
  (op: 'add' | 'min' | 'max'): IntrinsicText =>
  ({ prelude, t, args }) => {
    if (t.name === 'i32' || t.name === 'u32') return call(`__reduce_${op}_sync`, WARP, ...args);
    const name = `warp_${op === 'add' ? 'sum' : op}_${t.name}`;
    const other = call('__shfl_xor_sync', WARP, postfix('v'), postfix('by'));
    const T = REGISTER_TYPE[t.name];
    const { text } = apply(prelude, op, t, postfix('v'), other);
    const butterfly = `for (int by = 16; by > 0; by >>= 1) v = ${text}; return v;`;
    if (prelude.wholeWarps) {
      prelude.define(name, () => `__device__ inline ${T} ${name}(${T} v) { ${butterfly} }`);
      return call(name, ...args);
    }
    const next = apply(
      prelude,
      op,
      t,
      postfix('total'),
      call('__shfl_sync', postfix('here'), postfix('v'), postfix('lane')),
    );
    prelude.define(
      `${name}_of_some`,
      () =>
        `__device__ inline ${T} ${name}_of_some(${T} v) { const unsigned here = __ballot_sync(0xffffffffu, 1); ` +
        `if (here == 0xffffffffu) { ${butterfly} } int lane = __ffs(here) - 1; ${T} total = __shfl_sync(here, v, lane); ` +
        `while (++lane < 32) if (here >> lane & 1u) total = ${next.text}; return total; }`,
    );
    return call(`${name}_of_some`, ...args);
  };

const apply = (prelude: Prelude, op: ScalarOp, t: DType, ...args: readonly Text[]): Text => {
  const text = scalarOp(prelude, op, t, args);
  return needsRounding(op) ? rounded(prelude, t, text) : text;
};

type NewValue = (prelude: Prelude, t: DType, old: Text, v: Text, w: Text) => Text;

/**
 * An atomic by CUDA's function for the dtypes that have one, else by compare-and-swap of the word.
 *
 * @param update the new value from `old`, `v` (and `w`), for the dtypes without a function
 */
const atomic =
  (name: string, cuda: string, dtypes: readonly DType['name'][], update: NewValue): IntrinsicText =>
  ({ prelude, t, place, args }) => {
    if (dtypes.includes(t.name)) {
      if (t.name !== 'i64' || cuda === 'atomicMin' || cuda === 'atomicMax') return call(cuda, place, ...args);
      const word = call('reinterpret_cast<unsigned long long*>', place);
      return convertTo('long long', call(cuda, word, ...args));
    }
    const own = `${name}_${t.name}`;
    const result = update(prelude, t, postfix('old'), postfix('v'), postfix('w'));
    prelude.define(own, () => compareAndSwapLoop(prelude, own, t, args.length, result));
    return call(own, place, ...args);
  };

function compareAndSwapLoop(prelude: Prelude, name: string, t: DType, count: number, result: Text): string {
  const T = REGISTER_TYPE[t.name];
  const uses = result.text.includes('old');
  const parameters = `${MEMORY_TYPE[t.name]}* place, ${T} v${count > 1 ? `, ${T} w` : ''}`;
  // Eight bits have no compare-and-swap: use the word around them.
  if (t.bytes === 1)
    return `__device__ inline ${T} ${name}(${parameters}) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(place);
  unsigned* word = reinterpret_cast<unsigned*>(address & ~3ull);
  const unsigned shift = unsigned(address & 3) * 8;
  unsigned now = *word, before;
  do {
    before = now;${uses ? `\n    const ${T} old = (${T})(before >> shift);` : ''}
    now = atomicCAS(word, before, (before & ~(255u << shift)) | unsigned((${T})(${result.text})) << shift);
  } while (now != before);
  return (${T})(before >> shift);
}`;
  const word = { 2: 'unsigned short', 4: 'unsigned', 8: 'unsigned long long' }[t.bytes];
  const value = fromBits(prelude, t, postfix('before')).text;
  return `__device__ inline ${T} ${name}(${parameters}) {
  ${word}* word = reinterpret_cast<${word}*>(place);
  ${word} now = *word, before;
  do {
    before = now;${uses ? `\n    const ${T} old = ${value};` : ''}
    now = atomicCAS(word, before, ${toBits(prelude, t, result).text});
  } while (now != before);
  return ${value};
}`;
}

function fromBits(prelude: Prelude, t: DType, bits: Text): Text {
  if (t.name === 'f32') return call('__uint_as_float', bits);
  if (t.name === 'f64') return call('__longlong_as_double', convertTo('long long', bits));
  return fromMemory(prelude, t, bits);
}

function toBits(prelude: Prelude, t: DType, v: Text): Text {
  if (t.name === 'f32') return call('__float_as_uint', v);
  if (t.name === 'f64') return convertTo('unsigned long long', call('__double_as_longlong', v));
  return toMemory(prelude, t, v);
}

const updateBy =
  (op: ScalarOp): NewValue =>
  (prelude, t, old, v) =>
    scalarOp(prelude, op, t, [old, v]);

const byOp = (name: string, cuda: string, op: ScalarOp): IntrinsicText =>
  atomic(name, cuda, ['i32', 'u32', 'i64'], updateBy(op));

const atomicAdd = atomic('atomic_add', 'atomicAdd', ['i32', 'u32', 'i64', 'f32', 'f64'], updateBy('add'));

/** A product of fragments by a warp's tensor cores. @param bits of an operand's register, as C++ */
const multiply =
  (
    name: string,
    shape: string,
    operands: string,
    register: 'f32' | 'u32',
    sums: DType = f32,
  ): IntrinsicText =>
  ({ prelude, args }) => {
    const [type, held] = sums === f32 ? ['f32', 'f'] : ['s32', 'r'];
    const a = prelude.vector(register === 'f32' ? f32 : u32, 4);
    const b = prelude.vector(register === 'f32' ? f32 : u32, 2);
    const c = prelude.vector(sums, 4);
    const input = (v: string): string => `"r"(${register === 'f32' ? `__float_as_uint(${v})` : v})`;
    prelude.define(
      name,
      () => `__device__ inline ${c} ${name}(${a} a, ${b} b, ${c} c) {
  asm volatile("mma.sync.aligned.${shape}.row.col.${type}.${operands}.${operands}.${type} {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+${held}"(c.x), "+${held}"(c.y), "+${held}"(c.z), "+${held}"(c.w)
    : ${['a.x', 'a.y', 'a.z', 'a.w', 'b.x', 'b.y'].map(input).join(', ')});
  return c;
}`,
    );
    return call(name, ...args);
  };

/** Fragments of matrices in shared memory. */
const matrices =
  (name: string, shape: string): IntrinsicText =>
  ({ prelude, place }) => {
    const type = prelude.vector(u32, 4);
    prelude.define(
      name,
      () => `__device__ inline ${type} ${name}(const void* row) {
  ${type} r;
  asm volatile("ldmatrix.sync.aligned.m8n8.${shape}.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
  return r;
}`,
    );
    return call(name, place);
  };

const boolean = (text: Text): Text => infix(text, '!=', postfix('0'), PRECEDENCE.equality);

/** An instruction without operands. @param memory whether what it says of memory keeps the compiler from moving accesses over it */
const instruction =
  (text: string, memory: boolean): IntrinsicText =>
  () =>
    postfix(`asm volatile("${text};"${memory ? ' ::: "memory"' : ''})`);

const TABLE = {
  waitForEarlierLaunches: instruction('griddepcontrol.wait', true),
  startLaterLaunches: instruction('griddepcontrol.launch_dependents', false),
  barrier: ({ prelude, args: [threads] }) => {
    if (!threads) return call('__syncthreads');
    const name = `barrier_of_${threads.text}`;
    prelude.define(
      name,
      () => `__device__ inline void ${name}() { asm volatile("bar.sync 1, ${threads.text};" ::: "memory"); }`,
    );
    return call(name);
  },
  shuffle: warp('__shfl_sync'),
  shuffleUp: warp('__shfl_up_sync'),
  shuffleDown: warp('__shfl_down_sync'),
  shuffleXor: warp('__shfl_xor_sync'),
  warpSum: reduction('add'),
  warpMax: reduction('max'),
  warpMin: reduction('min'),
  any: ({ args }) => boolean(call('__any_sync', WARP, ...args)),
  all: ({ args }) => boolean(call('__all_sync', WARP, ...args)),
  ballot: warp('__ballot_sync'),
  mma: multiply('mma_tf32', 'm16n8k8', 'tf32', 'f32'),
  mmaF16: multiply('mma_f16', 'm16n8k16', 'f16', 'u32'),
  mmaBf16: multiply('mma_bf16', 'm16n8k16', 'bf16', 'u32'),
  mmaI8: multiply('mma_i8', 'm16n8k32', 's8', 'u32', i32),
  loadMatrix4: matrices('load_matrix_4', 'x4'),
  loadMatrix4Transposed: matrices('load_matrix_4_transposed', 'x4.trans'),
  loadRemote: ({ prelude, t, place, args: [rank] }) => {
    prelude.define(
      'remote_place',
      () =>
        'template <class T> __device__ __forceinline__ T* remote_place(T* at, unsigned rank) ' +
        '{ T* there; asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank) : "memory"); return there; }',
    );
    return fromMemory(prelude, t, prefix('*', call('remote_place', place, rank!)));
  },
  commitCopies: ({ prelude }) => {
    prelude.define(
      'commit_copies',
      () => '__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }',
    );
    return call('commit_copies');
  },
  waitCopies: ({ prelude, args: [left] }) => {
    const name = `wait_copies_${left!.text}`;
    prelude.define(
      name,
      () =>
        `__device__ inline void ${name}() { asm volatile("cp.async.wait_group ${left!.text};" ::: "memory"); }`,
    );
    return call(name);
  },
  atomicAdd,
  atomicSub: (use) => atomicAdd({ ...use, args: [scalarOp(use.prelude, 'neg', use.t, use.args)] }),
  atomicMin: byOp('atomic_min', 'atomicMin', 'min'),
  atomicMax: byOp('atomic_max', 'atomicMax', 'max'),
  atomicAnd: byOp('atomic_and', 'atomicAnd', 'and'),
  atomicOr: byOp('atomic_or', 'atomicOr', 'or'),
  atomicXor: byOp('atomic_xor', 'atomicXor', 'xor'),
  atomicExchange: atomic(
    'atomic_exchange',
    'atomicExch',
    ['i32', 'u32', 'i64', 'f32'],
    (_prelude, _t, _old, v) => v,
  ),
  // Floats compare as numbers here, and as bits in CUDA's function.
  atomicCompareExchange: atomic(
    'atomic_compare_exchange',
    'atomicCAS',
    ['i32', 'u32', 'i64'],
    (_prelude, _t, old, v, w) => ternary(infix(old, '==', v, PRECEDENCE.equality), w, old),
  ),
} as const satisfies Record<Exclude<Intrinsic, Asynchronous>, IntrinsicText>;

/** The call of an intrinsic. @param place of an atomic: the address of the element */
export function intrinsicCall(
  prelude: Prelude,
  name: Exclude<Intrinsic, Asynchronous>,
  t: DType,
  args: readonly Text[],
  place: Text = postfix(''),
): Text {
  const rule: IntrinsicText = TABLE[name];
  return rule({ prelude, t, args, place });
}
