/** Value numbers: equal numbers mean equal values, for expressions met at places where their variables agree. */
import type { DType } from '../../core/dtype.js';
import type { Expr, Node } from '../ir/ir.js';
import type { ValueType } from '../ir/types.js';

/** Expressions that cost nothing to repeat. */
export function isTrivial(e: Expr): boolean {
  switch (e.op) {
    case 'const':
    case 'param':
    case 'special':
    case 'variable':
      return true;
    case 'splat':
    case 'vector':
      return e.src.every((s) => s.op === 'const');
    default:
      return false;
  }
}

/** none: may be computed earlier, or more or less often. reads: depends on memory. acts: changes something. */
export type Effect = 'none' | 'reads' | 'acts';

/** The side effects of computing an expression. */
export class Effects {
  readonly #known = new Map<Node, Effect>();
  of(e: Node): Effect {
    const seen = this.#known.get(e);
    if (seen !== undefined) return seen;
    let effect: Effect = e.op === 'intrinsic' ? 'acts' : e.op === 'load' ? 'reads' : 'none';
    for (const s of e.src) {
      const below = this.of(s);
      if (below === 'acts' || effect === 'none') effect = below;
    }
    this.#known.set(e, effect);
    return effect;
  }
}

/** Which value a variable or memory holds at the current place. */
export type Version = (node: Extract<Node, { op: 'variable' | 'buffer' | 'array' }>) => number;

export class Numbering {
  readonly #keys = new Map<string, number>();
  readonly #identities = new Map<object, number>();
  #memo = new Map<Node, number>();

  /** A number for an object that is compared by identity. */
  identity(o: object): number {
    let n = this.#identities.get(o);
    if (n === undefined) {
      n = this.#identities.size;
      this.#identities.set(o, n);
    }
    return n;
  }

  /** Forget node identities: a variable or memory may hold something else from here on. */
  moved(): void {
    if (this.#memo.size > 0) this.#memo = new Map();
  }

  of(e: Node, version: Version): number {
    const seen = this.#memo.get(e);
    if (seen !== undefined) return seen;
    const key = this.#key(e, version);
    let n = this.#keys.get(key);
    if (n === undefined) {
      n = this.#keys.size;
      this.#keys.set(key, n);
    }
    this.#memo.set(e, n);
    return n;
  }

  #key(e: Node, version: Version): string {
    const sources = (): string => e.src.map((s) => this.of(s, version)).join(',');
    const typed = e.type as ValueType;
    const type = `${(typed.dtype as DType | undefined)?.name ?? ''}${typed.lanes ?? ''}`;
    switch (e.op) {
      case 'const':
        return `const ${type} ${Object.is(e.arg, -0) ? '-0' : String(e.arg)}`;
      case 'param':
        return `param ${this.identity(e.arg)}`;
      case 'buffer':
      case 'array':
      case 'variable':
        return `${e.op} ${this.identity(e.arg)} ${version(e)}`;
      default:
        return `${e.op} ${type} ${String(e.arg)} ${sources()}`;
    }
  }
}
