/** Tracing: while `jit` runs a function to see what it does, tensors stand for values that are not there yet. */
import { ArgumentError } from '../core/errors.js';
import { leaf } from '../graph/build.js';
import { type GraphNode, newestSerial } from '../graph/node.js';

/** What the engine sees of a tensor: a name for a node, which `assign` changes. */
export interface Handle {
  ownNode: GraphNode;
}

let active: Trace | undefined;

export class Trace {
  /** Stand-ins for tensors from outside, each followed by its handle at later runs. */
  readonly captured = new Map<Handle, GraphNode>();
  /** Stand-ins for the function's arguments. */
  readonly inputs: Handle[] = [];
  /** Whether gradients have been used: those that are left then are not asked for. */
  usedGradients = false;
  /** Tensors from outside that were assigned, with their new value. */
  readonly assigned = new Map<Handle, GraphNode>();
  readonly #start = newestSerial();
  #failure: Error | undefined;
  readonly #realize: (node: GraphNode) => void;

  constructor(realize: (node: GraphNode) => void) {
    this.#realize = realize;
  }

  /** Run `body` as this trace. */
  run<T>(body: () => T): T {
    if (active)
      throw new ArgumentError(
        '[jit] a jitted function cannot be called inside another: call the plain function there.',
      );
    active = this;
    let result: T;
    try {
      result = body();
    } finally {
      active = undefined;
    }
    if (this.#failure) throw this.#failure;
    return result;
  }

  /** Something inside cannot be traced, and nobody waits for its error: `run` throws it when the body has returned. */
  fail(error: Error): void {
    this.#failure ??= error;
  }

  /** The node that stands for a tensor: itself if it was made in this trace. */
  nodeOf(handle: Handle, own: GraphNode): GraphNode {
    const known = this.assigned.get(handle) ?? this.captured.get(handle);
    if (known) return known;
    if (this.made(own) && !own.storage) return own;
    if (!own.storage) this.#realize(own);
    const stand = leaf(own.shape, own.dtype, own.requiresGrad);
    this.captured.set(handle, stand);
    owners.set(stand, new WeakRef(handle));
    return stand;
  }

  /** Whether a node was made in this trace. */
  made(node: GraphNode): boolean {
    return node.serial > this.#start;
  }

  /** @throws ArgumentError for an argument: the program is the same whichever tensor is passed */
  assign(handle: Handle, node: GraphNode): void {
    if (this.inputs.includes(handle))
      throw new ArgumentError(
        '[assign] an argument of a jitted function cannot be assigned. Use the tensor from outside of the function, or return the new value.',
      );
    // Capture it first: the memory it has is what the program updates.
    const before = this.nodeOf(handle, handle.ownNode);
    if (before === handle.ownNode && !this.captured.has(handle)) handle.ownNode = node;
    else this.assigned.set(handle, node);
  }
}

/** The running trace, if any. */
export const currentTrace = (): Trace | undefined => active;

/** Say that gradients have been used, in the running trace, if any. */
export const noteUseOfGradients = (): void => {
  if (active) active.usedGradients = true;
};

/** Whether a tensor is from before the running trace: every run would find the same one. */
export const isFromBefore = ({ ownNode }: Handle): boolean => active?.made(ownNode) === false;

/** `own`, or while tracing what stands for it. */
export const placeholderFor = (handle: Handle, own: GraphNode): GraphNode =>
  active?.nodeOf(handle, own) ?? own;

const owners = new WeakMap<GraphNode, WeakRef<Handle>>();

/** Say which tensor a node is the value of, so that gradients and traces find it. */
export const setOwner = (node: GraphNode, handle: Handle): void => {
  owners.set(node, new WeakRef(handle));
};

export const ownerOf = (node: GraphNode): Handle | undefined => owners.get(node)?.deref();
