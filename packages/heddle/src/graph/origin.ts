/**
 * Where nodes come from: file and line of the call that asked for them. Recorded on request only, for profiles: a stack
 * takes some µs.
 */
import { relative } from '#platform/paths.js';
import { workingFolder } from '#platform/process.js';
import { writtenAt } from '#platform/source-map.js';

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

/** A call, where it is written. */
interface Frame {
  readonly file: string;
  readonly line: number;
  /** The folder of the library that it is in; of other files nothing. */
  readonly folder: string;
}

/** `nn/linear.ts:27 ← model.ts:12`: the layer, and the line of the user's that called it; or only who called. */
function callSite(): string {
  const frames = stack().filter(({ folder }) => !MAKERS.has(folder));
  const [first] = frames;
  if (!first) return '';
  const caller = first.folder === 'nn' && frames.find(({ folder }) => folder !== 'nn');
  const ofUser = caller && caller.folder === '' ? [caller] : [];
  return [first, ...ofUser].map(({ file, line }) => `${file}:${line}`).join(' ← ');
}

const known = new Map<string, Frame>();

function stack(): Frame[] {
  const { stackTraceLimit, prepareStackTrace } = Error;
  Error.stackTraceLimit = 64;
  Error.prepareStackTrace = (_, sites) => sites;
  const holder: { stack?: NodeJS.CallSite[] } = {};
  Error.captureStackTrace(holder);
  const sites = holder.stack ?? [];
  Error.stackTraceLimit = stackTraceLimit;
  Error.prepareStackTrace = prepareStackTrace;
  return sites.flatMap((site) => {
    const url = site.getScriptNameOrSourceURL();
    if (!url?.startsWith('file:')) return [];
    const line = site.getLineNumber() ?? 1;
    const column = site.getColumnNumber() ?? 1;
    const key = `${url} ${line} ${column}`;
    let frame = known.get(key);
    if (!frame) {
      frame = frameAt(url, line, column);
      known.set(key, frame);
    }
    return [frame];
  });
}

/** The folder of the library's sources: the first call described is of this file. Unknown where no map leads to it. */
let sources: string | undefined;

function frameAt(url: string, line: number, column: number): Frame {
  const written = writtenAt(url, line, column);
  sources ??= /^(.*[\\/])graph[\\/]origin\.[jt]s$/.exec(written.file)?.[1] ?? '';
  if (sources && written.file.startsWith(sources)) {
    const file = written.file.slice(sources.length).replaceAll('\\', '/');
    return { file, line: written.line, folder: file.split('/')[0]! };
  }
  const near = relative(workingFolder(), written.file);
  return { file: near.length < written.file.length ? near : written.file, line: written.line, folder: '' };
}
