/** How the calls of a class of layers become ONNX operators. */
import type { nn } from 'heddle';
import type { GraphNode } from 'heddle/internal/graph/node.js';
import type { Emission } from './emission.js';

/** What writing the call of a layer takes. */
export interface LayerIo<M> {
  readonly io: Emission;
  readonly module: M;
  /** The dotted name of the layer. */
  readonly path: string;
  /** The tensors among its arguments, and their values. */
  readonly inputs: readonly GraphNode[];
  readonly values: readonly string[];
}

/** How the calls of one class of layers are written. */
export interface LayerExport<M extends nn.Module = nn.Module> {
  /** Of this class, and no subclass: that may compute something else. */
  readonly layer: new (
    ...args: never[]
  ) => M;
  /** The least version of the operators; default: any. */
  readonly since?: number;
  /** Whether a call with these tensors can be written so; default: with one tensor. */
  readonly fits?: (module: M, inputs: readonly GraphNode[]) => boolean;
  /** Write a call. @returns its results */
  readonly write: (call: LayerIo<M>) => readonly string[];
}
