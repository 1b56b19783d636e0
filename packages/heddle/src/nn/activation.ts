/** Activation functions as layers. Each keeps the shape. */
import { aFinite, integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import {
  elu,
  type GeluOptions,
  gelu,
  leakyRelu,
  logSoftmax,
  relu,
  type SoftplusOptions,
  sigmoid,
  silu,
  softmax,
  softplus,
  tanh,
} from '../tensor/functional.js';
import { GELU as GELU_RULES, SOFTPLUS } from '../tensor/functional-activations.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

const anAxis = integerFrom(Number.MIN_SAFE_INTEGER);

/** max(0, x) */
export class ReLU extends Module {
  forward(x: Tensor): Tensor {
    return relu(x);
  }
}

/** x where x > 0, else negativeSlope · x. */
export class LeakyReLU extends Module {
  readonly negativeSlope: number;

  constructor(negativeSlope = 0.01) {
    super();
    requireArgument('LeakyReLU', 'negativeSlope', negativeSlope, aFinite);
    this.negativeSlope = negativeSlope;
  }

  forward(x: Tensor): Tensor {
    return leakyRelu(x, this.negativeSlope);
  }
}

/** x where x > 0, else alpha · (e^x − 1). */
export class ELU extends Module {
  readonly alpha: number;

  constructor(alpha = 1) {
    super();
    requireArgument('ELU', 'alpha', alpha, aFinite);
    this.alpha = alpha;
  }

  forward(x: Tensor): Tensor {
    return elu(x, this.alpha);
  }
}

/** x · Φ(x), exactly or by its tanh approximation. */
export class GELU extends Module {
  readonly approximate: 'none' | 'tanh';

  constructor(options: GeluOptions = {}) {
    super();
    requireOptions('GELU', options, GELU_RULES);
    this.approximate = options.approximate ?? 'none';
  }

  forward(x: Tensor): Tensor {
    return gelu(x, { approximate: this.approximate });
  }
}

/** x · sigmoid(x) */
export class SiLU extends Module {
  forward(x: Tensor): Tensor {
    return silu(x);
  }
}

/** 1 / (1 + e^−x) */
export class Sigmoid extends Module {
  forward(x: Tensor): Tensor {
    return sigmoid(x);
  }
}

/** log(1 + e^(beta · x)) / beta */
export class Softplus extends Module {
  readonly options: SoftplusOptions;

  constructor(options: SoftplusOptions = {}) {
    super();
    requireOptions('Softplus', options, SOFTPLUS);
    this.options = options;
  }

  forward(x: Tensor): Tensor {
    return softplus(x, this.options);
  }
}

export class Tanh extends Module {
  forward(x: Tensor): Tensor {
    return tanh(x);
  }
}

/** e^x / Σ e^x along `axis` (default: the last). */
export class Softmax extends Module {
  readonly axis: number;

  constructor(axis = -1) {
    super();
    requireArgument('Softmax', 'axis', axis, anAxis);
    this.axis = axis;
  }

  forward(x: Tensor): Tensor {
    return softmax(x, this.axis);
  }
}

/** x − log Σ e^x along `axis` (default: the last). */
export class LogSoftmax extends Module {
  readonly axis: number;

  constructor(axis = -1) {
    super();
    requireArgument('LogSoftmax', 'axis', axis, anAxis);
    this.axis = axis;
  }

  forward(x: Tensor): Tensor {
    return logSoftmax(x, this.axis);
  }
}
