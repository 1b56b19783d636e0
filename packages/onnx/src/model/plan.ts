/**
 * A graph of a file as steps to take in order, checked: every name is given once and before it is used, every operator is
 * known, and its attributes are. A file is not to be trusted, so the work that its graphs may ask for is bounded, too.
 */
import { FileError } from 'heddle';
import { shown } from 'heddle/internal/core/arguments.js';
import { parseTensor } from '../file/tensor-values.js';
import { type Attributes, type AttributeValues, readAttributes } from '../operators/attributes.js';
import type { Operator } from '../operators/operator.js';
import { OPERATORS } from '../operators/table.js';
import type {
  AttributeProto,
  FunctionProto,
  GraphProto,
  ModelProto,
  NodeProto,
} from '../protobuf/onnx_pb.js';
import { constantOf } from '../values/constant.js';
import type { Value } from '../values/value.js';

/** One node, ready to be computed. */
export interface Step {
  /** Names the node, for messages. */
  readonly where: string;
  /** Its operator; undefined for a function of the model, whose nodes are `body`. */
  readonly operator: Operator | undefined;
  /** The version of the operator. */
  readonly version: number;
  /** The values of its attributes. */
  readonly attributes: AttributeValues<Attributes>;
  /** Names of the inputs; '' for those left out. */
  readonly inputs: readonly string[];
  /** Names of the outputs; '' for those that nothing uses. */
  readonly outputs: readonly string[];
  /** The nodes of a function of the model. */
  readonly body: Plan | undefined;
  /** The graphs among the attributes. */
  readonly graphs: readonly Plan[];
}

/** The steps of a graph. */
export interface Plan {
  /** Names of the inputs that are not constants. */
  readonly inputs: readonly string[];
  /** Names of the results. */
  readonly outputs: readonly string[];
  /** The nodes in order. */
  readonly steps: readonly Step[];
  /** Constants of a graph within a node; those of the model's own graph are the model's. */
  readonly constants: ReadonlyMap<string, Value>;
}

/** The newest opset of each domain that the tables were written for. */
export const NEWEST_OPSETS: Readonly<Record<string, number>> = { '': 28, 'com.microsoft': 1 };
/** The oldest opset that is read. */
export const OLDEST_OPSET = 7;
/** Nodes of a model with its functions written out: functions that call functions could make any number. */
const MOST_STEPS = 1_000_000;

const domainOf = (name: string): string => (name === 'ai.onnx' ? '' : name);
const fullName = (domain: string, name: string): string => (domain === '' ? name : `${domain}.${name}`);

/** Plans the graphs of one model. */
export class Planner {
  readonly #path: string;
  readonly #functions = new Map<string, FunctionProto>();
  readonly #plans = new Map<GraphProto, Plan>();
  /** How many nodes there are of each operator that is not known: `name (version)`. */
  readonly #missing = new Map<string, number>();
  #steps = 0;

  constructor(model: ModelProto, path: string) {
    this.#path = path;
    for (const f of model.functions) {
      const name = `${fullName(domainOf(f.domain), f.name)}:${f.overload}`;
      if (this.#functions.has(name)) throw this.#error(`has the function ${shown(f.name)} twice.`);
      this.#functions.set(name, f);
    }
  }

  /** The plan of a graph within a node, made with the node's. */
  planOf(graph: GraphProto): Plan {
    return this.#plans.get(graph)!;
  }

  /** @param given names that are there without a node: inputs and initializers @throws FileError */
  plan(model: ModelProto, given: Iterable<string>): Plan {
    const opsets = this.#opsets(model.opsetImport);
    const graph = model.graph!;
    const outputs = graph.output.map((o) => o.name);
    const steps = this.#nodes(graph.node, new Names(this.#path, given), opsets, outputs, []);
    if (this.#missing.size > 0) {
      const list = [...this.#missing].map(([name, n]) => `${name} × ${n}`).join(', ');
      throw this.#error(
        `uses operators that are not supported: ${list}. The page on ONNX of the documentation lists those that are.`,
      );
    }
    return { inputs: graph.input.map((i) => i.name), outputs, steps, constants: new Map() };
  }

  #error(message: string): FileError {
    return new FileError(this.#path, message);
  }

  #opsets(imports: ModelProto['opsetImport']): ReadonlyMap<string, number> {
    // ONNX Runtime's optimizer writes nodes of its domain into models that do not import it.
    const opsets = new Map([['com.microsoft', 1]]);
    for (const { domain, version } of imports) {
      const name = domainOf(domain);
      const newest = NEWEST_OPSETS[name];
      if (name === '' && (version < OLDEST_OPSET || version > newest!))
        throw this.#error(
          `is of opset ${version}, opsets ${OLDEST_OPSET} to ${newest} are read. ` +
            'Convert it with onnx.version_converter, or export it again.',
        );
      if (newest !== undefined && version > newest)
        throw this.#error(`is of version ${version} of ${name}, versions up to ${newest} are read.`);
      opsets.set(name, Number(version));
    }
    return opsets;
  }

  #nodes(
    nodes: readonly NodeProto[],
    names: Names,
    opsets: ReadonlyMap<string, number>,
    outputs: readonly string[],
    calls: readonly FunctionProto[],
  ): Step[] {
    const steps = nodes.map((node, i) => this.#step(node, i, names, opsets, calls));
    for (const name of outputs) names.require(name, 'the output');
    return steps;
  }

  #step(
    node: NodeProto,
    index: number,
    names: Names,
    opsets: ReadonlyMap<string, number>,
    calls: readonly FunctionProto[],
  ): Step {
    if (++this.#steps > MOST_STEPS)
      throw this.#error(`has more than ${MOST_STEPS} nodes with its functions written out.`);
    const domain = domainOf(node.domain);
    const name = fullName(domain, node.opType);
    const where = node.name === '' ? `node ${index} (${name})` : `node ${shown(node.name)} (${name})`;
    for (const input of node.input) if (input !== '') names.require(input, where);
    const f = this.#functions.get(`${name}:${node.overload}`);
    const common = { where, inputs: node.input, outputs: node.output };
    let step: Step;
    if (f) {
      const body = this.#function(f, node, where, calls);
      step = { ...common, operator: undefined, version: 0, attributes: {}, body, graphs: [] };
    } else
      step = {
        ...common,
        ...this.#operator(node, name, domain, where, names, opsets, calls),
        body: undefined,
      };
    for (const output of node.output) if (output !== '') names.give(output, where);
    return step;
  }

  #operator(
    node: NodeProto,
    name: string,
    domain: string,
    where: string,
    names: Names,
    opsets: ReadonlyMap<string, number>,
    calls: readonly FunctionProto[],
  ) {
    const opset = opsets.get(domain);
    const record = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined;
    if (opset === undefined && record)
      throw this.#error(`${where} is of the domain ${shown(domain)}, which the model does not import.`);
    const version = record?.since.filter((v) => v <= opset!).at(-1);
    // Graphs are planned all the same, so that what is missing in them is told as well.
    const graphs = node.attribute.flatMap(({ g }) => (g ? [this.#subgraph(g, names, opsets, calls)] : []));
    if (!record || version === undefined) {
      const missing = `${name} (version ${opset ?? 'unknown'})`;
      this.#missing.set(missing, (this.#missing.get(missing) ?? 0) + 1);
      return { operator: undefined, version: 0, attributes: {}, graphs };
    }
    const [fewest, most = fewest] = record.inputs;
    if (node.input.length < fewest || node.input.length > most)
      throw this.#error(
        `${where} has ${node.input.length} inputs, must have ${fewest === most ? fewest : `${fewest} to ${most}`}.`,
      );
    const attributes = readAttributes(record.attributes ?? {}, node.attribute, version, where, this.#path);
    return { operator: record, version, attributes, graphs };
  }

  #subgraph(
    graph: GraphProto,
    names: Names,
    opsets: ReadonlyMap<string, number>,
    calls: readonly FunctionProto[],
  ): Plan {
    const known = this.#plans.get(graph);
    if (known) return known;
    const constants = new Map(
      graph.initializer.map((t) => [t.name, constantOf(parseTensor(t, this.#path, 'a constant'))]),
    );
    if (graph.sparseInitializer.length > 0)
      throw this.#error('has sparse initializers, which are not supported.');
    const inner = names.within();
    const inputs = graph.input.map(({ name }) => name);
    for (const name of inputs) inner.give(name, 'an input of a graph');
    for (const name of constants.keys()) if (!inputs.includes(name)) inner.give(name, 'an initializer');
    const outputs = graph.output.map(({ name }) => name);
    const steps = this.#nodes(graph.node, inner, opsets, outputs, calls);
    const plan = { inputs, outputs, steps, constants };
    this.#plans.set(graph, plan);
    return plan;
  }

  /** The nodes of a function, with the attributes that this node gives it. */
  #function(f: FunctionProto, node: NodeProto, where: string, calls: readonly FunctionProto[]): Plan {
    if (calls.includes(f)) throw this.#error(`${where}: the function ${shown(f.name)} calls itself.`);
    if (node.input.length > f.input.length || node.output.length > f.output.length)
      throw this.#error(`${where} has more inputs or outputs than the function ${shown(f.name)}.`);
    const given = new Map<string, AttributeProto>();
    for (const attribute of [...f.attributeProto, ...node.attribute]) given.set(attribute.name, attribute);
    const bind = (attribute: AttributeProto): AttributeProto[] => {
      if (attribute.g)
        return [changed(attribute, { g: changed(attribute.g, { node: attribute.g.node.map(bound) }) })];
      if (attribute.refAttrName === '') return [attribute];
      const value = given.get(attribute.refAttrName);
      return value ? [changed(value, { name: attribute.name })] : [];
    };
    const bound = (inner: NodeProto): NodeProto =>
      changed(inner, { attribute: inner.attribute.flatMap(bind) });
    const opsets = this.#opsets(f.opsetImport);
    const nodes = f.node.map(bound);
    const names = new Names(this.#path, f.input);
    const steps = this.#nodes(nodes, names, opsets, f.output, [...calls, f]);
    return { inputs: f.input, outputs: f.output, steps, constants: new Map() };
  }
}

/** A message with other fields; fields that are not set have their defaults from its prototype. */
const changed = <M extends object>(message: M, fields: Partial<M>): M =>
  Object.assign(Object.create(Object.getPrototypeOf(message)), message, fields) as M;

/** The names that are there at a place of a graph, with those of the graphs around it. */
class Names {
  readonly #path: string;
  readonly #names: Set<string>;
  readonly #around: Names | undefined;

  constructor(path: string, names: Iterable<string>, around?: Names) {
    this.#path = path;
    this.#names = new Set(names);
    this.#around = around;
  }

  within(): Names {
    return new Names(this.#path, [], this);
  }

  #has(name: string): boolean {
    if (this.#names.has(name)) return true;
    const around = this.#around;
    return around ? around.#has(name) : false;
  }

  /** @throws FileError if nothing has given it */
  require(name: string, where: string): void {
    if (!this.#has(name))
      throw new FileError(
        this.#path,
        `${where} uses ${shown(name)}, which nothing before it gives. Nodes must stand in order, and form no circle.`,
      );
  }

  /** @throws FileError if it is there already */
  give(name: string, where: string): void {
    if (this.#names.has(name))
      throw new FileError(
        this.#path,
        `${where} gives ${shown(name)}, which is given before. Names must be unique.`,
      );
    this.#names.add(name);
  }
}
