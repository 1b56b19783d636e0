/**
 * Where nodes come from: file and line of the call that asked for them. Recorded on request only, for profiles: a stack
 * takes some µs.
 */
import { relative } from 'node:path';
import { writtenAt } from '../kernel/parse/source-map.js';

let recording = false;
/** The origin of all that is made now. */
let inherited: string | undefined;

/** Record the origins of nodes made from now on, or no longer. */
export function recordOrigins(on: boolean): void {
  recording = on;
}

export const recordsOrigins = (): boolean => recording;

/** The origin of a node that is made now, if origins are recorded. */
export const originOfCall = (): string | undefined => (recording ? (inherited ?? callSite()) : undefined);

/** What `body` makes is part of what came from there. */
export function asPartOf<T>(origin: string | undefined, body: () => T): T {
  if (!recording) return body();
  const before = inherited;
  inherited = origin ?? '';
  try {
    return body();
  } finally {
    inherited = before;
  }
}

/** Of the library's sources, or of what they were compiled to. Unknown in a CommonJS bundle, which has no import.meta. */
const ROOT = import.meta.url ? new URL('..', import.meta.url).href : undefined;

/** Folders that make nodes for those who ask. */
const MAKERS: ReadonlySet<string> = new Set([
  'graph',
  'tensor',
  'ops',
  'engine',
  'schedule',
  'core',
  'kernel',
]);

interface Frame {
  readonly url: string;
  readonly line: number;
  readonly column: number;
}

/** `nn/linear.ts:27 ← model.ts:12`: the layer, and the line of the user's that called it; or only who called. */
function callSite(): string {
  const frames = stack().filter(({ url }) => !MAKERS.has(folderOf(url)));
  const [first] = frames;
  if (!first) return '';
  const caller = folderOf(first.url) === 'nn' && frames.find(({ url }) => folderOf(url) !== 'nn');
  const ofUser = caller && folderOf(caller.url) === '' ? [caller] : [];
  return [first, ...ofUser].map(frameText).join(' ← ');
}

/** Of a file of the library; of others nothing. */
const folderOf = (url: string): string =>
  ROOT && url.startsWith(ROOT) ? url.slice(ROOT.length).split('/')[0]! : '';

function stack(): Frame[] {
  const { stackTraceLimit, prepareStackTrace } = Error;
  Error.stackTraceLimit = 64;
  Error.prepareStackTrace = (_, sites) => sites;
  const holder: { stack?: NodeJS.CallSite[] } = {};
  Error.captureStackTrace(holder, stack);
  const sites = holder.stack ?? [];
  Error.stackTraceLimit = stackTraceLimit;
  Error.prepareStackTrace = prepareStackTrace;
  return sites.flatMap((site) => {
    const url = site.getScriptNameOrSourceURL();
    if (!url?.startsWith('file:')) return [];
    return [{ url, line: site.getLineNumber() ?? 1, column: site.getColumnNumber() ?? 1 }];
  });
}

const described = new Map<string, string>();

function frameText({ url, line, column }: Frame): string {
  const key = `${url} ${line} ${column}`;
  let text = described.get(key);
  if (text === undefined) {
    const written = writtenAt(url, line, column);
    text = `${shortPath(written.file, url)}:${written.line}`;
    described.set(key, text);
  }
  return text;
}

/** Of the library from its sources on; of others relative to the working folder where that is shorter. */
function shortPath(file: string, url: string): string {
  if (ROOT && url.startsWith(ROOT))
    return `${url.slice(ROOT.length).replace(/[^/]*$/, '')}${file.replace(/^.*[\\/]/, '')}`;
  const near = relative(process.cwd(), file);
  return near.length < file.length ? near : file;
}
