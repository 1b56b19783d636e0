/** Loads, stores and atomics. Memory operands are `[memory, base, offset]` (kernel/passes/address.ts). */
import type { DType } from '../../core/dtype.js';
import type { Expr, Node, Statement } from '../../kernel/ir/ir.js';
import type { WasmEmitter } from './emitter.js';
import type { Local } from './encode.js';
import { fromHalf, toHalf, wordsOf } from './half.js';
import type { InstructionName } from './instructions.js';
import { cutToByte, fail, isWide, laneType, unsupported } from './values.js';

const dtypeOf = (memory: Node): DType => {
  if (memory.type.kind !== 'memory') fail(`${memory.op} is not memory`);
  return memory.type.dtype;
};

/** Push a value from memory; not wide. */
export function load(x: WasmEmitter, e: Expr): void {
  const { f } = x;
  const t = dtypeOf(e.src[0]!);
  const { lanes } = e.type;
  const offset = Number(e.src[2]!.arg);
  const from = (name: InstructionName): void => f.op(name, undefined, offset);
  x.push(e.src[1] as Expr);
  switch (t.bytes) {
    case 8:
      from(t.name === 'f64' ? 'f64.load' : 'i64.load');
      return;
    case 4:
      if (lanes === 1) from(laneType(t) === 'f32' ? 'f32.load' : 'i32.load');
      else from(lanes === 4 ? 'v128.load' : 'v128.load64_zero');
      return;
    case 2: {
      const half = t.name === 'f16' ? 'f16' : 'bf16';
      if (lanes === 1) {
        from('i32.load16_u');
      } else {
        from(lanes === 4 ? 'v128.load64_zero' : 'v128.load32_zero');
        f.op('i32x4.extend_low_i16x8_u');
      }
      fromHalf(f, half, lanes > 1);
      return;
    }
    case 1:
      if (lanes === 1) {
        from(t.name === 'i8' ? 'i32.load8_s' : 'i32.load8_u');
        return;
      }
      if (lanes === 4) {
        from('v128.load32_zero');
      } else {
        from('i32.load16_u');
        f.op('i32x4.splat');
      }
      f.op(t.name === 'i8' ? 'i16x8.extend_low_i8x16_s' : 'i16x8.extend_low_i8x16_u');
      f.op(t.name === 'i8' ? 'i32x4.extend_low_i16x8_s' : 'i32x4.extend_low_i16x8_u');
      if (t.name === 'bool') f.op('i32x4.neg');
  }
}

/** Push a scalar load straight into all lanes, where one instruction does it. */
export function loadSplat(x: WasmEmitter, e: Expr): boolean {
  if (e.op !== 'load' || e.type.lanes !== 1) return false;
  if (dtypeOf(e.src[0]!).bytes !== 4) return false;
  x.push(e.src[1] as Expr);
  x.f.op('v128.load32_splat', undefined, Number(e.src[2]!.arg));
  return true;
}

/** The low byte, or the low two bytes, of each word, next to each other. */
const PACK_1 = [0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const PACK_2 = [0, 1, 4, 5, 8, 9, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0];

export function store(x: WasmEmitter, s: Statement): void {
  const { f } = x;
  const memory = s.src[0]!;
  const e = s.src[1] as Expr;
  const t = dtypeOf(memory);
  const { lanes } = e.type;
  const offset = Number(s.src[3]!.arg);
  if (isWide(e.type)) {
    const base = x.keep(s.src[2] as Expr);
    x.wide(e).forEach((lane, i) => {
      f.get(base);
      f.get(lane);
      f.op(t.name === 'f64' ? 'f64.store' : 'i64.store', undefined, offset + 8 * i);
    });
    return;
  }
  x.push(s.src[2] as Expr);
  x.push(e);
  if (lanes === 1) {
    storeScalar(x, t, offset);
    return;
  }
  switch (t.bytes) {
    case 8:
      return;
    case 4:
      if (lanes === 4) f.op('v128.store', undefined, offset);
      else f.op('v128.store64_lane', 0, offset);
      return;
    case 2:
      toHalf(f, t.name === 'f16' ? 'f16' : 'bf16', true);
      twice(x, PACK_2);
      f.op(lanes === 4 ? 'v128.store64_lane' : 'v128.store32_lane', 0, offset);
      return;
    case 1:
      if (t.name === 'bool') {
        f.op('v128.const', wordsOf(1));
        f.op('v128.and');
      }
      twice(x, PACK_1);
      f.op(lanes === 4 ? 'v128.store32_lane' : 'v128.store16_lane', 0, offset);
  }
}

/** [vector] → shuffled with itself. */
function twice(x: WasmEmitter, lanes: readonly number[]): void {
  const v = x.f.local('packed', 'v128');
  x.f.tee(v);
  x.f.get(v);
  x.f.op('i8x16.shuffle', lanes);
}

function storeScalar(x: WasmEmitter, t: DType, offset: number): void {
  const { f } = x;
  switch (t.name) {
    case 'f16':
    case 'bf16':
      toHalf(f, t.name, false);
      f.op('i32.store16', undefined, offset);
      return;
    case 'i8':
    case 'u8':
    case 'bool':
      f.op('i32.store8', undefined, offset);
      return;
    default:
      f.op(`${laneType(t)}.store`, undefined, offset);
  }
}

/** Atomics the machine has for i32, u32 and i64; the others are updates by now (kernel/passes/atomics.ts). */
const NATIVE: Readonly<Record<string, 'add' | 'sub' | 'and' | 'or' | 'xor' | 'xchg' | 'cmpxchg'>> = {
  atomicAdd: 'add',
  atomicSub: 'sub',
  atomicAnd: 'and',
  atomicOr: 'or',
  atomicXor: 'xor',
  atomicExchange: 'xchg',
  atomicCompareExchange: 'cmpxchg',
};

/** Push what stood in memory before. */
export function atomic(x: WasmEmitter, e: Extract<Expr, { op: 'intrinsic' }>): void {
  const memory = e.src[0];
  if (memory?.op !== 'buffer' && memory?.op !== 'array')
    unsupported(`${e.arg} as a whole warp's operation`, e.at);
  const t = dtypeOf(memory);
  const type = laneType(t);
  const native = NATIVE[e.arg];
  if (!native || t.bytes < 4 || (type !== 'i32' && type !== 'i64'))
    fail(`${e.arg} on ${t.name} has no WebAssembly form: kernel/passes/atomics.ts comes first`);
  x.push(e.src[1] as Expr);
  for (const a of e.src.slice(3)) x.push(a as Expr);
  x.f.op(`${type}.atomic.rmw.${native}`, undefined, Number(e.src[2]!.arg));
}

/** The loads, and the compare-and-swap, of as many bytes. */
const SWAPS: Readonly<Record<number, { readonly load: InstructionName; readonly swap: InstructionName }>> = {
  1: { load: 'i32.load8_u', swap: 'i32.atomic.rmw8.cmpxchg_u' },
  2: { load: 'i32.load16_u', swap: 'i32.atomic.rmw16.cmpxchg_u' },
  4: { load: 'i32.load', swap: 'i32.atomic.rmw.cmpxchg' },
  8: { load: 'i64.load', swap: 'i64.atomic.rmw.cmpxchg' },
};

/** Swap the new value in, again with what was found there until nothing has come between. */
export function update(x: WasmEmitter, s: Extract<Statement, { op: 'update' }>): void {
  const { f } = x;
  const [memory, next, address, { arg }] = s.src as readonly [Node, Expr, Expr, Node];
  const offset = Number(arg);
  const t = dtypeOf(memory);
  const bits = t.bytes === 8 ? 'i64' : 'i32';
  const { load, swap } = SWAPS[t.bytes]!;
  const base = x.keep(address);
  const old = x.variable(s.arg)[0]!;
  const seen = f.local('seen', bits);
  const found = f.local('found', bits);
  f.get(base);
  f.op(load, undefined, offset);
  f.set(seen);
  f.loop('retry', (again) => {
    f.get(seen);
    fromBits(x, t);
    f.set(old);
    f.get(base);
    f.get(seen);
    x.push(next);
    toBits(x, t);
    f.op(swap, undefined, offset);
    f.set(found);
    differs(x, found, seen, bits);
    f.when(() => {
      f.get(found);
      f.set(seen);
      f.branch(again);
    });
  });
}

function differs(x: WasmEmitter, a: Local, b: Local, bits: 'i32' | 'i64'): void {
  x.f.get(a);
  x.f.get(b);
  x.f.op(`${bits}.ne`);
}

function fromBits(x: WasmEmitter, t: DType): void {
  if (t.name === 'f32') x.f.op('f32.reinterpret_i32');
  else if (t.name === 'f64') x.f.op('f64.reinterpret_i64');
  else if (t.name === 'i8') cutToByte(x.f, t, false);
  else if (t.name === 'f16' || t.name === 'bf16') fromHalf(x.f, t.name, false);
}

function toBits(x: WasmEmitter, t: DType): void {
  if (t.name === 'f32') x.f.op('i32.reinterpret_f32');
  else if (t.name === 'f64') x.f.op('i64.reinterpret_f64');
  else if (t.name === 'f16' || t.name === 'bf16') toHalf(x.f, t.name, false);
}
