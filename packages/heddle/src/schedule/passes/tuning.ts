/** What the scheduler tells the tuner of a hand-written kernel that can be done in several ways. */
import { sha256Hex } from '#platform/hash.js';
import type { Variant, View } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import type { Group } from '../group.js';
import type { StageWork } from '../launch.js';
import { argText } from './canonical.js';

export interface TuneRequest {
  /** Calls of equal texts share their choice (`tuningKey`). */
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
  /** Of the nodes, those that are written. */
  readonly results: readonly GraphNode[];
}

export type TrialSlot = { readonly memory: number } | { readonly value: Scalar };

/**
 * Says for each request which variant to take, by its name; undefined takes the kernel's own guess.
 * @param others the other launches of the program, as they are if each call keeps its guess: they may be compiled meanwhile
 */
export type Tune = (
  requests: readonly TuneRequest[],
  others?: () => readonly StageWork[],
) => readonly (string | undefined)[];

const viewText = ({ dtype, shape }: View): string => `${dtype.name}(${shape.join(',')})`;

/**
 * A text for a call with all that the model of the machine knows of it: the kernel, sizes, and the variants in the model's
 * order, on which what is computed at the store has its part.
 */
export function tuningKey({ call }: Group, inputs: readonly View[], variants: readonly Variant[]): string {
  const { node, choice, made } = call!;
  const names = sha256Hex(variants.map((v) => v.name).join('\n')).slice(0, 12);
  const sources = inputs.map(viewText).join(' ');
  return `${choice.name} ${argText(node)} ${sources} → ${made.dtype.name}(${made.shape.join(',')}) ${names}`;
}
