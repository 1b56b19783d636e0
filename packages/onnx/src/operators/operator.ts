/** What an operator of ONNX is to the importer: one record each, in the tables beside this file. */
import { type AnyTensor, DTypeError, ShapeError } from 'heddle';
import type { HostTensor } from '../file/host-tensor.js';
import type { GraphProto } from '../protobuf/onnx_pb.js';
import { type Datum, numbersOf, Sequence, type Value } from '../values/value.js';
import type { Attributes, AttributeValues } from './attributes.js';

/** Asks for the values of a tensor; only outside of a recorded program are they to be had. */
export type Reading<R> = Generator<Value, R, HostTensor>;

/** What computes a graph within a node: a branch, or the body of a loop. */
export type EvaluateGraph = (graph: GraphProto, inputs: readonly Datum[]) => Reading<readonly Datum[]>;

/** A node as its operator sees it. */
export class Call<A extends Attributes = Attributes> {
  /** Names the node, for messages. */
  readonly where: string;
  /** The version of the operator: the newest that is not newer than the model's opset. */
  readonly version: number;
  /** The values of the attributes. */
  readonly attributes: AttributeValues<A>;
  /** The inputs; undefined for those left out. */
  readonly inputs: readonly Datum[];
  /** Of each output, whether the model names it. */
  readonly outputs: readonly boolean[];
  /** Computes a graph that is an attribute. */
  readonly evaluate: EvaluateGraph;

  constructor(parts: {
    readonly where: string;
    readonly version: number;
    readonly attributes: Readonly<Record<string, unknown>>;
    readonly inputs: readonly Datum[];
    readonly outputs: readonly boolean[];
    readonly evaluate: EvaluateGraph;
  }) {
    this.where = parts.where;
    this.version = parts.version;
    this.attributes = parts.attributes as AttributeValues<A>;
    this.inputs = parts.inputs;
    this.outputs = parts.outputs;
    this.evaluate = parts.evaluate;
  }

  /** Input `i`. @throws DTypeError if it is left out or a sequence */
  value(i: number): Value {
    const found = this.optional(i);
    if (!found) throw new DTypeError(`[onnx] ${this.where} lacks input ${i}.`);
    return found;
  }

  /** Input `i`, or undefined if it is left out. @throws DTypeError for a sequence */
  optional(i: number): Value | undefined {
    const found = this.inputs[i];
    if (found instanceof Sequence)
      throw new DTypeError(`[onnx] input ${i} of ${this.where} is a sequence, must be a tensor.`);
    return found;
  }

  /** All inputs. @throws DTypeError if one is left out or a sequence */
  values(): Value[] {
    return this.inputs.map((_, i) => this.value(i));
  }

  /** Input `i` on a device. */
  tensor(i: number): AnyTensor {
    return this.value(i).tensor;
  }

  /** The whole numbers of input `i`, which the record lists as `known`; undefined if it is left out. */
  numbers(i: number): number[] | undefined {
    const value = this.optional(i);
    return value && numbersOf(value.host!);
  }

  /** The one number of input `i`, which the record lists as `known`; undefined if it is left out. */
  number(i: number): number | undefined {
    const numbers = this.numbers(i);
    if (numbers && numbers.length !== 1)
      throw this.shapeError(`input ${i} has ${numbers.length} elements, must have one.`);
    return numbers?.[0];
  }

  /** An axis counted from the front. @throws ShapeError out of range */
  axis(axis: number, rank: number): number {
    if (axis < -rank || axis >= rank)
      throw this.shapeError(`axis ${axis} is out of range for ${rank} dimensions.`);
    return axis < 0 ? axis + rank : axis;
  }

  /** Axes counted from the front. @throws ShapeError out of range, or for the same twice */
  axes(axes: readonly number[], rank: number): number[] {
    const found = axes.map((a) => this.axis(a, rank));
    if (new Set(found).size < found.length)
      throw this.shapeError(`the axes ${axes.join(', ')} name one twice.`);
    return found;
  }

  /** @param message a sentence about the node */
  shapeError(message: string): ShapeError {
    return new ShapeError(`[onnx] ${this.where}: ${message}`);
  }

  /** @param message a sentence about the node */
  typeError(message: string): DTypeError {
    return new DTypeError(`[onnx] ${this.where}: ${message}`);
  }
}

/** What an operator gives: one output, or all of them. */
export type Results = Datum | readonly Datum[];

/** A record of an operator. */
export interface OperatorRecord<A extends Attributes = Attributes> {
  /** The versions that are computed, of the ONNX standard's: those of this operator at which its meaning changed. */
  readonly since: readonly number[];
  /** How many inputs: the fewest, and the most if they differ. */
  readonly inputs: readonly [fewest: number, most?: number];
  /** Its attributes. */
  readonly attributes?: A;
  /** Inputs whose values must be known to record the graph: shapes, axes, counts. 'all' for operators of the host. */
  readonly known?: readonly number[] | 'all';
  /** Inputs that are never trained, whatever their type: running statistics, scales of quantization. */
  readonly fixed?: readonly number[];
  /** The outputs of a node. */
  readonly compute: (call: Call<A>) => Results | Reading<Results>;
}

/** A record whose attributes are not known by name. */
export type Operator = OperatorRecord<Attributes>;
/** Operators by name. */
export type Operators = Readonly<Record<string, Operator>>;

/** A record, with the types of its attributes. */
export const operator = <A extends Attributes = Record<never, never>>(record: OperatorRecord<A>): Operator =>
  record as unknown as Operator;
