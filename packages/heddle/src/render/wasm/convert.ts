/** Conversions between dtypes, as `convert` in kernel/ir/ops.ts defines them. The value is on the stack. */
import { type DType, isHalf } from '../../core/dtype.js';
import type { FunctionBuilder } from './encode.js';
import { roundToHalf, wordsOf } from './half.js';
import { oddLong, oddSingle, oddWord } from './odd.js';
import { laneType } from './values.js';

/** One lane. */
export function convert(f: FunctionBuilder, from: DType, to: DType): void {
  if (from === to) return;
  const a = laneType(from);
  const b = laneType(to);
  if (to.name === 'bool') {
    toBool(f, a);
    return;
  }
  if (to.kind === 'float') {
    toFloat(f, from, to);
    return;
  }
  if (from.kind === 'float') {
    fromFloat(f, a === 'f64' ? 'f64' : 'f32', to);
    return;
  }
  if (a === 'i32' && b === 'i64') f.op(from.name === 'i32' ? 'i64.extend_i32_s' : 'i64.extend_i32_u');
  if (a === 'i64' && b === 'i32') f.op('i32.wrap_i64');
  if (to.name === 'u8' && from.name !== 'bool') {
    f.i32(255);
    f.op('i32.and');
  }
}

function toBool(f: FunctionBuilder, a: 'i32' | 'i64' | 'f32' | 'f64'): void {
  if (a === 'i64') f.op('i64.const', 0n);
  else if (a === 'i32') f.i32(0);
  else f.op(`${a}.const`, 0);
  f.op(`${a}.ne`);
}

function toFloat(f: FunctionBuilder, from: DType, to: DType): void {
  const double = to.name === 'f64';
  switch (laneType(from)) {
    case 'i32': {
      const sign = from.name === 'i32' ? 's' : 'u';
      if (isHalf(to) && from.bytes === 4) oddWord(f, sign === 'u', false);
      f.op(`${double ? 'f64' : 'f32'}.convert_i32_${sign}`);
      break;
    }
    case 'i64':
      if (isHalf(to)) {
        oddLong(f);
        f.op('f64.convert_i64_s');
        oddSingle(f);
      } else {
        f.op(double ? 'f64.convert_i64_s' : 'f32.convert_i64_s');
      }
      break;
    case 'f32':
      if (double) f.op('f64.promote_f32');
      break;
    case 'f64':
      if (isHalf(to)) oddSingle(f);
      else if (!double) f.op('f32.demote_f64');
      break;
  }
  if (to.name === 'f16' || to.name === 'bf16') roundToHalf(f, to.name, false);
}

function fromFloat(f: FunctionBuilder, a: 'f32' | 'f64', to: DType): void {
  switch (to.name) {
    case 'i64':
      f.op(`i64.trunc_sat_${a}_s`);
      return;
    case 'i32':
      f.op(`i32.trunc_sat_${a}_s`);
      return;
    default:
      f.op(`i32.trunc_sat_${a}_u`);
  }
  if (to.name === 'u8') {
    const whole = f.local('whole', 'i32');
    f.tee(whole);
    f.i32(255);
    f.get(whole);
    f.i32(255);
    f.op('i32.lt_u');
    f.op('select');
  }
}

/** Two or four lanes, of dtypes of up to 32 bits. */
export function convert4(f: FunctionBuilder, from: DType, to: DType): void {
  if (from === to) return;
  const fromFloats = from.kind === 'float';
  if (to.name === 'bool') {
    f.op('v128.const', wordsOf(0));
    f.op(fromFloats ? 'f32x4.ne' : 'i32x4.ne');
    return;
  }
  if (to.kind === 'float') {
    if (from.name === 'bool') {
      f.op('v128.const', wordsOf(0x3f800000));
      f.op('v128.and');
    } else if (!fromFloats) {
      if (to.bytes === 2 && from.bytes === 4) oddWord(f, from.name === 'u32', true);
      f.op(from.name === 'i32' ? 'f32x4.convert_i32x4_s' : 'f32x4.convert_i32x4_u');
    }
    if (to.name === 'f16' || to.name === 'bf16') roundToHalf(f, to.name, true);
    return;
  }
  if (fromFloats) {
    f.op(to.name === 'i32' ? 'i32x4.trunc_sat_f32x4_s' : 'i32x4.trunc_sat_f32x4_u');
    if (to.name === 'u8') {
      f.op('v128.const', wordsOf(255));
      f.op('i32x4.min_u');
    }
  } else if (from.name === 'bool') {
    f.op('v128.const', wordsOf(1));
    f.op('v128.and');
  } else if (to.name === 'u8') {
    f.op('v128.const', wordsOf(255));
    f.op('v128.and');
  }
}
