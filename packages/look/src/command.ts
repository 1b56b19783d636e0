/** The command `heddle look`. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { DEVICE_HELP, words } from 'heddle/internal/cli/values.js';
import { PICTURES } from './run/names.js';
import type { LookOptions } from './run/options.js';

const names = (): string => {
  const width = Math.max(...Object.keys(PICTURES).map((name) => name.length));
  return Object.entries(PICTURES)
    .map(([name, doc]) => `  ${name.padEnd(width)}  ${doc}`)
    .join('\n');
};

/**
 * Add `heddle look` to the command line: heddle calls this where the package is installed.
 * @param root the command that `look` becomes a part of
 * @param ended is told the exit code when the command has run
 */
export function addLook(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('look')
    .summary('draw what a network has learned, and write a report of its run')
    .description(
      'Draw what the network of a run has learned, each picture as an SVG, and write all of them with figures and settings ' +
        'into report.html, one file that needs nothing else. Several runs are compared: their settings, results and curves.',
    )
    .argument('<run...>', 'folders of runs')
    .option('--only <list>', 'pictures, separated by commas (default: all that the network allows)', words)
    .option('-o, --out <folder>', 'where to write (default: look in the folder of the run; of several: look)')
    .option('--layer <name>', 'whose filters, feature maps and Grad-CAM (default: the convolutions)')
    .option('--image <file>', 'what to look at: an image file, or an example of the test set (test:3)')
    .option('--png', 'write a PNG beside each SVG')
    .addOption(
      new Option(
        '--weights <which>',
        'of the best epoch (default, where they are kept), or the last',
      ).choices(['best', 'last']),
    )
    .option('-d, --data <set>', "other images than the run's")
    .option('--text <file>', "another text than the run's")
    .option('--device <name>', DEVICE_HELP)
    .addHelpText(
      'after',
      `
Pictures:
${names()}

Examples:
  $ heddle look runs/mine
  $ heddle look runs/mine --only gradcam,features --layer conv2 --image digit.png
  $ heddle look runs/a runs/b`,
    )
    .action(async (paths: string[], options: LookOptions) => {
      const { look } = await import('./run/look.js');
      const { closeDevices } = await import('heddle/internal/runtime/registry.js');
      try {
        await look(paths, options, (line) => process.stdout.write(`${line}\n`));
        ended(0);
      } finally {
        await closeDevices();
      }
    });
}
