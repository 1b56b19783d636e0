/** Layers that pad signals and images. */
import { aNumber, integerFrom, type Rule, requireArgument } from '../core/arguments.js';
import { ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import { requireTensor } from '../tensor/checks.js';
import type { PadMode } from '../tensor/movement.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Elements before and after: one number for both. */
export type Padding1d = number | readonly [left: number, right: number];
/** Elements on each side: one number for all. */
export type Padding2d = number | readonly [left: number, right: number, top: number, bottom: number];

const { must, holds } = integerFrom(0);
const sides = (count: number): Rule => ({
  must: `${must}, or ${count === 2 ? 'two of them: [left, right]' : 'four of them: [left, right, top, bottom]'}`,
  holds: (v) => (Array.isArray(v) ? v.length === count && v.every(holds) : holds(v)),
});

/** The base of padding layers. */
export abstract class PaddingLayer extends Module {
  /** Elements on each side: left, right, and of images top, bottom. */
  readonly padding: readonly number[];
  readonly #mode: PadMode;
  readonly #name: string;

  /** @throws ArgumentError */
  constructor(name: string, dimensions: 1 | 2, padding: number | readonly number[], mode: PadMode) {
    super();
    requireArgument(name, 'padding', padding, sides(2 * dimensions));
    this.padding = typeof padding === 'number' ? new Array<number>(2 * dimensions).fill(padding) : padding;
    this.#mode = mode;
    this.#name = name;
  }

  /** @internal What stands around, in mode 'constant'. */
  protected get constant(): number {
    return 0;
  }

  /** @param x (N, C, L) or (N, C, H, W), as the layer's name says · @returns the same with wider last dimensions */
  forward(x: Tensor): Tensor {
    requireTensor(this.#name, 'x', x);
    const [left, right, top, bottom] = this.padding as [number, number, number?, number?];
    const isImage = top !== undefined;
    if (x.ndim !== (isImage ? 4 : 3))
      throw new ShapeError(
        `[${this.#name}] x is ${formatShape(x.shape)}, must be ${isImage ? '(N,C,H,W)' : '(N,C,L)'}.`,
      );
    const around = isImage ? [[top, bottom!] as const, [left, right] as const] : [[left, right] as const];
    return x.pad([[0, 0], [0, 0], ...around], { mode: this.#mode, value: this.constant });
  }
}

/** Pads signals (N, C, L) with a number. */
export class ConstantPad1d extends PaddingLayer {
  /** How the elements around are chosen. */
  readonly value: number;

  constructor(padding: Padding1d, value: number) {
    super('ConstantPad1d', 1, padding, 'constant');
    requireArgument('ConstantPad1d', 'value', value, aNumber);
    this.value = value;
  }

  protected override get constant(): number {
    return this.value;
  }
}

/** Pads signals (N, C, L) with zeros. */
export class ZeroPad1d extends PaddingLayer {
  constructor(padding: Padding1d) {
    super('ZeroPad1d', 1, padding, 'constant');
  }
}

/** Pads images (N, C, H, W) with a number. */
export class ConstantPad2d extends PaddingLayer {
  /** How the elements around are chosen. */
  readonly value: number;

  constructor(padding: Padding2d, value: number) {
    super('ConstantPad2d', 2, padding, 'constant');
    requireArgument('ConstantPad2d', 'value', value, aNumber);
    this.value = value;
  }

  protected override get constant(): number {
    return this.value;
  }
}

/** Pads images (N, C, H, W) with zeros. */
export class ZeroPad2d extends PaddingLayer {
  constructor(padding: Padding2d) {
    super('ZeroPad2d', 2, padding, 'constant');
  }
}

/** Pads signals (N, C, L), mirrored at their first and last elements. */
export class ReflectionPad1d extends PaddingLayer {
  constructor(padding: Padding1d) {
    super('ReflectionPad1d', 1, padding, 'reflect');
  }
}

/** Pads images (N, C, H, W), mirrored at their first and last elements. */
export class ReflectionPad2d extends PaddingLayer {
  constructor(padding: Padding2d) {
    super('ReflectionPad2d', 2, padding, 'reflect');
  }
}

/** Pads signals (N, C, L), by their outermost elements. */
export class ReplicationPad1d extends PaddingLayer {
  constructor(padding: Padding1d) {
    super('ReplicationPad1d', 1, padding, 'replicate');
  }
}

/** Pads images (N, C, H, W), by their outermost elements. */
export class ReplicationPad2d extends PaddingLayer {
  constructor(padding: Padding2d) {
    super('ReplicationPad2d', 2, padding, 'replicate');
  }
}

/** Pads signals (N, C, L), by those of the other end. */
export class CircularPad1d extends PaddingLayer {
  constructor(padding: Padding1d) {
    super('CircularPad1d', 1, padding, 'circular');
  }
}

/** Pads images (N, C, H, W), by those of the other end. */
export class CircularPad2d extends PaddingLayer {
  constructor(padding: Padding2d) {
    super('CircularPad2d', 2, padding, 'circular');
  }
}
