/** 16-bit floats as bits: to and from f32, scalars and four lanes, as core/float16.ts defines them. */
import type { FunctionBuilder, Local } from './encode.js';

/** The sixteen bytes of the same word in four lanes. */
export function wordsOf(word: number): Uint8Array {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 4; i++) view.setUint32(4 * i, word >>> 0, true);
  return bytes;
}

type IntOp = 'add' | 'sub' | 'and' | 'or' | 'lt_s' | 'gt_s' | 'ge_s';

/** The same bit operations on one lane or four. */
class Bits {
  readonly #f: FunctionBuilder;
  readonly #four: boolean;
  constructor(f: FunctionBuilder, four: boolean) {
    this.#f = f;
    this.#four = four;
  }
  word(v: number): void {
    if (this.#four) this.#f.op('v128.const', wordsOf(v));
    else this.#f.i32(v);
  }
  /** Apply an op to the stack's top and a constant, or the two on top. */
  op(name: IntOp, constant?: number): void {
    if (constant !== undefined) this.word(constant);
    if (!this.#four) this.#f.op(`i32.${name}`);
    else if (name === 'and' || name === 'or') this.#f.op(`v128.${name}`);
    else this.#f.op(`i32x4.${name}`);
  }
  shift(name: 'shl' | 'shr_u', by: number): void {
    this.#f.i32(by);
    this.#f.op(this.#four ? `i32x4.${name}` : `i32.${name}`);
  }
  float(name: 'add' | 'mul' | 'ge', constant: number): void {
    if (this.#four) {
      const bytes = new Float32Array(4).fill(constant);
      this.#f.op('v128.const', new Uint8Array(bytes.buffer));
      this.#f.op(`f32x4.${name}`);
    } else {
      this.#f.op('f32.const', constant);
      this.#f.op(`f32.${name}`);
    }
  }
  asFloat(): void {
    if (!this.#four) this.#f.op('f32.reinterpret_i32');
  }
  asInt(): void {
    if (!this.#four) this.#f.op('i32.reinterpret_f32');
  }
  /** [then, otherwise, condition] → one of them. */
  choose(): void {
    this.#f.op(this.#four ? 'v128.bitselect' : 'select');
  }
  local(name: string): Local {
    return this.#f.local(name, this.#four ? 'v128' : 'i32');
  }
}

export type HalfName = 'f16' | 'bf16';

/** [bits] → f32; bits in i32 or i32x4. */
export function fromHalf(f: FunctionBuilder, name: HalfName, four: boolean): void {
  const bits = new Bits(f, four);
  if (name === 'bf16') {
    bits.shift('shl', 16);
    bits.asFloat();
    return;
  }
  const half = bits.local('half');
  const magnitude = bits.local('magnitude');
  f.tee(half);
  bits.op('and', 0x7fff);
  bits.shift('shl', 13);
  bits.asFloat();
  bits.float('mul', 2 ** 112);
  bits.asInt();
  f.set(magnitude);
  bits.word(0x7f800000);
  bits.word(0);
  f.get(magnitude);
  bits.asFloat();
  bits.float('ge', 65536);
  bits.choose();
  f.get(magnitude);
  bits.op('or');
  f.get(half);
  bits.op('and', 0x8000);
  bits.shift('shl', 16);
  bits.op('or');
  bits.asFloat();
}

/** [f32] → bits, rounded to nearest even. */
export function toHalf(f: FunctionBuilder, name: HalfName, four: boolean): void {
  const bits = new Bits(f, four);
  const word = bits.local('word');
  const magnitude = bits.local('magnitude');
  bits.asInt();
  f.tee(word);
  bits.op('and', 0x7fffffff);
  f.set(magnitude);
  if (name === 'bf16') {
    f.get(word);
    bits.shift('shr_u', 16);
    bits.op('or', 0x40);
    f.get(word);
    bits.op('add', 0x7fff);
    f.get(word);
    bits.shift('shr_u', 16);
    bits.op('and', 1);
    bits.op('add');
    bits.shift('shr_u', 16);
    f.get(magnitude);
    bits.op('gt_s', 0x7f800000);
    bits.choose();
    return;
  }
  bits.word(0x7e00);
  bits.word(0x7c00);
  // Below 2^-14 the sum with 0.5 rounds at the right bit by itself.
  f.get(magnitude);
  bits.asFloat();
  bits.float('add', 0.5);
  bits.asInt();
  bits.op('sub', 0x3f000000);
  f.get(magnitude);
  bits.op('add', 0xfff - 0x38000000);
  f.get(magnitude);
  bits.shift('shr_u', 13);
  bits.op('and', 1);
  bits.op('add');
  bits.shift('shr_u', 13);
  f.get(magnitude);
  bits.op('lt_s', 0x38800000);
  bits.choose();
  f.get(magnitude);
  bits.op('ge_s', 0x477ff000);
  bits.choose();
  f.get(magnitude);
  bits.op('gt_s', 0x7f800000);
  bits.choose();
  f.get(word);
  bits.shift('shr_u', 16);
  bits.op('and', 0x8000);
  bits.op('or');
}

/** [f32] → f32, rounded to what a 16-bit float holds. */
export function roundToHalf(f: FunctionBuilder, name: HalfName, four: boolean): void {
  toHalf(f, name, four);
  fromHalf(f, name, four);
}
