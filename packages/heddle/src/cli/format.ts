/** Numbers and tables for people. */

/** 12345.6 → 12,346 */
export const whole = (n: number): string => Math.round(n).toLocaleString('en-US');

/** 1 → 1 step, 2 → 2 steps */
export const counted = (n: number, one: string, many = `${one}s`): string =>
  `${whole(n)} ${Math.round(n) === 1 ? one : many}`;

/** 0.98765 → 98.77 % */
export const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;

/**
 * A mean cross-entropy of a text, in nats: "1.2345 nats per character (perplexity 3.44, 1.78 bits)". For other tokens it also
 * gives the bits per character, which do not depend on the tokenizer: "2.3456 nats per token (perplexity 10.44, 1.50 bits per
 * character)".
 * @param tokensPerCharacter of the text; undefined where the tokens are characters
 */
export function textLoss(nats: number, tokensPerCharacter?: number): string {
  const unit = tokensPerCharacter === undefined ? 'character' : 'token';
  const bits = `${((nats * (tokensPerCharacter ?? 1)) / Math.LN2).toFixed(2)} bits`;
  const each = tokensPerCharacter === undefined ? '' : ' per character';
  return `${nats.toFixed(4)} nats per ${unit} (perplexity ${Math.exp(nats).toFixed(2)}, ${bits}${each})`;
}

/** Seconds: three digits of short times, tenths of long ones. */
export const duration = (seconds: number): string => seconds.toFixed(seconds < 10 ? 2 : 1);

/** 75.4 → 1:15 */
export function clock(seconds: number): string {
  const all = Math.max(0, Math.round(seconds));
  const minutes = Math.floor(all / 60);
  return `${minutes}:${String(all % 60).padStart(2, '0')}`;
}

export const mebibytes = (bytes: number): string => `${whole(bytes / 2 ** 20)} MiB`;

/** Rows under a header, columns aligned to the right but the first. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(header), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}
