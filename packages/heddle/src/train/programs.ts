/** The networks that `heddle train` knows by name, with data and settings that reach their goals. */
import { aString, requireArgument } from '../core/arguments.js';
import { f32 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { type Shape, sizeOf } from '../core/shape.js';
import * as nn from '../nn/index.js';
import {
  Adagrad,
  Adam,
  AdamW,
  type BaseSettings,
  Lion,
  type LrSchedule,
  type Optimizer,
  RMSprop,
  SGD,
} from '../optim/index.js';
import { bceWithLogits, crossEntropy } from '../tensor/functional-losses.js';
import type { Tensor } from '../tensor/tensor.js';
import { augmented } from './augment.js';
import type { Loss, LossReduction } from './evaluate.js';
import type { FitOptions } from './fit-options.js';
import { GPT } from './gpt.js';
import { accuracy, binaryAccuracy, type Metric } from './metrics.js';
import { type OptimizerName, type Recipe, SETTINGS, type Settings } from './recipes.js';
import { ResNet18 } from './resnet.js';
import { parseSchedule } from './schedule-expression.js';
import { ViT } from './vit.js';

/** Optimizers by the names that commands take, with the settings that suit the programs. */
const OPTIMIZERS = {
  sgd: (params, settings) => new SGD(params, settings),
  momentum: (params, settings) => new SGD(params, { ...settings, momentum: 0.9 }),
  adam: (params, settings) => new Adam(params, settings),
  adamw: (params, settings) => new AdamW(params, settings),
  adagrad: (params, settings) => new Adagrad(params, settings),
  lion: (params, settings) => new Lion(params, settings),
  rmsprop: (params, settings) => new RMSprop(params, settings),
} as const satisfies Record<
  OptimizerName,
  (params: Tensor[], settings: UpdateSettings) => Optimizer<BaseSettings>
>;

/** The settings of a recipe that are its optimizer's. */
type UpdateSettings = Pick<Recipe, 'lr' | 'weightDecay'>;

/** The optimizer of a recipe. */
export const optimizerOf = (
  { optimizer, lr, weightDecay }: Recipe,
  params: Tensor[],
): Optimizer<BaseSettings> =>
  OPTIMIZERS[optimizer](params, { lr, ...(weightDecay !== undefined && { weightDecay }) });

/** What a network depends on in its data. */
export interface DataSizes {
  /** Of images: (channels, height, width). Default: (1, 28, 28). */
  readonly inputShape?: Shape | undefined;
  /** How many classes, or tokens of a text, there are. Default: 10 classes, 100 tokens. */
  readonly classes?: number | undefined;
}

/** A network with the data and the settings it is trained with. */
export interface TrainingProgram extends Settings {
  /**
   * The network for inputs of one kind: images, points (2), or tokens of a text.
   * @param recipe where the network comes in several sizes: has them; default: the program's
   * @throws ArgumentError for images of a size that the network cannot work on
   */
  readonly build: (recipe?: Recipe, sizes?: DataSizes) => nn.Layer;
  /** The loss to train with. */
  readonly loss: (reduction: LossReduction) => Loss;
  /** What it is judged by, besides the loss. */
  readonly metric: Metric;
  /** What makes an epoch the best: the highest metric, or the lowest loss on the test set. */
  readonly monitor: 'accuracy' | 'loss';
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

/** Of logits (N, L, vocabulary) and tokens (N, L): the mean over the tokens of each example. */
const tokenLoss =
  (reduction: LossReduction): Loss =>
  (logits, tokens) => {
    const loss = crossEntropy(logits.reshape([-1, logits.shape[2]!]), tokens.flatten(), { reduction });
    return reduction === 'mean' ? loss : loss.div(tokens.shape[1]!);
  };

/** The fraction of an example's tokens whose logit is the largest. */
const tokenAccuracy: Metric = (logits, tokens) => logits.argmax(2).eq(tokens).cast(f32).mean(1).sum();

const points = { loss: binaryLoss, metric: binaryAccuracy, monitor: 'accuracy' } as const;
const images = { loss: classLoss, metric: accuracy, monitor: 'accuracy' } as const;
const text = { loss: tokenLoss, metric: tokenAccuracy, monitor: 'loss' } as const;

type ImageShape = readonly [channels: number, height: number, width: number];

/** Images as those of MNIST. */
const MNIST_SHAPE: ImageShape = [1, 28, 28];

/** @throws ArgumentError for images with a side below `least`, or none that `multiple` divides */
function imageShape(
  name: string,
  inputShape: Shape = MNIST_SHAPE,
  { least = 1, multiple = 1 }: { readonly least?: number; readonly multiple?: number } = {},
): ImageShape {
  const [channels, height, width] = inputShape as ImageShape;
  if (Math.min(height, width) < least)
    throw new ArgumentError(
      `[${name}] images are ${height} × ${width}, must be at least ${least} × ${least}. Choose a larger size.`,
    );
  if (multiple > 1 && (height !== width || height % multiple !== 0))
    throw new ArgumentError(
      `[${name}] images are ${height} × ${width}, must be squares with sides that are multiples of ${multiple}. Choose another size.`,
    );
  return [channels, height, width];
}

/** LeCun et al. 1998, with ReLU, max pooling and softmax. */
export class LeNet5 extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly conv2: nn.Conv2d;
  readonly fc1: nn.Linear;
  readonly fc2: nn.Linear;
  readonly fc3: nn.Linear;
  readonly relu = new nn.ReLU();
  readonly pool = new nn.MaxPool2d(2);

  /**
   * @param inputShape (channels, height, width), each side at least 12 · @param classes how many there are
   * @throws ArgumentError for smaller images
   */
  constructor(inputShape: Shape = MNIST_SHAPE, classes = 10) {
    super();
    const [channels, height, width] = imageShape('LeNet5', inputShape, { least: 12 });
    const pooled = (side: number): number => Math.floor((Math.floor(side / 2) - 4) / 2);
    this.conv1 = new nn.Conv2d(channels, 6, 5, { padding: 2 });
    this.conv2 = new nn.Conv2d(6, 16, 5);
    this.fc1 = new nn.Linear(16 * pooled(height) * pooled(width), 120);
    this.fc2 = new nn.Linear(120, 84);
    this.fc3 = new nn.Linear(84, classes);
  }

  forward(x: Tensor): Tensor {
    const { relu, pool } = this;
    const features = pool.forward(
      relu.forward(this.conv2.forward(pool.forward(relu.forward(this.conv1.forward(x))))),
    );
    const hidden = relu.forward(this.fc1.forward(features.flatten(1)));
    return this.fc3.forward(relu.forward(this.fc2.forward(hidden)));
  }
}

/** The networks that `heddle train` knows, by name. */
export const PROGRAMS = {
  perceptron: {
    ...SETTINGS.perceptron,
    ...points,
    build: () => new nn.Linear(2, 1),
  },
  quadrants: {
    ...SETTINGS.quadrants,
    ...points,
    build: () => new nn.Sequential(new nn.Linear(2, 30), new nn.ReLU(), new nn.Linear(30, 1)),
  },
  mlp: {
    ...SETTINGS.mlp,
    ...images,
    build: (_?: Recipe, { inputShape = MNIST_SHAPE, classes = 10 }: DataSizes = {}) =>
      new nn.Sequential(
        new nn.Flatten(),
        new nn.Linear(sizeOf(inputShape), 128),
        new nn.ReLU(),
        new nn.Linear(128, classes),
      ),
  },
  lenet5: {
    ...SETTINGS.lenet5,
    ...images,
    build: (_?: Recipe, { inputShape, classes }: DataSizes = {}) => new LeNet5(inputShape, classes),
  },
  cnn: {
    ...SETTINGS.cnn,
    ...images,
    build: (_?: Recipe, { inputShape, classes = 10 }: DataSizes = {}) => {
      const [channels, height, width] = imageShape('cnn', inputShape, { least: 6 });
      const pooled = (side: number): number => Math.floor((side - 4) / 2);
      return new nn.Sequential(
        new nn.Conv2d(channels, 16, 3),
        new nn.ReLU(),
        new nn.Conv2d(16, 32, 3),
        new nn.ReLU(),
        new nn.MaxPool2d(2),
        new nn.Flatten(),
        new nn.Linear(32 * pooled(height) * pooled(width), classes),
      );
    },
  },
  resnet18: {
    ...SETTINGS.resnet18,
    ...images,
    build: (_?: Recipe, { inputShape, classes = 10 }: DataSizes = {}): nn.Layer =>
      new ResNet18(imageShape('resnet18', inputShape)[0], classes),
  },
  vit: {
    ...SETTINGS.vit,
    ...images,
    build: (_?: Recipe, { inputShape, classes = 10 }: DataSizes = {}): nn.Layer => {
      const [channels, image] = imageShape('vit', inputShape, { multiple: 4 });
      return new ViT({ ...{ image, patch: 4, channels, classes }, ...{ dim: 64, heads: 4, depth: 4 } });
    },
  },
  gpt: {
    ...SETTINGS.gpt,
    ...text,
    build: (
      { sizes = SETTINGS.gpt.recipe.sizes }: Recipe = SETTINGS.gpt.recipe,
      { classes: vocabulary = 100 }: DataSizes = {},
    ): nn.Layer => new GPT(vocabulary, sizes),
  },
} as const satisfies Record<keyof typeof SETTINGS, TrainingProgram>;

/** Their names. */
export type ProgramName = keyof typeof PROGRAMS;

/** @throws ArgumentError naming the programs there are */
export function programNamed(name: string): TrainingProgram {
  requireArgument('programNamed', 'name', name, aString);
  if (Object.hasOwn(PROGRAMS, name)) return PROGRAMS[name as ProgramName];
  throw new ArgumentError(
    `'${name}' is not a program. Expected one of: ${Object.keys(PROGRAMS).join(', ')}.`,
  );
}

/** The learning rate's factor over the training. @throws ArgumentError unless it is a schedule */
export const scheduleOf = ({ schedule }: Pick<Recipe, 'schedule'>): LrSchedule | undefined =>
  schedule === 'constant' ? undefined : parseSchedule(schedule);

/** What `fit` is told to train a program's network by a recipe. */
export function fitOptionsOf(
  program: TrainingProgram,
  recipe: Recipe,
  model: nn.Module,
): Omit<FitOptions, 'train'> {
  const { epochs, lossReduction, autocast, clipGradNorm, augment, ema } = recipe;
  return {
    loss: program.loss(lossReduction),
    metrics: { accuracy: program.metric },
    monitor: program.monitor,
    optimizer: optimizerOf(recipe, model.parameters()),
    schedule: scheduleOf(recipe),
    augment: augment && ((images) => augmented(images, augment)),
    ...{ epochs, lossReduction, autocast, clipGradNorm },
    ema: ema === undefined ? undefined : { decay: ema },
  };
}
