/** L-BFGS (J. Nocedal, Updating quasi-Newton matrices with limited storage, 1980). */
import {
  aFunction,
  atLeast,
  integerFrom,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { f64 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import { tensor } from '../tensor/create.js';
import { currentTrace } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { listOfTensors } from './clip.js';
import { dot, type FlatVector, type LossPoint, largest, strongWolfe } from './line-search.js';
import { withDefaults } from './optimizer.js';
import { requireRecord } from './state.js';

/** Settings of `LBFGS`. */
export interface LBFGSSettings {
  /** Length of a step along the direction; the first guess of a line search (default 1). */
  readonly lr: number;
  /** Iterations of a `step` (default 20). */
  readonly maxIter: number;
  /** Evaluations of the closure in a `step` (default 1.25 · maxIter). */
  readonly maxEval: number;
  /** `step` ends when no gradient is larger (default 1e-7). */
  readonly toleranceGrad: number;
  /** `step` ends when neither the loss nor a parameter changes by more (default 1e-9). */
  readonly toleranceChange: number;
  /** How many changes the approximation is made from (default 100). */
  readonly historySize: number;
  /** 'strongWolfe' searches along the direction; default: none, a step of `lr`. */
  readonly lineSearchFn: 'strongWolfe' | undefined;
}

const DEFAULTS = {
  lr: 1,
  maxIter: 20,
  toleranceGrad: 1e-7,
  toleranceChange: 1e-9,
  historySize: 100,
  lineSearchFn: undefined,
};

const RULES: Rules<LBFGSSettings> = {
  lr: atLeast(0),
  maxIter: integerFrom(1),
  maxEval: integerFrom(1),
  toleranceGrad: atLeast(0),
  toleranceChange: atLeast(0),
  historySize: integerFrom(1),
  lineSearchFn: oneOf('strongWolfe'),
};

/** A change of the parameters, and of the gradient by it. */
interface Change {
  readonly step: FlatVector;
  readonly gradient: FlatVector;
}

/** What is known from the iterations before. */
interface LbfgsMemory {
  /** Oldest first. */
  readonly changes: Change[];
  /** The initial inverse Hessian is this times the identity. */
  scale: number;
  readonly direction: FlatVector;
  readonly length: number;
  /** The gradient that the direction was made from. */
  readonly gradient: FlatVector;
}

/**
 * Quasi-Newton steps from the gradients of the last iterations: PyTorch's LBFGS. For small problems whose loss is the same
 * function throughout (all data at once): `step` evaluates it many times. Directions are computed on the host in f64; the
 * closure may be what the device does fast. It takes no part in `jit` and `fit`.
 */
export class LBFGS {
  /** What is trained. */
  readonly params: readonly Tensor[];
  /** As given, with defaults. */
  readonly settings: LBFGSSettings;
  #memory: LbfgsMemory | undefined;

  /** @throws ArgumentError */
  constructor(params: Iterable<Tensor>, options: Partial<LBFGSSettings> = {}) {
    requireOptions('LBFGS', options, RULES);
    this.params = listOfTensors('LBFGS', params);
    const maxEval = Math.floor((options.maxIter ?? DEFAULTS.maxIter) * 1.25);
    this.settings = withDefaults(options, { ...DEFAULTS, maxEval });
  }

  /** Forget the gradients gathered so far. */
  zeroGrad(): void {
    for (const p of this.params) p.grad = undefined;
  }

  /**
   * Up to `maxIter` iterations.
   * @param closure computes the loss of the parameters as they are, calls its `backward`, and returns it. Gradients are
   *   forgotten before each call
   * @returns the loss before the step
   * @throws ArgumentError within `jit`, or if the closure does not return a tensor
   */
  async step(closure: () => Tensor): Promise<number> {
    requireArgument(
      'step',
      'closure',
      closure,
      aFunction,
      'Write step(() => { … loss.backward(); return loss; }).',
    );
    if (currentTrace())
      throw new ArgumentError('[LBFGS] step() awaits values, which jit cannot: call it outside of jit.');
    const { lr, maxIter, maxEval, toleranceGrad, toleranceChange, lineSearchFn } = this.settings;
    let here = await this.#evaluate(closure);
    const first = here.loss;
    if (largest(here.gradient) <= toleranceGrad) return first;
    let evaluations = 1;
    let x = await this.#values();
    for (let iteration = 1; iteration <= maxIter; iteration++) {
      const before = here;
      const isFirst = this.#memory === undefined;
      const changes = this.#remember(here.gradient);
      const scale = this.#memory?.scale ?? 1;
      const direction = descent(here.gradient, changes, scale);
      const slope = dot(here.gradient, direction);
      const size = here.gradient.reduce((sum, g) => sum + Math.abs(g), 0);
      let length = isFirst ? Math.min(1, 1 / size) * lr : lr;
      const keep = (): void => {
        this.#memory = { changes, scale, direction, length, gradient: before.gradient };
      };
      keep();
      if (slope > -toleranceChange) break;
      const at = (t: number): FlatVector => x.map((v, i) => v + t * direction[i]!);
      if (lineSearchFn === 'strongWolfe') {
        const evaluate = async (t: number): Promise<LossPoint> => {
          this.#write(at(t));
          return this.#evaluate(closure);
        };
        const limits = { tolerance: toleranceChange, most: maxEval - evaluations };
        const found = await strongWolfe(evaluate, length, direction, here, slope, limits);
        ({ point: here, length } = found);
        evaluations += found.evaluations;
        x = at(length);
        this.#write(x);
      } else {
        x = at(length);
        this.#write(x);
        // The last iteration's loss is that of the next step.
        if (iteration < maxIter) {
          here = await this.#evaluate(closure);
          evaluations++;
        }
      }
      keep();
      if (evaluations >= maxEval || largest(here.gradient) <= toleranceGrad) break;
      if (largest(direction) * length <= toleranceChange) break;
      if (Math.abs(here.loss - before.loss) < toleranceChange) break;
    }
    return first;
  }

  /** The changes so far, with the last one. */
  #remember(gradient: FlatVector): Change[] {
    const memory = this.#memory;
    if (!memory) return [];
    const { changes, direction, length } = memory;
    const step = direction.map((d) => d * length);
    const difference = gradient.map((g, i) => g - memory.gradient[i]!);
    const curvature = dot(difference, step);
    if (curvature > 1e-10) {
      if (changes.length === this.settings.historySize) changes.shift();
      changes.push({ step, gradient: difference });
      memory.scale = curvature / dot(difference, difference);
    }
    return changes;
  }

  async #evaluate(closure: () => Tensor): Promise<LossPoint> {
    this.zeroGrad();
    const loss: unknown = closure();
    requireTensor('LBFGS', 'what the closure returns', loss);
    const gradients = await Promise.all(
      this.params.map(async (p) => (p.grad ? await p.grad.data() : new Float64Array(p.size))),
    );
    this.zeroGrad();
    return { loss: await loss.item(), gradient: joined(gradients) };
  }

  async #values(): Promise<FlatVector> {
    return joined(await Promise.all(this.params.map((p) => p.data())));
  }

  #write(values: FlatVector): void {
    let start = 0;
    for (const p of this.params) {
      p.write(values.subarray(start, start + p.size));
      start += p.size;
    }
  }

  /** What is known from the iterations so far, in f64; nothing before the first step. */
  stateDict(): Record<string, Tensor> {
    const memory = this.#memory;
    if (!memory) return {};
    const { changes, direction, gradient, scale, length } = memory;
    const n = direction.length;
    const rows = (of: (c: Change) => FlatVector): Tensor =>
      tensor(joined(changes.map(of)), { shape: [changes.length, n], dtype: f64 });
    return {
      direction: tensor(direction, { dtype: f64 }),
      gradient: tensor(gradient, { dtype: f64 }),
      scale: tensor(scale, { dtype: f64 }),
      length: tensor(length, { dtype: f64 }),
      steps: rows(({ step }) => step),
      gradients: rows((change) => change.gradient),
    };
  }

  /** Take over what `stateDict` gave. @throws ArgumentError if it is not of as many parameters */
  async loadStateDict(state: Readonly<Record<string, AnyTensor>>): Promise<void> {
    requireRecord('LBFGS', state);
    if (Object.keys(state).length === 0) {
      this.#memory = undefined;
      return;
    }
    const n = this.params.reduce((sum, p) => sum + p.size, 0);
    const read = async (name: string): Promise<FlatVector> => {
      const t = state[name];
      const isNumber = name === 'scale' || name === 'length';
      if (!t || (isNumber ? t.size !== 1 : t.size % n !== 0))
        throw new ArgumentError(
          `[LBFGS] '${name}' of the state is ${shown(t)}, must be a tensor from the stateDict() of an optimizer of ${n} numbers.`,
        );
      return Float64Array.from(await t.data(), Number);
    };
    const [direction, gradient, scale, length, steps, gradients] = await Promise.all(
      ['direction', 'gradient', 'scale', 'length', 'steps', 'gradients'].map(read),
    );
    const rows = (all: FlatVector): FlatVector[] =>
      Array.from({ length: all.length / n }, (_, i) => all.slice(i * n, (i + 1) * n));
    const differences = rows(gradients!);
    this.#memory = {
      direction: direction!,
      gradient: gradient!,
      scale: scale![0]!,
      length: length![0]!,
      changes: rows(steps!).map((step, i) => ({ step, gradient: differences[i]! })),
    };
  }
}

/** −H·gradient, H the inverse Hessian that the changes tell of: Nocedal's recursion in two loops. */
function descent(gradient: FlatVector, changes: readonly Change[], scale: number): FlatVector {
  const q = gradient.map((g) => -g);
  const add = (from: FlatVector, factor: number): void => {
    for (let i = 0; i < q.length; i++) q[i]! += factor * from[i]!;
  };
  const shares: number[] = [];
  for (const { step, gradient } of changes.toReversed()) {
    const share = dot(step, q) / dot(gradient, step);
    shares.push(share);
    add(gradient, -share);
  }
  for (let i = 0; i < q.length; i++) q[i]! *= scale;
  for (const { step, gradient } of changes) add(step, shares.pop()! - dot(gradient, q) / dot(gradient, step));
  return q;
}

function joined(parts: readonly ArrayLike<number | bigint>[]): FlatVector {
  const all = new Float64Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) for (let i = 0; i < part.length; i++) all[at++] = Number(part[i]);
  return all;
}
