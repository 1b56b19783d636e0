/** The node tests of the `onnx` package, as golden/node_cases.py writes them, and how one is run. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { fromBinary } from '@bufbuild/protobuf';
import type { Tensor } from 'heddle';
import type { HostTensor } from '../src/file/host-tensor.js';
import { parseTensor } from '../src/file/tensor-values.js';
import { withReading } from '../src/model/evaluate.js';
import { loadOnnx } from '../src/model/onnx-model.js';
import { TensorProtoSchema } from '../src/protobuf/onnx_pb.js';
import { type Datum, Sequence, Value } from '../src/values/value.js';

type Stored = number | null | readonly Stored[];

/** A case: a model of one node or of its expansion, with inputs and what they give. */
export interface NodeCase {
  readonly name: string;
  readonly rtol: number;
  readonly atol: number;
  readonly model: Uint8Array;
  readonly sets: readonly { readonly inputs: readonly Expected[]; readonly outputs: readonly Expected[] }[];
}

/** A tensor, a sequence of them, or nothing. */
export type Expected = HostTensor | Uint8Array | null | readonly Expected[];

interface Header {
  readonly onnx: string;
  readonly opset: number;
  readonly versions: Readonly<Record<string, readonly number[]>>;
  /** Versions at which an operator was replaced by another; they may be claimed. */
  readonly deprecated: Readonly<Record<string, readonly number[]>>;
  readonly cases: readonly {
    readonly name: string;
    readonly rtol: number;
    readonly atol: number;
    readonly model: number;
    readonly sets: readonly { readonly inputs: readonly Stored[]; readonly outputs: readonly Stored[] }[];
  }[];
}

/** A file of cases, as golden/node_cases.py and golden/models.py write it. */
export function casesOf(file: URL): { readonly header: Header; readonly cases: NodeCase[] } {
  const bytes = new Uint8Array(brotliDecompressSync(readFileSync(file)));
  const headerBytes = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + headerBytes))) as Header;
  let at = 4 + headerBytes;
  const next = (length: number): Uint8Array => {
    at += length;
    return bytes.subarray(at - length, at);
  };
  const read = (stored: Stored): Expected =>
    stored === null ? null : typeof stored === 'number' ? next(stored) : stored.map(read);
  const cases = header.cases.map(({ name, rtol, atol, model, sets }) => ({
    ...{ name, rtol, atol, model: next(model) },
    sets: sets.map(({ inputs, outputs }) => ({ inputs: inputs.map(read), outputs: outputs.map(read) })),
  }));
  return { header, cases };
}

const { header, cases } = casesOf(new URL('../../tests/golden/node-cases.bin.br', import.meta.url));
/** The version of ONNX that the cases are of, and the versions of its operators. */
export const HEADER = header;

/** All node cases, in the order of their names. */
export const nodeCases = (): readonly NodeCase[] => cases;

/** A stored value on the host. */
export const parsed = (stored: Uint8Array): HostTensor =>
  parseTensor(fromBinary(TensorProtoSchema, stored), 'node case', 'a value');

/** Inputs as tensors of a device, or as values of the host. */
export type Side = 'device' | 'host';

function datum(stored: Expected, side: Side): Datum {
  if (stored === null) return undefined;
  if (Array.isArray(stored)) return new Sequence(stored.map((s) => datum(s, side) as Value));
  const host = parsed(stored as Uint8Array);
  const value = Value.host(host);
  return side === 'host' || !host.type.dtype ? value : Value.of(value.tensor, host.type);
}

/** Run a case. @returns what is wrong, or undefined if all is right */
export async function failureOf(c: NodeCase, side: Side): Promise<string | undefined> {
  const model = await loadOnnx(c.model);
  for (const { inputs, outputs } of c.sets) {
    const results = await model.runValues(inputs.map((x) => datum(x, side)));
    if (results.length !== outputs.length) return `${results.length} outputs, expected ${outputs.length}`;
    for (const [i, expected] of outputs.entries()) {
      const wrong = await difference(results[i], expected, c);
      if (wrong !== undefined) return `output ${i}: ${wrong}`;
    }
  }
  return undefined;
}

async function difference(result: Datum, expected: Expected, c: NodeCase): Promise<string | undefined> {
  if (expected === null) return result === undefined ? undefined : 'a value, expected none';
  if (result === undefined) return 'no value';
  if (Array.isArray(expected)) {
    if (!(result instanceof Sequence)) return 'no sequence';
    if (result.values.length !== expected.length)
      return `${result.values.length} values, expected ${expected.length}`;
    for (const [i, e] of expected.entries()) {
      const wrong = await difference(result.values[i], e, c);
      if (wrong !== undefined) return `value ${i}: ${wrong}`;
    }
    return undefined;
  }
  if (result instanceof Sequence) return 'a sequence';
  const want = parsed(expected as Uint8Array);
  if (result.type !== want.type) return `type ${result.type.name}, expected ${want.type.name}`;
  if (result.shape.join() !== want.shape.join()) return `shape (${result.shape}), expected (${want.shape})`;
  const got = result.host ?? (await withReading(ask(result)));
  for (let i = 0; i < want.values.length; i++) {
    const [a, b] = [got.values[i]!, want.values[i]!];
    if (!close(a, b, c)) return `element ${i} is ${a}, expected ${b}`;
  }
  return undefined;
}

function* ask(value: Value): Generator<Value, HostTensor, HostTensor> {
  return yield value;
}

function close(a: number | bigint | string, b: number | bigint | string, { rtol, atol }: NodeCase): boolean {
  if (typeof a !== 'number' || typeof b !== 'number') return a === b;
  return Object.is(a, b) || a === b || Math.abs(a - b) <= atol + rtol * Math.abs(b);
}

/** The largest difference of a tensor from a stored one, in parts of the largest element. @throws AssertionError for another shape */
export async function largestDifference(got: Tensor, stored: Uint8Array): Promise<number> {
  const want = parsed(stored);
  assert.deepEqual([...got.shape], [...want.shape]);
  const values = Array.from((await got.data()) as ArrayLike<number>, Number);
  const expected = Array.from(want.values as ArrayLike<number>, Number);
  const scale = expected.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-6);
  return values.reduce((most, v, i) => Math.max(most, Math.abs(v - expected[i]!)), 0) / scale;
}
