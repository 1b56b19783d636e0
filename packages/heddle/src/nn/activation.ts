/** Activation functions as layers. Each keeps the shape. */
import { integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import {
  ELU as ELU_RULES,
  type EluOptions,
  elu,
  GELU as GELU_RULES,
  type GeluOptions,
  gelu,
  LEAKY_RELU,
  type LeakyReluOptions,
  leakyRelu,
  logSoftmax,
  relu,
  SOFTPLUS,
  type SoftplusOptions,
  sigmoid,
  silu,
  softmax,
  softplus,
  tanh,
} from '../tensor/functional-activations.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

const anAxis = integerFrom(Number.MIN_SAFE_INTEGER);

/** max(0, x) */
export class ReLU extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return relu(x);
  }
}

/** x where x > 0, else negativeSlope · x. */
export class LeakyReLU extends Module {
  /** The factor where x ≤ 0. */
  readonly negativeSlope: number;

  constructor(options: LeakyReluOptions = {}) {
    super();
    requireOptions('LeakyReLU', options, LEAKY_RELU);
    this.negativeSlope = options.negativeSlope ?? 0.01;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return leakyRelu(x, { negativeSlope: this.negativeSlope });
  }
}

/** x where x > 0, else alpha · (e^x − 1). */
export class ELU extends Module {
  /** Minus the limit for x → −∞. */
  readonly alpha: number;

  constructor(options: EluOptions = {}) {
    super();
    requireOptions('ELU', options, ELU_RULES);
    this.alpha = options.alpha ?? 1;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return elu(x, { alpha: this.alpha });
  }
}

/** x · Φ(x), exactly or by its tanh approximation. */
export class GELU extends Module {
  /** 'none' by the error function, 'tanh' by its approximation. */
  readonly approximate: 'none' | 'tanh';

  constructor(options: GeluOptions = {}) {
    super();
    requireOptions('GELU', options, GELU_RULES);
    this.approximate = options.approximate ?? 'none';
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return gelu(x, { approximate: this.approximate });
  }
}

/** x · sigmoid(x) */
export class SiLU extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return silu(x);
  }
}

/** 1 / (1 + e^−x) */
export class Sigmoid extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return sigmoid(x);
  }
}

/** log(1 + e^(beta · x)) / beta */
export class Softplus extends Module {
  /** As given to the constructor. */
  readonly options: SoftplusOptions;

  constructor(options: SoftplusOptions = {}) {
    super();
    requireOptions('Softplus', options, SOFTPLUS);
    this.options = options;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return softplus(x, this.options);
  }
}

/** (e^x − e^−x) / (e^x + e^−x) */
export class Tanh extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return tanh(x);
  }
}

/** e^x / Σ e^x along `axis` (default: the last). */
export class Softmax extends Module {
  /** The dimension that is normalized. */
  readonly axis: number;

  constructor(axis = -1) {
    super();
    requireArgument('Softmax', 'axis', axis, anAxis);
    this.axis = axis;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return softmax(x, this.axis);
  }
}

/** x − log Σ e^x along `axis` (default: the last). */
export class LogSoftmax extends Module {
  /** The dimension that is normalized. */
  readonly axis: number;

  constructor(axis = -1) {
    super();
    requireArgument('LogSoftmax', 'axis', axis, anAxis);
    this.axis = axis;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return logSoftmax(x, this.axis);
  }
}
