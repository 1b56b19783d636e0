/** The nodes, initializers and names of an ONNX graph, as they are written one after the other. */
import { create } from '@bufbuild/protobuf';
import type { AnyTensor } from 'heddle';
import type { DType } from 'heddle/internal/core/dtype.js';
import type { Shape } from 'heddle/internal/core/shape.js';
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type NodeProto,
  NodeProtoSchema,
} from '../protobuf/onnx_pb.js';
import { bytesOfNumbers } from './tensor-bytes.js';
import type { ModuleCall } from './trace-model.js';

/** The value of an attribute; its kind is part of the file. */
export type Attribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] }
  | { readonly text: string }
  | { readonly texts: readonly string[] };

/** Attributes by name; those that are undefined are left out. */
export type Attributes = Readonly<Record<string, Attribute | undefined>>;

export const int = (value: number): Attribute => ({ int: value });
export const float = (value: number): Attribute => ({ float: value });
export const ints = (values: readonly number[]): Attribute => ({ ints: values });
export const text = (value: string): Attribute => ({ text: value });
export const texts = (values: readonly string[]): Attribute => ({ texts: values });

/** A tensor of the file. */
export interface Initializer {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Little-endian elements in row-major order, or the tensor that has them. */
  readonly values: Uint8Array | AnyTensor;
}

/** Names that are each given once. */
export class UniqueNames {
  readonly #taken = new Set<string>();

  /** A name that nothing has yet: `name`, or with a number after it. */
  unique(name: string): string {
    let unique = name;
    for (let i = 1; this.#taken.has(unique); i++) unique = `${name}_${i}`;
    this.#taken.add(unique);
    return unique;
  }
}

/** Writes one graph. Values are known by their names. */
export class GraphWriter extends UniqueNames {
  readonly nodes: NodeProto[] = [];
  readonly initializers: Initializer[] = [];
  /** The call of a layer that nodes are written for; undefined for the model itself. */
  within: ModuleCall | undefined;
  readonly #calls = new Map<NodeProto, ModuleCall>();
  readonly #constants = new Map<string, string>();

  /** The dotted name of the layer that nodes are written for. */
  get path(): string {
    return this.within?.path ?? '';
  }

  /** The call of a layer that a node is written for; undefined for the model itself. */
  callOf(node: NodeProto): ModuleCall | undefined {
    return this.#calls.get(node);
  }

  /** Write a node. @returns the names of its outputs */
  all(
    opType: string,
    inputs: readonly (string | undefined)[],
    attributes: Attributes = {},
    outputs = 1,
  ): string[] {
    const place = this.path === '' ? '' : `/${this.path.replaceAll('.', '/')}`;
    const name = this.unique(`${place}/${opType}`);
    const output = Array.from({ length: outputs }, (_, i) => (i === 0 ? name : this.unique(`${name}:${i}`)));
    const given = inputs.map((input) => input ?? '');
    while (given.at(-1) === '') given.pop();
    const attribute = Object.entries(attributes).flatMap(([key, value]) =>
      value === undefined ? [] : [attributeProto(key, value)],
    );
    const node = create(NodeProtoSchema, { name, opType, input: given, output, attribute });
    if (this.within) this.#calls.set(node, this.within);
    this.nodes.push(node);
    return output;
  }

  /** Write a node of one output. @returns its name */
  add(opType: string, inputs: readonly (string | undefined)[], attributes?: Attributes): string {
    return this.all(opType, inputs, attributes)[0]!;
  }

  /** A constant; equal ones are written once. */
  constant(values: readonly (number | bigint | boolean)[], dtype: DType, shape: Shape): string {
    const bytes = bytesOfNumbers(values, dtype);
    const key = `${dtype.name} ${shape.join()} ${Buffer.from(bytes).toString('base64')}`;
    let name = this.#constants.get(key);
    if (name === undefined) {
      name = this.unique(`constant_${this.#constants.size}`);
      this.#constants.set(key, name);
      this.initializers.push({ name, dtype, shape, values: bytes });
    }
    return name;
  }

  /** A tensor of the model, under this name or a similar one. */
  initializer(name: string, tensor: AnyTensor): string {
    const unique = this.unique(name);
    this.initializers.push({ name: unique, dtype: tensor.dtype, shape: tensor.shape, values: tensor });
    return unique;
  }

  /** Let a value be known as `name`. It stays what it is called where it is no node's, or one of the graph's outputs already. */
  output(value: string, name: string, isFree: boolean): void {
    const maker = isFree ? this.nodes.find((node) => node.output.includes(value)) : undefined;
    if (!maker) {
      this.nodes.push(
        create(NodeProtoSchema, {
          name: this.unique(`/Identity`),
          opType: 'Identity',
          input: [value],
          output: [name],
        }),
      );
      return;
    }
    for (const node of this.nodes) {
      node.output = node.output.map((o) => (o === value ? name : o));
      node.input = node.input.map((i) => (i === value ? name : i));
    }
  }

  /** Drop the nodes and tensors that none of these values needs. */
  prune(outputs: readonly string[]): void {
    const needed = new Set(outputs);
    const kept = this.nodes.toReversed().filter((node) => {
      if (!node.output.some((name) => needed.has(name))) return false;
      for (const name of node.input) needed.add(name);
      return true;
    });
    this.nodes.splice(0, this.nodes.length, ...kept.toReversed());
    const initializers = this.initializers.filter(({ name }) => needed.has(name));
    this.initializers.splice(0, this.initializers.length, ...initializers);
  }
}

function attributeProto(name: string, value: Attribute): AttributeProto {
  const { INT, FLOAT, INTS, STRING, STRINGS } = AttributeProto_AttributeType;
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  if ('int' in value) return create(AttributeProtoSchema, { name, type: INT, i: BigInt(value.int) });
  if ('float' in value) return create(AttributeProtoSchema, { name, type: FLOAT, f: value.float });
  if ('ints' in value)
    return create(AttributeProtoSchema, { name, type: INTS, ints: value.ints.map((n) => BigInt(n)) });
  if ('text' in value) return create(AttributeProtoSchema, { name, type: STRING, s: bytes(value.text) });
  return create(AttributeProtoSchema, { name, type: STRINGS, strings: value.texts.map(bytes) });
}
