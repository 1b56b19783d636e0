/**
 * A model's forward pass as a graph of nodes, for inputs of given shapes. Nothing is computed. The call of a layer that ONNX
 * has an operator for is one node; everything else is what the layer's `forward` is made of.
 */
import { type AnyTensor, type nn, Tensor } from 'heddle';
import { ArgumentError, InternalError } from 'heddle/internal/core/errors.js';
import { topological } from 'heddle/internal/core/node.js';
import type { Shape } from 'heddle/internal/core/shape.js';
import { call } from 'heddle/internal/graph/build.js';
import type { FusedOp } from 'heddle/internal/graph/fused-op.js';
import type { GraphNode, TensorType } from 'heddle/internal/graph/node.js';
import { recordOrigins, recordsOrigins } from 'heddle/internal/graph/origin.js';
import { newestSerial, nodeOf, tensorOf, tracedGraph, valueless } from 'heddle/internal/tensor/tracing.js';

/** An argument of `forward`: a tensor that stands for its shape and dtype, or arrays and records of those. */
export type ExampleInput =
  | AnyTensor
  | undefined
  | readonly ExampleInput[]
  | { readonly [name: string]: ExampleInput };

/** A tensor within the arguments or the results of `forward`. */
export interface NamedTensor {
  readonly name: string;
  readonly tensor: AnyTensor;
}

/** A call of a module's `forward` while the model is traced. */
export interface ModuleCall {
  readonly module: nn.Module;
  /** The dotted name of the module; '' for the model itself. */
  readonly path: string;
  /** The call that it is part of; undefined for the model's own. */
  readonly within: ModuleCall | undefined;
}

/** The call of a layer that becomes one node. */
export interface LayerCall extends ModuleCall {
  /** The tensors among its arguments. */
  readonly inputs: readonly GraphNode[];
}

/** One of the results of a call; `type` is its own. */
interface LayerArg {
  readonly call: LayerCall;
  readonly output: number;
  readonly type: TensorType;
}

/** The call of a layer as a node. */
const layerOp: FusedOp<LayerArg> = {
  name: 'layer',
  infer: (_, { type }) => type,
  compose: () => {
    throw new InternalError('the call of a layer is exported as such');
  },
  kernels: [],
};

/** The call that a node is a result of, if it is one. */
export function layerCallOf(node: GraphNode): LayerArg | undefined {
  if (node.op !== 'call') return undefined;
  const { op, arg } = node.arg as { readonly op: unknown; readonly arg: unknown };
  return op === layerOp ? (arg as LayerArg) : undefined;
}

/** The forward pass for one set of shapes. */
export interface ModelTrace {
  readonly inputs: readonly GraphNode[];
  readonly outputs: readonly { readonly name: string; readonly node: GraphNode }[];
  /** All nodes that the outputs are made of, each after its sources. */
  readonly nodes: readonly GraphNode[];
  /** The tensor from outside of `forward` that a leaf stands for. */
  readonly tensorOf: (leaf: GraphNode) => AnyTensor | undefined;
  /** The innermost call of a module that a node was made in; undefined for one that was made after the trace. */
  readonly madeIn: (node: GraphNode) => ModuleCall | undefined;
}

/**
 * @param shapes of the tensors in `args`, in order
 * @param isWhole whether a call of this layer with these tensors becomes one node
 * @throws ArgumentError for what cannot be traced, and what `forward` throws
 */
export function traceModel(
  model: nn.Module,
  args: readonly ExampleInput[],
  shapes: readonly Shape[],
  isWhole: (module: nn.Module, inputs: readonly GraphNode[]) => boolean,
): ModelTrace {
  const inputs: GraphNode[] = [];
  const { result, ...graph } = tracedGraph('exportOnnx', () => {
    const given = substituted(args, ({ dtype }) => {
      const stand = valueless(shapes[inputs.length]!, dtype);
      inputs.push(nodeOf(stand));
      return stand;
    });
    let output: unknown;
    const madeIn = inEvaluation(model, isWhole, () => {
      output = (model.forward as (...args: unknown[]) => unknown).apply(model, given as unknown[]);
    });
    return { output, madeIn };
  });
  const outputs = namedTensors('output', result.output).map(({ name, tensor }) => ({
    ...{ name, node: graph.nodeOf(tensor) },
  }));
  if (outputs.length === 0)
    throw new ArgumentError('[exportOnnx] forward returns no tensor: there is nothing to export.');
  const nodes = topological(
    outputs.map(({ node }) => node),
    ({ src }) => src,
  );
  // Random numbers advance their generator: that they are drawn is said where they are.
  if (graph.assigned > 0 && !nodes.some(({ op }) => op === 'random'))
    throw new ArgumentError(
      `[exportOnnx] forward assigns ${graph.assigned === 1 ? 'a tensor' : `${graph.assigned} tensors`} that it keeps, as a ` +
        'key-value cache does. An ONNX model has no state: pass it in and return it instead.',
    );
  return { inputs, outputs, nodes, tensorOf: graph.tensorOf, madeIn: result.madeIn };
}

/** Run `body` with the lines recorded that ask for nodes: a stack for each takes time. */
export function withOrigins<T>(body: () => T): T {
  const before = recordsOrigins();
  recordOrigins(true);
  try {
    return body();
  } finally {
    recordOrigins(before);
  }
}

/** The tensors of a value, with names: `output`, `output_0`…, or the names of a record's fields. @throws ArgumentError */
export function namedTensors(name: string, value: unknown): NamedTensor[] {
  if (value === undefined) return [];
  if (value instanceof Tensor) return [{ name, tensor: value as AnyTensor }];
  if (Array.isArray(value)) return value.flatMap((v, i) => namedTensors(`${name}_${i}`, v));
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([key, v]) => namedTensors(key, v));
  throw new ArgumentError(
    `[exportOnnx] ${name} is ${typeof value}: the arguments and results of an exported model are tensors, and arrays and ` +
      'records of them. Export a module whose forward takes and returns only those.',
  );
}

/** The same structure with other tensors. */
function substituted(value: unknown, by: (tensor: AnyTensor) => AnyTensor): unknown {
  if (value instanceof Tensor) return by(value as AnyTensor);
  if (Array.isArray(value)) return value.map((v) => substituted(v, by));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, substituted(v, by)]));
  return value;
}

/** Serial numbers of the nodes that a call of a module made. */
interface Span {
  readonly call: ModuleCall;
  readonly after: number;
  readonly upTo: number;
}

/** Run `body` with every layer in evaluation mode and watched. @returns in which module's call a node was made */
function inEvaluation(
  model: nn.Module,
  isWhole: (module: nn.Module, inputs: readonly GraphNode[]) => boolean,
  body: () => void,
): ModelTrace['madeIn'] {
  const modules = [...model.namedModules()];
  const modes = modules.map(([, module]) => module.training);
  const open: Omit<Span, 'upTo'>[] = [];
  /** Those of inner calls come before those of outer ones. */
  const spans: Span[] = [];
  const hooks = modules.flatMap(([path, module]) => {
    // A layer with hooks of its user's does more than its class does.
    const isPlain = !Object.hasOwn(module, 'forward');
    return [
      module.registerForwardPreHook(() => {
        open.push({ call: { module, path, within: open.at(-1)?.call }, after: newestSerial() });
        return undefined;
      }),
      module.registerForwardHook((_, inputs, output) => {
        const span = open.pop()!;
        spans.push({ ...span, upTo: newestSerial() });
        const tensors = tensorsOf(inputs);
        if (!tensors || !isPlain || !isWhole(module, tensors)) return undefined;
        return asOneNode({ ...span.call, inputs: tensors }, output);
      }),
    ];
  });
  try {
    model.eval();
    body();
  } finally {
    for (const hook of hooks) hook.remove();
    modules.forEach(([, module], i) => {
      module.training = modes[i]!;
    });
  }
  return ({ serial }) => spans.find(({ after, upTo }) => after < serial && serial <= upTo)?.call;
}

/** The tensors among the arguments of a layer; undefined if there is anything else that may change what it computes. */
function tensorsOf(inputs: readonly unknown[]): GraphNode[] | undefined {
  const nodes = inputs.flatMap((input): (GraphNode | undefined)[] => {
    if (input === undefined) return [];
    if (input instanceof Tensor) return [nodeOf(input as AnyTensor)];
    return Array.isArray(input) ? (tensorsOf(input) ?? [undefined]) : [undefined];
  });
  return nodes.every((node) => node !== undefined) ? nodes : undefined;
}

/** The results of a layer as nodes of its call. */
function asOneNode(layer: LayerCall, output: unknown): unknown {
  let count = 0;
  return substituted(output, (tensor) => {
    const arg = { call: layer, output: count++, type: nodeOf(tensor).type };
    return tensorOf(call(layerOp, layer.inputs, arg));
  });
}
