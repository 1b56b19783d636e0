/** What holds of a plan, checked under HEDDLE_CHECK=1 after the passes that make or change it. */
import { InternalError } from '../../core/errors.js';
import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import { isBuffer } from '../../kernel/ir/types.js';
import { verify } from '../../kernel/ir/verify.js';
import { type Group, readsOf, sumsOf, writtenBy } from '../group.js';
import type { Work } from '../launch.js';
import type { Plan } from '../plan.js';
import { canFinish } from './finish.js';
import { verifyLaunches, verifyNeeds } from './verify-launches.js';
import { isOfWindows } from './windows.js';

/**
 * @param made what the pass has made of the plan
 * @param after its name
 * @throws InternalError naming the pass, if it breaks a rule
 */
export function verifyPlan(plan: Plan, made: Partial<Plan>, after: string): void {
  if (made.choices) verifyCalls(plan, after);
  if (made.groups) verifyGroups(plan.groups, plan.stored, after);
  if (made.calls || made.variants) verifyOpen(plan, after);
  if (made.work) for (const work of plan.work) verifyStages(work, after);
  for (const over of [made.updated, made.overwrites]) if (over) verifyWrittenOver(over, after);
  if (made.levels) verifyLevels(plan, after);
  if (made.launches) verifyLaunches(plan.launches, plan.arenaBytes, after);
  if (made.needs) verifyNeeds(plan.launches, plan.needs, after);
}

const failure = (after: string, rule: string, node: GraphNode): InternalError =>
  new InternalError(`after ${after}: ${rule}: ${node.op} of (${node.shape}), ${node.dtype.name}`);

/** Calls have a kernel, and all leaves are known. */
function verifyCalls({ roots, leaves, choices }: Plan, after: string): void {
  for (const node of topological(roots)) {
    if (node.op === 'call' && !choices.has(node) && !isOfWindows(node))
      throw failure(after, 'a call has no kernel', node);
    if (node.op === 'leaf' && !leaves.includes(node)) throw failure(after, 'a leaf has no number', node);
  }
}

/** Hand-written kernels are open, and only they have variants. */
function verifyOpen({ groups, calls, variants }: Plan, after: string): void {
  for (const group of groups) {
    const [root] = group.roots as [GraphNode];
    if (calls.has(group) !== (group.call !== undefined)) throw failure(after, 'a call is not open', root);
    if (variants.has(group) && !group.call) throw failure(after, 'a generated kernel has a variant', root);
  }
}

/** Kernels are right, and get memory for each buffer and a value for each scalar. Two bf16 may be read as one word. */
function verifyStages({ group, stages }: Work, after: string): void {
  for (const { work, slots } of stages) {
    if ('library' in work) continue;
    const { kernel } = work;
    verify(kernel, after);
    const fits = kernel.params.every(({ schema }, i) => {
      const slot = slots[i];
      return slot !== undefined && isBuffer(schema) === !('value' in slot);
    });
    if (!fits || slots.length !== kernel.params.length)
      throw failure(after, `arguments of ${kernel.name} do not fit its parameters`, group.roots[0]!);
  }
}

/** A leaf, or what lives inside the program, is written over once, by what takes as much memory. */
function verifyWrittenOver(over: ReadonlyMap<GraphNode, GraphNode>, after: string): void {
  const taken = new Set<GraphNode>();
  for (const [node, old] of over) {
    if (taken.has(old)) throw failure(after, 'memory is written over twice', old);
    if (node.size !== old.size || node.dtype.bytes !== old.dtype.bytes)
      throw failure(after, 'memory is written over by something else', node);
    taken.add(old);
  }
}

/** Stages run one after the other, and after all stages of the groups whose results they read. */
function verifyLevels({ work, levels }: Plan, after: string): void {
  const makers = new Map<GraphNode, Work[]>();
  for (const w of work)
    for (const node of writtenBy(w.group)) makers.set(node, [...(makers.get(node) ?? []), w]);
  for (const w of work) {
    const own = levels.get(w)!;
    w.stages.forEach(({ slots }, i) => {
      if (i > 0 && own[i - 1]! >= own[i]!) throw failure(after, 'stages change places', w.group.roots[0]!);
      for (const slot of slots) {
        const others = ('node' in slot && makers.get(slot.node)) || [];
        if (others.some((maker) => maker !== w && levels.get(maker)!.at(-1)! >= own[i]!))
          throw failure(after, 'a launch reads what is not made yet', w.group.roots[0]!);
      }
    });
  }
}

/**
 * @param after the pass that made the groups
 * @throws InternalError if a node with memory is not made by exactly one group, nor of parts that fill it, if groups wait for each other, or if one
 * computes what its kernel cannot
 */
export function verifyGroups(groups: readonly Group[], stored: ReadonlySet<GraphNode>, after: string): void {
  const fail = (rule: string, node: GraphNode): never => {
    throw failure(after, rule, node);
  };
  const makers = new Map<GraphNode, Group>();
  for (const group of groups) {
    for (const root of group.roots) {
      if (!stored.has(root)) fail('a result has no memory', root);
      if (makers.has(root)) fail('two groups make a node', root);
      makers.set(root, group);
    }
    verifyResults(group, stored, fail);
  }
  const partsOf = new Map<GraphNode, GraphNode[]>();
  for (const { regions } of groups)
    for (const [part, { whole }] of regions ?? []) partsOf.set(whole, [...(partsOf.get(whole) ?? []), part]);
  for (const node of stored) {
    if (node.isLeaf || node.size === 0) continue;
    const parts = partsOf.get(node);
    if (makers.has(node) === (parts !== undefined))
      fail(parts ? 'a whole is made twice' : 'no group makes a node', node);
    if (parts && parts.reduce((n, { size }) => n + size, 0) !== node.size)
      fail('parts do not fill a whole', node);
  }

  const done = new Map<Group, boolean>();
  const visit = (group: Group): void => {
    done.set(group, false);
    for (const read of group.roots.flatMap((root) => [...readsOf(root, stored)]))
      for (const part of partsOf.get(read) ?? [read]) {
        const maker = makers.get(part);
        if (!maker || maker === group || done.get(maker)) continue;
        if (done.has(maker)) fail('two groups wait for each other', read);
        visit(maker);
      }
    done.set(group, true);
  };
  for (const group of groups) if (!done.has(group)) visit(group);
}

/** A hand-written kernel makes its node, and what can be computed where that is stored; others make no calls. */
function verifyResults(
  group: Group,
  stored: ReadonlySet<GraphNode>,
  fail: (rule: string, node: GraphNode) => never,
): void {
  const { roots, call, chain, spreads } = group;
  const sums = sumsOf(group);
  const results = roots.filter(
    (root) =>
      !call?.windows?.functions.includes(root) &&
      !call?.also.includes(root) &&
      !spreads?.includes(root) &&
      !sums.includes(root),
  );
  if (!call) {
    const products = chain?.links.flatMap(({ product }) => product?.call ?? []) ?? [];
    const computed = results.flatMap((root) =>
      topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)),
    );
    const missing = computed.find((n) => n.op === 'call' && !stored.has(n) && !products.includes(n));
    if (missing) fail('a generated kernel cannot compute a call', missing);
    return;
  }
  const [first] = roots as [GraphNode];
  if (sums.length > 0 && !call.choice.sums) fail(`${call.choice.name} sums no columns`, first);
  if (first.dtype !== call.made.dtype && !call.choice.storesAny)
    fail(`a kernel that stores ${call.made.dtype.name} cannot store this`, first);
  // The results of one kernel are computed, not read.
  const others = new Set([...stored].filter((node) => !roots.includes(node)));
  for (const root of results)
    if (root !== call.made && !canFinish(root, call.made, others, 'threads'))
      fail(`${call.choice.name} cannot finish`, root);
}
