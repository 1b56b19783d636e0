/** Of the calls that can be done in several ways, those whose choice the program would not notice. */
import { callOf } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { WARPGROUP_TIMES } from '../../kernel/ir/warpgroup-times.js';
import type { Group } from '../group.js';
import { readsOfGroup } from './followers.js';

/**
 * Most of the time of all calls with several ways that minor ones take, together and those of one key. In training steps of
 * convolutional networks they have 25 to 39 % of all variants, the best of which take 0.2 to 0.8 % of that time less than the guesses, by
 * the times of all variants of ResNets and MobileNetV2 on an H200 (2026-11-26). At 5 % these would be 14 to 26 %, and 0.1 to 0.6 %.
 */
const MINOR = { together: 0.1, each: 0.02 };

/** A call that can be done in several ways. */
export interface TunableCall {
  readonly group: Group;
  /** `tuningKey` */
  readonly key: string;
}

/** The keys of calls that take next to nothing of all of them: by the graph alone, whatever is remembered. */
export function minorCalls(
  calls: readonly TunableCall[],
  stored: ReadonlySet<GraphNode>,
  target: Target,
): ReadonlySet<string> {
  const cycles = new Map<string, number>();
  for (const { group, key } of calls)
    cycles.set(key, (cycles.get(key) ?? 0) + cyclesOf(group, stored, target));
  const sum = [...cycles.values()].reduce((all, n) => all + n, 0);
  const minor = new Set<string>();
  let together = 0;
  for (const [key, taken] of [...cycles].sort(([, a], [, b]) => a - b)) {
    together += taken;
    if (together > MINOR.together * sum || taken > MINOR.each * sum) break;
    minor.add(key);
  }
  return minor;
}

/**
 * By the roofline: to start, and the longer of multiplying and moving all that is read and stored. Tensor cores are taken to multiply,
 * since calls are only compared: in f32 products take longer, but most calls then do.
 */
function cyclesOf(group: Group, stored: ReadonlySet<GraphNode>, { units }: Target): number {
  const { node } = group.call!;
  const { op, arg } = callOf(node);
  const { anotherKernel } = FITTED.matmul;
  const products = (op.flops?.(node, arg) ?? 0) / 2;
  const moved = [...readsOfGroup(group, stored), ...group.roots].reduce((n, of) => n + bytesOf(of), 0);
  const multiplying = (products * node.src[0]!.dtype.bytes) / (units * WARPGROUP_TIMES.rate);
  return anotherKernel + Math.max(multiplying, moved / (units * FITTED.strips.memory));
}

const bytesOf = ({ size, dtype }: GraphNode): number => size * dtype.bytes;
