/** The commands that train: `heddle train` and `heddle launch`. */
import { Argument, type Command, Option } from 'commander';
import { ArgumentError } from '../core/errors.js';
import { OPTIMIZER_NAMES, SETTINGS } from '../train/recipes.js';
import type { LaunchCommandOptions } from './launch.js';
import { MAIN } from './main-path.js';
import type { TrainOptions } from './train.js';
import { DEVICE_HELP, fraction, imageSize, positiveNumber, wholeNumber } from './values.js';

const TRAIN_NOTES =
  "Settings that are not given come from the program's recipe. The run is written to a new folder: config.json, " +
  'metrics.jsonl (a line per epoch), log.jsonl (a line per 50 steps: loss, learning rate, examples per second), ' +
  'weights.safetensors (the last weights), best.safetensors (the weights after the epoch with the highest test accuracy; ' +
  'for a text, with the lowest loss on its last tenth, which is held out) and checkpoint.safetensors (what --resume needs), ' +
  'written after every epoch and at the end.\n\n' +
  'Ctrl-C ends the training after the current step and saves it, and so do SIGTERM and a closed terminal (SIGHUP). ' +
  '--resume continues an interrupted training from its last checkpoint, whatever interrupted it: the losses and weights ' +
  'are bit for bit those of a training that was never interrupted. ' +
  'If the output is piped into a program that ends (… | head), the training goes on without output.';

function trainExamples(): string {
  const width = Math.max(...Object.keys(SETTINGS).map((name) => name.length));
  const programs = Object.values(SETTINGS).map(({ name, doc }) => `  ${name.padEnd(width)}  ${doc}`);
  return `
Programs:
${programs.join('\n')}

${TRAIN_NOTES}

Examples:
  $ heddle train cnn
  $ heddle train mlp --epochs 10 --lr 0.1 --optimizer sgd
  $ heddle train resnet18 --data ./photos --size 64 --out runs/mine
  $ heddle train cnn --recipe reference --seed 7
  $ heddle train resnet18 --gpus 2
  $ heddle train gpt --text book.txt
  $ heddle train gpt --text book.txt --tokenizer bpe --vocabulary-size 2000
  $ heddle train --resume runs/2026-01-31T09-05-00-cnn`;
}

export const SCHEDULE_HELP = "learning-rate schedule: constant, cosine, 'chain(warmup(500), cosine)'";

export const recipeNames = (): string[] =>
  Object.values(SETTINGS).flatMap((program) => ('variants' in program ? Object.keys(program.variants) : []));

export function addTrain(root: Command, words: readonly string[], ended: (exitCode: number) => void): void {
  root
    .command('train')
    .summary('train a network and write the run to a folder')
    .description('Train a network on real data; show loss, speed and accuracy; write the run to a folder.')
    .addArgument(new Argument('[program]', 'the network').choices(Object.keys(SETTINGS)))
    .option(
      '-d, --data <set>',
      'mnist, fashion-mnist, cifar10, cifar100, a folder with the files of such a set, or one with a folder of images for each class (default: mnist)',
    )
    .option(
      '--size <n>',
      "pixels of a side of the images of a folder, or <height>x<width> (default: the first image's, at most 64)",
      imageSize,
    )
    .addOption(
      new Option('--resize <how>', 'how images of another shape are made to fit (default: crop)').choices([
        'crop',
        'squash',
        'pad',
      ]),
    )
    .option('--skip-damaged', 'leave out images that cannot be decoded, and name them (default: an error)')
    .option('--text <file>', 'the text that gpt learns to write: UTF-8, plain or gzipped')
    .option(
      '--tokenizer <which>',
      'what the text is cut into: chars, bpe (byte pairs, learned from it), or a tokenizer.json (default: chars)',
    )
    .option(
      '--vocabulary-size <n>',
      'tokens at most, with --tokenizer bpe: 256 for bytes and those that are learned (default: 1024)',
      wholeNumber(256, 2 ** 26),
    )
    .addOption(new Option('--recipe <name>', 'use another recipe of the program').choices(recipeNames()))
    .option('-e, --epochs <n>', 'passes through the training data', wholeNumber(1))
    .option('-b, --batch-size <n>', 'examples per step', wholeNumber(1))
    .option('--lr <rate>', 'learning rate', positiveNumber)
    .addOption(new Option('--optimizer <name>', 'update rule').choices(OPTIMIZER_NAMES))
    .option('--schedule <expression>', SCHEDULE_HELP)
    .addOption(
      new Option(
        '--autocast <dtype>',
        'mixed precision: products in bf16, or in f16 with a scaled loss',
      ).choices(['bf16', 'f16']),
    )
    .option(
      '--ema <decay>',
      'average the weights over the training; this fraction of the averages is kept at each step',
      fraction,
    )
    .option('-s, --seed <n>', 'seed of initial weights, data order and generated data', wholeNumber(0), 0)
    .option('--limit <n>', 'use only the first n training examples', wholeNumber(1))
    .option('--workers <n>', 'threads that prepare batches', wholeNumber(0, 64), 0)
    .option('--device <name>', DEVICE_HELP)
    .option('--gpus <n>', 'train on n GPUs, by a process for each', wholeNumber(1, 1024))
    .option(
      '--processes <n>',
      'train by n processes, which divide the batches (default: one)',
      wholeNumber(1, 1024),
    )
    .option('-o, --out <folder>', 'a new or empty folder for the run (default: runs/<date>-<program>)')
    .option('--resume <run>', 'continue the interrupted training in that folder')
    .option(
      '--checkpoint-every <n>',
      'save a checkpoint every n steps, besides after every epoch',
      wholeNumber(1),
    )
    .option('--log-every <n>', 'steps between two lines of log.jsonl', wholeNumber(1), 50)
    .option('--no-progress', 'print one line per epoch and nothing in between')
    .addHelpText('after', trainExamples)
    .action(async (program: string | undefined, options: TrainOptions, command: Command) => {
      if (program === undefined && options.resume === undefined)
        command.error("error: missing required argument 'program'");
      if (options.resume !== undefined) refuseSettings(command);
      ended(await trainInProcesses(program, options, words));
    });
}

/** Starts the processes, if there are to be several: they have the same command line, and heddle launch's variables. */
async function trainInProcesses(
  program: string | undefined,
  options: TrainOptions,
  words: readonly string[],
): Promise<number> {
  const { gpus, processes, device } = options;
  if (gpus !== undefined && (processes ?? gpus) !== gpus)
    throw new ArgumentError(`--gpus is ${gpus}, but --processes is ${processes}: give one of them.`);
  if (gpus !== undefined && (device ?? 'cuda') !== 'cuda')
    throw new ArgumentError(
      `--gpus is ${gpus}, but --device is ${device}: use --processes on other devices.`,
    );
  const ranks = gpus ?? processes;
  if (ranks === undefined || process.env.RANK !== undefined) {
    const { train } = await import('./train.js');
    return train(program, options);
  }
  const { launchProgram } = await import('./launch.js');
  const chosen = gpus === undefined ? device : 'cuda';
  return launchProgram([...process.execArgv, MAIN, ...words], {
    ...{ processes: ranks, nodes: 1, restarts: 0 },
    ...(chosen !== undefined && { device: chosen }),
  });
}

/** What may be given with --resume; everything else is as it was when the run began. */
const RESUMABLE = new Set([
  'resume',
  'checkpointEvery',
  'logEvery',
  'workers',
  'device',
  'gpus',
  'processes',
  'progress',
]);

function refuseSettings(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    if (RESUMABLE.has(name) || command.getOptionValueSource(name) !== 'cli') continue;
    command.error(`error: a resumed run keeps its settings: leave ${option.long} out, or begin a new run`);
  }
}

const LAUNCH_NOTES = `
Each rank finds its place in RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which init() of \
heddle/distributed reads; torchrun sets the same. On GPUs each rank gets one of its own (HEDDLE_DEVICE=cuda:<local rank>), on the CPU \
its part of the threads (HEDDLE_THREADS, unless it is set). On one machine a free port is chosen.

Rank 0 prints as if it were alone, progress bars included; lines of the others begin with [rank 1], [rank 2] and so on. \
Ctrl-C and SIGTERM are passed on once, and the ranks end in order; a second Ctrl-C kills them.

If a rank fails, the others are ended within 10 s, one message names it, and its exit code is that of the command; it is 3 if a rank of \
another machine has failed. With --restarts all ranks are started again, and HEDDLE_RESTART counts from 0: a program that calls \
fit(model, { ..., folder, resume: true }) goes on from its last checkpoint.

TypeScript runs as it is on Node 22.18 or later, and with tsx where that is installed.

Examples:
  $ heddle launch train.ts
  $ heddle launch -n 2 train.ts --epochs 3
  $ heddle launch -n 4 --device cpu --restarts 3 train.js
  $ heddle launch -n 8 --nodes 2 --node-rank 0 --address gpu1:29500 train.js`;

export function addLaunch(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('launch')
    .summary('start a program in several processes, which train together')
    .description('Start a program once for each rank: on every GPU of a machine, or of several machines.')
    .argument('<script>', 'the program: a file of JavaScript or TypeScript')
    .argument('[args...]', 'its own arguments')
    .passThroughOptions()
    .option('-n, --processes <n>', 'ranks on this machine (default: one for each GPU)', wholeNumber(1, 1024))
    .option('--nodes <n>', 'machines; the command is run on each of them', wholeNumber(1), 1)
    .option('--node-rank <n>', 'which of the machines this is, from 0', wholeNumber(0))
    .option('--address <host:port>', 'where rank 0 listens: the machine with node rank 0')
    .option('--restarts <n>', 'start all ranks again, at most n times, if one fails', wholeNumber(0), 0)
    .option('--device <name>', 'cpu, cuda or sim (default: the fastest found)')
    .addHelpText('after', LAUNCH_NOTES)
    .action(async (script: string, args: string[], options: LaunchCommandOptions) => {
      const { launch } = await import('./launch.js');
      ended(await launch(script, args, options));
    });
}
