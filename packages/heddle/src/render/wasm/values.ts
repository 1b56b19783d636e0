/** How values of the kernel language are held in WebAssembly. */
import type { DType } from '../../core/dtype.js';
import { InternalError, KernelError, type Location } from '../../core/errors.js';
import type { ValueType } from '../../kernel/ir/types.js';
import type { FunctionBuilder, WasmType } from './encode.js';

/** Whether it takes a local per lane: a vector of 64-bit elements. */
export const isWide = (t: ValueType): boolean => t.lanes > 1 && t.dtype.bytes === 8;

/** The type that holds one lane. */
export function laneType(t: DType): Exclude<WasmType, 'v128'> {
  switch (t.name) {
    case 'f64':
      return 'f64';
    case 'i64':
      return 'i64';
    case 'f32':
    case 'f16':
    case 'bf16':
      return 'f32';
    default:
      return 'i32';
  }
}

export const holderOf = (t: ValueType): WasmType => (t.lanes > 1 && !isWide(t) ? 'v128' : laneType(t.dtype));

export const isUnsigned = (t: DType): boolean => t.kind === 'uint' || t.kind === 'bool';

/** The sixteen bytes of a constant vector. */
export function vectorBytes(t: DType, values: readonly (number | bigint | boolean)[]): Uint8Array {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  values.forEach((v, i) => {
    if (laneType(t) === 'f32') view.setFloat32(4 * i, Number(v), true);
    else view.setInt32(4 * i, t.name === 'bool' ? -Number(v) : Number(v), true);
  });
  return bytes;
}

/** [one lane, or a vector] of 32 bits → its lowest byte, as the value of an i8 or u8. */
export function cutToByte(f: FunctionBuilder, t: DType, four: boolean): void {
  if (t.name === 'i8') {
    if (!four) {
      f.op('i32.extend8_s');
      return;
    }
    for (const shift of ['i32x4.shl', 'i32x4.shr_s'] as const) {
      f.i32(24);
      f.op(shift);
    }
    return;
  }
  if (four) f.op('v128.const', vectorBytes(t, [255, 255, 255, 255]));
  else f.i32(255);
  f.op(four ? 'v128.and' : 'i32.and');
}

export function fail(message: string): never {
  throw new InternalError(message);
}

export function unsupported(what: string, at: Location | undefined): never {
  throw new KernelError(
    `${what} does not run on the CPU device. Use kernel.simulate or HEDDLE_DEVICE=sim.`,
    at,
  );
}
