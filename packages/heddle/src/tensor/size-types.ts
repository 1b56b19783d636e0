/** Sums and products of sizes as types, in decimal digits. What is not one literal each gives `number`. */

/** As many elements as a digit says. */
interface UnitsByDigit {
  0: [];
  1: [0];
  2: [0, 0];
  3: [0, 0, 0];
  4: [0, 0, 0, 0];
  5: [0, 0, 0, 0, 0];
  6: [0, 0, 0, 0, 0, 0];
  7: [0, 0, 0, 0, 0, 0, 0];
  8: [0, 0, 0, 0, 0, 0, 0, 0];
  9: [0, 0, 0, 0, 0, 0, 0, 0, 0];
}
type DecimalDigit = `${keyof UnitsByDigit}`;
type UnitsOf<D extends string> = D extends `${infer N extends keyof UnitsByDigit}` ? UnitsByDigit[N] : [];

type Reversed<Text extends string, Out extends string = ''> = Text extends `${infer First}${infer Rest}`
  ? Reversed<Rest, `${First}${Out}`>
  : Out;

/** The sum of two numerals, both written from their last digit; `Out` has the digits that are known. */
type SumFromLast<
  A extends string,
  B extends string,
  Carry extends 0[] = [],
  Out extends string = '',
> = `${A}${B}` extends ''
  ? `${Carry extends [] ? '' : 1}${Out}`
  : [UnitsOf<FirstOf<A>>, UnitsOf<FirstOf<B>>] extends [infer X extends 0[], infer Y extends 0[]]
    ? SumFromDigit<A, B, [...X, ...Y, ...Carry]['length'], Out>
    : never;
type SumFromDigit<A extends string, B extends string, Sum, Out extends string> = Sum extends number
  ? `${Sum}` extends `1${infer Last extends DecimalDigit}`
    ? SumFromLast<RestOf<A>, RestOf<B>, [0], `${Last}${Out}`>
    : SumFromLast<RestOf<A>, RestOf<B>, [], `${Sum}${Out}`>
  : never;
type FirstOf<Text extends string> = Text extends `${infer First}${string}` ? First : '';
type RestOf<Text extends string> = Text extends `${string}${infer Rest}` ? Rest : '';

type Sum<A extends string, B extends string> = SumFromLast<Reversed<A>, Reversed<B>>;

/** `Start`, and once more A for each element of `Units`. */
type SumOfMany<Start extends string, A extends string, Units extends 0[]> = Units extends [
  0,
  ...infer Rest extends 0[],
]
  ? SumOfMany<Sum<Start, A>, A, Rest>
  : Start;

/** A · B, digit by digit of B: what the digits so far give, times 10, and A times the next one. */
type ProductOfNumerals<
  A extends string,
  B extends string,
  Out extends string = '',
> = B extends `${infer First}${infer Rest}`
  ? ProductOfNumerals<A, Rest, SumOfMany<`${Out}0`, A, UnitsOf<First>>>
  : Out;

type NumberOf<Numeral extends string> = Numeral extends `${infer N extends number}` ? N : number;

/** `Plus<64, 36>` is 100. */
export type Plus<A extends number, B extends number> = number extends A | B
  ? number
  : NumberOf<Sum<`${A}`, `${B}`>>;

/** `Times<28, 28>` is 784. */
export type Times<A extends number, B extends number> = number extends A | B
  ? number
  : A extends 0 | 1
    ? A extends 0
      ? 0
      : B
    : B extends 0 | 1
      ? B extends 0
        ? 0
        : A
      : NumberOf<ProductOfNumerals<`${A}`, `${B}`>>;
