/** Movement ops as strided views of a stored node, for kernels that read strided sources. */
import { stridesOf } from '../../core/shape.js';
import type { View } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';

export interface NodeView extends View {
  /** The node whose memory is viewed. */
  readonly base: GraphNode;
}

const contiguous = (node: GraphNode): NodeView => ({
  base: node,
  shape: node.shape,
  dtype: node.dtype,
  strides: stridesOf(node.shape),
  offset: 0,
});

/** `node` as a view of the nearest node that is stored or no movement op; undefined if strides cannot say it. */
export function viewOf(node: GraphNode, stored: ReadonlySet<GraphNode>): NodeView | undefined {
  if (node.isLeaf || stored.has(node)) return contiguous(node);
  switch (node.op) {
    case 'detach':
      return viewOf(node.src[0]!, stored);
    case 'permute': {
      const x = viewOf(node.src[0]!, stored);
      const { axes } = argOf(node, 'permute');
      return x && { ...x, shape: node.shape, strides: axes.map((a) => x.strides[a]!) };
    }
    case 'expand': {
      const x = viewOf(node.src[0]!, stored);
      return (
        x && {
          ...x,
          shape: node.shape,
          strides: x.strides.map((s, i) => (x.shape[i] === node.shape[i] ? s : 0)),
        }
      );
    }
    case 'slice': {
      const x = viewOf(node.src[0]!, stored);
      const { start, step } = argOf(node, 'slice');
      return (
        x && {
          ...x,
          shape: node.shape,
          strides: x.strides.map((s, i) => s * step[i]!),
          offset: x.strides.reduce((n, s, i) => n + s * start[i]!, x.offset),
        }
      );
    }
    case 'reshape': {
      const x = viewOf(node.src[0]!, stored);
      const strides = x && reshapedStrides(x, node.shape);
      return x && strides && { ...x, shape: node.shape, strides };
    }
    default:
      return contiguous(node);
  }
}

/** Strides of a view in another shape, if it has any. */
export function reshapedStrides(
  view: Pick<View, 'shape' | 'strides'>,
  shape: readonly number[],
): number[] | undefined {
  const from = view.shape.map((size, i) => ({ size, stride: view.strides[i]! })).filter((d) => d.size !== 1);
  // Neighbours that are one run in memory
  const runs: { size: number; stride: number }[] = [];
  for (const d of from) {
    const last = runs.at(-1);
    if (last && last.stride === d.stride * d.size)
      runs[runs.length - 1] = { size: last.size * d.size, stride: d.stride };
    else runs.push({ ...d });
  }
  const strides = new Array<number>(shape.length).fill(0);
  let run = runs.pop();
  let left = run?.size ?? 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i]!;
    if (size === 1) continue;
    if (left === 1) {
      run = runs.pop();
      left = run?.size ?? 1;
    }
    if (!run || left % size !== 0) return undefined;
    strides[i] = run.stride * (run.size / left);
    left /= size;
  }
  return strides;
}
