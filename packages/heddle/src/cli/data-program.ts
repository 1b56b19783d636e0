/** `heddle data` and its options. */
import { type Command, Option } from 'commander';
import { SETTINGS } from '../train/recipes.js';
import type { LookOptions, StatsOptions } from './data.js';
import { DEVICE_HELP, imageSize, wholeNumber } from './values.js';

const ofSet = (command: Command, or = ''): Command =>
  command
    .argument('<set>', `mnist, fashion-mnist, a folder with four IDX files, or a folder of images${or}`)
    .option('--size <n>', 'of the images of a folder, or <height>x<width>', imageSize)
    .addOption(
      new Option('--resize <how>', 'how images of another shape are made to fit (default: crop)').choices([
        ...['squash', 'crop', 'pad'],
      ]),
    );

export function addData(root: Command, ended: (exitCode: number) => void): void {
  const data = root
    .command('data')
    .summary('say what a data set holds, draw a batch of it')
    .description('Look at a data set before training on it.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle data stats mnist\n  $ heddle data look photos --augment --out batch.png',
    );
  ofSet(
    data
      .command('stats')
      .description(
        'Examples of each class, the size of inputs, and the mean and standard deviation of each channel of the training data. Of ' +
          'a table: what each column holds. Tables and images in files are read by the package heddle-data.',
      ),
    '; or a table: .csv, .tsv, .parquet, .npy, .npz',
  )
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle data stats fashion-mnist\n  $ heddle data stats photos --json\n  $ heddle data stats houses.csv',
    )
    .action(async (set: string, options: StatsOptions) => {
      const { dataStats } = await import('./data.js');
      ended(await dataStats(set, options));
    });
  ofSet(
    data
      .command('look')
      .description(
        'Draw a batch of the training images with their classes, as a network gets it. It needs the package heddle-look.',
      ),
  )
    .option('-o, --out <file>', 'the picture, .png or .svg', 'batch.png')
    .option('-n, --count <n>', 'images', wholeNumber(1, 1000), 48)
    .option('-s, --seed <n>', 'which images, and how they are varied', wholeNumber(0), 0)
    .option('--augment', "vary the images as the program's recipe does")
    .addOption(
      new Option('--program <name>', 'whose recipe').choices(Object.keys(SETTINGS)).default('resnet18'),
    )
    .option('--device <name>', DEVICE_HELP)
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle data look mnist\n  $ heddle data look photos --size 64 --augment --seed 3',
    )
    .action(async (set: string, options: LookOptions) => {
      const { dataLook } = await import('./data.js');
      ended(await dataLook(set, options));
    });
}
