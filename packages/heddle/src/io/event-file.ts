/**
 * TensorBoard's event files: TFRecord frames around messages of protocol buffers (tensorboard/compat/proto/event.proto and
 * summary.proto). Of these only the fields that are written here.
 */
import { concatBytes } from '../core/bytes.js';
import { crc32c } from './crc32.js';

/** Fields of a message, by number; each is written in its wire format. */
type Field =
  | { readonly field: number; readonly double: number }
  | { readonly field: number; readonly float: number }
  | { readonly field: number; readonly varint: number }
  | { readonly field: number; readonly bytes: Uint8Array };

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** A whole number from 0 to 2⁵³ − 1, 7 bits a byte. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  bytes.push(rest);
  return bytes;
}

const key = (field: number, type: number): number[] => varint(field * 8 + type);

function encoded(f: Field): Uint8Array {
  if ('varint' in f) return Uint8Array.from([...key(f.field, VARINT), ...varint(f.varint)]);
  if ('bytes' in f)
    return concatBytes([Uint8Array.from([...key(f.field, BYTES), ...varint(f.bytes.length)]), f.bytes]);
  if ('double' in f) return concatBytes([Uint8Array.from(key(f.field, FIXED64)), doubles([f.double])]);
  const float = new Uint8Array(4);
  new DataView(float.buffer).setFloat32(0, f.float, true);
  return concatBytes([Uint8Array.from(key(f.field, FIXED32)), float]);
}

function doubles(values: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(8 * values.length);
  const view = new DataView(bytes.buffer);
  for (const [i, v] of values.entries()) view.setFloat64(8 * i, v, true);
  return bytes;
}

const message = (...fields: readonly Field[]): Uint8Array => concatBytes(fields.map(encoded));
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

/** What a summary shows under a tag. */
export type SummaryValue =
  | { readonly scalar: number }
  | { readonly histogram: Histogram }
  | {
      readonly image: {
        readonly height: number;
        readonly width: number;
        readonly channels: number;
        readonly png: Uint8Array;
      };
    };

/** How values are distributed. */
export interface Histogram {
  readonly min: number;
  readonly max: number;
  readonly count: number;
  readonly sum: number;
  readonly sumOfSquares: number;
  /** The upper ends of the buckets, ascending, and how many values are in each. */
  readonly limits: readonly number[];
  readonly counts: readonly number[];
}

function valueField(value: SummaryValue): Field {
  if ('scalar' in value) return { field: 2, float: value.scalar };
  if ('image' in value) {
    const { height, width, channels, png } = value.image;
    const fields = [height, width, channels].map((n, i) => ({ field: i + 1, varint: n }));
    return { field: 4, bytes: message(...fields, { field: 4, bytes: png }) };
  }
  const { min, max, count, sum, sumOfSquares, limits, counts } = value.histogram;
  const figures = [min, max, count, sum, sumOfSquares].map((n, i) => ({ field: i + 1, double: n }));
  return {
    field: 5,
    bytes: message(...figures, { field: 6, bytes: doubles(limits) }, { field: 7, bytes: doubles(counts) }),
  };
}

/** The first record of a file. @param seconds since 1970 */
export const versionRecord = (seconds: number): Uint8Array =>
  record(message({ field: 1, double: seconds }, { field: 3, bytes: text('brain.Event:2') }));

/** The record of one value. @param seconds since 1970 */
export function summaryRecord(tag: string, value: SummaryValue, step: number, seconds: number): Uint8Array {
  const summary = message({ field: 1, bytes: message({ field: 1, bytes: text(tag) }, valueField(value)) });
  return record(
    message({ field: 1, double: seconds }, { field: 2, varint: step }, { field: 5, bytes: summary }),
  );
}

/** Length, its check, data, their check. */
function record(data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(16 + data.length);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(data.length), true);
  view.setUint32(8, masked(crc32c(bytes.subarray(0, 8))), true);
  bytes.set(data, 12);
  view.setUint32(12 + data.length, masked(crc32c(data)), true);
  return bytes;
}

/** As TensorFlow does, so that the check of data with checks in them is not a trivial one. */
const masked = (crc: number): number => (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
