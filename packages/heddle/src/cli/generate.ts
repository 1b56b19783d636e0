/** `heddle generate`: text from a run's language model. */
import { ArgumentError } from '../core/errors.js';
import { Vocabulary } from '../data/index.js';
import { closeDevices } from '../runtime/registry.js';
import { generate, type SamplingOptions } from '../train/generate.js';
import { GPT } from '../train/gpt.js';
import { Interrupt } from '../train/interrupt.js';
import { openModel, type SavedRunOptions } from './saved-run.js';

export interface GenerateOptions extends SamplingOptions, Pick<SavedRunOptions, 'weights' | 'device'> {
  /** What the text begins with. Default: the text begins as a line does. */
  readonly prompt?: string;
  /** Characters to write after it. */
  readonly length: number;
}

/**
 * Write the prompt and what the model makes of it, character by character.
 * @returns the exit code: that of the signal that ended it
 */
export async function generateText(path: string, options: GenerateOptions): Promise<number> {
  const interrupt = new Interrupt(() => {});
  try {
    const { model, program, config } = await openModel(path, options);
    if (!(model instanceof GPT) || config.data.vocabulary === undefined)
      throw new ArgumentError(
        `${path} is a run of ${program.name}, which does not write text. Train one that does: heddle train gpt --text book.txt`,
      );
    const vocabulary = new Vocabulary(config.data.vocabulary);
    const { prompt = '' } = options;
    const write = (text: string): void => void process.stdout.write(text);
    write(prompt);
    let left = options.length;
    for await (const code of generate(model, promptOf(prompt, vocabulary), options)) {
      if (interrupt.signal.aborted || !process.stdout.writable) break;
      write(vocabulary.decode([code]));
      if (--left === 0) break;
      // Signals are heard between two characters.
      await new Promise(setImmediate);
    }
    write('\n');
    return interrupt.cause?.code ?? 0;
  } finally {
    interrupt.dispose();
    await closeDevices();
  }
}

/** @throws ArgumentError naming a character that the model does not know */
function promptOf(prompt: string, vocabulary: Vocabulary): Int32Array {
  const first = vocabulary.characters.includes('\n') ? '\n' : [...vocabulary.characters][0]!;
  try {
    return vocabulary.encode(prompt === '' ? first : prompt);
  } catch (error) {
    throw new ArgumentError(`--prompt: ${(error as Error).message}`);
  }
}
