/** What fits on a terminal: widths, line breaks between words, a line of status that is taken away again, colours. */

/** Where text goes: process.stdout, process.stderr. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Columns of a terminal; without one, lines may be of any length. */
export const widthOf = ({ isTTY, columns }: Output): number =>
  isTTY && columns ? columns : Number.POSITIVE_INFINITY;

/** Break a line between words so that none is wider than `width`, if words allow. Later lines begin with `indent` blanks. */
export function wrapped(text: string, width: number, indent = 0): string {
  if (text.length <= width) return text;
  const lines: string[] = [];
  let line = '';
  // Blanks at the front of a line are part of its first word.
  for (const word of text.match(/^ *[^ ]+| +[^ ]+/g) ?? []) {
    if (line !== '' && line.length + word.length > width) {
      lines.push(line);
      line = ' '.repeat(indent) + word.trimStart();
    } else {
      line += word;
    }
  }
  return [...lines, line].join('\n');
}

/** Every line of a text broken like that; what is wrapped stays in its column of a list. */
export const folded = (text: string, width: number): string =>
  text
    .split('\n')
    .map((line) => wrapped(line, width, /^ *(?:\S+ )*?\S* {2,}(?=\S)/.exec(line)?.[0].length ?? 0))
    .join('\n');

const CODES = { bold: [1, 22], red: [31, 39], green: [32, 39], cyan: [36, 39] } as const;

/** `text` in that style where the output has colours. */
export function styled(text: string, style: keyof typeof CODES, output: Output = process.stdout): string {
  if (!hasColours(output)) return text;
  const [open, close] = CODES[style];
  return `\x1b[${open}m${text}\x1b[${close}m`;
}

/** A terminal has colours, unless NO_COLOR says otherwise; FORCE_COLOR decides before both. */
function hasColours({ isTTY }: Output): boolean {
  const { FORCE_COLOR, NO_COLOR, TERM } = process.env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return isTTY === true && !NO_COLOR && TERM !== 'dumb';
}

/** How often a line of status is drawn, at most. */
const INTERVAL_MS = 100;

/**
 * One line at the bottom of a terminal, drawn over itself. Code that writes to the terminal clears it first, so that what
 * is written stands alone. Without a terminal nothing is drawn.
 */
export class StatusLine {
  readonly #output: Output;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #isDrawn = false;

  constructor(output: Output) {
    this.#output = output;
  }

  /** @param text makes the line for a number of columns; not called if the last one was drawn just now */
  show(text: (columns: number) => string): void {
    const now = performance.now();
    if (!this.#output.isTTY || now - this.#drawnAt < INTERVAL_MS) return;
    // With the ^C that a terminal echoes at its end, the line must not wrap.
    this.#output.write(`\r${text((this.#output.columns || 80) - 3)}\x1b[K`);
    this.#drawnAt = now;
    this.#isDrawn = true;
  }

  clear(): void {
    if (!this.#isDrawn) return;
    this.#output.write('\r\x1b[K');
    this.#isDrawn = false;
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }

  /** A line where the status was, and over what the user has typed there. */
  replace(line: string): void {
    this.clear();
    this.#output.write(`${this.#output.isTTY ? '\r\x1b[K' : ''}${line}\n`);
  }
}
