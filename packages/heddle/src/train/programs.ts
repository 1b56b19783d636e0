/** The networks that `heddle train` knows by name, with data and settings that reach their goals. */
import { aString, requireArgument } from '../core/arguments.js';
import { f32 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import * as nn from '../nn/index.js';
import { Adam, AdamW, type BaseSettings, type Optimizer, RMSprop, SGD, schedules } from '../optim/index.js';
import { bceWithLogits, crossEntropy } from '../tensor/functional.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Loss, LossReduction } from './evaluate.js';
import { accuracy, binaryAccuracy, type Metric } from './metrics.js';

/** Optimizers by the names that commands take, with the settings that suit the programs. */
export const OPTIMIZERS = {
  sgd: (params, lr) => new SGD(params, { lr }),
  momentum: (params, lr) => new SGD(params, { lr, momentum: 0.9 }),
  adam: (params, lr) => new Adam(params, { lr }),
  adamw: (params, lr) => new AdamW(params, { lr }),
  rmsprop: (params, lr) => new RMSprop(params, { lr }),
} as const satisfies Record<string, (params: Tensor[], lr: number) => Optimizer<BaseSettings>>;

export type OptimizerName = keyof typeof OPTIMIZERS;

/** How a program is trained. */
export interface Recipe {
  readonly epochs: number;
  readonly batchSize: number;
  readonly optimizer: OptimizerName;
  readonly lr: number;
  /** 'cosine': the learning rate falls to 0 along a half cosine. */
  readonly schedule: 'constant' | 'cosine';
  readonly lossReduction: LossReduction;
}

export interface Program {
  readonly name: string;
  /** One line for people. */
  readonly doc: string;
  /** Points made from the seed, or an image set. */
  readonly data: 'separable' | 'quadrants' | 'images';
  /** The network for inputs of one kind: images (1, 28, 28) into 10 classes, or points (2) into 2. */
  readonly build: () => nn.Layer;
  readonly loss: (reduction: LossReduction) => Loss;
  readonly metric: Metric;
  readonly recipe: Recipe;
  /** Other recipes, by name. */
  readonly variants?: Readonly<Record<string, Recipe>>;
}

const classLoss =
  (reduction: LossReduction): Loss =>
  (logits, labels) =>
    crossEntropy(logits, labels, { reduction });

/** Of one logit per example and labels 0 or 1. */
const binaryLoss =
  (reduction: LossReduction): Loss =>
  (logits, labels) =>
    bceWithLogits(logits, labels.cast(f32).unsqueeze(1), { reduction });

const points = { loss: binaryLoss, metric: binaryAccuracy } as const;
const images = { data: 'images', loss: classLoss, metric: accuracy } as const;

/** LeCun et al. 1998, with ReLU, max pooling and softmax. */
export class LeNet5 extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 6, 5, { padding: 2 });
  readonly conv2 = new nn.Conv2d(6, 16, 5);
  readonly fc1 = new nn.Linear(400, 120);
  readonly fc2 = new nn.Linear(120, 84);
  readonly fc3 = new nn.Linear(84, 10);
  readonly relu = new nn.ReLU();
  readonly pool = new nn.MaxPool2d(2);

  forward(x: Tensor): Tensor {
    const { relu, pool } = this;
    const features = pool.forward(
      relu.forward(this.conv2.forward(pool.forward(relu.forward(this.conv1.forward(x))))),
    );
    const hidden = relu.forward(this.fc1.forward(features.flatten(1)));
    return this.fc3.forward(relu.forward(this.fc2.forward(hidden)));
  }
}

export const PROGRAMS = {
  perceptron: {
    ...points,
    name: 'perceptron',
    doc: 'one linear layer tells points on two sides of a line apart',
    data: 'separable',
    build: () => new nn.Linear(2, 1),
    recipe: {
      epochs: 20,
      batchSize: 20,
      optimizer: 'sgd',
      lr: 1,
      schedule: 'constant',
      lossReduction: 'mean',
    },
  },
  quadrants: {
    ...points,
    name: 'quadrants',
    doc: '2–30–1 with ReLU learns the sign of x·y, which no line separates',
    data: 'quadrants',
    build: () => new nn.Sequential(new nn.Linear(2, 30), new nn.ReLU(), new nn.Linear(30, 1)),
    recipe: {
      epochs: 100,
      batchSize: 100,
      optimizer: 'adam',
      lr: 0.02,
      schedule: 'cosine',
      lossReduction: 'mean',
    },
  },
  mlp: {
    ...images,
    name: 'mlp',
    doc: '784–128–10 with ReLU',
    build: () =>
      new nn.Sequential(new nn.Flatten(), new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10)),
    recipe: {
      epochs: 5,
      batchSize: 64,
      optimizer: 'momentum',
      lr: 0.05,
      schedule: 'cosine',
      lossReduction: 'mean',
    },
  },
  lenet5: {
    ...images,
    name: 'lenet5',
    doc: 'LeNet-5: two 5×5 convolutions with pooling, three linear layers',
    build: () => new LeNet5(),
    recipe: {
      epochs: 5,
      batchSize: 64,
      optimizer: 'adam',
      lr: 2e-3,
      schedule: 'cosine',
      lossReduction: 'mean',
    },
  },
  cnn: {
    ...images,
    name: 'cnn',
    doc: 'two 3×3 convolutions (16, 32 channels), one pooling, one linear layer',
    build: () =>
      new nn.Sequential(
        new nn.Conv2d(1, 16, 3),
        new nn.ReLU(),
        new nn.Conv2d(16, 32, 3),
        new nn.ReLU(),
        new nn.MaxPool2d(2),
        new nn.Flatten(),
        new nn.Linear(4608, 10),
      ),
    recipe: {
      epochs: 5,
      batchSize: 64,
      optimizer: 'momentum',
      lr: 0.02,
      schedule: 'cosine',
      lossReduction: 'mean',
    },
    variants: {
      /**
       * Plain SGD on gradients summed over the batch. (At lr 0.01, which is 0.64 for their mean, all units die within
       * a hundred steps: so they did from five initialisations in PyTorch, too.)
       */
      reference: {
        epochs: 5,
        batchSize: 64,
        optimizer: 'sgd',
        lr: 0.001,
        schedule: 'constant',
        lossReduction: 'sum',
      },
    },
  },
} as const satisfies Record<string, Program>;

export type ProgramName = keyof typeof PROGRAMS;

/** @throws ArgumentError naming the programs there are */
export function programNamed(name: string): Program {
  requireArgument('programNamed', 'name', name, aString);
  if (Object.hasOwn(PROGRAMS, name)) return PROGRAMS[name as ProgramName];
  throw new ArgumentError(
    `'${name}' is not a program. Expected one of: ${Object.keys(PROGRAMS).join(', ')}.`,
  );
}

/** The learning rate's factor over the training. */
export const scheduleOf = ({ schedule }: Recipe): ((progress: number) => number) | undefined =>
  schedule === 'cosine' ? schedules.cosine() : undefined;
