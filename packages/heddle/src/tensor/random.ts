/**
 * Random tensors by Philox4x32-10: a seed gives the same numbers on every device. A generator counts the blocks it
 * has given out in a tensor, so that draws inside `jit` go on where the last step stopped.
 */
import {
  aBoolean,
  instance,
  integerFrom,
  isPlainObject,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import {
  bool,
  type DType,
  type DTypeName,
  describeValues,
  f32,
  f64,
  i32,
  i64,
  isFloat,
  isOf,
  u32,
} from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { sineSeries } from '../core/gaussian.js';
import { keyOfSeed, type PhiloxKey, PhiloxStream } from '../core/philox.js';
import { formatShape, requireShape, type Shape, sizeOf } from '../core/shape.js';
import { upload } from '../engine/realize.js';
import { currentDevice } from '../engine/storage.js';
import { currentTrace, setOwner } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { scan } from '../ops/scan/op.js';
import { order } from '../ops/sort/op.js';
import { requireFloat } from './checks.js';
import { fromNode, TENSOR, type TensorOptions, tensor } from './create.js';
import type { GivenShape, Uninferred } from './shape-types.js';
import { type AnyTensor, Tensor } from './tensor.js';
import { currentWorld } from './world.js';

/** Tensors draw from stream 0. */
const HOST_STREAM = 0xffffffff;

const aSeed = integerFrom(0);
const anInteger = integerFrom(Number.MIN_SAFE_INTEGER);

/** A source of random numbers (Philox4x32-10): the same seed gives the same numbers on every device. */
export class Generator {
  #seed: number;
  readonly #counters = new Map<string, Tensor<Shape, 'i64'>>();
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
  get counter(): Tensor<Shape, 'i64'> {
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
  stateDict(): Record<string, Tensor<Shape, 'i64'>> {
    const at = (n: number): Tensor<Shape, 'i64'> => tensor([n], { dtype: i64 });
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
    const { seed, counter } = this.take(Math.ceil(sizeOf(shape) / 4));
    return b.random(shape, counter, seed);
  }

  /**
   * @internal The next blocks of four words: the key of their stream, and the number of the first. Where several processes train
   * together, each draws its own in traced functions: examples of other ranks get other masks of dropout. Elsewhere all draw the
   * same: models begin with equal weights.
   */
  take(blocks: number): { readonly seed: PhiloxKey; readonly counter: GraphNode } {
    const counter = this.counter;
    const { node } = counter;
    const [low, high] = keyOfSeed(this.#seed);
    // Above the 53 bits of a seed.
    const rank = currentTrace() ? (currentWorld()?.rank ?? 0) : 0;
    counter.assign(counter.add(blocks));
    return { seed: [low, (high | (rank << 21)) >>> 0], counter: node };
  }
}

const standard = new Generator(0);

/**
 * Seed the generator that `rand`, `randn` and dropout draw from.
 * @example
 * ```ts
 * import { manualSeed, rand } from 'heddle';
 *
 * manualSeed(7);
 * const first = await rand([2]).array();
 * manualSeed(7);
 * console.log(String(await rand([2]).array()) === String(first)); // → true
 * ```
 */
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
export function rand<const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  options: RandomOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> {
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

/** Options of `randint`. */
export interface RandintOptions<D extends DTypeName = DTypeName> {
  /** Default i32. */
  readonly dtype?: DType<D>;
  /** Default: the generator that `manualSeed` seeds. */
  readonly generator?: Generator;
}

/** Options of `randperm` and `bernoulli`. */
export interface DrawOptions {
  /** Default: the generator that `manualSeed` seeds. */
  readonly generator?: Generator;
}

/** Options of `multinomial`. */
export interface MultinomialOptions extends DrawOptions {
  /** Whether a position may be drawn more than once (default false). */
  readonly replacement?: boolean;
}

const DRAW: Rules<DrawOptions> = { generator: RANDOM.generator };
const RANDINT: Rules<RandintOptions> = { ...DRAW, dtype: RANDOM.dtype };
const MULTINOMIAL: Rules<MultinomialOptions> = { ...DRAW, replacement: aBoolean };

/**
 * Integers from `low` to `high` − 1, each as often but for one part in 2³² / (high − low). Default dtype i32.
 * @throws ArgumentError unless low < high ≤ low + 2³² · DTypeError for a dtype that cannot represent them
 */
export function randint<const S extends Shape, D extends DTypeName = 'i32'>(
  low: number,
  high: number,
  shape: S,
  options: RandintOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> {
  requireArgument('randint', 'low', low, anInteger);
  requireArgument('randint', 'high', high, anInteger);
  requireShape('randint', shape);
  requireOptions('randint', options, RANDINT);
  const { generator = standard, dtype = i32 as DType } = options;
  const range = high - low;
  if (range < 1 || range > 2 ** 32)
    throw new ArgumentError(`[randint] from ${low} to ${high}: high must be from low + 1 to low + 2³².`);
  const stray = [low, high - 1].find((v) => !isOf(dtype, v));
  if (stray !== undefined || dtype === bool)
    throw new DTypeError(
      `[randint] ${stray ?? low} cannot be represented as ${dtype.name} (${describeValues(dtype)}).`,
    );
  const bits = generator.bits(shape);
  const below = range === 2 ** 32 ? bits : b.map('mulhi', bits, b.like(bits, range));
  return new Tensor(b.cast(b.add(b.cast(below, i64), b.full(shape, i64, BigInt(low))), dtype));
}

/** 0 to n − 1 in random order, i32: sorted by 64 random bits each. */
export function randperm<N extends number>(n: N, options: DrawOptions = {}): Tensor<[N], 'i32'> {
  requireArgument('randperm', 'n', n, integerFrom(0));
  requireOptions('randperm', options, DRAW);
  const bits = (options.generator ?? standard).bits([2, n]);
  const [high, low] = [0, 1].map((row) => b.reshape(b.cast(b.slice(bits, [row, 0], [1, n]), i64), [n])) as [
    GraphNode,
    GraphNode,
  ];
  const keys = b.map('or', b.map('shl', high, b.like(high, 32n)), low);
  return new Tensor(order('randperm', keys, 0, false).indices);
}

/**
 * 1 with the probability that each element of `p` is, else 0; of p's shape and dtype. Probabilities are met to 2⁻²⁴; below 0
 * or NaN counts as 0, above 1 as 1.
 * @throws DTypeError unless of floats
 */
export function bernoulli<S extends Shape, D extends DTypeName>(
  p: Tensor<S, D>,
  options: DrawOptions = {},
): Tensor<S, D> {
  requireFloat('bernoulli', 'p', p);
  requireOptions('bernoulli', options, DRAW);
  const u = uniform(options.generator ?? standard, p.shape);
  const isOne = b.map('lt', b.cast(u, p.dtype === f64 ? f64 : f32), b.wide(b.detach(p.node)));
  return new Tensor(b.cast(isOne, p.dtype));
}

/**
 * Positions along the last axis, drawn with the probabilities that the `weights` (…, n) are in proportion to: (…, count),
 * i32. Weights are floats, finite and not negative, with a positive one in each row; without replacement `count` of them,
 * else positions of weight 0 are drawn when there are no others.
 * P. Efraimidis and P. Spirakis, Weighted random sampling with a reservoir (2006).
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function multinomial(
  weights: AnyTensor,
  count: number,
  options: MultinomialOptions = {},
): Tensor<Shape, 'i32'> {
  requireFloat('multinomial', 'weights', weights);
  requireArgument('multinomial', 'count', count, integerFrom(1));
  requireOptions('multinomial', options, MULTINOMIAL);
  const { generator = standard, replacement = false } = options;
  const n = weights.shape.at(-1);
  if (n === undefined || n === 0 || (!replacement && count > n))
    throw new ShapeError(
      `[multinomial] ${count} of weights ${formatShape(weights.shape)}: the last dimension must be at least ${replacement ? 1 : count}${replacement ? '' : ', or { replacement: true }'}.`,
    );
  const w = b.wide(b.detach(weights.node));
  const lead = w.shape.slice(0, -1);
  const draw = (shape: Shape): GraphNode => b.cast(uniform(generator, shape, 23), w.dtype);
  if (!replacement) {
    // The largest w / e of exponential variates e; half a step keeps their logarithm from 0.
    const u = draw(w.shape);
    const variates = b.neg(b.map('log', b.add(u, b.like(u, 2 ** -24))));
    return new Tensor<Shape, 'f32'>(b.div(w, variates)).topk(count).indices;
  }
  // The first position whose running sum is above u of the total: u is so far below 1 that there is one.
  const all = [...lead, count, n];
  const running = scan('add', w, w.shape.length - 1);
  const total = b.slice(running, [...lead.map(() => 0), n - 1], [...lead, 1]);
  const level = b.mul(draw([...lead, count]), b.expand(total, [...lead, count]));
  const sums = b.expand(b.reshape(running, [...lead, 1, n]), all);
  const isPassed = b.map('le', sums, b.expand(b.reshape(level, [...lead, count, 1]), all));
  return new Tensor(b.reshape(b.sum(b.cast(isPassed, i32), [all.length - 1]), [...lead, count]));
}

const uniform = (generator: Generator, shape: Shape, count = 24): GraphNode => {
  const bits = b.map('shr', generator.bits(shape), b.full(shape, u32, 32 - count));
  return b.mul(b.cast(bits, f32), b.full(shape, f32, 2 ** -count));
};

/**
 * Normal with mean 0 and variance 1, in pairs √(−2 ln u)·(cos 2πt, sin 2πt): G. Box and M. Muller (1958). A word of 32
 * random bits makes u, the next one t, so that the largest number is √(66 ln 2) = 6.76.
 * @example
 * ```ts
 * import { manualSeed, randn } from 'heddle';
 *
 * manualSeed(0);
 * console.log(randn([64, 784]).shape); // → [ 64, 784 ]
 * ```
 */
export function randn<const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  options: RandomOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> {
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

const SINE = sineSeries(11);

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
