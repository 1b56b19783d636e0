/** What `heddle bench scaling` trains, by the names that torch_ddp.py has for the same. */
import { bf16, optim, type Tensor } from 'heddle';
import type { TrainingStepsOptions } from 'heddle/internal/cli/training-steps.js';
import { GPT } from 'heddle/internal/train/gpt.js';
import { PROGRAMS, type TrainingProgram } from 'heddle/internal/train/programs.js';
import { ResNet18 } from 'heddle/internal/train/resnet.js';

export interface ScalingNetwork {
  readonly program: TrainingProgram;
  readonly options: Pick<TrainingStepsOptions, 'optimizer' | 'example' | 'autocast'>;
  /** Examples of a rank in weak scaling, unless said otherwise. */
  readonly batch: number;
  /** Steps of which a round takes the mean: long enough that the ranks' different beginnings do not show. */
  readonly calls: number;
  /** Whether each parameter is updated on one rank only: see `shardOptimizer`. */
  readonly sharded?: true;
  readonly doc: string;
}

const adam = (p: Tensor[]) => new optim.Adam(p, { lr: 1e-3 });
const momentum = (p: Tensor[]) => new optim.SGD(p, { lr: 0.01, momentum: 0.9 });
const adamW = (p: Tensor[]) => new optim.AdamW(p, { lr: 1e-3 });

const small = (name: 'mlp' | 'lenet5' | 'cnn'): ScalingNetwork => ({
  program: PROGRAMS[name],
  options: { optimizer: adam },
  ...{ batch: 1024, calls: 100, doc: `${name} on images of 28×28, Adam` },
});

const resnet18 = (arithmetic: 'tf32' | 'bf16'): ScalingNetwork => ({
  program: { ...PROGRAMS.resnet18, build: () => new ResNet18(3, 10) },
  options: {
    optimizer: momentum,
    example: { shape: [3, 32, 32], classes: 10 },
    ...(arithmetic === 'bf16' && { autocast: bf16 }),
  },
  ...{ batch: 256, calls: 10, doc: `resnet18 on images of 3×32×32, SGD with momentum, ${arithmetic}` },
});

const SIZES = { context: 1024, dim: 768, heads: 12, depth: 12 };
const WORDS = 50304;

const gpt2: ScalingNetwork = {
  program: { ...PROGRAMS.gpt, build: () => new GPT(WORDS, { ...SIZES, dropout: 0 }) },
  options: {
    optimizer: adamW,
    example: { shape: [1024], targets: [1024], classes: WORDS },
    autocast: bf16,
  },
  ...{ batch: 8, calls: 4, doc: 'gpt2 (124 M) on 1,024 tokens, AdamW, bf16' },
};

export const SCALING_NETWORKS: Readonly<Record<string, ScalingNetwork>> = {
  mlp: small('mlp'),
  lenet5: small('lenet5'),
  cnn: small('cnn'),
  'resnet18-tf32': resnet18('tf32'),
  'resnet18-bf16': resnet18('bf16'),
  'gpt2-bf16': gpt2,
  'gpt2-bf16-sharded': { ...gpt2, sharded: true, doc: `${gpt2.doc}, its optimizer sharded` },
};
