/** Muon (Keller Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024). */
import {
  aBoolean,
  aFinite,
  atLeast,
  belowOne,
  integerFrom,
  oneOf,
  type Rule,
  type Rules,
} from '../core/arguments.js';
import { bf16, f32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { aPrecision, type Precision } from '../core/precision.js';
import { formatShape } from '../core/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type BaseSettings,
  LEARNING_RATE,
  Optimizer,
  type Trainable,
  type Update,
  withDefaults,
  zerosLike,
} from './optimizer.js';
import type { State } from './state.js';

/** Settings of `Muon`. */
export interface MuonSettings extends BaseSettings {
  /** Shrinks the parameter, times the learning rate (default 0.1). */
  readonly weightDecay: number;
  /** Fraction of the mean gradient that is kept (default 0.95). */
  readonly momentum: number;
  /** Look ahead along the momentum (default true). */
  readonly nesterov: boolean;
  /** a, b and c of the iteration X ← aX + b(XXᵀ)X + c(XXᵀ)²X (default 3.4445, −4.775, 2.0315). */
  readonly nsCoefficients: readonly [number, number, number];
  /** The least norm that a gradient is divided by (default 1e-7). */
  readonly eps: number;
  /** How often it is iterated (default 5). */
  readonly nsSteps: number;
  /** How exactly the iteration's products of f32 are computed (default bf16). */
  readonly precision: Precision;
  /**
   * How the learning rate depends on the matrix, of A rows and B columns: times √max(1, A/B) ('original', default), or times
   * 0.2·√max(A, B), which suits a learning rate found for AdamW ('matchRmsAdamw').
   */
  readonly adjustLrFn: 'original' | 'matchRmsAdamw';
}

const MUON: MuonSettings = {
  lr: 1e-3,
  weightDecay: 0.1,
  momentum: 0.95,
  nesterov: true,
  nsCoefficients: [3.4445, -4.775, 2.0315],
  eps: 1e-7,
  nsSteps: 5,
  precision: 'bf16',
  adjustLrFn: 'original',
};

const COEFFICIENTS: Rule = {
  must: 'three finite numbers',
  holds: (v) => Array.isArray(v) && v.length === 3 && v.every(aFinite.holds),
};

const RULES: Rules<MuonSettings> = {
  lr: LEARNING_RATE,
  weightDecay: atLeast(0),
  momentum: belowOne,
  nesterov: aBoolean,
  nsCoefficients: COEFFICIENTS,
  eps: atLeast(0),
  nsSteps: integerFrom(0, 99),
  precision: aPrecision,
  adjustLrFn: oneOf('original', 'matchRmsAdamw'),
};

/**
 * m ← momentum·m + (1 − momentum)·g;  p ← p − lr·weightDecay·p − lr·k·O, where O is the matrix m (with nesterov
 * momentum·m + (1 − momentum)·g) with all singular values made about 1, and k is that of `adjustLrFn`. For the matrices of
 * hidden layers alone: give biases, norms, embeddings and the last layer to AdamW. The products of O have
 * operands of bf16, as in its source, which the iteration bears well. Defaults: lr 1e-3, weightDecay 0.1, momentum 0.95, nesterov.
 */
export class Muon extends Optimizer<MuonSettings> {
  /** @throws ShapeError for a parameter that is not a matrix */
  constructor(params: Trainable<MuonSettings>, options: Partial<MuonSettings> = {}) {
    super(params, withDefaults(options, MUON), RULES);
  }

  protected initialState(parameter: Tensor): State {
    if (parameter.ndim !== 2)
      throw new ShapeError(
        `[Muon] a parameter of shape ${formatShape(parameter.shape)} is not a matrix. Give it to another optimizer, such as AdamW.`,
      );
    return { mean: zerosLike(parameter) };
  }

  protected update(u: Update<MuonSettings>): { value: Tensor; state: State } {
    const { parameter, gradient, lr, settings } = u;
    const { momentum, nesterov, weightDecay } = settings;
    const blend = (kept: Tensor): Tensor => kept.mul(momentum).add(gradient.mul(1 - momentum));
    const mean = blend(u.state.mean!);
    const direction = orthogonalized(nesterov ? blend(mean) : mean, settings);
    const [rows, columns] = parameter.shape as [number, number];
    const ratio =
      settings.adjustLrFn === 'original'
        ? Math.sqrt(Math.max(1, rows / columns))
        : 0.2 * Math.sqrt(Math.max(rows, columns));
    const decayed = weightDecay === 0 ? parameter : parameter.mul(lr.mul(-weightDecay).add(1));
    return { value: decayed.sub(direction.mul(lr.mul(ratio))), state: { mean } };
  }
}

/**
 * A matrix with all singular values made about 1 (0.7 to 1.2), by the Newton–Schulz iteration of fifth order on X / ‖X‖:
 * its polynomial ax + bx³ + cx⁵ takes any value in (0, 1] near to 1.
 */
function orthogonalized(matrix: Tensor, settings: MuonSettings): Tensor {
  const {
    nsCoefficients: [a, b, c],
    nsSteps,
    eps,
    precision,
  } = settings;
  const [rows, columns] = matrix.shape as [number, number];
  const isTall = rows > columns;
  const wide = isTall ? matrix.transpose() : matrix;
  const unit = wide.div(wide.norm().maximum(eps));
  // What the products would round anyway is kept so: half the memory to read.
  let x: Tensor = precision === 'bf16' && unit.dtype === f32 ? unit.cast(bf16) : unit;
  for (let i = 0; i < nsSteps; i++) {
    const gram = x.matmul(x.transpose(), { precision });
    const polynomial = gram.mul(b).add(gram.matmul(gram, { precision }).mul(c));
    x = x.mul(a).add(polynomial.matmul(x, { precision }));
  }
  return (isTall ? x.transpose() : x).cast(matrix.dtype);
}
