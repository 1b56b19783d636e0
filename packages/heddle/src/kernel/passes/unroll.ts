/** Unroll short loops with constant bounds, inner ones first, so that their indices become constants. */
import { constant, type Expr, type KernelIr, type Node, type Statement, type Variable } from '../ir/ir.js';
import { jumps } from './simplify.js';

/** More iterations than this stay a loop. */
const MOST_ITERATIONS = 16;
/** Code that would grow beyond this many nodes stays a loop. */
const MOST_NODES = 4096;

export function unroll(ir: KernelIr): KernelIr {
  return { ...ir, body: unrollIn(ir.body) };
}

/** Expressions stay as they are: only statements are walked. */
function unrollIn(node: Statement): Statement {
  if (node.op === 'block') {
    let changed = false;
    const src = (node.src as readonly Statement[]).flatMap((s): readonly Statement[] => {
      const inner = unrollIn(s);
      const copies = inner.op === 'for' ? iterations(inner) : undefined;
      if (inner !== s || copies) changed = true;
      return copies ?? [inner];
    });
    return changed ? { ...node, src } : node;
  }
  if (node.op !== 'if' && node.op !== 'for' && node.op !== 'while') return node;
  let changed = false;
  const src = (node.src as readonly Node[]).map((s) => {
    const next = s.op === 'block' ? unrollIn(s) : s;
    if (next !== s) changed = true;
    return next;
  });
  return changed ? ({ ...node, src } as Statement) : node;
}

/** The body once per iteration, or undefined where the loop stays. */
function iterations(loop: Extract<Statement, { op: 'for' }>): Statement[] | undefined {
  const [start, end, step, body] = loop.src as readonly [Expr, Expr, Expr, Statement];
  if (loop.arg.unroll === 'never') return undefined;
  if (start.op !== 'const' || end.op !== 'const' || step.op !== 'const') return undefined;
  const [from, to, by] = [Number(start.arg), Number(end.arg), Number(step.arg)];
  const trips = Math.ceil((to - from) / by);
  if (trips > MOST_ITERATIONS || sizeOf(body) * trips > MOST_NODES || jumps(body)) return undefined;
  const { dtype } = loop.arg.variable.type;
  return Array.from({ length: Math.max(0, trips) }, (_, k) => {
    const i = from + k * by;
    const now = constant(dtype, dtype.name === 'i64' ? BigInt(i) : i, loop.at);
    return copy(body, new Map([[loop.arg.variable, now]]));
  }).flatMap((s) => s.src as readonly Statement[]);
}

const sizes = new WeakMap<Node, number>();

/** Nodes of the text that a renderer writes: one that is shared counts each time. */
function sizeOf(node: Node): number {
  let size = sizes.get(node);
  if (size === undefined) {
    size = (node.src as readonly Node[]).reduce((sum, s) => sum + sizeOf(s), 1);
    sizes.set(node, size);
  }
  return size;
}

/** A copy with variables replaced; those it declares become new ones. */
function copy(root: Statement, values: Map<Variable, Expr>): Statement {
  const renamed = new Map<Variable, Variable>();
  const fresh = (v: Variable): Variable => {
    const next = { ...v };
    renamed.set(v, next);
    return next;
  };
  const memo = new Map<Node, Node>();
  const of = (node: Node): Node => {
    if (node.op === 'variable') {
      const value = values.get(node.arg);
      if (value) return value;
      const name = renamed.get(node.arg);
      return name ? { ...node, arg: name } : node;
    }
    if (node.src.length === 0) return node;
    const known = memo.get(node);
    if (known) return known;
    // A declaration comes before its uses, but its initial value does not see it.
    let result: Node;
    if (node.op === 'for') {
      const header = node.src.slice(0, 3).map((s) => of(s as Node));
      const arg = { ...node.arg, variable: fresh(node.arg.variable) };
      result = { ...node, arg, src: [...header, of(node.src[3] as Node)] };
    } else {
      const src = (node.src as readonly Node[]).map(of);
      if (node.op === 'let') result = { ...node, arg: fresh(node.arg), src };
      else if (node.op === 'set') result = { ...node, arg: renamed.get(node.arg) ?? node.arg, src };
      else result = src.every((s, i) => s === node.src[i]) ? node : ({ ...node, src } as Node);
    }
    memo.set(node, result);
    return result;
  };
  return of(root) as Statement;
}
