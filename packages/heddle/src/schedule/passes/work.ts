/** The launches of each group: a generated kernel, or the stages that a hand-written one plans. */
import { callOf, type Variant } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Group } from '../group.js';
import type { UnplacedArgument, Work } from '../launch.js';
import { lowerGroup } from '../lower/lower.js';
import type { Plan, PlanSetting } from '../plan.js';
import { type OpenCall, openCall } from './hand-written.js';

/** The sources of hand-written kernels, as views of what has memory. */
export function openCalls(
  { groups, stored }: Plan,
  { target }: PlanSetting,
): { calls: Map<Group, OpenCall> } {
  return {
    calls: new Map(groups.filter((g) => g.call).map((group) => [group, openCall(group, stored, target)])),
  };
}

export function lowerGroups(
  { groups, stored, calls, variants }: Plan,
  { target }: PlanSetting,
): { work: Work[] } {
  const work = groups.map((group) => {
    const call = calls.get(group);
    return call ? callToWork(group, call, variants.get(group)) : toWork(group, stored, target);
  });
  return { work };
}

const nameOf = (group: Group): string => {
  const root = group.roots[0]!;
  return `${root.op}_${root.shape.join('x') || 'scalar'}`;
};

function toWork(group: Group, stored: ReadonlySet<GraphNode>, target: Target): Work {
  const { ir, params, grid, block, anySize } = lowerGroup(nameOf(group), group, (n) => stored.has(n), target);
  const reads = new Set(params.filter((p) => !group.roots.includes(p)));
  return {
    group,
    reads,
    stages: [{ work: { kernel: ir, grid, block }, slots: params.map((node) => ({ node })), anySize }],
    scratch: [],
  };
}

export function callToWork(group: Group, open: OpenCall, variant?: Variant): Work {
  const plan = open.plan(variant);
  const names = new Map<string, number>();
  const scratch: { bytes: number; from: number; to: number }[] = [];
  const reads = new Set(plan.inputs);
  const stages = plan.stages.map((stage, at) => {
    const slots = stage.args.map((arg): UnplacedArgument => {
      if ('input' in arg) return { node: plan.inputs[arg.input]! };
      if ('output' in arg) return { node: group.roots[0]! };
      if ('value' in arg) return arg;
      let id = names.get(arg.scratch);
      if (id === undefined) {
        id = scratch.length;
        names.set(arg.scratch, id);
        scratch.push({ bytes: arg.bytes, from: at, to: at });
      }
      scratch[id]!.to = at;
      return { scratch: id };
    });
    for (const node of stage.extra) {
      slots.push({ node });
      if (!group.roots.includes(node)) reads.add(node);
    }
    const { args: _, extra: __, ...work } = stage;
    return { work, slots };
  });
  const { node } = group.call!;
  const { op, arg } = callOf(node);
  const call = { op: op.name, flops: op.flops?.(node, arg) };
  return { group, reads, stages, scratch, call };
}
