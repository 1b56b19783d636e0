/** Which kernel a call of a fused op gets on a target. */
import { isHalf } from '../core/dtype.js';
import * as b from '../graph/build.js';
import { callOf, type KernelChoice } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import type { Target } from '../kernel/ir/target.js';

/**
 * A call of 16-bit floats that no kernel takes, by a kernel for f32 if there is one: of the sources in f32, which is
 * exact, and rounded once, as by the composition.
 */
export function inF32(call: GraphNode, target: Target): GraphNode | undefined {
  if (!isHalf(call.dtype) || call.size === 0) return undefined;
  const { op, arg } = callOf(call);
  const wide = b.call(op, call.src.map(b.wide), arg);
  return kernelOf(wide, target) && b.cast(wide, call.dtype);
}

/** The hand-written kernel of a call; of those that fit, the first. */
export function kernelOf(call: GraphNode, target: Target): KernelChoice | undefined {
  const { op, arg } = callOf(call);
  return call.size > 0 ? op.kernels.find((c) => c.when(target, call, arg)) : undefined;
}

/** Whether a call is more than its composition: a kernel, or functions of windows in another one. */
export const hasKernel = (call: GraphNode, target: Target): boolean =>
  callOf(call).op.windows !== undefined ||
  kernelOf(call, target) !== undefined ||
  inF32(call, target) !== undefined;
