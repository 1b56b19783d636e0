/** Simplify a kernel: exact algebra, constants carried forward, branches that are decided, values nobody reads. */
import { topological } from '../../core/node.js';
import {
  type ArrayDecl,
  block,
  type Expr,
  type KernelIr,
  type Node,
  type Statement,
  type Variable,
} from '../ir/ir.js';
import { jumps } from '../ir/walk.js';
import { isPure, simplifyExpr } from './simplify-expressions.js';

export function simplify(ir: KernelIr): KernelIr {
  const body = block(new Simplifier().list([ir.body]), ir.body.at);
  const { alive, uses } = withoutDead(body.src as readonly Statement[]);
  return { ...ir, body: block(alive, ir.body.at), arrays: ir.arrays.filter((a) => uses(a) > 0) };
}

/** Values that cost nothing to repeat and never change. */
const carries = (e: Expr): boolean =>
  e.op === 'const' ||
  e.op === 'param' ||
  e.op === 'special' ||
  (e.op === 'variable' && e.arg.constant) ||
  (e.op === 'splat' && (e.src[0] as Expr).op === 'const');

class Simplifier {
  readonly #values = new Map<Variable, Expr>();
  readonly #done = new Map<Node, Node>();

  /** An expression or memory, simplified once. */
  expr(e: Node): Node {
    if (e.op === 'variable') return this.#values.get(e.arg) ?? e;
    if (e.src.length === 0) return e;
    const known = this.#done.get(e);
    if (known) return known;
    const result = simplifyExpr(this.#sources(e as Expr));
    this.#done.set(e, result);
    return result;
  }

  #sources<N extends Node>(node: N): N {
    let src: Node[] | undefined;
    for (let i = 0; i < node.src.length; i++) {
      const source = node.src[i] as Node;
      const next = this.expr(source);
      if (next === source) continue;
      src ??= node.src.slice() as Node[];
      src[i] = next;
    }
    return src ? { ...node, src } : node;
  }

  /** Statements, with blocks flattened; nothing stands after a jump. */
  list(statements: readonly Node[]): Statement[] {
    const out: Statement[] = [];
    for (const s of statements) {
      out.push(...this.statement(s as Statement));
      const last = out.at(-1)?.op;
      if (last === 'return' || last === 'break' || last === 'continue') break;
    }
    return out;
  }

  #block(node: Node): Statement {
    return block(this.list(node.src as readonly Node[]), node.at);
  }

  statement(node: Statement): Statement[] {
    switch (node.op) {
      case 'block':
        return this.list(node.src as readonly Node[]);
      case 'let': {
        const next = this.#sources(node);
        const v = next.src[0] as Expr;
        if (!node.arg.constant || !carries(v)) return [next];
        this.#values.set(node.arg, v);
        return [];
      }
      case 'if': {
        const [condition, then, otherwise] = node.src as readonly [Expr, Statement, Statement?];
        const test = this.expr(condition) as Expr;
        if (test.op === 'const') {
          const taken = test.arg ? then : otherwise;
          return taken ? this.list(taken.src as readonly Node[]) : [];
        }
        const a = this.#block(then);
        const b = otherwise ? this.#block(otherwise) : undefined;
        if (a.src.length === 0 && (b?.src.length ?? 0) === 0 && isPure(test)) return [];
        return [{ ...node, src: b && b.src.length > 0 ? [test, a, b] : [test, a] }];
      }
      case 'for': {
        const [start, end, step] = node.src.slice(0, 3).map((s) => this.expr(s as Node) as Expr);
        const { variable } = node.arg;
        if (start!.op === 'const' && end!.op === 'const') {
          if (start!.arg >= end!.arg) return [];
          if (
            step!.op === 'const' &&
            Number(start!.arg) + Number(step!.arg) >= Number(end!.arg) &&
            !jumps(node.src[3] as Node)
          ) {
            this.#values.set(variable, start!);
            return this.list([node.src[3] as Node]);
          }
        }
        const body = this.#block(node.src[3] as Node);
        return body.src.length === 0 && [start!, end!, step!].every(isPure) && step!.op === 'const'
          ? []
          : [{ ...node, src: [start!, end!, step!, body] }];
      }
      case 'while': {
        const [condition, body, update] = node.src as readonly Node[];
        const test = this.expr(condition!) as Expr;
        if (test.op === 'const' && !test.arg) return [];
        return [{ ...node, src: [test, this.#block(body!), this.#block(update!)] }];
      }
      default:
        return [this.#sources(node)];
    }
  }
}

/**
 * Drop variables nobody reads, from the last statement to the first, so that what only they read goes too. `uses` says how often
 * those that are left use an array.
 */
function withoutDead(statements: readonly Statement[]): {
  readonly alive: Statement[];
  readonly uses: (array: ArrayDecl) => number;
} {
  const reads = new Map<Variable | ArrayDecl, number>();
  /** Each expression of a statement is its own graph: what it reads, it reads once. */
  const count = (root: Node, by: number): void => {
    if (root.op === 'block' || root.op === 'if' || root.op === 'for' || root.op === 'while') {
      for (const s of root.src) count(s as Node, by);
      return;
    }
    for (const node of topological([root])) {
      if (node.op === 'variable' || node.op === 'array') reads.set(node.arg, (reads.get(node.arg) ?? 0) + by);
    }
  };
  for (const s of statements) count(s, 1);
  /** Of which a later `set` stays: they must stay declared. */
  const assigned = new Set<Variable>();
  const list = (nodes: readonly Statement[]): Statement[] => {
    const kept: Statement[] = [];
    for (let i = nodes.length - 1; i >= 0; i--) {
      const next = keep(nodes[i]!);
      if (next) kept.push(next);
    }
    return kept.reverse();
  };
  const keep = (node: Statement): Statement | undefined => {
    if (node.op === 'let' || node.op === 'set') {
      const v = node.src[0] as Expr;
      if ((reads.get(node.arg) ?? 0) > 0 || assigned.has(node.arg) || !isPure(v)) {
        if (node.op === 'set') assigned.add(node.arg);
        return node;
      }
      count(v, -1);
      return undefined;
    }
    if (node.op === 'block') return { ...node, src: list(node.src as readonly Statement[]) };
    if (node.op !== 'if' && node.op !== 'for' && node.op !== 'while') return node;
    const src = [...node.src] as Node[];
    for (let i = src.length - 1; i >= 0; i--) {
      if (src[i]!.op === 'block') src[i] = keep(src[i] as Statement)!;
    }
    return { ...node, src } as Statement;
  };
  return { alive: list(statements), uses: (array) => reads.get(array) ?? 0 };
}
