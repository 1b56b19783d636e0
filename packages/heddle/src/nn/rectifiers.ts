/** Rectifiers and other piecewise or gated activations as layers. */

import { aFinite, integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import type { Shape } from '../core/shape.js';
import {
  CELU as CELU_RULES,
  type CeluOptions,
  celu,
  glu,
  HARDTANH,
  type HardtanhOptions,
  hardshrink,
  hardsigmoid,
  hardswish,
  hardtanh,
  logSigmoid,
  mish,
  prelu,
  relu6,
  SHRINK,
  type ShrinkOptions,
  selu,
  softshrink,
  softsign,
  tanhshrink,
} from '../tensor/functional-rectifiers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { constantParameter, requireSize } from './parameter.js';

/** x limited to 0 … 6. */
export class ReLU6 extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return relu6(x);
  }
}

/** (x + 3) / 6, limited to 0 … 1. */
export class Hardsigmoid extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return hardsigmoid(x);
  }
}

/** x · hardsigmoid(x). */
export class Hardswish extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return hardswish(x);
  }
}

/** The self-normalizing exponential unit. */
export class SELU extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return selu(x);
  }
}

/** x · tanh(log(1 + e^x)). */
export class Mish extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return mish(x);
  }
}

/** x / (1 + |x|). */
export class Softsign extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return softsign(x);
  }
}

/** log(1 / (1 + e^−x)). */
export class LogSigmoid extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return logSigmoid(x);
  }
}

/** x − tanh(x). */
export class Tanhshrink extends Module {
  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return tanhshrink(x);
  }
}

/** x limited to low … high. */
export class Hardtanh extends Module {
  /** As given to the constructor. */
  readonly options: HardtanhOptions;

  constructor(options: HardtanhOptions = {}) {
    super();
    requireOptions('Hardtanh', options, HARDTANH);
    this.options = options;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return hardtanh(x, this.options);
  }
}

/** x where x > 0, else alpha · (e^(x/alpha) − 1). */
export class CELU extends Module {
  /** As given to the constructor. */
  readonly options: CeluOptions;

  constructor(options: CeluOptions = {}) {
    super();
    requireOptions('CELU', options, CELU_RULES);
    this.options = options;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return celu(x, this.options);
  }
}

/** x brought nearer to 0 by lambda. */
export class Softshrink extends Module {
  /** As given to the constructor. */
  readonly options: ShrinkOptions;

  constructor(options: ShrinkOptions = {}) {
    super();
    requireOptions('Softshrink', options, SHRINK);
    this.options = options;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return softshrink(x, this.options);
  }
}

/** x where |x| > lambda, else 0. */
export class Hardshrink extends Module {
  /** As given to the constructor. */
  readonly options: ShrinkOptions;

  constructor(options: ShrinkOptions = {}) {
    super();
    requireOptions('Hardshrink', options, SHRINK);
    this.options = options;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return hardshrink(x, this.options);
  }
}

/** Options of the layer `PReLU`. */
export interface PReLUOptions {
  /** How many slopes there are: 1, or the channels of x (default 1). */
  readonly parameters?: number;
  /** The initial value of the slopes (default 0.25). */
  readonly init?: number;
}

/** x where x > 0, else a slope that is trained times x. */
export class PReLU extends Module {
  /** (parameters): the slopes. */
  readonly weight: Tensor<Shape, 'f32'>;

  /** @throws ArgumentError */
  constructor(options: PReLUOptions = {}) {
    super();
    requireOptions('PReLU', options, { parameters: integerFrom(1), init: aFinite });
    const { parameters = 1, init = 0.25 } = options;
    requireSize('PReLU', 'parameters', parameters);
    this.weight = constantParameter([parameters], init);
  }

  /** @param x floats, any shape, or (N, parameters, …) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return prelu(x, this.weight);
  }
}

/** The first half along `axis` times the sigmoid of the second. */
export class GLU extends Module {
  /** The dimension that is halved. */
  readonly axis: number;

  constructor(axis = -1) {
    super();
    requireArgument('GLU', 'axis', axis, integerFrom(Number.MIN_SAFE_INTEGER));
    this.axis = axis;
  }

  /** @param x floats · @returns half the size along `axis` */
  forward(x: Tensor): Tensor {
    return glu(x, this.axis);
  }
}
