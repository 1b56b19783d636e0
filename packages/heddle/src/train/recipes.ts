/**
 * What the programs of `heddle train` are called and how each is trained: settings alone, so that a command's help
 * loads nothing of the library.
 */
import type { AutocastName, LossReduction } from './evaluate.js';
import type { GPTSizes } from './gpt.js';

/** The optimizers that commands take. */
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'adam', 'adamw', 'adagrad', 'lion', 'rmsprop'] as const;
/** Their names: `momentum` is SGD with a momentum of 0.9. */
export type OptimizerName = (typeof OPTIMIZER_NAMES)[number];

/** How images are varied at random. */
export interface Augmentation {
  /** Pixels by which they are moved at most, along each axis. Default 0. */
  readonly shift?: number;
  /** Whether every other one is mirrored. Default: no. */
  readonly flip?: boolean;
}

/** How a program is trained. */
export interface Recipe {
  /** How often all examples are seen. */
  readonly epochs: number;
  /** Examples of a step. */
  readonly batchSize: number;
  /** The update rule. */
  readonly optimizer: OptimizerName;
  /** The learning rate. */
  readonly lr: number;
  /** Of the learning rate, as an expression of `optim.schedules`: 'constant', 'chain(warmup(500), cosine)'. */
  readonly schedule: string;
  /** Whether a step takes the mean of its examples' losses, or the sum. */
  readonly lossReduction: LossReduction;
  /** Mixed precision on a GPU (default: off). */
  readonly autocast?: AutocastName;
  /** The decay of the averages of the weights: the fraction that is kept at a step. Default: no averages. */
  readonly ema?: number;
  /** Gradients are scaled so that their norm is at most this. Default: no limit. */
  readonly clipGradNorm?: number;
  /** As the optimizer understands it. Default: none; for adamw its own. */
  readonly weightDecay?: number;
  /** How images are varied while the network trains on them. Default: they are not. */
  readonly augment?: Augmentation;
  /** Of a network that comes in several sizes: its own. */
  readonly sizes?: GPTSizes;
}

/** A network by name: what it is, its data, and how it is trained. */
export interface Settings {
  /** As `heddle train` takes it. */
  readonly name: string;
  /** One line for people. */
  readonly doc: string;
  /** Points made from the seed, an image set, or a text. */
  readonly data: 'separable' | 'quadrants' | 'images' | 'text';
  /** How it is trained if nothing else is said. */
  readonly recipe: Recipe;
  /** Other recipes, by name. */
  readonly variants?: Readonly<Record<string, Recipe>>;
}

/** A twentieth of the training up to the learning rate, then down a half cosine. */
const WARM_COSINE = "chain(warmup(0.05, { unit: 'training' }), cosine)";

export const SETTINGS = {
  perceptron: {
    name: 'perceptron',
    doc: 'one linear layer tells points on two sides of a line apart',
    data: 'separable',
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
    name: 'quadrants',
    doc: '2–30–1 with ReLU learns the sign of x·y, which no line separates',
    data: 'quadrants',
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
    name: 'mlp',
    doc: 'one hidden layer of 128 units with ReLU',
    data: 'images',
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
    name: 'lenet5',
    doc: 'LeNet-5: two 5×5 convolutions with pooling, three linear layers',
    data: 'images',
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
    name: 'cnn',
    doc: 'two 3×3 convolutions (16, 32 channels), one pooling, one linear layer',
    data: 'images',
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
  resnet18: {
    name: 'resnet18',
    doc: 'ResNet-18 for small images: four stages of residual blocks with batch norm',
    data: 'images',
    recipe: {
      epochs: 20,
      batchSize: 128,
      optimizer: 'momentum',
      lr: 0.05,
      schedule: 'chain(warmup(500), cosine)',
      lossReduction: 'mean',
      autocast: 'bf16',
      weightDecay: 5e-4,
      augment: { shift: 2, flip: true },
    },
  },
  vit: {
    name: 'vit',
    doc: 'a vision transformer: patches of 4×4, four layers of 64 numbers and four heads',
    data: 'images',
    recipe: {
      epochs: 20,
      batchSize: 128,
      optimizer: 'adamw',
      lr: 2e-3,
      schedule: 'chain(warmup(500), cosine)',
      lossReduction: 'mean',
      weightDecay: 0.05,
      augment: { shift: 2 },
    },
  },
  gpt: {
    name: 'gpt',
    doc: 'a transformer that learns to write a text, by characters or by byte pairs',
    data: 'text',
    recipe: {
      epochs: 10,
      batchSize: 64,
      optimizer: 'adamw',
      lr: 1e-3,
      schedule: WARM_COSINE,
      lossReduction: 'mean',
      clipGradNorm: 1,
      sizes: { context: 128, dim: 256, heads: 4, depth: 4, dropout: 0.1 },
    },
    variants: {
      /** For a CPU: minutes for an epoch of a book. */
      small: {
        epochs: 2,
        batchSize: 32,
        optimizer: 'adamw',
        lr: 2e-3,
        schedule: WARM_COSINE,
        lossReduction: 'mean',
        clipGradNorm: 1,
        sizes: { context: 64, dim: 128, heads: 4, depth: 2, dropout: 0 },
      },
    },
  },
} as const satisfies Record<string, Settings>;
