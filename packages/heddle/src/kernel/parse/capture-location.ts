/**
 * Where a function stands in the author's source. V8 knows the script and the place of every function, and the text
 * that was loaded; the script's source map leads on to the file that was written. That holds for plain JavaScript, for
 * what tsc, esbuild and tsx made of TypeScript, for types that Node itself stripped, and for test runners.
 */

import type { Debugger, Runtime, Session } from 'node:inspector';
import type { SourceMap } from 'node:module';
import { readFileSync } from '#platform/files.js';
import { openInspector, pathOf, sourceMapOf } from '#platform/source-map.js';
import type { Location } from '../../core/errors.js';

export interface Origin {
  /** The location of the character `offset` of the function's text. */
  locate(offset: number): Location;
}

/** @param subject what to call the function where its file cannot be found */
export function originOf(fn: object, text: string, subject: string): Origin {
  return {
    locate(offset) {
      const home = homeOf(fn, text);
      if (!home) return new Lines(text).at(offset, subject);
      const { script, start } = home;
      let place = script.places.get(start + offset);
      if (!place) {
        const generated = script.lines.at(start + offset, script.file);
        place = mapped(script, generated) ?? generated;
        script.places.set(start + offset, place);
      }
      return place;
    },
  };
}

/** A text by its lines. */
class Lines {
  readonly text: string;
  readonly #lines: readonly string[];
  /** The offset at which each line begins. */
  readonly #starts: readonly number[];

  constructor(text: string) {
    this.text = text;
    this.#lines = text.split('\n');
    let start = 0;
    this.#starts = this.#lines.map((line) => {
      const begin = start;
      start += line.length + 1;
      return begin;
    });
  }

  /** Line `index`, from 0. */
  line(index: number): string | undefined {
    return this.#lines[index]?.trimEnd();
  }

  startOf(index: number): number {
    return this.#starts[index] ?? this.text.length;
  }

  at(offset: number, file: string): Location {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { file, line: low + 1, column: offset - this.#starts[low]! + 1, text: this.line(low)! };
  }
}

/** A script as it was loaded. */
interface Script {
  readonly file: string;
  readonly url: string;
  readonly lines: Lines;
  readonly map: SourceMap | undefined;
  /** Locations found before, by the offset in the script. */
  readonly places: Map<number, Location>;
}

/** Where in its script a function's text begins. */
interface Home {
  readonly script: Script;
  readonly start: number;
}

const homes = new WeakMap<object, { readonly home: Home | undefined }>();
const scripts = new Map<string, Script>();

function homeOf(fn: object, text: string): Home | undefined {
  let known = homes.get(fn);
  if (!known) {
    known = { home: findHome(fn, text) };
    homes.set(fn, known);
  }
  return known.home;
}

/**
 * Ask V8, by its inspector; everything answers before the call returns. Elsewhere (Bun, Deno) there may be no inspector,
 * or one that answers later, with an error, or not at all: errors then point into the function's text.
 */
function findHome(fn: object, text: string): Home | undefined {
  let session: Session | undefined;
  try {
    const inspector = openInspector();
    if (!inspector) return undefined;
    session = new inspector.Session();
    session.connect();
    const place = functionLocation(session, fn);
    if (!place) return undefined;
    const script = scripts.get(place.scriptId) ?? readScript(session, place.scriptId);
    if (!script) return undefined;
    scripts.set(place.scriptId, script);
    const start = startOf(script.lines, text, place);
    return start === undefined ? undefined : { script, start };
  } catch {
    return undefined;
  } finally {
    disconnect(session);
  }
}

function disconnect(session: Session | undefined): void {
  try {
    session?.disconnect();
  } catch {
    // It was never connected.
  }
}

/** What the inspector answers on the spot. */
function ask<T>(session: Session, method: string, params: object): Partial<T> | undefined {
  let answer: T | undefined;
  session.post(method, params, (_error: Error | null, given?: object) => {
    answer = given as T | undefined;
  });
  return answer;
}

/** The slow part, some milliseconds: V8 has to list all its scripts. */
function readScript(session: Session, id: string): Script | undefined {
  let about: Debugger.ScriptParsedEventDataType | undefined;
  session.on('Debugger.scriptParsed', ({ params }) => {
    if (params.scriptId === id) about = params;
  });
  session.post('Debugger.enable');
  const source = ask<Debugger.GetScriptSourceReturnType>(session, 'Debugger.getScriptSource', {
    scriptId: id,
  });
  const text = source?.scriptSource;
  if (!text || !about?.url || about.url.startsWith('evalmachine')) return undefined;
  const { url, sourceMapURL } = about;
  return {
    file: pathOf(url),
    url,
    lines: new Lines(text),
    map: sourceMapOf(sourceMapURL, url),
    places: new Map(),
  };
}

const ASKED = Symbol.for('heddle.located');

function functionLocation(session: Session, fn: object): Debugger.Location | undefined {
  const holder = globalThis as { [ASKED]?: object };
  holder[ASKED] = fn;
  const expression = "globalThis[Symbol.for('heddle.located')]";
  const evaluated = ask<Runtime.EvaluateReturnType>(session, 'Runtime.evaluate', { expression });
  delete holder[ASKED];
  const objectId = evaluated?.result?.objectId;
  if (objectId === undefined) return undefined;
  const properties = ask<Runtime.GetPropertiesReturnType>(session, 'Runtime.getProperties', {
    ...{ objectId, ownProperties: true },
  });
  const found = properties?.internalProperties?.find((p) => p.name === '[[FunctionLocation]]');
  return found?.value?.value as Debugger.Location | undefined;
}

/** V8 points at the parameters, before or after which the text of a function may begin. */
function startOf(script: Lines, text: string, place: Debugger.Location): number | undefined {
  const at = script.startOf(place.lineNumber) + (place.columnNumber ?? 0);
  const start = script.text.startsWith(text, at) ? at : script.text.lastIndexOf(text, at);
  return start >= 0 && start + text.length > at ? start : undefined;
}

/** The place in the file that was written, for a place in the script that was loaded. */
function mapped({ map, url }: Script, { line, column, text }: Location): Location | undefined {
  const entry = map?.findEntry(line - 1, column - 1);
  if (!map || !entry || !('originalSource' in entry)) return undefined;
  const { originalSource, originalLine, originalColumn } = entry;
  const source = new URL(originalSource, url).href;
  const content = map.payload.sourcesContent?.[map.payload.sources.indexOf(originalSource)];
  const original = linesOf(source, content)?.line(originalLine);
  return { file: pathOf(source), line: originalLine + 1, column: originalColumn + 1, text: original ?? text };
}

const written = new Map<string, Lines | undefined>();

/** The lines of a file that was written, from the source map or from disk. */
function linesOf(url: string, content: string | undefined): Lines | undefined {
  if (!written.has(url)) written.set(url, readLines(url, content));
  return written.get(url);
}

function readLines(url: string, content: string | undefined): Lines | undefined {
  try {
    return new Lines(content ?? readFileSync(new URL(url), 'utf8'));
  } catch {
    return undefined;
  }
}
