/**
 * Rounding to odd: of the two neighbours of a number that a type does not have, the one with an odd last bit. Rounding
 * that again to a type with fewer bits is as rounding the number itself, so that conversions to 16 bits round once.
 */
import type { FunctionBuilder } from './encode.js';
import { wordsOf } from './half.js';

/** [f64] → f32 */
export function oddSingle(f: FunctionBuilder): void {
  const value = f.local('value', 'f64');
  const near = f.local('near', 'f64');
  const bits = f.local('bits', 'i32');
  f.tee(value);
  f.op('f32.demote_f64');
  f.op('i32.reinterpret_f32');
  f.tee(bits);
  f.op('f32.reinterpret_i32');
  f.op('f64.promote_f32');
  f.set(near);
  // bits ± 1 towards the value, if it is another and they are even
  f.get(bits);
  f.i32(-1);
  f.i32(1);
  f.get(near);
  f.op('f64.abs');
  f.get(value);
  f.op('f64.abs');
  f.op('f64.gt');
  f.op('select');
  f.i32(0);
  f.get(near);
  f.get(value);
  f.op('f64.ne');
  f.get(bits);
  f.i32(1);
  f.op('i32.and');
  f.op('i32.gt_u');
  f.op('select');
  f.op('i32.add');
  f.op('f32.reinterpret_i32');
}

/** [i64] → an i64 that f64 holds */
export function oddLong(f: FunctionBuilder): void {
  const value = f.local('value', 'i64');
  const upper = f.local('upper', 'i64');
  f.tee(value);
  f.op('i64.const', ~1023n);
  f.op('i64.and');
  f.tee(upper);
  f.get(upper);
  f.op('i64.const', 1024n);
  f.op('i64.or');
  f.get(value);
  f.get(upper);
  f.op('i64.eq');
  f.op('select');
  f.get(value);
  f.get(value);
  f.op('i64.const', 2n ** 53n);
  f.op('i64.add');
  f.op('i64.const', 2n ** 54n);
  f.op('i64.gt_u');
  f.op('select');
}

/** [i32 or u32, one or four] → what f32 holds */
export function oddWord(f: FunctionBuilder, unsigned: boolean, four: boolean): void {
  const type = four ? 'i32x4' : 'i32';
  const value = f.local('value', four ? 'v128' : 'i32');
  const upper = f.local('upper', four ? 'v128' : 'i32');
  const word = (v: number): void => (four ? f.op('v128.const', wordsOf(v)) : f.i32(v));
  const choose = (): void => f.op(four ? 'v128.bitselect' : 'select');
  const bits = four ? 'v128' : 'i32';
  f.tee(value);
  word(~255);
  f.op(`${bits}.and`);
  f.tee(upper);
  f.get(upper);
  word(256);
  f.op(`${bits}.or`);
  f.get(value);
  f.get(upper);
  f.op(`${type}.eq`);
  choose();
  f.get(value);
  f.get(value);
  if (!unsigned) {
    word(2 ** 24);
    f.op(`${type}.add`);
  }
  word(unsigned ? 2 ** 24 : 2 ** 25);
  f.op(`${type}.gt_u`);
  choose();
}
