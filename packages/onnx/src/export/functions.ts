/**
 * The nodes of a graph by the layers that they are written for: each call of a layer becomes one node, which calls a function of
 * the model. Weights are inputs of the function, so that layers of equal structure are calls of one function.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import type { nn } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import {
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type FunctionProto,
  FunctionProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  OperatorSetIdProtoSchema,
  TensorProtoSchema,
} from '../protobuf/onnx_pb.js';
import { type GraphWriter, type Initializer, UniqueNames } from './graph-writer.js';
import type { ModuleCall } from './trace-model.js';

/** The domain of the functions that layers become. */
const DOMAIN = 'heddle';

/** The versions of the operators that a model, or a function, uses. */
export const opsetImport = (opset: number, callsFunctions: boolean) =>
  [{ domain: '', version: opset }, ...(callsFunctions ? [{ domain: DOMAIN, version: 1 }] : [])].map(
    ({ domain, version }) => create(OperatorSetIdProtoSchema, { domain, version: BigInt(version) }),
  );

/** A class of layers. */
export type LayerClass = new (...args: never[]) => nn.Module;

/** Which layers become functions: all that are more than one operator, or those of these classes. */
type FunctionLayers = true | readonly LayerClass[];

/** What the layers of a model became. */
export interface LayerFunctions {
  readonly functions: readonly FunctionProto[];
  /** How many calls there are of each function, by its name. */
  readonly calls: Readonly<Record<string, number>>;
}

/** A call of a layer, with what is written for it: nodes, and the calls within it. */
interface Block {
  readonly call: ModuleCall | undefined;
  readonly parts: Part[];
}
type Part = NodeProto | Block;

const isBlock = (part: Part): part is Block => 'parts' in part;

const nodesOf = (part: Part): NodeProto[] => (isBlock(part) ? part.parts.flatMap(nodesOf) : [part]);

/** A part as one node, with the layer that it is of. */
interface Placed {
  readonly node: NodeProto;
  readonly call: ModuleCall | undefined;
}

/** Let the nodes of a graph call functions. Constants that only functions have are dropped from it. @param outputs of the graph */
export function groupByLayers(
  writer: GraphWriter,
  layers: FunctionLayers,
  opset: number,
  outputs: readonly string[],
): LayerFunctions {
  const functions = new Functions(writer, opset, outputs);
  const nodes = functions.partsOf(blockOf(writer, layers)).map(({ node }) => node);
  writer.nodes.splice(0, writer.nodes.length, ...nodes);
  writer.prune(outputs);
  return functions;
}

/** The nodes of a graph as a tree of calls. */
function blockOf(writer: GraphWriter, layers: FunctionLayers): Block {
  const root: Block = { call: undefined, parts: [] };
  const blocks = new Map<ModuleCall, Block>();
  const isKept = ({ module, within }: ModuleCall): boolean =>
    within !== undefined && (layers === true || layers.some((layer) => module instanceof layer));
  const enter = (call: ModuleCall | undefined): Block => {
    if (!call) return root;
    if (!isKept(call)) return enter(call.within);
    let block = blocks.get(call);
    if (!block) {
      block = { call, parts: [] };
      blocks.set(call, block);
      enter(call.within).parts.push(block);
    }
    return block;
  };
  for (const node of writer.nodes) enter(writer.callOf(node)).parts.push(node);
  return layers === true ? withoutSingle(root) : root;
}

/** A tree without the calls that are one part: a layer of one operator is that operator. */
function withoutSingle({ call, parts }: Block): Block {
  const kept = parts.map((part): Part => {
    if (!isBlock(part)) return part;
    const block = withoutSingle(part);
    return block.parts.length === 1 ? block.parts[0]! : block;
  });
  return { call, parts: kept };
}

/** Makes the functions, each once. */
class Functions implements LayerFunctions {
  readonly functions: FunctionProto[] = [];
  readonly calls: Record<string, number> = {};
  readonly #writer: GraphWriter;
  readonly #opset: number;
  readonly #initializers: ReadonlyMap<string, Initializer>;
  /** The nodes that use a value; the graph's outputs have one more user. */
  readonly #users = new Map<string, Set<NodeProto | 'graph'>>();
  readonly #names = new UniqueNames();
  /** The names of functions by what is in them. */
  readonly #known = new Map<string, string>();

  constructor(writer: GraphWriter, opset: number, outputs: readonly string[]) {
    this.#writer = writer;
    this.#opset = opset;
    this.#initializers = new Map(writer.initializers.map((tensor) => [tensor.name, tensor]));
    const use = (name: string, user: NodeProto | 'graph'): void => {
      const users = this.#users.get(name) ?? new Set();
      this.#users.set(name, users.add(user));
    };
    for (const node of writer.nodes) for (const name of node.input) use(name, node);
    for (const name of outputs) use(name, 'graph');
  }

  /** The parts of a call as nodes, each after those that it needs. */
  partsOf({ parts }: Block): Placed[] {
    const makers = new Map<string, Part>();
    for (const part of parts)
      for (const { output } of nodesOf(part)) for (const name of output) makers.set(name, part);
    const done = new Set<Part>();
    const placed: Placed[] = [];
    const place = (part: Part): void => {
      if (done.has(part)) return;
      done.add(part);
      for (const { input } of nodesOf(part))
        for (const name of input) {
          const maker = makers.get(name);
          if (maker) place(maker);
        }
      placed.push(
        isBlock(part)
          ? { node: this.#callNode(part), call: part.call }
          : { node: part, call: this.#writer.callOf(part) },
      );
    };
    for (const part of parts) place(part);
    return placed;
  }

  /** The call of a layer as one node, under the names of the graph. */
  #callNode(block: Block): NodeProto {
    const call = block.call!;
    const own = new Set(nodesOf(block));
    const parts = this.partsOf(block);
    const isShown = (name: string): boolean =>
      [...(this.#users.get(name) ?? [])].some((user) => user === 'graph' || !own.has(user));
    const made = new Set(parts.flatMap(({ node }) => node.output));
    const outputs = [...made].filter((name) => name !== '' && isShown(name));
    const needed = [...new Set(parts.flatMap(({ node }) => node.input))].filter(
      (name) => name !== '' && !made.has(name),
    );
    const constants = needed.filter((name) => this.#initializers.get(name)?.values instanceof Uint8Array);
    const weights = needed.filter((name) => this.#initializers.has(name) && !constants.includes(name));
    const values = needed.filter((name) => !this.#initializers.has(name));
    const inputs = [...values, ...weights];
    const opType = this.#functionOf(call, parts, { values, weights, constants, outputs });
    this.calls[opType] = (this.calls[opType] ?? 0) + 1;
    const name = this.#writer.unique(`/${call.path.replaceAll('.', '/')}`);
    return create(NodeProtoSchema, { name, opType, domain: DOMAIN, input: inputs, output: outputs });
  }

  /** The name of the function that has these nodes. */
  #functionOf(
    { module, path }: ModuleCall,
    parts: readonly Placed[],
    of: Readonly<Record<'values' | 'weights' | 'constants' | 'outputs', readonly string[]>>,
  ): string {
    // Names within the function are those within the layer: equal layers have the same.
    const within = (name: string): string =>
      name.startsWith(`${path}.`) ? name.slice(path.length + 1) : name;
    const names = new UniqueNames();
    const local = new Map([['', '']]);
    const name = (value: string, as: string): string => {
      local.set(value, names.unique(as));
      return local.get(value)!;
    };
    const inputs = [
      ...of.values.map((value) => name(value, 'x')),
      ...of.weights.map((weight) => name(weight, within(weight))),
    ];
    const constants = of.constants.map((constant) =>
      constantNode(this.#initializers.get(constant)!, name(constant, 'constant')),
    );
    const nodes = parts.map(({ node, call }) => {
      const place = call && call.path !== path ? `/${within(call.path).replaceAll('.', '/')}` : '';
      const called = names.unique(node.domain === DOMAIN ? place : `${place}/${node.opType}`);
      const { opType, domain, attribute } = node;
      const input = node.input.map((value) => local.get(value)!);
      const output = node.output.map((value, i) => {
        if (value === '') return '';
        if (i > 0) return name(value, `${called}:${i}`);
        local.set(value, called);
        return called;
      });
      return create(NodeProtoSchema, { name: called, opType, domain, attribute, input, output });
    });
    const callsFunctions = nodes.some(({ domain }) => domain === DOMAIN);
    const body = create(FunctionProtoSchema, {
      domain: DOMAIN,
      opsetImport: opsetImport(this.#opset, callsFunctions),
      input: inputs,
      output: of.outputs.map((value) => local.get(value)!),
      node: [...constants, ...nodes],
    });
    // Layers of two classes are two functions, even if they compute the same.
    const layer = module.constructor.name || 'Layer';
    const key = `${layer} ${Buffer.from(toBinary(FunctionProtoSchema, body)).toString('base64')}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = this.#names.unique(layer);
      this.#known.set(key, known);
      body.name = known;
      this.functions.push(body);
    }
    return known;
  }
}

/** A constant as a node: functions have no tensors of their own. */
function constantNode({ dtype, shape, values }: Initializer, name: string): NodeProto {
  const t = create(TensorProtoSchema, {
    dataType: ELEMENT_TYPES[dtype.name].code,
    dims: shape.map((d) => BigInt(d)),
    rawData: values as Uint8Array,
  });
  const value = create(AttributeProtoSchema, { name: 'value', type: AttributeProto_AttributeType.TENSOR, t });
  return create(NodeProtoSchema, { name, opType: 'Constant', output: [name], attribute: [value] });
}
