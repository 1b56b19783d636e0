/** The commands and their options. What a command does is loaded when it runs, so that --help is instant. */
import { Argument, Command, Option } from 'commander';
import { packageVersion } from '../core/platform/node/version.js';
import { OPTIMIZER_NAMES, SETTINGS } from '../train/recipes.js';
import { addData } from './data-program.js';
import type { GenerateOptions } from './generate.js';
import type { LaunchCommandOptions } from './launch.js';
import type { LrCommandOptions } from './lr.js';
import { type AddCommand, neededPackage, optionalPackage } from './packages.js';
import type { ProfileCommandOptions } from './profile.js';
import type { QuantizeCommandOptions } from './quantize.js';
import type { PlotOptions } from './runs.js';
import type { SavedRunOptions } from './saved-run.js';
import type { SummaryCommandOptions } from './summary.js';
import { folded, styled } from './terminal.js';
import type { TrainOptions } from './train.js';
import { atLeastZero, DEVICE_HELP, fraction, imageSize, positiveNumber, wholeNumber } from './values.js';

const ROOT_EXAMPLES = `
Examples:
  $ heddle train cnn          train a convolutional network on MNIST
  $ heddle train lenet5 --data fashion-mnist
  $ heddle launch mine.ts      start a program once for each GPU
  $ heddle runs               list past runs
  $ heddle eval runs/mine     evaluate a trained network
  $ heddle look runs/mine     draw what it has learned, and write a report
  $ heddle serve runs         serve trained networks over REST and gRPC
  $ heddle onnx convert runs/mine mine.onnx
  $ heddle generate runs/book write text with a trained language model
  $ heddle doctor             show what this machine offers and lacks
  $ heddle bench cpu          measure how fast it is
  $ heddle summary resnet18   list its layers, with shapes, parameters and work
  $ heddle profile cnn        show where the time of a training step goes`;

/**
 * @param words of the command line
 * @param ended is told the exit code of a command that ran
 */
export async function createProgram(
  words: readonly string[],
  ended: (exitCode: number) => void,
): Promise<Command> {
  const root = new Command('heddle')
    .description('Train neural networks from TypeScript, down to GPU kernels written in TypeScript.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .showHelpAfterError('Run with --help for usage.')
    .configureHelp({ styleTitle: (title) => styled(title, 'bold') })
    .configureOutput({
      // Without a terminal as commander has it, so that examples and lists are as wide as the options.
      writeOut: (text) => process.stdout.write(folded(text, process.stdout.columns || 80)),
      // As all other errors begin.
      outputError: (text, write) => write(text.replace(/^error:/, styled('heddle:', 'red', process.stderr))),
    })
    .exitOverride()
    // What follows the program of `heddle launch` is the program's.
    .enablePositionalOptions()
    .addHelpText('after', ROOT_EXAMPLES);
  addTrain(root, ended);
  addLaunch(root, ended);
  addRuns(root, ended);
  addSavedRun(root, ended);
  addGenerate(root, ended);
  addDoctor(root, ended);
  for (const command of PACKAGE_COMMANDS) await addPackageCommand(root, command, words, ended);
  addProfile(root, ended);
  addData(root, ended);
  addSummary(root, ended);
  addLr(root, ended);
  return root;
}

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
  $ heddle train gpt --text book.txt
  $ heddle train gpt --text book.txt --tokenizer bpe --vocabulary-size 2000
  $ heddle train --resume runs/2026-01-31T09-05-00-cnn`;
}

const SCHEDULE_HELP = "learning-rate schedule: constant, cosine, 'chain(warmup(500), cosine)'";

const recipeNames = (): string[] =>
  Object.values(SETTINGS).flatMap((program) => ('variants' in program ? Object.keys(program.variants) : []));

function addTrain(root: Command, ended: (exitCode: number) => void): void {
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
      const { train } = await import('./train.js');
      ended(await train(program, options));
    });
}

/** What may be given with --resume; everything else is as it was when the run began. */
const RESUMABLE = new Set(['resume', 'checkpointEvery', 'logEvery', 'workers', 'device', 'progress']);

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

function addLaunch(root: Command, ended: (exitCode: number) => void): void {
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

function addRuns(root: Command, ended: (exitCode: number) => void): void {
  const runs = root
    .command('runs')
    .summary('list past runs, compare them, draw their curves')
    .description('Look at the runs that heddle train has written.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle runs\n  $ heddle runs compare runs/a runs/b\n  $ heddle runs plot runs/a runs/b --figure test-loss --svg loss.svg',
    );
  runs
    .command('list', { isDefault: true })
    .description('List all runs in a folder, with their progress and results.')
    .argument('[folder]', 'where the runs are', 'runs')
    .addHelpText('after', '\nExample:\n  $ heddle runs list runs')
    .action(async (folder: string) => {
      const { listRuns } = await import('./runs.js');
      listRuns(folder);
      ended(0);
    });
  runs
    .command('compare')
    .description('Show runs side by side: the settings that differ, and the results.')
    .argument('<run...>', 'folders of runs')
    .addHelpText('after', '\nExample:\n  $ heddle runs compare runs/a runs/b')
    .action(async (paths: string[]) => {
      const { compareRuns } = await import('./runs.js');
      compareRuns(paths);
      ended(0);
    });
  runs
    .command('plot')
    .description('Plot a figure of one or several runs over the epochs, in the terminal and as SVG.')
    .argument('<run...>', 'folders of runs')
    .addOption(
      new Option('--figure <name>', 'what to draw')
        .choices(['accuracy', 'loss', 'test-loss', 'lr'])
        .default('accuracy'),
    )
    .option('--svg <file>', 'write the chart to this file, too')
    .addHelpText('after', '\nExample:\n  $ heddle runs plot runs/a runs/b --figure loss --svg loss.svg')
    .action(async (paths: string[], options: PlotOptions) => {
      const { plotRuns } = await import('./runs.js');
      await plotRuns(paths, options);
      ended(0);
    });
}

/** The options that choose a run's model. */
const withModel = (command: Command): Command =>
  command
    .addOption(
      new Option(
        '--weights <which>',
        'weights of the best epoch (the default, if they were kept) or the last ones',
      ).choices(['best', 'last']),
    )
    .option('--device <name>', DEVICE_HELP);

function addSavedRun(root: Command, ended: (exitCode: number) => void): void {
  withModel(
    root
      .command('eval')
      .summary("evaluate a run's network on the test set")
      .description(
        "Print loss, accuracy, precision, recall, F1 and the confusion matrix of a run's network on the test set; for a " +
          'language model, the loss per token and the accuracy on the held-out text.',
      )
      .argument('<run>', 'the folder of a run'),
  )
    .option('-d, --data <set>', "use these images instead of the run's")
    .option('--text <file>', "use this text instead of the run's: its last tenth is the test set")
    .addHelpText('after', '\nExample:\n  $ heddle eval runs/mine --weights last')
    .action(async (run: string, options: SavedRunOptions) => {
      const { evaluateRun } = await import('./saved-run.js');
      ended(await evaluateRun(run, options));
    });
  withModel(
    root
      .command('quantize')
      .summary("make a run's network one of 8-bit integers")
      .description(
        "Quantize a run's network: calibrate it by examples of the training set, print what that costs on the test set, layer by " +
          "layer, and write quantized.safetensors and quantization.json into the run's folder.",
      )
      .argument('<run>', 'the folder of a run that classifies'),
  )
    .option('-d, --data <set>', "use these images instead of the run's")
    .addOption(
      new Option('--method <name>', "how the range of each layer's inputs is chosen")
        .choices(['minmax', 'percentile', 'entropy'])
        .default('percentile'),
    )
    .option(
      '--percentile <p>',
      "inputs' values within the range, by --method percentile",
      positiveNumber,
      99.99,
    )
    .option('--examples <n>', 'training examples to calibrate by', wholeNumber(1), 512)
    .option('--max-loss <points>', 'percentage points of accuracy that may be lost', atLeastZero, 0.3)
    .option('--keep <layers...>', 'layers to keep in floating point')
    .addHelpText('after', '\nExample:\n  $ heddle quantize runs/mine --method minmax')
    .action(async (run: string, options: QuantizeCommandOptions) => {
      const { quantizeRun } = await import('./quantize.js');
      ended(await quantizeRun(run, options));
    });
  withModel(
    root
      .command('predict')
      .summary("classify inputs with a run's network")
      .description(
        "Classify inputs with a run's network, and print the classes of each with their probabilities, the most likely first.",
      )
      .argument('<run>', 'the folder of a run')
      .argument(
        '<inputs...>',
        'photos, of a run on an image folder; else numbers (0.5,-0.2), an example of the test set (test:3), or a .npy file of one or more images',
      ),
  )
    .option('-d, --data <set>', "use these images instead of the run's")
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle predict runs/quadrants 0.5,-0.2\n  $ heddle predict runs/photos new/1.jpg new/2.jpg\n  $ heddle predict runs/mine test:3\n  $ heddle predict runs/mine digits.npy',
    )
    .action(async (run: string, inputs: string[], options: SavedRunOptions) => {
      const { predictRun } = await import('./saved-run.js');
      ended(await predictRun(run, inputs, options));
    });
}

function addGenerate(root: Command, ended: (exitCode: number) => void): void {
  withModel(
    root
      .command('generate')
      .summary("write text with a run's language model")
      .description(
        'Write text, token by token, with the language model of a run. The same seed gives the same text; Ctrl-C ends it.',
      )
      .argument('<run>', 'the folder of a run'),
  )
    .option('-p, --prompt <text>', 'beginning of the text (default: the beginning of a line)')
    .option(
      '-n, --length <n>',
      'tokens to write: characters, or the byte pairs of the run',
      wholeNumber(1),
      500,
    )
    .option(
      '-t, --temperature <t>',
      'below 1, likely tokens become likelier; above 1, less so; at 0 the likeliest is always taken',
      atLeastZero,
      1,
    )
    .option('-k, --top-k <k>', 'draw from the k likeliest tokens (default: from all)', wholeNumber(1))
    .option('-s, --seed <n>', 'seed of the tokens that are drawn', wholeNumber(0), 0)
    .addHelpText(
      'after',
      "\nExamples:\n  $ heddle generate runs/book --prompt 'In the beginning' --length 1000\n  $ heddle generate runs/book --temperature 0.8 --top-k 20 --seed 7",
    )
    .action(async (run: string, options: GenerateOptions) => {
      const { generateText } = await import('./generate.js');
      ended(await generateText(run, options));
    });
}

function addDoctor(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('doctor')
    .summary('show what this machine offers, what is missing and how to get it')
    .description(
      'Look at Node, processor, memory, WebAssembly features, devices, data sets and environment variables. For what ' +
        'is missing, print the command that installs it.',
    )
    .addHelpText('after', '\nExample:\n  $ heddle doctor')
    .action(async () => {
      const { doctor } = await import('./doctor.js');
      doctor();
      ended(0);
    });
}

/** A command of another package, which is loaded when the command is asked for. */
interface PackageCommand {
  readonly name: string;
  readonly package: Parameters<typeof optionalPackage>[0];
  readonly add: () => Promise<AddCommand | undefined>;
  /** Where the package is not installed. */
  readonly summary: string;
}

const PACKAGE_COMMANDS: readonly PackageCommand[] = [
  {
    ...{ name: 'bench', package: 'heddle-bench' },
    add: async () => (await optionalPackage('heddle-bench'))?.addBench,
    summary: 'measure speed, or the accuracy that a training reaches',
  },
  {
    ...{ name: 'look', package: 'heddle-look' },
    add: async () => (await optionalPackage('heddle-look'))?.addLook,
    summary: 'draw what a network has learned, and write a report of its run',
  },
  {
    ...{ name: 'onnx', package: 'heddle-onnx' },
    add: async () => (await optionalPackage('heddle-onnx'))?.addOnnx,
    summary: 'look at ONNX models, check and convert them',
  },
  {
    ...{ name: 'serve', package: 'heddle-serve' },
    add: async () => (await optionalPackage('heddle-serve'))?.addServe,
    summary: 'serve models over REST and gRPC',
  },
];

async function addPackageCommand(
  root: Command,
  { name, package: from, add, summary }: PackageCommand,
  words: readonly string[],
  ended: (exitCode: number) => void,
): Promise<void> {
  const addCommand = words.find((word) => word !== 'help') === name ? await add() : undefined;
  if (addCommand) return addCommand(root, ended);
  root
    .command(name)
    .summary(summary)
    .description(`This command is a separate package: npm install ${from}`)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      await neededPackage(from, `heddle ${name}`);
    });
}

function addSummary(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('summary')
    .summary("list a network's layers, with their shapes, parameters, work and memory")
    .description(
      'List the layers: output shape, parameters, floating-point operations and memory of a forward pass. ' +
        'Nothing is computed.',
    )
    .addArgument(new Argument('<program>', 'the network').choices(Object.keys(SETTINGS)))
    .option('-b, --batch-size <n>', 'examples per batch', wholeNumber(1), 1)
    .addHelpText('after', '\nExample:\n  $ heddle summary resnet18 --batch-size 128')
    .action(async (program: string, options: SummaryCommandOptions) => {
      const { summary } = await import('./summary.js');
      summary(program, options);
      ended(0);
    });
}

const LR_NOTES = `
A schedule is an expression of optim.schedules, whose factors are multiplied with the learning rate: constant, warmup, cosine, \
cosineRestarts, polynomial, exponential, step, multiStep, oneCycle, plateau, and chain, which puts schedules one after another. Options \
are in braces. heddle train takes the same expressions.

Examples:
  $ heddle lr resnet18 --epochs 30
  $ heddle lr --schedule 'chain(warmup(500), cosine({ final: 0.1 }))' --lr 0.1
  $ heddle lr vit --schedule "step(5, { unit: 'epoch' })" --svg lr.svg`;

function addLr(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('lr')
    .summary('draw the learning rate over a training')
    .description("Draw the learning rate of a network's recipe, or of a schedule alone, over a training.")
    .addArgument(new Argument('[program]', 'the network').choices(Object.keys(SETTINGS)))
    .option('--schedule <expression>', SCHEDULE_HELP)
    .addOption(new Option('--recipe <name>', 'use another recipe of the program').choices(recipeNames()))
    .option(
      '-e, --epochs <n>',
      "passes through the training data (default: the recipe's, or 10)",
      wholeNumber(1),
    )
    .option('-b, --batch-size <n>', "examples per step (default: the recipe's)", wholeNumber(1))
    .option(
      '--steps-per-epoch <n>',
      "steps per epoch (default: from the program's data, or 100)",
      wholeNumber(1),
    )
    .option('--lr <rate>', "learning rate (default: the recipe's, or 1)", positiveNumber)
    .option('--svg <file>', 'write the chart to this file, too')
    .addHelpText('after', LR_NOTES)
    .action(async (program: string | undefined, options: LrCommandOptions) => {
      const { drawSchedule } = await import('./lr.js');
      await drawSchedule(program, options);
      ended(0);
    });
}

function addProfile(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('profile')
    .summary('time a training step, launch by launch')
    .description(
      'Time one training step on random data. For each kernel launch: its time, the bytes it moves, the operations it computes, ' +
        'how near that is to the limits of the device, where the kernel is written, and which call asked for its results.',
    )
    .addArgument(new Argument('<program>', 'the network').choices(Object.keys(SETTINGS)))
    .option('-b, --batch-size <n>', "examples per step (default: the recipe's)", wholeNumber(1))
    .option('--device <name>', DEVICE_HELP)
    .option('--json <file>', 'write the figures to this file, too')
    .option('--svg <file>', 'draw the launches under the roofline into this file')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle profile cnn\n  $ heddle profile lenet5 --batch-size 256 --svg lenet5.svg',
    )
    .action(async (program: string, options: ProfileCommandOptions) => {
      const { profile } = await import('./profile.js');
      ended(await profile(program, options));
    });
}
