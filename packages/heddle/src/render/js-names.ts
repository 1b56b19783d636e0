/** What a kernel's JavaScript is written with: unique names, places of findings, indented lines. */
import type { DType } from '../core/dtype.js';
import type { Location } from '../core/errors.js';
import type { Intrinsic } from '../kernel/intrinsics.js';
import { KIT } from './js-kit.js';

/** A place in the kernel that can be the subject of a finding; the JavaScript names it by its number. */
export interface Site {
  readonly at: Location | undefined;
  /** The barrier or warp operation that threads wait at here, and the dtype of its T. */
  readonly intrinsic?: Intrinsic;
  readonly dtype?: DType;
}

const RESERVED = new Set([
  ...Object.keys(KIT),
  ...'run args shared steps thread copies arguments await break case catch class const continue debugger default delete'.split(
    ' ',
  ),
  ...'do else enum eval export extends false finally for function if implements import in instanceof'.split(
    ' ',
  ),
  ...'interface let new null package private protected public return static super switch this throw'.split(
    ' ',
  ),
  ...'true try typeof var void while with yield NaN Infinity undefined Math BigInt Number Array laneId warpId'.split(
    ' ',
  ),
  ...['threadIdx', 'blockIdx', 'blockDim', 'gridDim'].flatMap((s) => [`${s}_x`, `${s}_y`, `${s}_z`]),
]);

export class Scribe {
  readonly sites: Site[] = [];
  private readonly names = new Map<object, string>();
  private readonly taken = new Set<string>();
  private readonly lines: string[] = [];
  private depth = 0;
  private lastLine: number | undefined;

  /** The JavaScript name of a variable, parameter or array: its own, numbered where that is taken. */
  name(owner: { readonly name: string }): string {
    const known = this.names.get(owner);
    if (known !== undefined) return known;
    const base = owner.name.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$)/, '_');
    let name = base;
    for (let n = 1; RESERVED.has(name) || this.taken.has(name); n++) name = `${base}_${n}`;
    this.names.set(owner, name);
    this.taken.add(name);
    return name;
  }

  /** A new name from a stem that no author can have written. */
  fresh(stem: string): string {
    return this.name({ name: stem });
  }

  site(at: Location | undefined, waits?: { readonly intrinsic: Intrinsic; readonly dtype?: DType }): number {
    this.sites.push({ at, ...waits });
    return this.sites.length - 1;
  }

  /** The author's line as a comment, where it is not the one before. */
  comment(at: Location | undefined): void {
    if (!at || at.line === this.lastLine) return;
    this.lastLine = at.line;
    this.line(`// ${at.line} | ${at.text.trim()}`);
  }

  line(text: string): void {
    this.lines.push('  '.repeat(this.depth) + text);
  }

  /** `head {`, what `body` writes, `}`. */
  braces(head: string, body: () => void, tail = '}'): void {
    this.line(`${head} {`);
    this.indented(body);
    this.line(tail);
  }

  indented(body: () => void): void {
    this.depth++;
    body();
    this.depth--;
  }

  text(): string {
    return `${this.lines.join('\n')}\n`;
  }
}
