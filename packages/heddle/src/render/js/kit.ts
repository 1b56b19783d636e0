/** The functions that a kernel's JavaScript (render/js/render.ts) calls by name. */
import { DTYPES, type DType, type TypedArray } from '../../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../core/float16.js';
import type { IntrinsicRecord } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS, type Intrinsic } from '../../kernel/ir/intrinsics.js';
import { convert, evaluate, OPS, type Scalar } from '../../kernel/ir/ops.js';

/** A vector of the kernel language at run time. */
type LaneValues = readonly Scalar[];

/** Apply `f` lane by lane to vectors of equal length. */
function lanes1(f: (a: Scalar) => Scalar, a: LaneValues): Scalar[] {
  const out = new Array<Scalar>(a.length);
  for (let i = 0; i < a.length; i++) out[i] = f(a[i]!);
  return out;
}

function lanes2(f: (a: Scalar, b: Scalar) => Scalar, a: LaneValues, b: LaneValues): Scalar[] {
  const out = new Array<Scalar>(a.length);
  for (let i = 0; i < a.length; i++) out[i] = f(a[i]!, b[i]!);
  return out;
}

function lanes3(
  f: (a: Scalar, b: Scalar, c: Scalar) => Scalar,
  a: LaneValues,
  b: LaneValues,
  c: LaneValues,
): Scalar[] {
  const out = new Array<Scalar>(a.length);
  for (let i = 0; i < a.length; i++) out[i] = f(a[i]!, b[i]!, c[i]!);
  return out;
}

/** The value of `t` that stands in element `index` of its memory. */
export function decode(t: DType, memory: TypedArray, index: number): Scalar {
  const raw = memory[index]!;
  switch (t.name) {
    case 'f16':
      return fromF16(raw as number);
    case 'bf16':
      return fromBf16(raw as number);
    case 'bool':
      return raw !== 0;
    default:
      return raw;
  }
}

/** Put a value of `t` into element `index` of its memory. */
export function encode(t: DType, memory: TypedArray, index: number, v: Scalar): void {
  switch (t.name) {
    case 'f16':
      memory[index] = toF16(v as number);
      break;
    case 'bf16':
      memory[index] = toBf16(v as number);
      break;
    case 'bool':
      memory[index] = v ? 1 : 0;
      break;
    default:
      (memory as { [i: number]: Scalar })[index] = v;
  }
}

/** `lanes` neighbouring elements as a vector. */
function gather(t: DType, memory: TypedArray, index: number, lanes: number): Scalar[] {
  const out = new Array<Scalar>(lanes);
  for (let i = 0; i < lanes; i++) out[i] = decode(t, memory, index + i);
  return out;
}

/** A row of 16 bytes as 8 numbers of 16 bits, as they are in memory. */
function rowBits({ buffer, byteOffset, BYTES_PER_ELEMENT }: TypedArray, index: number): number[] {
  const bits = new Uint16Array(buffer, byteOffset + index * BYTES_PER_ELEMENT, 8);
  const out = new Array<number>(8);
  for (let i = 0; i < 8; i++) out[i] = bits[i]!;
  return out;
}

/** A vector into neighbouring elements. */
function scatter(t: DType, memory: TypedArray, index: number, v: LaneValues): void {
  for (let i = 0; i < v.length; i++) encode(t, memory, index + i, v[i]!);
}

const word = new DataView(new ArrayBuffer(8));

/** The bits of a `from` read as a `to` of the same size. */
export function bitcast(from: DType, to: DType, v: Scalar): Scalar {
  putBits(from, v);
  return takeBits(to);
}

/** The bits of two 16-bit floats, the first in the lower half. */
export const pairBits = (t: DType, [low, high]: readonly number[]): number => {
  const bits = t.name === 'f16' ? toF16 : toBf16;
  return (bits(low!) | (bits(high!) << 16)) >>> 0;
};

function putBits(t: DType, v: Scalar): void {
  switch (t.name) {
    case 'f16':
      word.setUint16(0, toF16(v as number));
      break;
    case 'bf16':
      word.setUint16(0, toBf16(v as number));
      break;
    case 'f32':
      word.setFloat32(0, v as number);
      break;
    case 'f64':
      word.setFloat64(0, v as number);
      break;
    case 'i32':
    case 'u32':
      word.setInt32(0, v as number);
      break;
    case 'i64':
      word.setBigInt64(0, v as bigint);
      break;
    case 'i8':
    case 'u8':
    case 'bool':
      word.setUint8(0, Number(v));
      break;
  }
}

function takeBits(t: DType): Scalar {
  switch (t.name) {
    case 'f16':
      return fromF16(word.getUint16(0));
    case 'bf16':
      return fromBf16(word.getUint16(0));
    case 'f32':
      return word.getFloat32(0);
    case 'f64':
      return word.getFloat64(0);
    case 'i32':
      return word.getInt32(0);
    case 'u32':
      return word.getUint32(0);
    case 'i64':
      return word.getBigInt64(0);
    case 'i8':
      return word.getInt8(0);
    case 'u8':
      return word.getUint8(0);
    case 'bool':
      return word.getUint8(0) !== 0;
  }
}

/** Update one element as an atomic says; returns what stood there. */
function atomic(
  name: Intrinsic,
  t: DType,
  memory: TypedArray,
  index: number,
  args: readonly Scalar[],
): Scalar {
  const record: IntrinsicRecord = INTRINSICS[name];
  const old = decode(t, memory, index);
  encode(t, memory, index, record.update!(t, old, args));
  return old;
}

/** Memory that a copy is on its way to, or that it reads. */
interface Watched {
  /** Whether the copy is to be made now. */
  depart(element: number, lanes: number, site: number): boolean;
  arrive(element: number, lanes: number, site: number): void;
  /** Until what is returned is called, a copy reads these elements. */
  lend(element: number, lanes: number, site: number): () => void;
}

/** Asynchronous copies of one thread: those of a group are made together, when it is waited for. */
class Copies {
  #started: (() => void)[] = [];
  readonly #groups: (() => void)[][] = [];
  /** What those that are not waited for still read. */
  readonly #lent = new Set<() => void>();

  /** @param source where it reads; no element where its condition is false */
  start(
    copy: () => void,
    lanes: number,
    site: number,
    to: Watched,
    element: number,
    source?: Watched,
    from = -1,
  ): void {
    const now = to.depart(element, lanes, site);
    if (now) copy();
    const giveBack = from >= 0 ? source?.lend(from, lanes, site) : undefined;
    if (giveBack) this.#lent.add(giveBack);
    this.#started.push(() => {
      if (!now) copy();
      if (giveBack && this.#lent.delete(giveBack)) giveBack();
      to.arrive(element, lanes, site);
    });
  }

  /** An mbarrier waits for all of them from here on. */
  handOver(): void {
    for (const giveBack of this.#lent) giveBack();
    this.#lent.clear();
  }

  commit(): void {
    this.#groups.push(this.#started);
    this.#started = [];
  }

  /** Make all copies but those of the `left` groups committed last. */
  wait(left: number): void {
    while (this.#groups.length > left) for (const copy of this.#groups.shift()!) copy();
  }
}

const toI32 = (v: number): number => convert(DTYPES.f64, DTYPES.i32, v) as number;

/** Every name that a kernel's JavaScript may use besides its own. */
export const KIT = {
  fround: Math.fround,
  imul: Math.imul,
  OPS,
  ...DTYPES,
  evaluate,
  convert,
  toI32,
  fromF16,
  toF16,
  fromBf16,
  toBf16,
  bitcast,
  pairBits,
  lanes1,
  lanes2,
  lanes3,
  gather,
  scatter,
  rowBits,
  atomic,
  Copies,
} as const;
