/** From scripts as they were loaded to files as they were written. */
import { readFileSync } from 'node:fs';
import { findSourceMap, SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';

export const pathOf = (url: string): string => (url.startsWith('file:') ? fileURLToPath(url) : url);

/** @param reference what a script says of its map · @param base the script's URL */
export function sourceMapOf(reference: string | undefined, base: string): SourceMap | undefined {
  if (!reference) return undefined;
  try {
    const inline = /^data:application\/json[^,]*?(;base64)?,(.*)$/s.exec(reference);
    const json = inline
      ? inline[1]
        ? Buffer.from(inline[2]!, 'base64').toString()
        : decodeURIComponent(inline[2]!)
      : readFileSync(new URL(reference, base), 'utf8');
    return new SourceMap(JSON.parse(json) as SourceMapPayload);
  } catch {
    return undefined;
  }
}

const maps = new Map<string, SourceMap | undefined>();

/** The path and line (from 1) that were written, for a line and column (from 1) of a loaded script. */
export function writtenAt(
  url: string,
  line: number,
  column: number,
): { readonly file: string; readonly line: number } {
  if (!maps.has(url)) maps.set(url, findSourceMap(url) ?? mapBeside(url));
  const entry = maps.get(url)?.findEntry(line - 1, column - 1);
  if (!entry || !('originalSource' in entry)) return { file: pathOf(url), line };
  return { file: pathOf(new URL(entry.originalSource, url).href), line: entry.originalLine + 1 };
}

function mapBeside(url: string): SourceMap | undefined {
  try {
    const [, reference] = /\/\/# sourceMappingURL=(\S+)\s*$/.exec(readFileSync(new URL(url), 'utf8')) ?? [];
    return sourceMapOf(reference, url);
  } catch {
    return undefined; // no file
  }
}

/** Node's, if it has one: V8 tells through it where a function stands. */
export const openInspector = (): typeof import('node:inspector') | undefined =>
  process.getBuiltinModule?.('node:inspector');
