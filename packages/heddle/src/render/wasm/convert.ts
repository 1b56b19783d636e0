/** Conversions between dtypes, as `convert` in kernel/ir/ops.ts defines them. The value is on the stack. */
import { type DType, isByte, isHalf } from '../../core/dtype.js';
import type { FunctionBuilder } from './encode.js';
import { roundToHalf, wordsOf } from './half.js';
import { oddLong, oddSingle, oddWord } from './odd.js';
import { cutToByte, isUnsigned, laneType } from './values.js';

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
  if (a === 'i32' && b === 'i64') f.op(isUnsigned(from) ? 'i64.extend_i32_u' : 'i64.extend_i32_s');
  if (a === 'i64' && b === 'i32') f.op('i32.wrap_i64');
  if (isByte(to) && from.name !== 'bool') cutToByte(f, to, false);
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
      const sign = isUnsigned(from) ? 'u' : 's';
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
    case 'i8':
      f.op(`i32.trunc_sat_${a}_s`);
      bound(f, 127, 'i32.lt_s');
      bound(f, -128, 'i32.gt_s');
      return;
    case 'u8':
      f.op(`i32.trunc_sat_${a}_u`);
      bound(f, 255, 'i32.lt_u');
      return;
    default:
      f.op(`i32.trunc_sat_${a}_u`);
  }
}

/** [integer] → itself if it compares so with `limit`, else that. */
function bound(f: FunctionBuilder, limit: number, keep: 'i32.lt_s' | 'i32.gt_s' | 'i32.lt_u'): void {
  const whole = f.local('whole', 'i32');
  f.tee(whole);
  f.i32(limit);
  f.get(whole);
  f.i32(limit);
  f.op(keep);
  f.op('select');
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
      f.op(isUnsigned(from) ? 'f32x4.convert_i32x4_u' : 'f32x4.convert_i32x4_s');
    }
    if (to.name === 'f16' || to.name === 'bf16') roundToHalf(f, to.name, true);
    return;
  }
  if (fromFloats) {
    f.op(isUnsigned(to) ? 'i32x4.trunc_sat_f32x4_u' : 'i32x4.trunc_sat_f32x4_s');
    if (to.name === 'u8') {
      f.op('v128.const', wordsOf(255));
      f.op('i32x4.min_u');
    } else if (to.name === 'i8') {
      f.op('v128.const', wordsOf(127));
      f.op('i32x4.min_s');
      f.op('v128.const', wordsOf(-128));
      f.op('i32x4.max_s');
    }
  } else if (from.name === 'bool') {
    f.op('v128.const', wordsOf(1));
    f.op('v128.and');
  } else if (isByte(to)) cutToByte(f, to, true);
}
