/** The commands and their options. What a command does is loaded when it runs, so that --help is instant. */
import { Argument, Command, Option } from 'commander';
import { packageVersion } from '../core/platform/node/version.js';
import { SETTINGS } from '../train/recipes.js';
import { addData } from './data-program.js';
import type { GenerateOptions } from './generate.js';
import type { LrCommandOptions } from './lr.js';
import { type AddCommand, neededPackage, optionalPackage } from './packages.js';
import type { ProfileCommandOptions } from './profile.js';
import type { QuantizeCommandOptions } from './quantize.js';
import type { PlotOptions } from './runs.js';
import type { SavedRunOptions } from './saved-run.js';
import type { SummaryCommandOptions } from './summary.js';
import { folded, styled } from './terminal.js';
import { addLaunch, addTrain, recipeNames, SCHEDULE_HELP } from './train-program.js';
import { atLeastZero, DEVICE_HELP, positiveNumber, wholeNumber } from './values.js';

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
  addTrain(root, words, ended);
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
