/** Values that each rank can make for all others, and what collectives should make of them, element by element. */
import { arrayOf, DTYPES, type DTypeName, type TypedArray } from 'heddle/internal/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from 'heddle/internal/core/float16.js';
import type { ReductionOp } from '../../src/distributed/transport.js';

export const ALL_DTYPES = Object.keys(DTYPES) as DTypeName[];
export const ALL_OPS: readonly ReductionOp[] = ['sum', 'prod', 'min', 'max'];

/** 32 bits for each element, by the finalizer of MurmurHash3. */
function hashesOf(seed: number, rank: number, count: number): Uint32Array {
  const hashes = new Uint32Array(count);
  const own = Math.imul(seed, 0x9e3779b1) ^ Math.imul(rank + 1, 0x85ebca6b);
  for (let i = 0; i < count; i++) {
    let h = own ^ Math.imul(i + 1, 0xc2b2ae35);
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    hashes[i] = h ^ (h >>> 16);
  }
  return hashes;
}

function floatsOf(hashes: Uint32Array): Float64Array {
  const floats = new Float64Array(hashes.length);
  for (let i = 0; i < floats.length; i++) floats[i] = (hashes[i]! / 2 ** 32 - 0.5) * 8;
  return floats;
}

/** What a rank has: any integers; floats from −4 to 4, whose sums are rounded. */
export function valuesOfRank(dtype: DTypeName, count: number, rank: number, seed: number): TypedArray {
  const values = arrayOf(DTYPES[dtype], count);
  const hashes = hashesOf(seed, rank, count);
  if (values instanceof BigInt64Array)
    hashesOf(seed + 1, rank, count).forEach((low, i) => {
      values[i] = (BigInt(hashes[i]!) << 32n) | BigInt(low);
    });
  else if (dtype === 'f16') values.set(floatsOf(hashes).map(toF16));
  else if (dtype === 'bf16') values.set(floatsOf(hashes).map(toBf16));
  else if (dtype === 'bool') values.set(hashes.map((h) => h & 1));
  else values.set(DTYPES[dtype].kind === 'float' ? floatsOf(hashes) : hashes);
  return values;
}

const HALVES = { f16: [fromF16, toF16], bf16: [fromBf16, toBf16] } as const;

function combine(op: ReductionOp, a: number, b: number): number {
  if (op === 'sum') return a + b;
  if (op === 'prod') return a * b;
  return op === 'min' ? Math.min(a, b) : Math.max(a, b);
}

/** Of integers of up to 32 bits, which the result is cut to; a bool is 0 or 1. */
function combineIntegers(op: ReductionOp, a: number, b: number): number {
  return op === 'prod' ? Math.imul(a, b) : combine(op, a, b);
}

function combineLong(op: ReductionOp, a: bigint, b: bigint): bigint {
  if (op === 'sum') return a + b;
  if (op === 'prod') return a * b;
  return (op === 'min') === a < b ? a : b;
}

/** The reduction in the order of the ranks: in f64 or f32 step by step, 16-bit floats rounded once, integers as such. */
export function reducedValues(op: ReductionOp, dtype: DTypeName, ranks: readonly TypedArray[]): TypedArray {
  if (DTYPES[dtype].kind === 'float') return reducedFloats(op, dtype, ranks);
  const [first, ...others] = ranks;
  const result = first!.slice();
  if (result instanceof BigInt64Array) {
    for (const values of others as readonly BigInt64Array[])
      for (let i = 0; i < result.length; i++) result[i] = combineLong(op, result[i]!, values[i]!);
    return result;
  }
  // Any and all.
  const by = dtype === 'bool' ? (op === 'sum' || op === 'max' ? 'max' : 'min') : op;
  for (const values of others as readonly Int32Array[])
    for (let i = 0; i < result.length; i++) result[i] = combineIntegers(by, result[i] as number, values[i]!);
  return result;
}

function reducedFloats(op: ReductionOp, dtype: DTypeName, ranks: readonly TypedArray[]): TypedArray {
  const [from, to] = dtype === 'f16' || dtype === 'bf16' ? HALVES[dtype] : [Number, Number];
  const round = DTYPES[dtype].bytes === 8 ? Number : Math.fround;
  const [first, ...others] = ranks as readonly Float64Array[];
  const reduced = new Float64Array(first!.length);
  for (let i = 0; i < reduced.length; i++) reduced[i] = from(first![i]!);
  for (const values of others)
    for (let i = 0; i < reduced.length; i++) reduced[i] = round(combine(op, reduced[i]!, from(values[i]!)));
  const result = arrayOf(DTYPES[dtype], reduced.length);
  for (let i = 0; i < reduced.length; i++) result[i] = to(reduced[i]!);
  return result;
}

/** In memory that threads share, as that of the CPU device. */
export function inSharedMemory(values: TypedArray): Uint8Array {
  const bytes = new Uint8Array(new SharedArrayBuffer(values.byteLength));
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  return bytes;
}
