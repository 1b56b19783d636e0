/** Attributes of operators: what kind each is, and what it is where a node does not say. */
import { FileError } from 'heddle';
import { shown } from 'heddle/internal/core/arguments.js';
import type { HostTensor } from '../file/host-tensor.js';
import { parseTensor } from '../file/tensor-values.js';
import { type AttributeProto, AttributeProto_AttributeType, type GraphProto } from '../protobuf/onnx_pb.js';

/** The versions of an operator that have the attribute; all, unless said. */
interface Versions {
  /** The first version that has it. */
  readonly from?: number;
  /** The last version that has it. */
  readonly until?: number;
}

/** An attribute of an operator. */
export interface Attribute<T> extends Versions {
  /** How messages call it. */
  readonly kind: string;
  /** Its number in `AttributeProto.AttributeType`. */
  readonly code: number;
  /** What it is where a node does not have it. */
  readonly fallback: T;
  /** Whether every node must have it. */
  readonly required: boolean;
  /** The value of a node's. */
  readonly read: (attribute: AttributeProto, path: string) => T;
}

/** The attributes of an operator by name. */
export type Attributes = Readonly<Record<string, Attribute<unknown>>>;
/** Their values. */
export type AttributeValues<A extends Attributes> = {
  readonly [K in keyof A]: A[K] extends Attribute<infer T> ? T : never;
};

const decoder = new TextDecoder();
const { FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS } = AttributeProto_AttributeType;

/** Makes attributes of one kind: with a value where nodes have none, or required. */
const kind =
  <T>(kind: string, code: number, read: (attribute: AttributeProto, path: string) => T) =>
  <F extends T | undefined>(fallback: F, versions: Versions = {}): Attribute<T | F> => ({
    ...{ kind, code, fallback, required: false, read },
    ...versions,
  });

function whole({ name, i }: { readonly name: string; readonly i: bigint }, path: string): number {
  // INT64_MAX and its like stand for "to the end".
  const value = Number(i);
  if (Number.isSafeInteger(value)) return value;
  if (i > 2n ** 62n || i < -(2n ** 62n)) return Math.sign(value) * Number.MAX_SAFE_INTEGER;
  throw new FileError(path, `the attribute ${name} is ${i}, more than a number has exactly.`);
}

/** A whole number. */
export const int = kind('an int', INT, (a, path) => whole(a, path));
/** A number. */
export const float = kind('a float', FLOAT, ({ f }) => f);
/** A text. */
export const text = kind('a string', STRING, ({ s }) => decoder.decode(s));
/** Whole numbers. */
export const ints = kind('ints', INTS, ({ name, ints }, path): readonly number[] =>
  ints.map((i) => whole({ name, i }, path)),
);
/** Numbers. */
export const floats = kind('floats', FLOATS, ({ floats }): readonly number[] => floats);
/** Texts. */
export const texts = kind('strings', STRINGS, ({ strings }): readonly string[] =>
  strings.map((s) => decoder.decode(s)),
);
/** A tensor on the host. */
export const tensorOf = kind('a tensor', TENSOR, ({ name, t }, path): HostTensor => {
  if (!t) throw new FileError(path, `the attribute ${name} has no tensor.`);
  return parseTensor(t, path, `the attribute ${name}`);
});
/** A graph. */
export const graph = kind('a graph', GRAPH, ({ name, g }, path): GraphProto => {
  if (!g) throw new FileError(path, `the attribute ${name} has no graph.`);
  return g;
});

/** Every node must have it. */
export const required = <T>(attribute: Attribute<T | undefined>): Attribute<T> =>
  ({ ...attribute, required: true }) as unknown as Attribute<T>;

/**
 * The values of a node's attributes.
 * @param where names the node, for messages
 * @throws FileError for attributes that the operator does not have at this version, of another kind, missing or twice
 */
export function readAttributes(
  specs: Attributes,
  attributes: readonly AttributeProto[],
  version: number,
  where: string,
  path: string,
): Record<string, unknown> {
  const values = Object.fromEntries(Object.entries(specs).map(([name, { fallback }]) => [name, fallback]));
  const seen = new Set<string>();
  for (const attribute of attributes) {
    const { name, type } = attribute;
    const spec = Object.hasOwn(specs, name) ? specs[name] : undefined;
    if (!spec || version < (spec.from ?? 0) || version > (spec.until ?? Number.POSITIVE_INFINITY))
      throw new FileError(
        path,
        `${where} has the attribute ${shown(name)}, which version ${version} of the operator does not have. ` +
          `It has: ${Object.keys(specs).join(', ') || 'none'}.`,
      );
    if (seen.has(name)) throw new FileError(path, `${where} has the attribute ${shown(name)} twice.`);
    seen.add(name);
    if (type !== spec.code && !(type === 0 && attribute.refAttrName === ''))
      throw new FileError(
        path,
        `${where} has the attribute ${shown(name)} of type ${type}, must be ${spec.kind}.`,
      );
    values[name] = spec.read(attribute, path);
  }
  for (const [name, { required }] of Object.entries(specs))
    if (required && !seen.has(name)) throw new FileError(path, `${where} lacks the attribute ${name}.`);
  return values;
}
