/** What a kernel's JavaScript is written with: unique names, places of findings, indented lines. */
import type { DType } from '../../core/dtype.js';
import { around, type Location } from '../../core/errors.js';
import type { Intrinsic } from '../../kernel/ir/intrinsics.js';
import { KIT } from './kit.js';

/** A place in the kernel that can be the subject of a finding; the JavaScript names it by its number. */
export interface Site {
  readonly at: Location | undefined;
  /** The barrier or warp operation that threads wait at here, and the dtype of its T. */
  readonly intrinsic?: Intrinsic;
  readonly dtype?: DType;
  /** Of a place where threads wait or end. */
  readonly path?: Path;
}

/** A place among the control flow of a kernel: its number in the order of the text, and the ifs and loops around it. */
interface Path {
  readonly order: number;
  readonly around: readonly PathStep[];
}

/** An if, by its number in that order, and the branch taken; or a loop. */
interface PathStep {
  readonly construct: number;
  readonly branch: 'then' | 'else' | 'loop';
}

/** The end of a kernel. */
export const END: Path = { order: Number.POSITIVE_INFINITY, around: [] };

/**
 * Whether a thread that ends at `end` has run past `operation` without taking part: its place comes later, not on
 * another branch of an if around both, and no loop is around both, in which it may have taken part before.
 */
export function isPast(end: Path, operation: Path): boolean {
  for (const [i, step] of operation.around.entries()) {
    const other = end.around[i];
    if (other?.construct !== step.construct) return (other?.construct ?? end.order) > step.construct;
    if (step.branch === 'loop' || step.branch !== other.branch) return false;
  }
  return false;
}

const RESERVED = new Set([
  ...Object.keys(KIT),
  ...'run args shared local engine steps thread copies arguments await break case catch class const continue debugger default delete'.split(
    ' ',
  ),
  ...'do else enum eval export extends false finally for function if implements import in instanceof'.split(
    ' ',
  ),
  ...'interface let new null package private protected public return static super switch this throw'.split(
    ' ',
  ),
  ...'true try typeof var void while with yield NaN Infinity undefined Math BigInt Number Array laneId warpId clusterRank clusterSize'.split(
    ' ',
  ),
  ...['threadIdx', 'blockIdx', 'blockDim', 'gridDim'].flatMap((s) => [`${s}_x`, `${s}_y`, `${s}_z`]),
]);

export class Scribe {
  readonly sites: Site[] = [];
  readonly #names = new Map<object, string>();
  readonly #taken = new Set<string>();
  readonly #lines: string[] = [];
  #depth = 0;
  #order = 0;
  readonly #around: PathStep[] = [];
  #lastLine: number | undefined;
  readonly #commented: boolean;

  /** @param commented with the author's lines, which take some milliseconds to find */
  constructor(commented: boolean) {
    this.#commented = commented;
  }

  /** The JavaScript name of a variable, parameter or array: its own, numbered where that is taken. */
  name(owner: { readonly name: string }): string {
    const known = this.#names.get(owner);
    if (known !== undefined) return known;
    const base = owner.name.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$)/, '_');
    let name = base;
    for (let n = 1; RESERVED.has(name) || this.#taken.has(name); n++) name = `${base}_${n}`;
    this.#names.set(owner, name);
    this.#taken.add(name);
    return name;
  }

  /** A new name from a stem that no author can have written. */
  fresh(stem: string): string {
    return this.name({ name: stem });
  }

  site(at: Location | undefined, about?: Omit<Site, 'at'>): number {
    this.sites.push({ at, ...about });
    return this.sites.length - 1;
  }

  /** Where the text stands now. */
  path(): Path {
    return { order: this.#order++, around: [...this.#around] };
  }

  /** An if or a loop begins: how to write what stands inside. */
  construct(): (branch: PathStep['branch'], body: () => void) => void {
    const construct = this.#order++;
    return (branch, body) => {
      this.#around.push({ construct, branch });
      body();
      this.#around.pop();
    };
  }

  /** The author's line as a comment, if the text has them and it is not the one before. */
  comment(at: Location | undefined): void {
    if (!this.#commented || !at || at.line === this.#lastLine) return;
    this.#lastLine = at.line;
    this.line(`// ${at.line} | ${around(at).text.trim()}`);
  }

  line(text: string): void {
    this.#lines.push('  '.repeat(this.#depth) + text);
  }

  /** `head {`, what `body` writes, `}`. */
  braces(head: string, body: () => void, tail = '}'): void {
    this.line(`${head} {`);
    this.indented(body);
    this.line(tail);
  }

  indented(body: () => void): void {
    this.#depth++;
    body();
    this.#depth--;
  }

  text(): string {
    return `${this.#lines.join('\n')}\n`;
  }
}
