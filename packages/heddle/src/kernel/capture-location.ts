/**
 * Where a function stands in the author's source. V8 knows the script and the place of every function, and the text
 * that was loaded; the script's source map leads on to the file that was written. That holds for plain JavaScript, for
 * what tsc, esbuild and tsx made of TypeScript, for types that Node itself stripped, and for test runners.
 */
import { readFileSync } from 'node:fs';
import type { Debugger, Runtime, Session } from 'node:inspector';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Location } from '../core/errors.js';

export interface Origin {
  /** The location of the character `offset` of the function's text. */
  locate(offset: number): Location;
}

/** @param subject what to call the function where its file cannot be found */
export function originOf(fn: object, text: string, subject: string): Origin {
  return {
    locate(offset) {
      const home = homeOf(fn, text);
      if (!home) return positionIn(text, offset, subject);
      const { script, start } = home;
      const generated = positionIn(script.text, start + offset, script.file);
      return mapped(script, generated) ?? generated;
    },
  };
}

function positionIn(text: string, offset: number, file: string): Location {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const end = text.indexOf('\n', offset);
  const line = text.slice(0, start).split('\n').length;
  return {
    file,
    line,
    column: offset - start + 1,
    text: text.slice(start, end < 0 ? text.length : end).trimEnd(),
  };
}

/** A script as it was loaded. */
interface Script {
  readonly file: string;
  readonly url: string;
  readonly text: string;
  readonly map: SourceMap | undefined;
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

/** Ask V8, by its inspector; everything answers before the call returns. */
function findHome(fn: object, text: string): Home | undefined {
  const inspector = process.getBuiltinModule?.('node:inspector');
  if (!inspector) return undefined;
  const session = new inspector.Session();
  try {
    session.connect();
    const place = functionLocation(session, fn);
    if (!place) return undefined;
    const script = scripts.get(place.scriptId) ?? readScript(session, place.scriptId);
    if (!script) return undefined;
    scripts.set(place.scriptId, script);
    const start = startOf(script.text, text, place);
    return start === undefined ? undefined : { script, start };
  } catch {
    // No inspector in this process (it was built without, or forbidden): errors then point into the function's text.
    return undefined;
  } finally {
    session.disconnect();
  }
}

/** The slow part, some milliseconds: V8 has to list all its scripts. */
function readScript(session: Session, id: string): Script | undefined {
  let about: Debugger.ScriptParsedEventDataType | undefined;
  session.on('Debugger.scriptParsed', ({ params }) => {
    if (params.scriptId === id) about = params;
  });
  session.post('Debugger.enable');
  let text = '';
  session.post('Debugger.getScriptSource', { scriptId: id }, (_, source) => {
    text = source.scriptSource;
  });
  if (!about?.url || about.url.startsWith('evalmachine')) return undefined;
  return { file: pathOf(about.url), url: about.url, text, map: sourceMapOf(about.sourceMapURL, about.url) };
}

const ASKED = Symbol.for('heddle.located');

function functionLocation(session: Session, fn: object): Debugger.Location | undefined {
  let objectId: string | undefined;
  const holder = globalThis as { [ASKED]?: object };
  holder[ASKED] = fn;
  const expression = "globalThis[Symbol.for('heddle.located')]";
  session.post('Runtime.evaluate', { expression }, (_, answer) => {
    objectId = answer.result.objectId;
  });
  delete holder[ASKED];
  if (objectId === undefined) return undefined;
  let found: Runtime.InternalPropertyDescriptor | undefined;
  session.post('Runtime.getProperties', { objectId, ownProperties: true }, (_, answer) => {
    found = answer.internalProperties?.find((p) => p.name === '[[FunctionLocation]]');
  });
  return found?.value?.value as Debugger.Location | undefined;
}

/** V8 points at the parameters, before or after which the text of a function may begin. */
function startOf(script: string, text: string, place: Debugger.Location): number | undefined {
  let at = 0;
  for (let line = 0; line < place.lineNumber; line++) at = script.indexOf('\n', at) + 1;
  at += place.columnNumber ?? 0;
  const start = script.startsWith(text, at) ? at : script.lastIndexOf(text, at);
  return start >= 0 && start + text.length > at ? start : undefined;
}

const pathOf = (url: string): string => (url.startsWith('file:') ? fileURLToPath(url) : url);

function sourceMapOf(reference: string | undefined, base: string): SourceMap | undefined {
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

/** The place in the file that was written, for a place in the script that was loaded. */
function mapped({ map, url }: Script, { line, column, text }: Location): Location | undefined {
  const entry = map?.findEntry(line - 1, column - 1);
  if (!map || !entry || !('originalSource' in entry)) return undefined;
  const { originalSource, originalLine, originalColumn } = entry;
  const source = new URL(originalSource, url).href;
  const content =
    map.payload.sourcesContent?.[map.payload.sources.indexOf(originalSource)] ?? contentOf(source);
  const original = content?.split('\n')[originalLine]?.trimEnd();
  return { file: pathOf(source), line: originalLine + 1, column: originalColumn + 1, text: original ?? text };
}

function contentOf(url: string): string | undefined {
  try {
    return readFileSync(new URL(url), 'utf8');
  } catch {
    return undefined;
  }
}
