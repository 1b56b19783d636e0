/** Small models for tests, written as objects. */
import { create, toBinary } from '@bufbuild/protobuf';
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  StringStringEntryProtoSchema,
  type TensorProto,
  TensorProto_DataLocation,
  TensorProtoSchema,
  TensorShapeProto_DimensionSchema,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from '../src/protobuf/onnx_pb.js';

/** An input or output: f32 (1) unless said. */
export const info = (name: string, dims: readonly (number | string)[], elemType = 1): ValueInfoProto =>
  create(ValueInfoProtoSchema, {
    name,
    type: {
      value: {
        case: 'tensorType',
        value: {
          elemType,
          shape: {
            dim: dims.map((d) =>
              create(TensorShapeProto_DimensionSchema, {
                value:
                  typeof d === 'number'
                    ? { case: 'dimValue', value: BigInt(d) }
                    : { case: 'dimParam', value: d },
              }),
            ),
          },
        },
      },
    },
  });

/** A tensor of floats. */
export const floatTensor = (
  name: string,
  dims: readonly number[],
  floatData: readonly number[],
): TensorProto =>
  create(TensorProtoSchema, { name, dims: dims.map(BigInt), dataType: 1, floatData: [...floatData] });

/** A tensor of floats in another file. */
export const externalTensor = (
  name: string,
  dims: readonly number[],
  entries: Readonly<Record<string, string>>,
): TensorProto =>
  create(TensorProtoSchema, {
    ...{ name, dims: dims.map(BigInt), dataType: 1, dataLocation: TensorProto_DataLocation.EXTERNAL },
    externalData: Object.entries(entries).map(([key, value]) =>
      create(StringStringEntryProtoSchema, { key, value }),
    ),
  });

/** A tensor of i64. */
export const intTensor = (name: string, values: readonly number[], dims = [values.length]): TensorProto =>
  create(TensorProtoSchema, { name, dims: dims.map(BigInt), dataType: 7, int64Data: values.map(BigInt) });

/** Attributes of ints and graphs. */
export const attributes = (
  values: Readonly<Record<string, number | readonly number[] | GraphProto>>,
): AttributeProto[] =>
  Object.entries(values).map(([name, value]) => {
    const { INT, INTS, GRAPH } = AttributeProto_AttributeType;
    if (typeof value === 'number') return create(AttributeProtoSchema, { name, type: INT, i: BigInt(value) });
    if (Array.isArray(value))
      return create(AttributeProtoSchema, { name, type: INTS, ints: (value as number[]).map(BigInt) });
    return create(AttributeProtoSchema, { name, type: GRAPH, g: value as GraphProto });
  });

/** A node. */
export const node = (
  opType: string,
  input: readonly string[],
  output: readonly string[],
  values: Parameters<typeof attributes>[0] = {},
  domain = '',
): NodeProto =>
  create(NodeProtoSchema, {
    opType,
    input: [...input],
    output: [...output],
    domain,
    attribute: attributes(values),
  });

/** What a graph is made of. */
export interface GraphParts {
  readonly nodes: readonly NodeProto[];
  readonly inputs?: readonly ValueInfoProto[];
  readonly outputs?: readonly ValueInfoProto[];
  readonly initializers?: readonly TensorProto[];
}

/** A graph; its output is y unless said. */
export const graph = ({
  nodes,
  inputs = [],
  outputs = [info('y', [])],
  initializers = [],
}: GraphParts): GraphProto =>
  create(GraphProtoSchema, {
    name: 'graph',
    node: [...nodes],
    input: [...inputs],
    output: [...outputs],
    initializer: [...initializers],
  });

/** The bytes of a model. */
export const modelOf = (parts: GraphParts, version = 21): Uint8Array =>
  toBinary(
    ModelProtoSchema,
    create(ModelProtoSchema, {
      irVersion: 10n,
      opsetImport: [{ domain: '', version: BigInt(version) }],
      graph: graph(parts),
    }),
  );
