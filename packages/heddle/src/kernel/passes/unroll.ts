/** Unroll short loops with constant bounds, inner ones first, so that their indices become constants. */
import { constant, type Expr, type For, type KernelIr, type Node, type Statement } from '../ir/ir.js';
import { copyOf, jumps } from '../ir/walk.js';

/** More iterations than this stay a loop. */
const MOST_ITERATIONS = 16;
/** Code that would grow beyond this many nodes stays a loop. */
const MOST_NODES = 4096;

export function unroll(ir: KernelIr): KernelIr {
  return { ...ir, body: unrollIn(ir.body) };
}

/** Rounds of a loop with constant bounds; NaN for another. */
export function roundsOf({ src }: For): number {
  const [from, to, by] = src.slice(0, 3).map((e) => (e.op === 'const' ? Number(e.arg) : Number.NaN));
  return Math.ceil((to! - from!) / by!);
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
function iterations(loop: For): Statement[] | undefined {
  const [start, end, step, body] = loop.src as readonly [Expr, Expr, Expr, Statement];
  if (loop.arg.unroll === 'never') return undefined;
  if (start.op !== 'const' || end.op !== 'const' || step.op !== 'const') return undefined;
  const [from, by] = [Number(start.arg), Number(step.arg)];
  const trips = roundsOf(loop);
  if (trips > MOST_ITERATIONS || sizeOf(body) * trips > MOST_NODES || jumps(body)) return undefined;
  const { dtype } = loop.arg.variable.type;
  return Array.from({ length: Math.max(0, trips) }, (_, k) => {
    const i = from + k * by;
    const now = constant(dtype, dtype.name === 'i64' ? BigInt(i) : i, loop.at);
    return copyOf(body, new Map([[loop.arg.variable, now]]));
  }).flatMap((s) => s.src as readonly Statement[]);
}

const sizes = new WeakMap<Node, number>();

/** Nodes of the text that a renderer writes: one that is shared counts each time. */
export function sizeOf(node: Node): number {
  let size = sizes.get(node);
  if (size === undefined) {
    size = (node.src as readonly Node[]).reduce((sum, s) => sum + sizeOf(s), 1);
    sizes.set(node, size);
  }
  return size;
}
