/** What the CUDA compiler could do by itself, but would take long for. Browsers do without: see passes/browser/for-cuda-compiler.ts. */
import { find, topological } from '../../../core/node.js';
import type { Intrinsic } from '../../ir/intrinsics.js';
import type { ArrayDecl, For, KernelIr, Node, Statement, Variable } from '../../ir/ir.js';
import { allStatements, rewriteStatements } from '../../ir/walk.js';
import type { KernelPass } from '../pass.js';
import { accessOf, promote } from '../promote.js';
import { simplify } from '../simplify.js';
import { roundsOf, sizeOf, unroll } from '../unroll.js';

const cuda: KernelPass['when'] = ({ target }) => target.name === 'cuda';

export const promotionForCuda: readonly KernelPass[] = [
  // The CUDA compiler promotes arrays by itself, but takes long over one with many stores.
  {
    name: 'promote-for-cuda',
    when: cuda,
    run: (ir) => (hasManyStores(ir) ? promote(simplify(unroll(ir))) : ir),
  },
];

export const unrollingForCuda: readonly KernelPass[] = [
  // A long loop takes the CUDA compiler long to unroll, and gains little.
  { name: 'limit-unrolling', when: cuda, run: limitUnrolling },
];

/** From so many on, the CUDA compiler takes longer for an array than for all else: its time grows with their square. */
const MANY_STORES = 500;

/** Whether a thread stores that often to an array, under constant indices. */
function hasManyStores(ir: KernelIr): boolean {
  const counts = new Map<ArrayDecl, number>();
  for (const s of allStatements([ir.body])) {
    const at = accessOf(s);
    if (at?.index !== undefined && at.array.space === 'local')
      counts.set(at.array, (counts.get(at.array) ?? 0) + 1);
  }
  return [...counts.values()].some((count) => count >= MANY_STORES);
}

/** Loops of more rounds stay. */
const MOST_ROUNDS = 128;
/**
 * So do loops that would grow beyond so many nodes, about 100 KB of code: they would run slower, since their code would no longer
 * fit into the instruction cache.
 */
const MOST_NODES = 50_000;
/** Beyond so many nodes, loops stay that gain nothing: each round waits at a barrier, and its number indexes no registers. */
const MOST_NODES_APART = 2_000;

/**
 * Loops that the CUDA compiler is asked to unroll, without the long ones: inner loops first. Loops that wait for the phases of mbarriers
 * stay loops. By itself, the compiler repeats their bodies two to four times: it takes 11 % longer for the products by warpgroups of a GPT,
 * and a round has as many instructions as without.
 */
function limitUnrolling(ir: KernelIr): KernelIr {
  const withUnroll = (s: For, unroll: For['arg']['unroll']): Statement => ({
    ...s,
    arg: { ...s.arg, unroll },
  });
  const rule = (s: Statement): Statement | undefined => {
    if (s.op !== 'for') return undefined;
    if (s.arg.unroll !== true) return waits(s, PHASES) ? withUnroll(s, 'rolled') : undefined;
    const size = unrolledSize(s);
    if (roundsOf(s) > MOST_ROUNDS || size > MOST_NODES) return withUnroll(s, false);
    return size > MOST_NODES_APART && waits(s, BARRIERS) && !choosesRegisters(s)
      ? withUnroll(s, 'rolled')
      : undefined;
  };
  const body = rewriteStatements(ir.body, rule);
  return body === ir.body ? ir : { ...ir, body };
}

const sizes = new WeakMap<Node, number>();

/** Nodes of a statement, with the body of a loop that the CUDA compiler is asked to unroll counted once for each of its rounds. */
function unrolledSize(node: Node): number {
  if (node.type.kind !== 'none') return sizeOf(node);
  const known = sizes.get(node);
  if (known !== undefined) return known;
  const once = (node.src as readonly Node[]).reduce((sum, s) => sum + unrolledSize(s), 1);
  const size = node.op === 'for' && node.arg.unroll === true ? roundsOf(node) * once : once;
  sizes.set(node, size);
  return size;
}

const BARRIERS: ReadonlySet<Intrinsic | null> = new Set(['barrier', 'groupBarrier']);
const PHASES: ReadonlySet<Intrinsic | null> = new Set(['waitBarrier']);

/** Whether a round waits in one of these ways. */
const waits = (loop: For, ways: ReadonlySet<Intrinsic | null>): boolean =>
  allStatements([loop]).some((s) => s.op === 'effect' && ways.has(s.arg));

/** Whether a loop's variable has a part in the index of a thread's array, which has to be a constant for registers. */
function choosesRegisters(loop: For): boolean {
  const counted = new Set<Variable>([loop.arg.variable]);
  const depends = (e: Node): boolean =>
    find([e], (n) => n.op === 'variable' && counted.has(n.arg)) !== undefined;
  // What depends on it by way of other variables, in whatever order they are set.
  for (let known = 0; known < counted.size; ) {
    known = counted.size;
    for (const s of allStatements([loop]))
      if (s.op === 'let' || s.op === 'set') {
        if (s.src.some(depends)) counted.add(s.arg);
      } else if (s.op === 'for' && s.src.slice(0, 3).some(depends)) counted.add(s.arg.variable);
  }
  const isChosen = (n: Node): boolean => {
    const places = n.op === 'store' ? n.src.filter((_, i) => i !== 1) : n.src;
    return (
      places.some((of) => of.op === 'array' && of.arg.space === 'local') &&
      places.some((of) => of.op !== 'array' && depends(of))
    );
  };
  return topological<Node>([loop]).some(isChosen);
}
