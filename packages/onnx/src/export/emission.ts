/** From nodes of the traced graph to values of the ONNX graph: each node once, when it is first asked for. */
import type { AnyTensor } from 'heddle';
import { type DType, f32, i64, isFloat } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { broadcastShapes, formatShape } from 'heddle/internal/core/shape.js';
import { knownValue } from 'heddle/internal/graph/build.js';
import type { GraphNode } from 'heddle/internal/graph/node.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { GraphTraces } from './graph-traces.js';
import { type Attributes, GraphWriter, int, ints } from './graph-writer.js';
import { isFixed, type Point, polynomialOf, type Size, sameSize } from './sizes.js';
import type { ModelTrace } from './trace-model.js';

/** A dynamic dimension: where an input of the graph has it. */
export interface DynamicDimension {
  readonly input: string;
  readonly axis: number;
}

/** Tensors that `forward` made of values in two traces: the export is right if these are the same. */
export interface Claim {
  readonly tensor: AnyTensor;
  readonly other: AnyTensor;
  readonly where: string;
}

/** What writing a node takes. */
export class Emission {
  readonly claims: Claim[] = [];
  /** Where nodes and constants are written. */
  readonly writer = new GraphWriter();
  readonly traces: GraphTraces;
  /** Of the operators of ai.onnx. */
  readonly opset: number;
  readonly #points: readonly Point[];
  readonly #symbols: ReadonlyMap<string, DynamicDimension>;
  readonly #models: readonly ModelTrace[];
  readonly #nameOf: (tensor: AnyTensor) => string | undefined;
  readonly #write: (node: GraphNode, emission: Emission) => string;
  readonly #values = new Map<GraphNode, string>();
  readonly #tensors = new Map<AnyTensor, string>();
  readonly #lengths = new Map<string, string>();

  /** @param write what writes a node that is not known yet */
  constructor(
    models: readonly ModelTrace[],
    options: {
      readonly opset: number;
      readonly points: readonly Point[];
      readonly symbols: ReadonlyMap<string, DynamicDimension>;
      readonly nameOf: (tensor: AnyTensor) => string | undefined;
    },
    write: (node: GraphNode, emission: Emission) => string,
  ) {
    this.#models = models;
    this.opset = options.opset;
    this.#points = options.points;
    this.#symbols = options.symbols;
    this.#nameOf = options.nameOf;
    this.#write = write;
    this.traces = new GraphTraces(models[0]!.madeIn);
    models[0]!.outputs.forEach((_, i) => {
      this.traces.add(models.map(({ outputs }) => outputs[i]!.node));
    });
  }

  // ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Say what a node's value is called. */
  define(node: GraphNode, value: string): void {
    this.#values.set(node, value);
  }

  /** The value of a node. */
  value(node: GraphNode): string {
    const known = this.#values.get(node);
    if (known !== undefined) return known;
    const { within } = this.writer;
    // What a composition is made of belongs to the layer that it is written for.
    this.writer.within = this.#models[0]!.madeIn(node) ?? within;
    const value = this.#write(node, this);
    this.writer.within = within;
    this.#values.set(node, value);
    return value;
  }

  /** Values that broadcast to the node's shape, for an operator that broadcasts: nothing is repeated that need not be. */
  broadcastable(nodes: readonly GraphNode[], node: GraphNode): string[] {
    const stripped = nodes.map(unexpanded);
    const fits = this.traces.twins(node).every((twin, i) => {
      const shapes = stripped.map((s) => (knownValue(s) === undefined ? this.traces.twins(s)[i]!.shape : []));
      const shape = broadcastShapes('export', ...shapes);
      return shape.length === twin.shape.length && shape.every((d, axis) => d === twin.shape[axis]);
    });
    return stripped.map((s, i) => {
      if (!fits && i === 0) return this.value(nodes[0]!);
      return knownValue(s) === undefined ? this.value(s) : this.known(s);
    });
  }

  /** A number that a node has everywhere, as a scalar. */
  known(node: GraphNode): string {
    const values = this.traces.twins(node).map((n) => knownValue(n)!);
    const [first] = values as [number | bigint | boolean];
    if (values.every((v) => Object.is(v, first))) return this.writer.constant([first], node.dtype, []);
    const numbers = values.map(Number);
    const whole = this.#scalar(numbers, node.dtype);
    if (whole !== undefined) return whole;
    const inverses = numbers.map((v) => nearlyWhole(1 / v));
    const inverse = isFloat(node.dtype) ? this.#scalar(inverses, node.dtype) : undefined;
    if (inverse !== undefined) return this.add('Reciprocal', [inverse]);
    throw new ArgumentError(
      `[exportOnnx] a number in ${this.where(node)} depends on a dynamic dimension: it is ${values.slice(0, 3).join(', ')} for different sizes. ` +
        'Make that dimension fixed.',
    );
  }

  /** A tensor of the model. */
  tensor(tensor: AnyTensor, name?: string): string {
    let value = this.#tensors.get(tensor);
    if (value === undefined) {
      value = this.writer.initializer(name ?? this.#nameOf(tensor) ?? 'tensor', tensor);
      this.#tensors.set(tensor, value);
    }
    return value;
  }

  /** The tensor from outside of `forward` that a leaf stands for. @throws ArgumentError if there is none, or its size varies */
  leaf(node: GraphNode): string {
    const tensors = this.traces.twins(node).map((twin, i) => this.#models[i]!.tensorOf(twin));
    const [tensor] = tensors;
    if (!tensor)
      throw new ArgumentError(
        `[exportOnnx] ${this.where(node)} uses a tensor whose values are not known when the model is exported.`,
      );
    if (!this.traces.hasFixedShape(node))
      throw new ArgumentError(
        `[exportOnnx] ${this.where(node)} makes a tensor of values from outside whose shape depends on a dynamic dimension: ` +
          `${formatShape(node.shape)} for one size. Compute it of tensors, as by arange, or make that dimension fixed.`,
      );
    for (const other of tensors)
      if (other && other !== tensor) this.claims.push({ tensor, other, where: this.where(node) });
    const path = this.writer.path;
    return this.tensor(tensor, this.#nameOf(tensor) ?? (path === '' ? 'constant' : `${path}.constant`));
  }

  /** The layer that a node was made in, for messages. */
  where(node: GraphNode): string {
    const path = this.#models[0]!.madeIn(node)?.path || this.writer.path;
    return path === '' ? 'the model' : `'${path}'`;
  }

  // ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Write a node of one output. @returns its name */
  add(opType: string, inputs: readonly (string | undefined)[], attributes?: Attributes): string {
    return this.writer.add(opType, inputs, attributes);
  }

  /** A number of a float or integer dtype. */
  scalar(value: number, dtype: DType = f32): string {
    return this.writer.constant([value], dtype, []);
  }

  /** Fixed integers, as operators take axes and counts. */
  integers(values: readonly number[]): string {
    return this.writer.constant(values, i64, [values.length]);
  }

  cast(value: string, to: DType): string {
    return this.add('Cast', [value], { to: int(ELEMENT_TYPES[to.name].code) });
  }

  transpose(value: string, axes: readonly number[]): string {
    return this.add('Transpose', [value], { perm: ints(axes) });
  }

  /** The value of `from`, whose dimensions are those of a node, with the shape of another. */
  reshape(value: string, from: readonly Size[], to: readonly Size[]): string {
    const isSame = from.length === to.length && from.every((size, i) => sameSize(size, to[i]!));
    if (isSame) return value;
    const known = to.map((size, i) => {
      if (isFixed(size)) return size[0]!;
      return from[i] && sameSize(from[i], size) ? 0 : undefined;
    });
    const isEmpty = to.some((size) => size.includes(0));
    const open = known.filter((n) => n === undefined).length;
    if (open <= 1 && !isEmpty) return this.add('Reshape', [value, this.integers(known.map((n) => n ?? -1))]);
    return this.add('Reshape', [value, this.sizes(to)], isEmpty ? { allowzero: int(1) } : {});
  }

  /** Sizes as a tensor of integers. */
  sizes(sizes: readonly Size[]): string {
    if (sizes.every(isFixed)) return this.integers(sizes.map((size) => size[0]!));
    const parts = sizes.map((size) => this.#size(size));
    return parts.length === 1 ? parts[0]! : this.add('Concat', parts, { axis: int(0) });
  }

  /** One size, as a tensor of one integer. @throws ArgumentError if it does not follow from the dynamic dimensions */
  #size(size: Size): string {
    const value = this.#whole(size);
    if (value === undefined)
      throw new ArgumentError(
        `[exportOnnx] a size in ${this.writer.path === '' ? 'the model' : `'${this.writer.path}'`} does not follow from the dynamic ` +
          `dimensions by sums and products: it is ${size.slice(0, 3).join(', ')} for different sizes. Make them fixed.`,
      );
    return value;
  }

  #whole(size: Size): string | undefined {
    if (isFixed(size)) return this.integers([size[0]!]);
    const terms = polynomialOf(size, this.#points);
    if (!terms) return undefined;
    const values = terms.map(({ coefficient, symbols }) => {
      const factors = symbols.map((symbol) => this.#length(symbol));
      if (coefficient !== 1 || factors.length === 0) factors.push(this.integers([coefficient]));
      return factors.reduce((a, b) => this.add('Mul', [a, b]));
    });
    return values.reduce((a, b) => this.add('Add', [a, b]));
  }

  /** A dynamic dimension, as a tensor of one integer. */
  #length(symbol: string): string {
    let length = this.#lengths.get(symbol);
    if (length === undefined) {
      const { input, axis } = this.#symbols.get(symbol)!;
      const { within } = this.writer;
      this.writer.within = undefined;
      length = this.add('Shape', [input], { start: int(axis), end: int(axis + 1) });
      this.writer.within = within;
      this.#lengths.set(symbol, length);
    }
    return length;
  }

  #scalar(values: Size, dtype: DType): string | undefined {
    const length = values.every(Number.isInteger) ? this.#whole(values) : undefined;
    return length === undefined ? undefined : this.cast(this.add('Squeeze', [length]), dtype);
  }
}

/** What is repeated to make a node, as far as operators that broadcast repeat it themselves. */
function unexpanded(node: GraphNode): GraphNode {
  let at = node;
  while (at.op === 'expand' && knownValue(at) === undefined) at = at.src[0]!;
  return at;
}

/** A number that rounding has moved from a whole one is that one. */
function nearlyWhole(v: number): number {
  const whole = Math.round(v);
  return Math.abs(v - whole) <= 1e-6 * Math.abs(whole) ? whole : v;
}
