/** The command `heddle serve`. */
import { type Command, Option } from 'commander';
import { DEVICE_HELP, wholeNumber, words } from 'heddle/internal/cli/values.js';
import { LOG_LEVELS, type ServeOptions } from './options.js';

/** What commander makes of the options: `--no-grpc` is `grpc: false`. */
type CommandOptions = Omit<ServeOptions, 'grpcPort'> & { readonly grpcPort?: number; readonly grpc: boolean };

const NOTES = `
The folder has a folder for each model, with a folder for each version: <folder>/<model>/<version>/. A model is a run of
heddle train, an ONNX file (model.onnx) or a saved engine (model.engine); what is in <folder>/<model> itself has version 1. settings.json in the folder of a model says how it is served:
batch size, delay, instances, queue; heddle-serve/settings.schema.json describes it.

SIGTERM and Ctrl-C end the service once the requests that it has accepted are answered.

Examples:
  $ heddle serve runs
  $ heddle serve models --host 0.0.0.0 --port 80 --api-keys keys.txt
  $ curl -T digit.png -X POST http://localhost:8080/v1/models/mine/classify`;

/**
 * Add `heddle serve` to the command line: heddle calls this where the package is installed.
 * @param root the command that \`serve\` becomes a part of
 * @param ended is told the exit code when the command has run
 */
export function addServe(root: Command, ended: (exitCode: number) => void): void {
  root
    .command('serve')
    .summary('serve models over REST and gRPC')
    .description(
      'Serve the models of a folder by the Open Inference Protocol v2, over REST and gRPC, and classify images. Requests that come ' +
        'at the same time are computed together. A page to try the models is at http://localhost:8080.',
    )
    .argument('<folder>', 'the folder of the models')
    .option('--host <address>', 'address to listen on (default: 127.0.0.1; 0.0.0.0: all)')
    .option('-p, --port <n>', 'port of REST and the page (default: 8080)', wholeNumber(0, 65_535))
    .option('--grpc-port <n>', 'port of gRPC (default: 8081)', wholeNumber(0, 65_535))
    .option('--no-grpc', 'leave gRPC out')
    .option('--device <name>', DEVICE_HELP)
    .option(
      '--api-keys <file>',
      'ask for an API key: a file with one in each line, and the word admin behind those that may load models',
    )
    .option('--tls-cert <file>', 'speak TLS with this certificate (PEM)')
    .option('--tls-key <file>', 'the key of the certificate (PEM)')
    .option(
      '--trust-proxy <list>',
      'addresses or networks of proxies whose X-Forwarded-For is believed',
      words,
    )
    .option(
      '--rate-limit <n>',
      'requests that a client may send in a second (default: any number)',
      wholeNumber(1),
    )
    .option('--max-body-bytes <n>', 'bytes of a request (default: 16 MiB)', wholeNumber(1, 2 ** 31))
    .option('--max-image-pixels <n>', 'pixels of an image (default: 33,554,432)', wholeNumber(1, 2 ** 31))
    .option(
      '--receive-timeout-ms <n>',
      'milliseconds to send a request in (default: 30,000)',
      wholeNumber(100, 3_600_000),
    )
    .option(
      '--drain-ms <n>',
      'milliseconds for accepted requests at the end (default: 25,000)',
      wholeNumber(0, 3_600_000),
    )
    .addOption(
      new Option('--log-level <level>', 'what is logged, as JSON (default: info)').choices(LOG_LEVELS),
    )
    .option('--log-requests', 'log a line for every request')
    .addHelpText('after', NOTES)
    .action(async (folder: string, { grpc, grpcPort, ...options }: CommandOptions) => {
      const { serve } = await import('./serve.js');
      const own = grpc ? grpcPort : null;
      const service = await serve(folder, { ...options, ...(own !== undefined && { grpcPort: own }) });
      await new Promise<void>((resolve) => {
        // The second one ends at once.
        for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
      });
      await service.close();
      ended(0);
    });
}
