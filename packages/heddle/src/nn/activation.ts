/** Activation functions as layers. Each keeps the shape. */
import {
  elu,
  gelu,
  leakyRelu,
  logSoftmax,
  relu,
  sigmoid,
  silu,
  softmax,
  softplus,
  tanh,
} from '../tensor/functional.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

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
    this.alpha = alpha;
  }

  forward(x: Tensor): Tensor {
    return elu(x, this.alpha);
  }
}

/** x · Φ(x), exactly or by its tanh approximation. */
export class GELU extends Module {
  readonly approximate: 'none' | 'tanh';

  constructor(options: { readonly approximate?: 'none' | 'tanh' } = {}) {
    super();
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
  readonly options: { readonly beta?: number; readonly threshold?: number };

  constructor(options: { readonly beta?: number; readonly threshold?: number } = {}) {
    super();
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
    this.axis = axis;
  }

  forward(x: Tensor): Tensor {
    return logSoftmax(x, this.axis);
  }
}
