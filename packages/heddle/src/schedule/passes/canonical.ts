/**
 * The scheduler's own copy of a graph: leaves numbered, equal nodes shared, fused ops without a kernel for the
 * target replaced by their composition. Structure only: two graphs with the same fingerprint run the same program.
 */

import { reordered, withAlignedRows } from '#schedule/orders.js';
import { inTwo, spreadNodes } from '#schedule/parts.js';
import { f64, isFloat } from '../../core/dtype.js';
import { topological } from '../../core/node.js';
import * as b from '../../graph/build.js';
import { callOf, type KernelChoice, type WindowFunction } from '../../graph/fused-op.js';
import { argOf, GraphNode } from '../../graph/node.js';
import { asPartOf } from '../../graph/origin.js';
import { beforeMonotone } from '../../graph/rewrites.js';
import { convert, type Scalar } from '../../kernel/ir/ops.js';
import type { Target } from '../../kernel/ir/target.js';
import { inIntegers } from '../integers.js';
import { inF32, kernelOf } from '../kernel-choice.js';

const sources = (node: GraphNode): readonly GraphNode[] => (node.isLeaf ? [] : node.src);

/** The argument of a node, and of a call its op. */
export const argText = (node: GraphNode): string =>
  node.op === 'call'
    ? `${callOf(node).op.name}${jsonOf(callOf(node).arg)}`
    : node.arg === null
      ? ''
      : jsonOf(node.arg);

/** JSON that keeps what it usually loses: bigints, infinities, NaN and −0. */
export const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_key, v: unknown) =>
    typeof v === 'bigint'
      ? `${v}n`
      : typeof v === 'number' && (!Number.isFinite(v) || Object.is(v, -0))
        ? `#${Object.is(v, -0) ? '-0' : v}`
        : v,
  ) ?? '';

/** A node in a word, its sources by number. */
export const describe = (node: GraphNode, ids: readonly number[]): string =>
  `${node.op} ${node.dtype.name}(${node.shape.join(',')})${argText(node)}[${ids.join(' ')}]`;

/** A text that is equal for graphs of equal structure, and the leaves in the order it numbers them. */
export function fingerprint(roots: readonly GraphNode[]): { text: string; leaves: GraphNode[] } {
  const ids = new Map<GraphNode, number>();
  const leaves: GraphNode[] = [];
  const lines: string[] = [];
  for (const node of topological(roots, sources)) {
    if (node.isLeaf) {
      lines.push(`${node.dtype.name}(${node.shape.join(',')})`);
      leaves.push(node);
    } else
      lines.push(
        describe(
          node,
          node.src.map((s) => ids.get(s)!),
        ),
      );
    ids.set(node, ids.size);
  }
  lines.push(`→ ${roots.map((r) => ids.get(r)!).join(' ')}`);
  return { text: lines.join('\n'), leaves };
}

/**
 * The value everywhere of a node without elements, or of one whose source has none: a sum or product over nothing,
 * padding around nothing. Kernels never meet an empty node. Undefined for all other nodes.
 */
function ofNothing(node: GraphNode): Scalar | undefined {
  const { dtype } = node;
  const constant = (v: number): Scalar => convert(f64, dtype, v);
  if (node.size === 0) return constant(0);
  if (node.op === 'call' || node.src.every((s) => s.size > 0)) return undefined;
  if (node.op === 'pad') return constant(argOf(node, 'pad').value);
  return constant(node.op === 'reduce' && argOf(node, 'reduce').op === 'prod' ? 1 : 0);
}

/**
 * What was widened before `node` rounds it to its own dtype again: the same values, so that none is computed, or kept, twice.
 * The gradients of a layer in mixed precision come so. Undefined for all other nodes, and for a leaf, which nobody computes.
 */
function beforeWidening(node: GraphNode, wide: GraphNode): GraphNode | undefined {
  const casts = [node, wide].every((n) => n.op === 'map' && argOf(n, 'map').op === 'cast');
  const narrow = casts ? wide.src[0]! : node;
  const isSame = casts && narrow.dtype === node.dtype && !narrow.isLeaf;
  return isSame && isFloat(wide.dtype) && isFloat(node.dtype) && wide.dtype.bytes > node.dtype.bytes
    ? narrow
    : undefined;
}

/** Values of a window that a thread holds; of larger windows it takes one after the other. */
const MOST_HELD = 16;

const isHeld = ({ sizes }: WindowFunction): boolean => sizes[0] * sizes[1] <= MOST_HELD;

export interface Canonical {
  readonly roots: readonly GraphNode[];
  /** The stand-ins of the leaves, in the order of `fingerprint`. */
  readonly leaves: readonly GraphNode[];
  readonly choices: ReadonlyMap<GraphNode, KernelChoice>;
}

/**
 * @param kernels false lowers every fused op by its composition (the oracle of the tests)
 * @param constants as in `PlanSetting`
 */
export function canonicalize(
  roots: readonly GraphNode[],
  target: Target,
  kernels = true,
  constants: ReadonlySet<number> = new Set(),
): Canonical {
  const shared = new Map<string, GraphNode>();
  const mine = new Map<GraphNode, GraphNode>();
  const ids = new Map<GraphNode, number>();
  const choices = new Map<GraphNode, KernelChoice>();
  const leaves: GraphNode[] = [];

  const numberOf = (node: GraphNode): number => ids.get(node)!;
  const adopt = (node: GraphNode): GraphNode => {
    ids.set(node, ids.size);
    mine.set(node, node);
    return node;
  };

  const convert = (from: readonly GraphNode[], met = 0): void => {
    const order = topological(from, (n) => (mine.has(n) ? [] : sources(n)));
    const spread = spreadNodes(order, met);
    for (const node of order) {
      if (mine.has(node)) continue;
      if (node.isLeaf) {
        const stand = adopt(new GraphNode('leaf', node.type, [], null, false));
        leaves.push(stand);
        mine.set(node, stand);
        continue;
      }
      const src = node.src.map((s) => mine.get(s)!);
      const key = describe(
        node,
        src.map((s) => ids.get(s)!),
      );
      let made = shared.get(key);
      if (!made) {
        made = asPartOf(node.origin, () => replace(node, src, spread.get(node) ?? 0));
        shared.set(key, made);
      }
      mine.set(node, made);
    }
  };

  const replace = (node: GraphNode, src: readonly GraphNode[], met: number): GraphNode => {
    const nothing = ofNothing(node);
    if (nothing !== undefined) return adopt(new GraphNode('full', node.type, [], { value: nothing }, false));
    const narrow = src.length === 1 ? beforeWidening(node, src[0]!) : undefined;
    if (narrow) return narrow;
    const two = src.length === 1 ? inTwo(node, src[0]!, met, choices, numberOf, target) : undefined;
    if (two) {
      convert([two]);
      return mine.get(two)!;
    }
    if (node.op !== 'call') return adopt(new GraphNode(node.op, node.type, src, node.arg, false));
    const { op, arg } = callOf(node);
    const call = new GraphNode('call', node.type, src, node.arg, false);
    const moved = beforeMonotone(call);
    if (moved) {
      convert([moved]);
      return mine.get(moved)!;
    }
    const windows = kernels ? op.windows?.(arg, src[0]!.type) : undefined;
    if (windows && call.size > 0 && isHeld(windows)) {
      const stored = b.call(windows.stored, src, windows.sizes);
      convert([stored]);
      return adopt(new GraphNode('call', node.type, [mine.get(stored)!], node.arg, false));
    }
    const faster = kernels ? op.faster?.(src, arg, target) : undefined;
    if (faster) {
      convert([faster]);
      return mine.get(faster)!;
    }
    const choice = kernels ? kernelOf(call, target) : undefined;
    if (choice) {
      choices.set(call, choice);
      return adopt(call);
    }
    const composed = (kernels ? inF32(call, target) : undefined) ?? op.compose(src, arg);
    convert([composed], met);
    return mine.get(composed)!;
  };

  const given = topological(roots, sources).filter((node) => node.isLeaf);
  convert(given);
  const known = new Set(given.filter((_, leaf) => constants.has(leaf)));
  const inOrder = kernels
    ? withAlignedRows(reordered(inIntegers(roots, target), target, known), target)
    : roots;
  convert(inOrder);
  return { roots: inOrder.map((r) => mine.get(r)!), leaves, choices };
}
