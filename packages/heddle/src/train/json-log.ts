/** A training as lines of JSON, for programs to read. */
import { appendFileSync, readFileSync, truncateSync } from '#platform/files.js';
import { dirname } from '#platform/paths.js';
import { aString, requireArgument } from '../core/arguments.js';
import { FileError } from '../core/errors.js';
import { makeFolder } from '../core/folders.js';
import type { Callback } from './callbacks.js';

/**
 * A callback that writes a training to a file, a line of JSON for every `logEvery` steps and for every epoch: `event` is
 * 'step' or 'epoch', and epochs and steps are counted from 1. A training that begins writes the file anew; one that is
 * resumed goes on after the lines that its checkpoint knows, so that none is torn or there twice.
 * @param path such as 'runs/mine/log.jsonl'; its folder is made if there is none
 * @example await fit(model, { …, logEvery: 100, callbacks: [jsonLog('runs/mine/log.jsonl')] });
 * @throws FileError
 */
export function jsonLog(path: string): Callback {
  requireArgument('jsonLog', 'path', path, aString);
  /** Of the lines that have been written. */
  let bytes = 0;
  const written = (write: () => void): void => {
    try {
      write();
    } catch (error) {
      throw new FileError(path, `cannot write to it (${(error as Error).message}).`, { cause: error });
    }
  };
  const add = (line: object): void => {
    const text = `${JSON.stringify(line)}\n`;
    written(() => appendFileSync(path, text));
    bytes += new TextEncoder().encode(text).length;
  };
  return {
    onStart: () => {
      if (dirname(path) !== '.') makeFolder(dirname(path));
      written(() => {
        appendFileSync(path, '');
        bytes = readFileSync(path).subarray(0, bytes).lastIndexOf('\n') + 1;
        truncateSync(path, bytes);
      });
    },
    onLog: ({ epoch, ...figures }) => add({ event: 'step', epoch: epoch + 1, ...figures }),
    onEpochEnd: ({ epoch, epochs: _, validation, ...figures }) =>
      add({
        event: 'epoch',
        epoch: epoch + 1,
        ...figures,
        ...(validation && { validation: { loss: validation.loss, ...validation.metrics } }),
      }),
    saveState: () => bytes,
    loadState: (state) => {
      bytes = state as number;
    },
  };
}
