/** What the scheduler tells the tuner of a hand-written kernel that can be done in several ways. */
import { sha256Hex } from '#platform/hash.js';
import { topological } from '../../core/node.js';
import type { Variant, View } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import type { Group } from '../group.js';
import type { StageWork } from '../launch.js';
import { argText, describe } from './canonical.js';

export interface TuneRequest {
  /** Equal texts stand for equal work: the kernel, sizes, layouts, epilogue and variants. */
  readonly key: string;
  readonly variants: readonly TuneVariant[];
}

export interface TuneVariant {
  readonly name: string;
  readonly leastUs: number;
  /** Its launches. @throws whatever keeps it from being planned */
  make(): Trial;
}

/** Launches outside of a program. Memory is named by numbers of `memory`. */
export interface Trial {
  readonly stages: readonly { readonly work: StageWork; readonly slots: readonly TrialSlot[] }[];
  /** A node's memory, or that many bytes of scratch. */
  readonly memory: readonly (GraphNode | number)[];
}

export type TrialSlot = { readonly memory: number } | { readonly value: Scalar };

/** Says for each request which variant to take, by its name; undefined takes the kernel's own guess. */
export type Tune = (requests: readonly TuneRequest[]) => readonly (string | undefined)[];

const viewText = ({ dtype, shape, strides, offset }: View): string =>
  `${dtype.name}(${shape.join(',')})[${strides.join(',')}]${offset > 0 ? `+${offset}` : ''}`;

/** A text for a call with all that its speed depends on. */
export function tuningKey(
  { call, roots }: Group,
  stored: ReadonlySet<GraphNode>,
  inputs: readonly View[],
  variants: readonly Variant[],
): string {
  const { node, choice } = call!;
  const stop = (n: GraphNode): boolean => n === node || (stored.has(n) && !roots.includes(n));
  const ids = new Map<GraphNode, number>();
  const lines = topological(roots, (n) => (stop(n) ? [] : n.src)).map((n) => {
    const text = stop(n)
      ? `${n === node ? 'own' : 'memory'} ${n.dtype.name}(${n.shape.join(',')})`
      : describe(
          n,
          n.src.map((s) => ids.get(s)!),
        );
    ids.set(n, ids.size);
    return text;
  });
  const rest = sha256Hex([...lines, ...variants.map((v) => v.name)].join('\n'));
  const own = argText(node);
  const follows = roots.length > 1 || roots[0] !== node ? ' …' : '';
  return `${choice.name} ${own} ${inputs.map(viewText).join(' ')} → ${node.dtype.name}(${node.shape.join(',')})${follows} ${rest.slice(0, 12)}`;
}
