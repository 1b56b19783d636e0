/** The `heddle` command. Exit codes: 0 done · 1 failed · 2 not understood · 130 ended by Ctrl-C. */
import { CommanderError } from 'commander';
import { ArgumentError, HeddleError } from '../core/errors.js';
import { wakeGpu } from '../runtime/cuda/wake.js';

// Who reads no further, as `heddle doctor | head` does, has seen enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

if (trainsOnGpu(process.argv.slice(2))) wakeGpu();

try {
  // Two hundred modules, and the GPU gets ready meanwhile.
  const { createProgram } = await import('./program.js');
  const program = createProgram((exitCode) => {
    process.exitCode = exitCode;
  });
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}

/** Whether this is a training that will use the first GPU if there is one. */
function trainsOnGpu([command, ...rest]: readonly string[]): boolean {
  const at = rest.indexOf('--device');
  const device = at >= 0 ? rest[at + 1] : process.env.HEDDLE_DEVICE;
  return (
    command === 'train' &&
    !rest.some((arg) => /^(-h|--help)$/.test(arg)) &&
    (!device || /^cuda(:0)?$/.test(device))
  );
}

/** Prints what commander has not printed yet. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof HeddleError) {
    process.stderr.write(`heddle: ${error.message}\n`);
    return error instanceof ArgumentError ? 2 : 1;
  }
  process.stderr.write(`heddle: ${error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}
