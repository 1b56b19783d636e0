/** Bytes, several at a time: in memory, rounded from floats and as floats, with a few instructions for all of them. */
import { f32, i8, isByte } from '../../core/dtype.js';
import type { Expr } from '../../kernel/ir/ir.js';
import type { Lanes, ValueType } from '../../kernel/ir/types.js';
import type { Prelude } from './prelude.js';
import { call, LANES, MEMORY_TYPE, postfix, type Text } from './text.js';

/** What several bytes are as one. */
const wordOf = (lanes: Lanes): string => (lanes === 2 ? 'unsigned short' : 'unsigned');

/** Several bytes from memory, as one word: the compiler copies the members of a struct one by one. */
export function loadedBytes(prelude: Prelude, { dtype, lanes }: ValueType, place: Text): Text {
  const [type, word] = [prelude.vector(dtype, lanes), wordOf(lanes)];
  const name = `load_word_${type}`;
  prelude.define(
    name,
    () =>
      `__device__ inline ${type} ${name}(const ${type}& place) { const ${word} bytes = reinterpret_cast<const ${word}&>(place); return reinterpret_cast<const ${type}&>(bytes); }`,
  );
  return call(name, place);
}

/** And to memory. */
export function storedBytes(prelude: Prelude, { dtype, lanes }: ValueType, place: Text, value: Text): Text {
  const [type, word] = [prelude.vector(dtype, lanes), wordOf(lanes)];
  const name = `store_word_${type}`;
  prelude.define(
    name,
    () =>
      `__device__ inline void ${name}(${type}& place, ${type} a) { reinterpret_cast<${word}&>(place) = reinterpret_cast<const ${word}&>(a); }`,
  );
  return call(name, place, value);
}

/** What is rounded to the nearest byte, half to even, if `e` is such: a float. */
export function nearestOf({ src: [from], type }: Expr): Expr | undefined {
  const isNearest = isByte(type.dtype) && from?.op === 'alu' && from.arg === 'rint';
  const [of] = isNearest ? (from.src as readonly Expr[]) : [];
  return of?.type.dtype === f32 ? of : undefined;
}

/** A float as the nearest byte; two at a time by the instruction that rounds, saturates and packs them (compute capability 7.2). */
export function nearestByte(
  prelude: Prelude,
  { dtype, lanes }: ValueType,
  of: Expr,
  value: (e: Expr) => Text,
): Text {
  const isQuotient = of.op === 'alu' && of.arg === 'div';
  if (isQuotient) prelude.need('quotient');
  const src = (isQuotient ? of.src : [of]) as readonly Expr[];
  const nearest = (args: readonly string[]): string =>
    `__float2int_rn(${isQuotient ? `quotient(${args.join(', ')})` : args[0]})`;
  const [least, most] = dtype === i8 ? [-128, 127] : [0, 255];
  const saturated = (v: string): string => `max(min(${v}, ${most}), ${least})`;
  const name = `${isQuotient ? 'quantized' : 'nearest'}_${dtype.name}`;
  if (lanes === 1) return postfix(saturated(nearest(src.map((s) => value(s).text))));
  const [type, from] = [prelude.vector(dtype, lanes), prelude.vector(f32, lanes)];
  const kind = dtype === i8 ? 's8' : 'u8';
  const [params, word] = [src.map((_, i) => 'ab'[i]!), wordOf(lanes)];
  const ofLane = (i: number): string => nearest(params.map((p) => `${p}.${LANES[i]}`));
  const packed = lanes === 2 ? [0] : [2, 0];
  prelude.define(
    `${name}x${lanes}`,
    () => `__device__ inline ${type} ${name}x${lanes}(${params.map((p) => `${from} ${p}`).join(', ')}) {
  const int ${LANES.slice(0, lanes)
    .map((l, i) => `${l} = ${ofLane(i)}`)
    .join(', ')};
#if __CUDA_ARCH__ >= 720
  unsigned all = 0;
${packed.map((i) => `  asm("cvt.pack.sat.${kind}.s32.b32 %0, %1, %2, %0;" : "+r"(all) : "r"(${LANES[i + 1]}), "r"(${LANES[i]}));`).join('\n')}
  const ${word} bytes = all;
  return reinterpret_cast<const ${type}&>(bytes);
#else
  return {${LANES.slice(0, lanes)
    .map((l) => `(${MEMORY_TYPE[dtype.name]})${saturated(l)}`)
    .join(', ')}};
#endif
}`,
  );
  return call(`${name}x${lanes}`, ...src.map((s) => value(s)));
}

/**
 * Bytes as f32, without the instruction that converts one of them, which is for one of the slow units: as the last bits of 2²³,
 * which is then taken off, together with the 128 that make signed bytes positive.
 */
export function widenedBytes(prelude: Prelude, { dtype, lanes }: ValueType, of: Text): Text {
  const [bytes, floats] = [prelude.vector(dtype, lanes), prelude.vector(f32, lanes)];
  const isSigned = dtype === i8;
  const [word, signs] = [wordOf(lanes), lanes === 2 ? '0x8080' : '0x80808080'];
  const values = LANES.slice(0, lanes).map(
    (_, i) => `__uint_as_float(__byte_perm(v, 0x4b000000, 0x744${i})) - ${2 ** 23 + (isSigned ? 128 : 0)}.0f`,
  );
  prelude.define(
    `cast_f32x${lanes}(${bytes})`,
    () =>
      `__device__ inline ${floats} cast_f32x${lanes}(${bytes} a) { const unsigned v = reinterpret_cast<const ${word}&>(a)${isSigned ? ` ^ ${signs}u` : ''}; return {${values.join(', ')}}; }`,
  );
  return call(`cast_f32x${lanes}`, of);
}
