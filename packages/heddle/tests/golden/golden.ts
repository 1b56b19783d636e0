/** Reads the golden numbers that make.py took from PyTorch; its docstring says what they are. */
import type { Nested } from '../../src/tensor/create.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A case's tensors by name. */
export type Inputs = Readonly<Record<string, Tensor>>;
/** A case's options. What they hold is checked by the function that takes them. */
// biome-ignore lint/suspicious/noExplicitAny: option values come from a file
export type Options = Readonly<Record<string, any>>;
/** How the op of a case is called. */
export type Run = (inputs: Inputs, options: Options) => Tensor;

/** Row-major. i32 arrays are labels and positions, f64 what is compared in f64, too; all others are f32. */
export interface GoldenArray {
  readonly shape: readonly number[];
  readonly data: Float32Array | Float64Array | Int32Array;
}

export type GoldenArgument = number | boolean | string | null | readonly number[];

export interface GoldenCase {
  readonly name: string;
  /** Heddle's name: `conv2d`, `crossEntropy`, `Adam`. */
  readonly op: string;
  /** Options by Heddle's names; `axes: null` means all. */
  readonly args: Readonly<Record<string, GoldenArgument>>;
  /** By name; `gradOutput` is the gradient of the output, where the case has gradients. */
  readonly inputs: Readonly<Record<string, GoldenArray>>;
  /** `output`; `grad.x` is the gradient of input x; for optimizers `steps`. */
  readonly outputs: Readonly<Record<string, GoldenArray>>;
}

/** What is kept of a large array. */
export interface Digest {
  readonly sum: number;
  /** The root of the sum of the squares. */
  readonly norm: number;
  /** The elements at i · max(1, ⌊n / 16⌋), i < 16. */
  readonly samples: readonly number[];
}

/** Ten training steps. Digests are by the parameter's name. */
export interface GoldenTraining {
  readonly name: 'lenet5' | 'cnn';
  readonly seed: number;
  readonly batchSize: number;
  readonly optimizer: 'Adam' | 'SGD';
  readonly options: Readonly<Record<string, number>>;
  /** Shapes by name, in the order in which they are filled. */
  readonly parameters: Readonly<Record<string, readonly number[]>>;
  /** The parameters before the first step: what `goldenParameters` gives. */
  readonly initial: Readonly<Record<string, Digest>>;
  /** Mean cross-entropy before each step. */
  readonly losses: readonly number[];
  /** (64, 10), of the first batch. */
  readonly logits: GoldenArray;
  /** Of the first batch. */
  readonly gradients: Readonly<Record<string, Digest>>;
  /** The parameters after the last step. */
  readonly weights: Readonly<Record<string, Digest>>;
}

/** A long sum: how far PyTorch's result in f32 is from that in f64. */
export interface GoldenSum {
  readonly name: string;
  readonly inputs: Readonly<Record<string, Stream>>;
  /** Of the result in f64: the elements at i · max(1, ⌊n / 16⌋), i < 16. */
  readonly samples: readonly number[];
  /** The root of the mean square of the differences, relative to that of the samples. */
  readonly error: number;
}

/** low + (high − low) · u, u from `mulberry32(seed)`. */
interface Stream {
  readonly shape: readonly number[];
  readonly seed: number;
  readonly low: number;
  readonly high: number;
}

interface StoredArray {
  readonly shape: readonly number[];
  readonly dtype: 'f32' | 'f64' | 'i32';
  /** Little-endian, in base64. */
  readonly data: string;
}
type Arrays = Readonly<Record<string, StoredArray>>;

/** tests/golden of the source tree: the tests run from a build folder somewhere in the package. */
function goldenFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return join(folder, 'tests', 'golden');
}

const parse = (file: string): unknown => JSON.parse(readFileSync(join(goldenFolder(), file), 'utf8'));

function decode({ shape, dtype, data }: StoredArray): GoldenArray {
  const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
  const Type = { f32: Float32Array, f64: Float64Array, i32: Int32Array }[dtype];
  return { shape, data: new Type(bytes.buffer) };
}

const decodeAll = (arrays: Arrays): Record<string, GoldenArray> =>
  Object.fromEntries(Object.entries(arrays).map(([name, stored]) => [name, decode(stored)]));

/** The cases of a file. */
export function goldenCases(
  group: 'ops' | 'losses' | 'large' | 'sequences' | 'tensors' | 'images' | 'transforms' | 'optimizers',
): GoldenCase[] {
  type Stored = Omit<GoldenCase, 'inputs' | 'outputs'> & {
    readonly inputs: Arrays;
    readonly outputs: Arrays;
  };
  const { cases } = parse(`${group}.json`) as { readonly cases: readonly Stored[] };
  return cases.map((c) => ({ ...c, inputs: decodeAll(c.inputs), outputs: decodeAll(c.outputs) }));
}

/** The training runs, lenet5 and cnn. */
export function goldenTraining(): GoldenTraining[] {
  type Stored = Omit<GoldenTraining, 'logits'> & { readonly logits: StoredArray };
  const { models } = parse('training.json') as { readonly models: readonly Stored[] };
  return models.map((m) => ({ ...m, logits: decode(m.logits) }));
}

/** What NumPy prints for an array; its elements as texts, row-major. */
export interface GoldenPrint {
  readonly dtype: 'f16' | 'f32' | 'f64' | 'i32' | 'i64' | 'u8';
  readonly shape: readonly number[];
  readonly values: readonly string[];
  readonly text: string;
}

export const goldenPrints = (): readonly GoldenPrint[] =>
  (parse('print.json') as { readonly cases: readonly GoldenPrint[] }).cases;

/** A schedule's factors in 50 steps. */
export interface GoldenSchedule {
  readonly name: string;
  readonly op: string;
  readonly args: readonly unknown[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly stepsPerEpoch: number;
  readonly observed?: readonly number[];
  readonly factors: readonly number[];
}

export const goldenSchedules = (): readonly GoldenSchedule[] =>
  (parse('schedules.json') as { readonly cases: readonly GoldenSchedule[] }).cases;

/** ONNX Runtime's levels `q` of x and their values `d`; PyTorch's gradient of Σ i·y[i] through fake quantization. */
export interface GoldenQuantization {
  readonly dtype: 'i8' | 'u8';
  readonly scale: number | readonly number[];
  readonly zeroPoint: number | readonly number[];
  readonly axis: number;
  readonly x: Nested;
  readonly q: Nested;
  readonly d: Nested;
  readonly gradient: Nested;
}

/** What quantization.py took from ONNX Runtime and PyTorch. */
export const goldenQuantization = (): readonly GoldenQuantization[] =>
  (parse('quantization.json') as { cases: readonly GoldenQuantization[] }).cases;

/** The long sums. */
export const goldenSums = (): GoldenSum[] =>
  (parse('sums.json') as { readonly cases: readonly GoldenSum[] }).cases.slice();

/** Numbers of an input, rounded to f32. */
export function goldenStream({ shape, seed, low, high }: Stream): GoldenArray {
  const next = mulberry32(seed);
  const size = shape.reduce((n, d) => n * d, 1);
  return { shape, data: Float32Array.from({ length: size }, () => low + (high - low) * next()) };
}

/** Numbers in [0, 1), multiples of 2⁻³². */
export function mulberry32(seed: number): () => number {
  let a = seed | 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The parameters a training run starts from, by name. */
export function goldenParameters({ seed, parameters }: GoldenTraining): Record<string, GoldenArray> {
  const next = mulberry32(seed);
  const product = (sizes: readonly number[]): number => sizes.reduce((n, d) => n * d, 1);
  let fanIn = 1;
  return Object.fromEntries(
    Object.entries(parameters).map(([name, shape]) => {
      if (name.endsWith('weight')) fanIn = product(shape.slice(1));
      const data = Float32Array.from({ length: product(shape) }, () => (2 * next() - 1) / Math.sqrt(fanIn));
      return [name, { shape, data }];
    }),
  );
}

export function digest(values: ArrayLike<number>): Digest {
  const all = Array.from(values);
  const stride = Math.max(1, Math.floor(all.length / 16));
  return {
    sum: all.reduce((sum, v) => sum + v, 0),
    norm: Math.sqrt(all.reduce((sum, v) => sum + v * v, 0)),
    samples: all.filter((_, i) => i % stride === 0).slice(0, 16),
  };
}

/** A function's argument or arguments, and its value: high + low. */
export interface FunctionValue {
  readonly x: readonly number[];
  readonly high: number;
  readonly low: number;
}

/** The elementary functions and activations, by name; of f64, by functions.py. */
export function goldenFunctions(): ReadonlyMap<string, readonly FunctionValue[]> {
  const { functions } = parse('functions.json') as {
    readonly functions: readonly { readonly name: string; readonly rows: readonly (number | string)[][] }[];
  };
  return new Map(
    functions.map(({ name, rows }) => [
      name,
      rows.map((row) => ({ x: row.slice(0, -2).map(Number), high: Number(row.at(-2)), low: Number(row.at(-1)) })),
    ]),
  );
}
