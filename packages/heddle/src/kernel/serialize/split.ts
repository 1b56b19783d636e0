/**
 * Splitting a kernel at its barriers: what stands between two of them is a region, run by all threads one after
 * another; loops and ifs around barriers go outside, if all threads agree on them.
 */
import { formatLocation } from '../../core/errors.js';
import type { Expr, Node, Statement, Variable } from '../ir/ir.js';
import type { Uniform } from '../ir/uniform.js';
import { returnIn } from '../ir/walk.js';
import { returns } from './returns.js';
import { isWarpOperation } from './warp.js';

type Of<Op extends Statement['op']> = Extract<Statement, { op: Op }>;

/** A part of a split kernel. */
export type KernelPiece =
  /** Barrier-free: every thread runs all of it before the next thread starts. */
  | { readonly kind: 'region'; readonly statements: Statement[] }
  /** Once per block: declares or sets a variable of the block, or leaves a loop or the kernel. */
  | { readonly kind: 'once'; readonly statement: Statement }
  /** `let result = operation(variables)`, over the warps of the block. */
  | { readonly kind: 'warp'; readonly statement: Of<'let'> }
  /** Around barriers: all threads agree on it. `inside` are the parts of its blocks, in order. */
  | {
      readonly kind: 'around';
      readonly statement: Of<'if' | 'for' | 'while'>;
      readonly inside: readonly (readonly KernelPiece[])[];
    };

/** Thrown, and caught by `serialize`, where a kernel cannot be split. */
export class Unsplittable {
  readonly reason: string;
  constructor(why: string, node: Node | undefined) {
    this.reason = node?.at ? `${why} (${formatLocation(node.at)})` : why;
  }
}

/** The expressions that a loop or if decides by, and its blocks. */
export function partsOf(s: Of<'if' | 'for' | 'while'>): {
  decides: readonly Expr[];
  blocks: readonly Statement[];
} {
  const split = s.op === 'for' ? 3 : 1;
  return { decides: s.src.slice(0, split) as Expr[], blocks: s.src.slice(split) as Statement[] };
}

/**
 * The parts of `body`. `shared` variables have one value per block, declared and set once.
 * @throws Unsplittable
 */
export function split(body: Statement, shared: ReadonlySet<Variable>, uniform: Uniform): KernelPiece[] {
  const pieces = sequence([body], shared, uniform);
  const check = (list: readonly KernelPiece[], last: boolean): void => {
    for (const [i, piece] of list.entries()) {
      if (piece.kind === 'around') for (const inside of piece.inside) check(inside, false);
      if (piece.kind !== 'region' || (last && i === list.length - 1)) continue;
      const early = piece.statements.find(returns);
      if (early)
        throw new Unsplittable('some threads return before a barrier or warp operation', returnIn(early));
    }
  };
  check(pieces, true);
  return pieces;
}

function sequence(
  list: readonly Statement[],
  shared: ReadonlySet<Variable>,
  uniform: Uniform,
): KernelPiece[] {
  const pieces: KernelPiece[] = [];
  let region: Statement[] = [];
  const flush = (): void => {
    if (region.length > 0) pieces.push({ kind: 'region', statements: region });
    region = [];
  };
  const visit = (s: Statement): void => {
    const cause = pinned(s, shared, uniform, false, true);
    if (!cause) {
      region.push(s);
      return;
    }
    switch (s.op) {
      case 'block':
        for (const each of s.src) visit(each as Statement);
        break;
      case 'let':
        if (isWarpOperation(s.src[0])) {
          flush();
          pieces.push({ kind: 'warp', statement: s });
        } else {
          // Nothing in the open region can read it or set what it is made of: it may come before.
          pieces.push({ kind: 'once', statement: s });
        }
        break;
      case 'if':
      case 'for':
      case 'while': {
        const { decides, blocks } = partsOf(s);
        if (!decides.every(uniform)) {
          throw new Unsplittable(`threads may not agree on the ${s.op} around ${nameOf(cause)}`, cause);
        }
        flush();
        pieces.push({
          kind: 'around',
          statement: s,
          inside: blocks.map((b) => sequence([b], shared, uniform)),
        });
        break;
      }
      default:
        flush();
        if (s.op !== 'effect') pieces.push({ kind: 'once', statement: s });
    }
  };
  for (const s of list) visit(s);
  flush();
  return pieces;
}

/** What in `s` cannot be done by one thread after another, if anything. */
function pinned(
  s: Node,
  shared: ReadonlySet<Variable>,
  uniform: Uniform,
  inLoop: boolean,
  agreed: boolean,
): Node | undefined {
  switch (s.op) {
    case 'effect':
      return s.arg === 'barrier' ? s : undefined;
    case 'let':
      return isWarpOperation(s.src[0]) || shared.has(s.arg) ? s : undefined;
    case 'set':
      return shared.has(s.arg) ? s : undefined;
    case 'break':
    case 'continue':
      return inLoop ? undefined : s;
    case 'return':
      return agreed ? s : undefined;
    case 'block':
      return first(s.src, (each) => pinned(each, shared, uniform, inLoop, agreed));
    case 'if':
    case 'for':
    case 'while': {
      const { decides, blocks } = partsOf(s);
      const together = agreed && decides.every(uniform);
      return first(blocks, (b) => pinned(b, shared, uniform, inLoop || s.op !== 'if', together));
    }
    default:
      return undefined;
  }
}

function first<T, R>(items: readonly T[], of: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const result = of(item);
    if (result !== undefined) return result;
  }
  return undefined;
}

function nameOf(cause: Node): string {
  switch (cause.op) {
    case 'effect':
      return 'a barrier()';
    case 'let':
      return isWarpOperation(cause.src[0]) ? `${cause.src[0].arg}()` : `the variable ${cause.arg.name}`;
    case 'set':
      return `the variable ${cause.arg.name}`;
    default:
      return `a ${cause.op} that all threads must take together`;
  }
}
