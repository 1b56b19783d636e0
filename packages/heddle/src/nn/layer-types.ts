/**
 * What layers take and give, by their sizes. The sizes stand in the branches of conditional types and never in what these
 * test, so that a `Linear<784, 10>` is a `Linear`; all layers have the type parameter `T extends Tensor` and no other, so
 * that `forward` of one of several layers can be called.
 */
import type { Shape } from '../core/shape.js';
import type { DTypeOf, ShapeOf, Tensor } from '../tensor/tensor.js';

/** What a linear layer takes: T if its last size is `In`, or not known. */
export type LinearInput<T extends Tensor, In extends number> =
  ShapeOf<T> extends readonly [...infer P extends Shape, infer K extends number]
    ? number extends K
      ? T
      : Tensor<[...P, In], DTypeOf<T>>
    : T;

/** A with its last size replaced: `LinearShape<[64, 784], 10>` is [64, 10]. */
export type LinearShape<A extends Shape, Out extends number> = A extends readonly [
  ...infer P extends Shape,
  number,
]
  ? [...P, Out]
  : Shape;

/** What a 2-d convolution takes: T if it has `In` channels, or their number is not known. */
export type Conv2dInput<T extends Tensor, In extends number> =
  ShapeOf<T> extends readonly [
    infer N extends number,
    infer C extends number,
    infer H extends number,
    infer W extends number,
  ]
    ? number extends C
      ? T
      : Tensor<[N, In, H, W], DTypeOf<T>>
    : T;
