/** The command `heddle bench`. */
import type { Command } from 'commander';
import type { benchAccuracy, benchCpu } from './bench-run.js';
import { positiveNumber, wholeNumber, wholeNumbers, words } from './values.js';

const EXAMPLES = `
Examples:
  $ heddle bench cpu                                     everything, with 1 thread and one per core
  $ heddle bench cpu --only cnn,matmul --threads 2       two workloads, two threads
  $ heddle bench cpu --peers torch.jsonl --out cpu.json  beside figures of PyTorch
  $ heddle bench accuracy --only mlp                     what the mlp reaches on MNIST`;

/** @param ended is told the exit code when the command has run */
export function addBench(root: Command, ended: (exitCode: number) => void): void {
  const bench = root
    .command('bench')
    .summary('measure speed and accuracy')
    .description(
      'Measure speed: medians of repeated runs after a warm-up, on random data; or accuracy on real data.',
    )
    .addHelpText('after', EXAMPLES);
  bench
    .command('cpu')
    .description('Training steps, matmul, memory-bound kernels, start-up and memory of the CPU device.')
    .option('--only <ids>', 'cases or their first words, separated by commas', words)
    .option('--threads <list>', 'numbers of threads (default: 1 and one per core)', wholeNumbers(1, 256))
    .option('--rounds <n>', 'processes for each setting (default: 3)', wholeNumber(1))
    .option('--seconds <n>', 'time for each case in each round (default: 0.6)', positiveNumber)
    .option('--peers <file>', 'figures of another library to compare with, as bench/torch_cpu.py prints them')
    .option('-o, --out <file>', 'write the results as JSON, too')
    .option('--json', 'print JSON instead of a table')
    .addHelpText('after', EXAMPLES)
    .action(async (options: Parameters<typeof benchCpu>[0]) => {
      const { benchCpu } = await import('./bench-run.js');
      await benchCpu(options);
      ended(0);
    });
  bench
    .command('accuracy')
    .description('What the programs on images reach on the test images, and how long it takes.')
    .option('--only <names>', 'programs, or a recipe as cnn:reference, separated by commas', words)
    .option('-d, --data <set>', 'mnist, fashion-mnist, or a folder with four IDX files (default: mnist)')
    .option('-e, --epochs <n>', 'times through the training data (default: as in the recipe)', wholeNumber(1))
    .option('--seeds <list>', 'one run each, separated by commas (default: 0)', wholeNumbers(0))
    .option('--limit <n>', 'use only the first n training examples', wholeNumber(1))
    .option('-o, --out <file>', 'write the results as JSON, too')
    .option('--json', 'print JSON instead of a table')
    .addHelpText('after', EXAMPLES)
    .action(async (options: Parameters<typeof benchAccuracy>[0]) => {
      const { benchAccuracy } = await import('./bench-run.js');
      await benchAccuracy(options);
      ended(0);
    });
}
