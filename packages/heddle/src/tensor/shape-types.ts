/**
 * What operations make of shapes, as types. A shape is a tuple of sizes, `[64, 784]`; a size that is not known is `number`,
 * and a shape whose rank is not known is `Shape`, which then is the result. Where sizes do not fit, the result is a text that
 * says so: `Fitted` makes it the type of the argument, and so the compiler's error.
 */
import type { Shape } from '../core/shape.js';
import type { Plus, Times } from './size-types.js';

/** The shape that a call gives in brackets: `[64, 784]` of `readonly [64, 784]`, and `Shape` where its rank is not known. */
export type GivenShape<S extends Shape> = S extends readonly [...infer R extends number[]]
  ? number extends R['length']
    ? Shape
    : R
  : never;

/** The size N as it is counted: `number` for what is no literal integer ≥ 0. */
export type Count<N extends number> = `${N}` extends `-${string}` | `${string}.${string}` ? number : N;

/** T, which the compiler infers nothing from. (TypeScript's own `NoInfer` is newer than the oldest TypeScript that can be used.) */
export type Uninferred<T, Kind = unknown> = T extends infer U extends Kind ? U : never;

/** The type T of an argument, or the text that says why its shape does not fit. */
export type Fitted<Result, T> = [Result] extends [string] ? Result : T;

/** The shape that an operation gives; where it is not known, and where sizes do not fit, any. */
export type ResultShape<Result> = [Result] extends [string]
  ? Shape
  : Result extends infer S extends Shape
    ? S
    : never;

/** What a linear layer with weight W makes of A: `Applied<[64, 784], [10, 784]>` is [64, 10]. */
export type Applied<A extends Shape, W extends Shape> = Product<A, Transposed<W, 0, 1>>;

/** Whether two sizes cannot be equal: both are literals, and differ. */
type Differ<A extends number, B extends number> = [A & B] extends [never] ? true : false;

/** `Broadcast<[64, 1, 10], [3, 1]>` is [64, 3, 10]; `Done` comes after it. */
export type Broadcast<A extends Shape, B extends Shape, Done extends Shape = []> = number extends
  | A['length']
  | B['length']
  ? Shape
  : B extends readonly []
    ? [...A, ...Done]
    : A extends readonly []
      ? [...B, ...Done]
      : A extends readonly [...infer P extends Shape, infer M extends number]
        ? B extends readonly [...infer Q extends Shape, infer N extends number]
          ? [BroadcastSize<M, N>] extends [never]
            ? `cannot broadcast ${M} with ${N} on axis -${[0, ...Done]['length'] & number}`
            : Broadcast<P, Q, [BroadcastSize<M, N>, ...Done]>
          : never
        : never;

/** The size that two are broadcast to; `never` if they are not. */
type BroadcastSize<A extends number, B extends number> = [A] extends [1]
  ? B
  : [B] extends [1]
    ? A
    : Differ<A, B> extends false
      ? A & B
      : 1 extends A | B
        ? number
        : never;

/** Matrix products: `Product<[8, 64, 784], [784, 10]>` is [8, 64, 10]; `Product<[3], [3, 2]>` is [2]. */
export type Product<A extends Shape, B extends Shape> = number extends A['length'] | B['length']
  ? Shape
  : A extends readonly [...infer P extends Shape, infer K extends number]
    ? B extends readonly [infer L extends number]
      ? Differ<K, L> extends true
        ? InnerDiffer<K, L>
        : P
      : B extends readonly [...infer Q extends Shape, infer L extends number, infer N extends number]
        ? Differ<K, L> extends true
          ? InnerDiffer<K, L>
          : P extends readonly [...infer Batch extends Shape, infer M extends number]
            ? Broadcast<Batch, Q, [M, N]>
            : [...Q, N]
        : Shape
    : Shape;

type InnerDiffer<K extends number, L extends number> = `inner dimensions differ: ${K} and ${L}`;

/** An axis of A counted from the front: `AxisFromFront<[2, 3, 4], -1>` is 2. A union of axes gives a union. */
type AxisFromFront<A extends Shape, X extends number> = X extends number
  ? `${X}` extends `-${infer FromBack extends number}`
    ? Shorter<A, FromBack>['length']
    : X
  : never;

/** A without its last `Count` sizes. */
type Shorter<
  A extends Shape,
  Count extends number,
  Dropped extends Shape = [],
> = Dropped['length'] extends Count
  ? A
  : A extends readonly [...infer P extends Shape, infer N extends number]
    ? Shorter<P, Count, [N, ...Dropped]>
    : Shape;

/** A with `To` in place of the sizes on axes `I`: `Replaced<[2, 3, 4], 1, []>` is [2, 4]. */
type Replaced<
  A extends Shape,
  I,
  To extends Shape,
  Seen extends Shape = [],
  Out extends Shape = [],
> = A extends readonly [infer N extends number, ...infer Rest extends Shape]
  ? Replaced<Rest, I, To, [...Seen, N], [...Out, ...(Seen['length'] extends I ? To : [N])]>
  : Out;

/** Reductions along the axes X, one or several, or all: `Reduced<[2, 3, 4], -1, true>` is [2, 3, 1]. */
export type Reduced<A extends Shape, X, Keep extends boolean> = number extends A['length']
  ? [X, Keep] extends [undefined, false]
    ? []
    : Shape
  : boolean extends Keep
    ? Shape
    : [X] extends [undefined]
      ? Replaced<A, number, Kept<Keep>>
      : [X] extends [number]
        ? ReducedAlong<A, AxisFromFront<A, X>, Keep>
        : [X] extends [Shape]
          ? ReducedAlong<A, AxisFromFront<A, X[number]>, Keep>
          : Shape;
type ReducedAlong<A extends Shape, I, Keep extends boolean> = number extends I
  ? Shape
  : Replaced<A, I, Kept<Keep>>;
type Kept<Keep extends boolean> = Keep extends true ? [1] : [];

/** A without axis X, which has size 1. */
export type Squeezed<A extends Shape, X extends number> = Reduced<A, X, false>;

/** A with size N before axis X: `Unsqueezed<[2, 3], -1>` is [2, 3, 1]. */
export type Unsqueezed<A extends Shape, X extends number, N extends number = 1> = number extends
  | A['length']
  | X
  ? Shape
  : Inserted<A, AxisFromFront<[...A, N], X>, N>;
type Inserted<A extends Shape, I, N extends number, Out extends Shape = []> = Out['length'] extends I
  ? [...Out, N, ...A]
  : A extends readonly [infer First extends number, ...infer Rest extends Shape]
    ? Inserted<Rest, I, N, [...Out, First]>
    : Shape;

/** Two axes exchanged: `Transposed<[2, 3, 4], -2, -1>` is [2, 4, 3]. */
export type Transposed<A extends Shape, X extends number, Y extends number> = number extends
  | A['length']
  | X
  | Y
  ? Shape
  : ResultShape<Exchanged<A, AxisFromFront<A, X>, AxisFromFront<A, Y>>>;
type Exchanged<A extends Shape, I extends number, J extends number> = {
  -readonly [K in keyof A]: K extends `${I}` ? A[J] : K extends `${J}` ? A[I] : A[K];
};

/** The axes in another order: `Permuted<[2, 3, 4], [2, 0, 1]>` is [4, 2, 3]. */
export type Permuted<A extends Shape, Order extends Shape> = number extends
  | A['length']
  | Order['length']
  | Order[number]
  ? Shape
  : { -readonly [K in keyof Order]: A[AxisFromFront<A, Order[K]>] };

/** How many elements there are: `Elements<[2, 3, 4]>` is 24. */
type Elements<A extends Shape, Out extends number = 1> = A extends readonly [
  infer N extends number,
  ...infer Rest extends Shape,
]
  ? Elements<Rest, Times<Out, N>>
  : Out;

/** Axes X and later as one: `Flattened<[64, 1, 28, 28], 1>` is [64, 784]. */
export type Flattened<A extends Shape, X extends number> = number extends A['length'] | X
  ? Shape
  : FlattenedFrom<A, AxisFromFront<A, X>>;
type FlattenedFrom<A extends Shape, I, Out extends Shape = []> = Out['length'] extends I
  ? [...Out, Elements<A>]
  : A extends readonly [infer First extends number, ...infer Rest extends Shape]
    ? FlattenedFrom<Rest, I, [...Out, First]>
    : Shape;

/**
 * `Reshaped<[64, 1, 28, 28], [64, -1]>` is [64, 784]. The −1 is known where the other sizes are sizes of A, too; else it is
 * `number`.
 */
export type Reshaped<A extends Shape, To extends Shape> = number extends To['length']
  ? Shape
  : -1 extends To[number]
    ? { -readonly [K in keyof To]: To[K] extends -1 ? Quotient<A, To> : To[K] }
    : Differ<KnownElements<A>, Elements<To>> extends true
      ? `cannot reshape ${KnownElements<A>} elements to ${Elements<To>}`
      : [...To];
type KnownElements<A extends Shape> = number extends A['length'] ? number : Elements<A>;

/** How many elements A has for each that the shape `To` has beside its −1, where the sizes of `To` are sizes of A. */
type Quotient<A extends Shape, To extends Shape> = number extends A['length']
  ? number
  : To extends readonly [infer N extends number, ...infer Rest extends Shape]
    ? N extends -1 | 1
      ? Quotient<A, Rest>
      : number extends N
        ? number
        : Quotient<WithoutSize<A, N>, Rest>
    : Elements<A>;

/** A without the first of its sizes that is N; `Shape` if there is none. */
type WithoutSize<A extends Shape, N extends number, Seen extends Shape = []> = A extends readonly [
  infer First extends number,
  ...infer Rest extends Shape,
]
  ? [First] extends [N]
    ? [...Seen, ...Rest]
    : WithoutSize<Rest, N, [...Seen, First]>
  : Shape;

/** One after the other along axis X: `Joined<[[2, 3], [4, 3]], 0>` is [6, 3]. */
export type Joined<Shapes extends readonly Shape[], X extends number> = number extends Shapes['length'] | X
  ? Shape
  : Shapes extends readonly [infer First extends Shape, ...infer Rest extends readonly Shape[]]
    ? number extends First['length']
      ? Shape
      : JoinedOnto<First, Rest, AxisFromFront<First, X>>
    : Shape;
type JoinedOnto<A, Others extends readonly Shape[], I> = A extends Shape
  ? Others extends readonly [infer B extends Shape, ...infer Rest extends readonly Shape[]]
    ? JoinedOnto<JoinedPair<A, B, I>, Rest, I>
    : A
  : A;
type JoinedPair<A extends Shape, B extends Shape, I, Out extends Shape = []> = number extends B['length']
  ? Shape
  : [A, B] extends [
        readonly [infer M extends number, ...infer P extends Shape],
        readonly [infer N extends number, ...infer Q extends Shape],
      ]
    ? Out['length'] extends I
      ? JoinedPair<P, Q, I, [...Out, Plus<M, N>]>
      : Differ<M, N> extends true
        ? `cat: sizes on axis ${Out['length']} differ: ${M} and ${N}`
        : JoinedPair<P, Q, I, [...Out, M & N]>
    : Out;

/** The shape of pooled images (N, C, …); their height and width are not computed. */
export type Pooled<A extends Shape> = Convolved<A, A[1]>;

/** The shape that a 2-d convolution to `Out` channels gives; its height and width are not computed. */
export type Convolved<A extends Shape, Out> = A extends readonly [
  infer N extends number,
  number,
  number,
  number,
]
  ? [N, Out extends number ? Out : number, number, number]
  : Shape;
