/** What a tensor stands for: a node of the graph, which `assign` changes. The operations on it are in tensor.ts. */
import { aBoolean, requireArgument } from '../core/arguments.js';
import { type DType, type DTypeName, isFloat } from '../core/dtype.js';
import { ArgumentError, DTypeError } from '../core/errors.js';
import { type Shape, sizeOf } from '../core/shape.js';
import * as engine from '../engine/realize.js';
import { currentTrace, placeholderFor } from '../engine/trace.js';
import * as b from '../graph/build.js';
import { isParameter } from '../graph/grad.js';
import { GraphNode } from '../graph/node.js';

/** `depth` of a graph at which it is computed without being asked, so that loops cannot grow it without bound. */
const MAX_DEPTH = 2000;

/** @internal */
export const noGradientOf = ({ name }: DType): DTypeError =>
  new DTypeError(
    `requiresGrad is true, but a tensor of ${name} has no gradient. Make it of floats: { dtype: f32 }.`,
  );

/** The facts about a tensor: its shape, its dtype, and whether it has a gradient. */
export abstract class TensorHandle<S extends Shape, D extends DTypeName> {
  /** @internal */
  #node: GraphNode;
  #isFrozen = false;
  /**
   * @internal Tensors are made by `tensor`, `zeros`, `rand`… and by operations.
   * @param isNew it is of its own leaf: else it has no gradient where none is recorded, if it is its operand's, too
   */
  constructor(node: GraphNode, isNew = false) {
    if (!(node instanceof GraphNode))
      throw new ArgumentError(
        '[Tensor] tensors are made by tensor([1, 2]), zeros([2, 3]), rand([4])…, not by new Tensor().',
      );
    if (node.requiresGrad && !isNew && !b.recordsGradients()) node = b.detach(node);
    if (node.depth > MAX_DEPTH && !node.storage && !currentTrace()) engine.realize([node]);
    node.tensors++;
    this.#node = node;
  }

  /** @internal Whether it is a parameter of which no gradient is wanted. */
  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** @internal The graph node: within a traced function, what stands for this tensor there. */
  get node(): GraphNode {
    return placeholderFor(this, this.#node);
  }

  /** @internal The node itself, traced or not. */
  get ownNode(): GraphNode {
    return this.#node;
  }

  /** @internal */
  set ownNode(node: GraphNode) {
    // What was made from the old one, and is not computed, may need it as long as another tensor stands for it.
    if (this.#node.users === 0) this.#node.tensors--;
    node.tensors++;
    this.#node = node;
  }

  /** Sizes of the dimensions; [] for a scalar. */
  get shape(): readonly [...S] {
    return this.#node.shape as readonly [...S];
  }

  /** The dtype of the elements. */
  get dtype(): DType<D> {
    return this.#node.dtype as DType<D>;
  }

  /** How many elements. */
  get size(): number {
    return sizeOf(this.#node.shape);
  }

  /** How many elements: `size`, by PyTorch's name. */
  numel(): number {
    return this.size;
  }

  /** How many dimensions. */
  get ndim(): number {
    return this.#node.shape.length;
  }

  /**
   * Whether `backward` gives this tensor a gradient. It can be set, as PyTorch's `requires_grad`: of a tensor of floats
   * to true, and of one that requires a gradient itself (a parameter, not a result) back to false, which freezes it.
   * Set to true, it holds for what is made from the tensor afterwards. A jitted function keeps what held when it was traced.
   * @throws DTypeError unless of floats · ArgumentError for a result, and within `jit`
   */
  get requiresGrad(): boolean {
    return this.#node.requiresGrad;
  }
  set requiresGrad(on: boolean) {
    requireArgument('requiresGrad', 'the value', on, aBoolean);
    if (currentTrace())
      throw new ArgumentError(
        '[requiresGrad] cannot be set within a jitted function. Set it before its first call.',
      );
    const node = this.#node;
    if (on === node.requiresGrad) return;
    if (!isFloat(node.dtype)) throw noGradientOf(node.dtype);
    if (!on && !isParameter(node))
      throw new ArgumentError(
        '[requiresGrad] this tensor is a result of others that require gradients: only theirs can be set. Use .detach() for its values without gradients.',
      );
    engine.startGradients(this, on);
    this.#isFrozen = !on;
  }
}
