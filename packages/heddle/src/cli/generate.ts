/** `heddle generate`: text from a run's language model. */
import { ArgumentError } from '../core/errors.js';
import { type TextCodec, Vocabulary } from '../data/index.js';
import { closeDevices } from '../runtime/registry.js';
import { generate, type SamplingOptions } from '../train/generate.js';
import { GPT } from '../train/gpt.js';
import { Interrupt } from '../train/interrupt.js';
import { openModel, type SavedRunOptions } from './saved-run.js';

export interface GenerateOptions extends SamplingOptions, Pick<SavedRunOptions, 'weights' | 'device'> {
  /** What the text begins with. Default: the text begins as a line does. */
  readonly prompt?: string;
  /** Tokens to write after it. */
  readonly length: number;
}

/**
 * Write the prompt and what the model makes of it, token by token.
 * @returns the exit code: that of the signal that ended it
 */
export async function generateText(path: string, options: GenerateOptions): Promise<number> {
  const interrupt = new Interrupt(() => {});
  try {
    const { model, program, codec } = await openModel(path, options);
    if (!(model instanceof GPT) || codec === undefined)
      throw new ArgumentError(
        `${path} is a run of ${program.name}, which does not write text. Train one that does: heddle train gpt --text book.txt`,
      );
    const { prompt = '' } = options;
    const write = (text: string): void => void process.stdout.write(text);
    write(prompt);
    let left = options.length;
    let unwritten: number[] = [];
    for await (const token of generate(model, promptOf(prompt, codec), options)) {
      if (interrupt.signal.aborted || !process.stdout.writable) break;
      unwritten.push(token);
      const text = codec.decode(unwritten);
      if (!text.endsWith(CUT) || unwritten.length === LONGEST) {
        write(text);
        unwritten = [];
      }
      if (--left === 0) break;
      // Signals are heard between two tokens.
      await new Promise(setImmediate);
    }
    write(`${codec.decode(unwritten)}\n`);
    return interrupt.cause?.code ?? 0;
  } finally {
    interrupt.dispose();
    await closeDevices();
  }
}

/** What a token decodes to that ends within a character; the next ones complete it. */
const CUT = '\ufffd';
/** Bytes of a character in UTF-8, and so the tokens it can be cut into. */
const LONGEST = 4;

/** @throws ArgumentError naming a character that the model does not know */
function promptOf(prompt: string, codec: TextCodec): Int32Array {
  const isUnknown = codec instanceof Vocabulary && !codec.characters.includes('\n');
  const first = isUnknown ? [...codec.characters][0]! : '\n';
  try {
    return codec.encode(prompt === '' ? first : prompt);
  } catch (error) {
    throw new ArgumentError(`--prompt: ${(error as Error).message}`);
  }
}
