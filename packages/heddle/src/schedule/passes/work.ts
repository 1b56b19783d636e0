/** The launches of each group: a generated kernel, or the stages that a hand-written one plans. */

import { besideExchanges } from '#schedule/exchanges.js';
import { callOf, type Variant } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Group } from '../group.js';
import type { UnplacedArgument, Work } from '../launch.js';
import { lowerGroup } from '../lower/lower.js';
import type { Plan, PlanSetting } from '../plan.js';
import { formOf, ofOther } from './alike.js';
import { type OpenCall, openCall } from './hand-written.js';

/**
 * The sources of hand-written kernels, as views of what has memory. Groups that are alike share what is opened, and are
 * planned once.
 */
export function openCalls(
  { roots, groups, stored }: Plan,
  { target }: PlanSetting,
): Pick<Plan, 'calls' | 'workOf'> {
  const targetFor = besideExchanges(roots, target);
  const targetOf = ({ call }: Group): Target => (call ? targetFor(call.node) : target);
  const forms = new Map(
    groups.map((group) => {
      const form = formOf(group, stored);
      return [group, { ...form, text: `${form.text}\n${targetOf(group).units}` }];
    }),
  );
  const firsts = new Map<string, Group>();
  const calls = new Map<Group, OpenCall>();
  for (const group of groups) {
    const { text } = forms.get(group)!;
    const first = firsts.get(text) ?? group;
    firsts.set(text, first);
    if (group.call) calls.set(group, calls.get(first) ?? openCall(group, stored, targetOf(group)));
  }
  const planned = new Map<string, Work>();
  const workOf = (group: Group, variant?: Variant): Work => {
    const form = forms.get(group)!;
    const first = firsts.get(form.text)!;
    const key = `${variant?.name ?? ''}\n${form.text}`;
    const open = calls.get(first);
    const work =
      planned.get(key) ?? (open ? callToWork(first, open, variant) : toWork(first, stored, target));
    planned.set(key, work);
    return group === first ? work : ofOther(work, forms.get(first)!, group, form);
  };
  return { calls, workOf };
}

export const lowerGroups = ({ groups, variants, workOf }: Plan): { work: Work[] } => ({
  work: groups.map((group) => workOf(group, variants.get(group))),
});

const nameOf = (group: Group): string => {
  if (group.chain) {
    const names = group.chain.links.map(({ product, roots }) => {
      const { op } = product?.call ?? roots[0]!;
      return op === 'call' ? callOf(product!.call).op.name : op;
    });
    return `rows_${names.join('_')}`;
  }
  const root = group.roots[0]!;
  return `${root.op}_${root.shape.join('x') || 'scalar'}`;
};

function toWork(group: Group, stored: ReadonlySet<GraphNode>, target: Target): Work {
  const lowered = lowerGroup(nameOf(group), group, (n) => stored.has(n), target);
  const { ir, params, anySize, readsFirst, ...sizes } = lowered;
  const reads = new Set(params.filter((p) => !group.roots.includes(p)));
  return {
    group,
    reads,
    stages: [{ work: { kernel: ir, ...sizes }, slots: params.map((node) => ({ node })), anySize }],
    scratch: [],
    readsFirst,
  };
}

function callToWork(group: Group, open: OpenCall, variant?: Variant): Work {
  const plan = open.plan(variant);
  const names = new Map<string, number>();
  const scratch: { bytes: number; from: number; to: number }[] = [];
  const reads = new Set(plan.inputs);
  const stages = plan.stages.map((stage, at) => {
    const slots = stage.args.map((arg): UnplacedArgument => {
      if ('input' in arg) return { node: plan.inputs[arg.input]! };
      if ('output' in arg) return { node: group.roots[0]! };
      if ('also' in arg) return { node: group.call!.also.find((node) => callOf(node).op.name === arg.also)! };
      if ('beside' in arg) {
        const node = plan.beside[arg.beside]!;
        reads.add(node);
        return { node };
      }
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
