/** Optimizers and learning-rate schedules: what they take. */
import { ones, optim } from '../../src/index.js';
import {
  adam,
  flag,
  fn,
  layer,
  list,
  momentum,
  number,
  oneOf,
  only,
  optional,
  options,
  parameters,
  type Spec,
  sgd,
  slow,
  spec,
  state,
  tensor,
  text,
} from './spec.js';

const lrOptions = { unit: optional(oneOf('step', 'epoch', 'training')), length: optional(number(5)) };
/** A schedule. */
export const schedule = spec(
  () => optim.schedules.cosine(),
  () => false,
);
const span = { steps: number(2), stepsPerEpoch: number() };
const scheduler = (): optim.LrScheduler =>
  new optim.LrScheduler(new optim.SGD(layer().parameters()), optim.schedules.plateau(), {
    steps: 2,
    stepsPerEpoch: 1,
  });

const averages = (): optim.ExponentialMovingAverage =>
  new optim.ExponentialMovingAverage(layer().parameters());

/** Constructors and functions. */
export const OPTIM_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  'optim.SGD': [parameters, options(sgd)],
  'optim.Adam': [parameters, options(adam)],
  'optim.AdamW': [parameters, options(adam)],
  'optim.Adagrad': [
    parameters,
    options({
      ...{ lr: adam.lr, eps: adam.eps, weightDecay: momentum.weightDecay, lrDecay: optional(number(0)) },
      initialAccumulatorValue: optional(number(0)),
    }),
  ],
  'optim.Lion': [parameters, options({ lr: adam.lr, betas: adam.betas, weightDecay: momentum.weightDecay })],
  'optim.Muon': [
    list(() => [layer().weight]),
    options({
      ...{
        lr: adam.lr,
        eps: adam.eps,
        ...momentum,
        nesterov: optional(flag),
        nsSteps: slow(optional(number(2))),
      },
      nsCoefficients: optional(list(() => [3, -4, 2])),
      adjustLrFn: optional(oneOf('original', 'matchRmsAdamw')),
    }),
  ],
  'optim.LBFGS': [
    parameters,
    options({
      ...{ lr: adam.lr, maxIter: optional(number(2)), maxEval: optional(number(3)) },
      ...{ toleranceGrad: optional(number(0)), toleranceChange: optional(number(0)) },
      ...{ historySize: optional(number(3)), lineSearchFn: optional(oneOf('strongWolfe')) },
    }),
  ],
  'optim.ExponentialMovingAverage': [parameters, options({ decay: optional(number(0.9)) })],
  'optim.GradientAccumulator': [parameters],
  'optim.clipGradNorm': [parameters, number(), options({ normType: optional(number(2)) })],
  'optim.clipGradValue': [parameters, number()],
  'optim.RMSprop': [
    parameters,
    options({
      ...momentum,
      lr: adam.lr,
      eps: adam.eps,
      alpha: optional(number(0.9)),
      centered: optional(flag),
    }),
  ],
  'optim.schedules.constant': [optional(number()), options(lrOptions)],
  'optim.schedules.warmup': [
    number(5),
    options({ unit: lrOptions.unit, startFactor: optional(number(0.5)) }),
  ],
  'optim.schedules.cosine': [options({ ...lrOptions, final: optional(number(0)) })],
  'optim.schedules.cosineRestarts': [
    number(5),
    options({ ...lrOptions, final: optional(number(0)), tMult: optional(number(2)) }),
  ],
  'optim.schedules.polynomial': [
    options({ ...lrOptions, final: optional(number(0)), power: optional(number(2)) }),
  ],
  'optim.schedules.exponential': [number(0.5), options(lrOptions)],
  'optim.schedules.step': [number(5), options({ ...lrOptions, gamma: optional(number(0.1)) })],
  'optim.schedules.multiStep': [list(() => [5]), options({ ...lrOptions, gamma: optional(number(0.1)) })],
  'optim.schedules.oneCycle': [
    options({
      ...{
        unit: optional(oneOf('step', 'epoch')),
        length: lrOptions.length,
        pctStart: optional(number(0.3)),
      },
      annealStrategy: optional(oneOf('cos', 'linear')),
      ...{
        divFactor: optional(number(25)),
        finalDivFactor: optional(number(10)),
        threePhase: optional(flag),
      },
    }),
  ],
  'optim.schedules.plateau': [
    options({
      ...{
        monitor: optional(text('loss')),
        mode: optional(oneOf('min', 'max')),
        factor: optional(number(0.1)),
      },
      ...{ patience: optional(number(1)), cooldown: optional(number(1)), threshold: optional(number(0.1)) },
      ...{
        thresholdMode: optional(oneOf('rel', 'abs')),
        final: optional(number(0)),
        eps: optional(number(0)),
      },
    }),
  ],
  'optim.GradScaler': [
    options({
      initScale: optional(number(1024)),
      growthFactor: optional(number(2)),
      backoffFactor: optional(number(0.5)),
      growthInterval: optional(number(10)),
    }),
  ],
  'optim.schedules.custom': [fn(() => 1), options(lrOptions)],
  'optim.schedules.chain': [schedule, schedule],
  'optim.LrScheduler': [
    only(() => new optim.SGD(layer().parameters()), optim.Optimizer),
    schedule,
    options({ ...span, first: optional(number(0)), observed: optional(list(() => [1])) }, () => ({
      steps: 2,
      stepsPerEpoch: 1,
    })),
  ],
};

/** Objects whose methods are called. */
export const OPTIM_RECEIVERS: Readonly<Record<string, () => object>> = {
  Optimizer: () => new optim.SGD(layer().parameters()),
  SGD: () => new optim.SGD(layer().parameters()),
  Adam: () => new optim.Adam(layer().parameters()),
  AdamW: () => new optim.AdamW(layer().parameters()),
  Adagrad: () => new optim.Adagrad(layer().parameters()),
  Lion: () => new optim.Lion(layer().parameters()),
  RMSprop: () => new optim.RMSprop(layer().parameters()),
  Muon: () => new optim.Muon([layer().weight]),
  LBFGS: () => new optim.LBFGS(layer().parameters()),
  ExponentialMovingAverage: averages,
  GradientAccumulator: () => new optim.GradientAccumulator(layer().parameters()),
  GradScaler: () => new optim.GradScaler(),
  LrScheduler: scheduler,
  ParameterGroup: () => new optim.SGD(layer().parameters()).groups[0]!,
};

const anOptimizer = only(() => new optim.SGD(layer().parameters()), optim.Optimizer);

/** Their methods. */
export const OPTIM_METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  Optimizer: {
    step: [options({ when: optional(tensor(() => ones([]).gt(0))) })],
    zeroGrad: [],
    stateDict: [],
    loadStateDict: [state(() => new optim.SGD(layer().parameters()).stateDict())],
    'set lr': [number(0.1)],
  },
  GradScaler: {
    scale: [tensor(() => ones([]))],
    unscale: [anOptimizer],
    step: [anOptimizer, options({ when: optional(tensor(() => ones([]).gt(0))) })],
    stateDict: [],
    loadStateDict: [state(() => new optim.GradScaler().stateDict())],
  },
  SGD: {},
  Adam: {},
  AdamW: {},
  Adagrad: {},
  Lion: {},
  RMSprop: {},
  Muon: {},
  LBFGS: {
    step: [fn(() => ones([], { requiresGrad: true }))],
    zeroGrad: [],
    stateDict: [],
    loadStateDict: [state(() => ({}))],
  },
  ExponentialMovingAverage: {
    update: [options({ when: optional(tensor(() => ones([]).gt(0))) })],
    swap: [],
    restore: [],
    stateDict: [],
    loadStateDict: [state(() => averages().stateDict())],
  },
  GradientAccumulator: { add: [], take: [optional(number())] },
  LrScheduler: {
    step: [],
    observe: [number()],
    stateDict: [],
    loadStateDict: [
      spec(
        () => scheduler().stateDict(),
        () => false,
      ),
    ],
  },
  ParameterGroup: { 'set lr': [number(0.1)] },
};
