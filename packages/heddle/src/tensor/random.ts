/**
 * Random tensors by Philox4x32-10: a seed gives the same numbers on every device. A generator counts the blocks it
 * has given out in a tensor, so that draws inside `jit` go on where the last step stopped.
 */
import {
  instance,
  integerFrom,
  isPlainObject,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { type DType, type DTypeName, f32, i32, i64, isFloat, u32 } from '../core/dtype.js';
import { DTypeError } from '../core/errors.js';
import { keyOfSeed, PhiloxStream } from '../core/philox.js';
import { requireShape, type Shape, sizeOf } from '../core/shape.js';
import { upload } from '../engine/realize.js';
import { currentDevice } from '../engine/storage.js';
import { setOwner } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { fromNode, TENSOR, type TensorOptions, tensor } from './create.js';
import { type AnyTensor, Tensor } from './tensor.js';

/** Tensors draw from stream 0. */
const HOST_STREAM = 0xffffffff;

const aSeed = integerFrom(0);

/** A source of random numbers (Philox4x32-10): the same seed gives the same numbers on every device. */
export class Generator {
  #seed: number;
  readonly #counters = new Map<string, Tensor<'i64'>>();
  #host: PhiloxStream | undefined;

  /** @param seed an integer from 0 to 2⁵³ − 1 */
  constructor(seed: number) {
    requireArgument('Generator', 'seed', seed, aSeed);
    this.#seed = seed;
  }

  /** The seed it was made with, or reset to. */
  get seed(): number {
    return this.#seed;
  }

  /** Start over. */
  reset(seed = this.#seed): void {
    this.#seed = new Generator(seed).seed;
    this.#host = undefined;
    for (const counter of this.#counters.values()) counter.write([0]);
  }

  /**
   * Where the generator stands on the current device: blocks of four words given out, i64 of shape (1). Every device
   * counts on its own. Save it to resume.
   */
  get counter(): Tensor<'i64'> {
    const device = currentDevice().name;
    let counter = this.#counters.get(device);
    if (!counter) {
      const node = upload([0], [1], i64, false, 'random state');
      counter = new Tensor(node);
      setOwner(node, counter);
      this.#counters.set(device, counter);
    }
    return counter;
  }

  /** Numbers for the host, such as initial weights: a sequence of the seed's own that no tensor draws from. */
  get host(): PhiloxStream {
    this.#host ??= new PhiloxStream(this.#seed, HOST_STREAM);
    return this.#host;
  }

  /**
   * Where the generator stands, on the current device and on the host: `seed`, `counter` and `host`, i64 of shape (1).
   * With `loadStateDict` the same numbers follow as would have here.
   */
  stateDict(): Record<string, Tensor<'i64'>> {
    const at = (n: number): Tensor<'i64'> => tensor([n], { dtype: i64 });
    return { seed: at(this.#seed), counter: this.counter, host: at(this.host.position) };
  }

  /** Go on where `stateDict` was taken. @throws ArgumentError for what is not its result */
  async loadStateDict(state: Readonly<Record<string, AnyTensor>>): Promise<void> {
    const names = Object.keys(this.stateDict());
    requireArgument('Generator', 'state', state, {
      must: `a record of the tensors ${names.join(', ')}, each of one element, as stateDict() gives it`,
      holds: (v) =>
        isPlainObject(v) &&
        names.every((name) => v[name] instanceof Tensor && (v[name] as Tensor).size === 1),
    });
    const [seed, counter, host] = await Promise.all(
      names.map(async (name) => Number((await state[name]!.data())[0])),
    );
    this.reset(seed);
    this.counter.write([counter!]);
    this.host.position = host!;
  }

  /** @internal The next words, u32. */
  bits(shape: Shape): GraphNode {
    const counter = this.counter;
    const bits = b.random(shape, counter.node, keyOfSeed(this.#seed));
    const blocks = Math.ceil(sizeOf(shape) / 4);
    counter.assign(counter.add(blocks));
    return bits;
  }
}

const standard = new Generator(0);

/** Seed the generator that `rand`, `randn` and dropout draw from. */
export function manualSeed(seed: number): void {
  requireArgument('manualSeed', 'seed', seed, aSeed);
  standard.reset(seed);
}

/** The generator that `rand`, `randn` and dropout draw from unless they are given another. */
export const defaultGenerator = (): Generator => standard;

/** Options of `rand` and `randn`. */
export interface RandomOptions<D extends DTypeName = DTypeName> extends TensorOptions<D> {
  /** Default: the generator that `manualSeed` seeds. */
  readonly generator?: Generator;
}

const RANDOM: Rules<RandomOptions> = { ...TENSOR, generator: instance(Generator, 'a Generator') };

/** Random bits of a uniform number: as many as its type has below 1, so that none is rounded up to it; else 24. */
const UNIFORM_BITS: Readonly<Record<string, number>> = { f16: 11, bf16: 8 };

/** Uniform on [0, 1): 24 random bits each, of f16 11, of bf16 8. */
export function rand<D extends DTypeName = 'f32'>(shape: Shape, options: RandomOptions<D> = {}): Tensor<D> {
  requireRandom('rand', shape, options);
  const { generator = standard, dtype = f32 as DType } = options;
  return fromNode(b.cast(uniform(generator, shape, UNIFORM_BITS[dtype.name]), dtype), options);
}

function requireRandom(op: string, shape: Shape, options: RandomOptions): void {
  requireShape(op, shape);
  requireOptions(op, options, RANDOM);
  const { dtype = f32 } = options;
  if (!isFloat(dtype))
    throw new DTypeError(
      `[${op}] makes floats, not ${dtype.name}. Round them: rand(shape).mul(10).floor().cast(i32).`,
    );
}

const uniform = (generator: Generator, shape: Shape, count = 24): GraphNode => {
  const bits = b.map('shr', generator.bits(shape), b.full(shape, u32, 32 - count));
  return b.mul(b.cast(bits, f32), b.full(shape, f32, 2 ** -count));
};

/**
 * Normal with mean 0 and variance 1, in pairs √(−2 ln u)·(cos 2πt, sin 2πt): G. Box and M. Muller (1958). A word of 32
 * random bits makes u, the next one t, so that the largest number is √(66 ln 2) = 6.76.
 */
export function randn<D extends DTypeName = 'f32'>(shape: Shape, options: RandomOptions<D> = {}): Tensor<D> {
  requireRandom('randn', shape, options);
  const size = sizeOf(shape);
  // The first half of the numbers are the cosines, the second the sines, of the same draws.
  const half = Math.ceil(size / 2);
  const pairs = [2, half];
  const f = (v: number): GraphNode => b.full(pairs, f32, v);
  const bits = (options.generator ?? standard).bits(pairs);
  const [first, second] = [0, 1].map((row) => b.expand(b.slice(bits, [row, 0], [1, half]), pairs)) as [
    GraphNode,
    GraphNode,
  ];
  // In (0, 1]: its logarithm is finite
  const u = b.map('fma', b.cast(first, f32), f(2 ** -32), f(2 ** -33));
  const radius = b.map('sqrt', minusTwoLog(u));
  // The sine is the cosine a quarter of a turn before.
  const quarters = b.mul(b.cast(b.iota(pairs, 0), u32), b.full(pairs, u32, 2 ** 30));
  const z = b.reshape(b.mul(radius, cosineOfBits(b.sub(second, quarters))), [2 * half]);
  const all = size < 2 * half ? b.slice(z, [0], [size]) : z;
  return fromNode(b.cast(b.reshape(all, shape), options.dtype ?? f32), options);
}

/** The coefficient of the highest power first. */
const polynomial = (x: GraphNode, coefficients: readonly number[]): GraphNode =>
  coefficients.map((c) => b.full(x.shape, f32, c)).reduce((sum, c) => b.map('fma', sum, x, c));

/** −2·ln(1 + f)/f for −⅓ ≤ f ≤ ⅓, by Remez' algorithm: off by 2.6·10⁻⁸ of it at most. */
const LOGARITHM = [
  -0.2811223268508911, 0.30806395411491394, -0.2797529995441437, 0.328255832195282, -0.40023890137672424,
  0.5001605749130249, -0.6666633486747742, 0.9999986290931702, -2,
];
/** The bits of ⅔, and those of an exponent. */
const TWO_THIRDS = 0x3f2aaaab;
const EXPONENT = -(2 ** 23);

/**
 * −2 ln u for 2⁻³³ ≤ u ≤ 1, to 1.5·10⁻⁷ of it: u is 2ᵏ(1 + f) with f within ±⅓. The general logarithm has conditions for
 * what u cannot be; without them normal numbers take a fifth less time on a GPU.
 */
function minusTwoLog(u: GraphNode): GraphNode {
  const i = (v: number): GraphNode => b.full(u.shape, i32, v);
  const bits = b.bitcast(u, i32);
  const exponent = b.map('and', b.sub(bits, i(TWO_THIRDS)), i(EXPONENT));
  const f = b.sub(b.bitcast(b.sub(bits, exponent), f32), b.full(u.shape, f32, 1));
  const perExponent = b.full(u.shape, f32, (-2 * Math.LN2) / 2 ** 23);
  return b.map('fma', b.cast(exponent, f32), perExponent, b.mul(f, polynomial(f, LOGARITHM)));
}

/** (2π)ⁿ/n! with alternating signs, n = 11, 9, … 1: the series of sin 2πy. */
const SINE = [11, 9, 7, 5, 3, 1].map((n) => {
  let term = n % 4 === 1 ? 1 : -1;
  for (let i = 1; i <= n; i++) term *= (2 * Math.PI) / i;
  return term;
});

/**
 * cos 2πt of t·2³², u32. Read as a signed integer that is −½ ≤ t < ½, and the cosine is sin 2πy for y = ¼ − |t|, which
 * lies within ±¼: six terms of the series are 6·10⁻⁸ off at most.
 */
function cosineOfBits(t: GraphNode): GraphNode {
  const f = (v: number): GraphNode => b.full(t.shape, f32, v);
  const turns = b.cast(b.bitcast(t, i32), f32);
  const y = b.map('fma', b.map('abs', turns), f(-(2 ** -32)), f(0.25));
  return b.mul(y, polynomial(b.mul(y, y), SINE));
}
