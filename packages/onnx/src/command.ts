/** The command `heddle onnx`. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { DEVICE_HELP, wholeNumber, words } from 'heddle/internal/cli/values.js';
import type { CheckOptions } from './run/check.js';
import type { ConvertOptions } from './run/convert.js';

const CONVERT_NOTES = `
What it converts:
  a run of heddle train → .onnx          the trained network
  weights, a checkpoint → .onnx          of a run, or with --program
  .onnx                 → .safetensors   the weights, by their names; also .npz
  .onnx                 → .onnx          with the operators of another version

Examples:
  $ heddle onnx convert runs/mine mine.onnx
  $ heddle onnx convert runs/book book.onnx --dynamic batch,length
  $ heddle onnx convert lenet.safetensors lenet.onnx --program lenet5
  $ heddle onnx convert resnet50.onnx resnet50.safetensors`;

/**
 * Add `heddle onnx` to the command line: heddle calls this where the package is installed.
 * @param root the command that `onnx` becomes a part of
 * @param ended is told the exit code when the command has run
 */
export function addOnnx(root: Command, ended: (exitCode: number) => void): void {
  const onnx = root
    .command('onnx')
    .summary('look at ONNX models, check and convert them')
    .description('Look at ONNX models, check that Heddle computes them, and convert runs to ONNX.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle onnx info model.onnx\n  $ heddle onnx check model.onnx\n  $ heddle onnx convert runs/mine mine.onnx',
    );
  onnx
    .command('info')
    .summary('list inputs, outputs, operators and weights')
    .description(
      'List the inputs and outputs of a model, the operators with their numbers and whether Heddle has them, its weights, ' +
        'versions and metadata. Nothing is computed.',
    )
    .argument('<file>', 'an ONNX model')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  $ heddle onnx info model.onnx')
    .action(async (file: string, options: { readonly json?: boolean }) => {
      const { info } = await import('./run/info.js');
      await info(file, options.json ?? false, say);
      ended(0);
    });
  onnx
    .command('check')
    .summary('whether Heddle computes a model, and what stands in the way')
    .description(
      'Read a model and list everything that is wrong with it, operators that are not supported among that. Then run it on random ' +
        'inputs, and compare the answers for a batch with those for its examples. The exit code is 1 if there is a problem.',
    )
    .argument('<file>', 'an ONNX model')
    .option('--no-run', 'only read it')
    .option(
      '--sizes <list>',
      'sizes of dynamic dimensions: batch=4,length=32 (default: 2 of a first one, 16)',
      sizes,
    )
    .option('--device <name>', DEVICE_HELP)
    .addHelpText(
      'after',
      '\nExamples:\n  $ heddle onnx check model.onnx\n  $ heddle onnx check bert.onnx --sizes batch=2,sequence=128',
    )
    .action(async (file: string, options: CheckOptions) => {
      const { check } = await import('./run/check.js');
      ended(await check(file, options, say));
    });
  onnx
    .command('convert')
    .summary('runs to ONNX, ONNX to weights')
    .description("Write a trained network as an ONNX model, or an ONNX model's weights as safetensors.")
    .argument('<from>', 'the folder of a run, a file of weights, or an ONNX model')
    .argument('<to>', 'the file to write: .onnx, .safetensors or .npz')
    .option('--opset <n>', 'version of the operators, 18 to 24 (default: 21)', wholeNumber(18, 24))
    .option(
      '--dynamic <list>',
      'dimensions of any size: batch (default), of texts also length; or none',
      words,
    )
    .addOption(
      new Option('--precision <dtype>', 'what the model computes in (default: f32)').choices(['f32', 'f16']),
    )
    .addOption(
      new Option(
        '--weights <which>',
        'of the best epoch (default, where they are kept), or the last',
      ).choices(['best', 'last']),
    )
    .option('--program <name>', 'the network that weights are of, if they are in no folder of a run')
    .option('--functions', 'write layers as functions, so that viewers show the model layer by layer')
    .option('--external-data', 'keep the weights in a file beside the model')
    .addHelpText('after', CONVERT_NOTES)
    .action(async (from: string, to: string, options: ConvertOptions) => {
      const { convert } = await import('./run/convert.js');
      await convert(from, to, options, say);
      ended(0);
    });
}

/** Names and whole numbers: batch=4,length=32. */
function sizes(text: string): Record<string, number> {
  const pairs = words(text).map((word) => /^(.+)=(\d+)$/.exec(word));
  if (pairs.some((pair) => !pair))
    throw new InvalidArgumentError('Must be names with sizes, such as batch=4,length=32.');
  return Object.fromEntries(pairs.map((pair) => [pair![1]!, Number(pair![2])]));
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
