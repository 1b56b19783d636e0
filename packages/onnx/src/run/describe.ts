/** What is in an ONNX file, in numbers and names. */
import { statSync } from 'node:fs';
import { ELEMENT_TYPES, elementTypeOf } from '../file/element-types.js';
import type { ModelFile } from '../file/model-file.js';
import {
  type GraphProto,
  type NodeProto,
  TensorProto_DataLocation,
  type ValueInfoProto,
} from '../protobuf/onnx_pb.js';

/** An input or output. */
export interface DescribedValue {
  readonly name: string;
  readonly dtype: string;
  /** Sizes, or the names of those that are free; '?' for one without a name. Undefined if the rank is free. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** An operator, and how many nodes there are of it, those of subgraphs and functions included. */
export interface DescribedOperator {
  /** Of another domain than ONNX's own with the domain before it. */
  readonly name: string;
  readonly count: number;
}

/** A model as `heddle onnx info` shows it. */
export interface Description {
  readonly name: string;
  readonly producer: string;
  readonly irVersion: number;
  /** The versions of the operators, by domain. */
  readonly opsets: Readonly<Record<string, number>>;
  readonly inputs: readonly DescribedValue[];
  readonly outputs: readonly DescribedValue[];
  readonly nodes: number;
  readonly operators: readonly DescribedOperator[];
  /** The functions of the model itself. */
  readonly functions: readonly string[];
  /** How many weights there are, the tensors of floats; their elements, and the bytes that they take. */
  readonly tensors: number;
  readonly parameters: number;
  readonly parameterBytes: number;
  /** The files beside the model that have weights. */
  readonly externalFiles: readonly string[];
  /** Of the file itself. */
  readonly bytes: number;
  readonly metadata: Readonly<Record<string, string>>;
}

/** @throws FileError for element types that ONNX does not have */
export function describe({ path, model }: ModelFile): Description {
  const graph = model.graph!;
  const constants = new Set(graph.initializer.map(({ name }) => name));
  const nodes = [...nodesOf(graph), ...model.functions.flatMap((f) => f.node.flatMap(within))];
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(fullName(node), (counts.get(fullName(node)) ?? 0) + 1);
  const weights = graph.initializer.flatMap(({ dims, dataType, name }) => {
    const { kind, bits } = elementTypeOf(dataType, `${path}: '${name}'`);
    const elements = Number(dims.reduce((n, d) => n * d, 1n));
    return kind === 'float' ? [{ elements, bytes: Math.ceil((elements * bits) / 8) }] : [];
  });
  const files = graph.initializer.flatMap(({ dataLocation, externalData }) =>
    dataLocation === TensorProto_DataLocation.EXTERNAL
      ? externalData.flatMap(({ key, value }) => (key === 'location' ? [value] : []))
      : [],
  );
  const sum = (of: (size: (typeof weights)[number]) => number): number =>
    weights.reduce((n, size) => n + of(size), 0);
  return {
    name: graph.name,
    producer: [model.producerName, model.producerVersion].filter((text) => text !== '').join(' '),
    irVersion: Number(model.irVersion),
    opsets: Object.fromEntries(
      model.opsetImport.map(({ domain, version }) => [domain || 'ai.onnx', Number(version)]),
    ),
    inputs: graph.input.filter(({ name }) => !constants.has(name)).map((info) => value(info, path)),
    outputs: graph.output.map((info) => value(info, path)),
    nodes: nodes.length,
    operators: [...counts]
      .map(([name, count]) => ({ name, count }))
      .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1)),
    functions: model.functions.map((f) => f.name),
    tensors: weights.length,
    parameters: sum(({ elements }) => elements),
    parameterBytes: sum(({ bytes }) => bytes),
    externalFiles: [...new Set(files)],
    bytes: statSync(path, { throwIfNoEntry: false })?.size ?? 0,
    metadata: Object.fromEntries(model.metadataProps.map(({ key, value }) => [key, value])),
  };
}

const fullName = ({ domain, opType }: NodeProto): string =>
  domain === '' || domain === 'ai.onnx' ? opType : `${domain}.${opType}`;

const nodesOf = (graph: GraphProto): NodeProto[] => graph.node.flatMap(within);

/** A node and those of the graphs among its attributes. */
const within = (node: NodeProto): NodeProto[] => [
  node,
  ...node.attribute.flatMap(({ g, graphs }) => [...(g ? [g] : []), ...graphs].flatMap(nodesOf)),
];

function value({ name, type }: ValueInfoProto, path: string): DescribedValue {
  if (type?.value.case !== 'tensorType')
    return { name, dtype: type?.value.case ?? 'unknown', shape: undefined };
  const { elemType, shape } = type.value.value;
  return {
    name,
    dtype: elemType === 0 ? ELEMENT_TYPES.f32.name : elementTypeOf(elemType, `${path}: '${name}'`).name,
    shape: shape?.dim.map(({ value: size }) =>
      size.case === 'dimValue'
        ? Number(size.value)
        : size.case === 'dimParam' && size.value !== ''
          ? size.value
          : '?',
    ),
  };
}
