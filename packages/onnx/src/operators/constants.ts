/** Constants, and conversions between element types. */
import { DTypeError } from 'heddle';
import { ELEMENT_TYPES, type ElementType, elementTypeOf } from '../file/element-types.js';
import { constantFill, constantOf } from '../values/constant.js';
import { cells, hostTensor } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, floats, int, ints, required, tensorOf, text, texts } from './attributes.js';
import { type Call, operator } from './operator.js';

const { f32: FLOAT, string: STRING } = ELEMENT_TYPES;

const Constant = operator({
  since: [1, 9, 11, 12, 13, 19, 21, 23, 24, 25],
  inputs: [0],
  attributes: {
    value: tensorOf(undefined),
    value_float: float(undefined, { from: 12 }),
    value_floats: floats(undefined, { from: 12 }),
    value_int: int(undefined, { from: 12 }),
    value_ints: ints(undefined, { from: 12 }),
    value_string: text(undefined, { from: 12 }),
    value_strings: texts(undefined, { from: 12 }),
  },
  compute: ({ attributes: a, where }) => {
    if (a.value) return CONSTANTS.get(a.value) ?? remembered(a.value);
    if (a.value_float !== undefined) return Value.host(hostTensor(FLOAT, [], [a.value_float]));
    if (a.value_floats) return Value.host(hostTensor(FLOAT, [a.value_floats.length], a.value_floats));
    if (a.value_int !== undefined) return Value.int64s([a.value_int], []);
    if (a.value_ints) return Value.int64s(a.value_ints);
    if (a.value_string !== undefined) return Value.host(hostTensor(STRING, [], [a.value_string]));
    if (a.value_strings) return Value.host(hostTensor(STRING, [a.value_strings.length], a.value_strings));
    throw new DTypeError(`[onnx] ${where} has no value.`);
  },
});

/** Values of constants: each is uploaded once, however often the graph is recorded. */
const CONSTANTS = new WeakMap<object, Value>();
function remembered(host: Parameters<typeof Value.host>[0]): Value {
  const value = constantOf(host);
  CONSTANTS.set(host, value);
  return value;
}

const ConstantOfShape = operator({
  since: [9, 20, 21, 23, 24, 25],
  inputs: [1],
  known: [0],
  attributes: { value: tensorOf(undefined) },
  compute: (call) => {
    const shape = call.numbers(0)!;
    if (shape.some((d) => d < 0)) throw call.shapeError(`the shape is (${shape}).`);
    const { value } = call.attributes;
    if (value && value.values.length !== 1)
      throw call.shapeError(`value has ${value.values.length} elements, must have one.`);
    return constantFill(value?.type ?? FLOAT, shape, value ? cells(value.values)[0]! : 0);
  },
});

/** @throws DTypeError for types that the library does not compute with */
function targetOf(call: Call, code: number): ElementType {
  const type = elementTypeOf(code, call.where);
  if (!type.array)
    throw call.typeError(`cannot convert to ${type.name}, which the library does not compute with.`);
  return type;
}

const Cast = operator({
  since: [6, 9, 13, 19, 21, 23, 24, 25, 28],
  inputs: [1],
  attributes: {
    to: required(int(undefined)),
    saturate: int(1, { from: 19 }),
    round_mode: text('up', { from: 24 }),
  },
  compute: (call) => call.value(0).cast(targetOf(call, call.attributes.to)),
});

const CastLike = operator({
  since: [15, 19, 21, 23, 24, 25],
  inputs: [2],
  attributes: { saturate: int(1, { from: 19 }), round_mode: text('up', { from: 24 }) },
  compute: (call) => call.value(0).cast(call.value(1).type),
});

const BitCast = operator({
  since: [26],
  inputs: [1],
  known: 'all',
  attributes: { to: required(int(undefined)) },
  compute: (call) => {
    const x = call.value(0);
    const type = targetOf(call, call.attributes.to);
    if (type.bits !== x.type.bits)
      throw call.typeError(`${x.type.name} and ${type.name} are not of as many bits.`);
    const values = x.host!.values;
    if (
      Array.isArray(values) ||
      [x.type, type].some((t) => t.bits < 8 || t.name === 'f16' || t.name === 'bf16')
    )
      throw call.typeError(`cannot see ${x.type.name} as ${type.name}.`);
    const copy = values.slice();
    const seen = type.array!(0) as Float32Array;
    const view = seen.constructor as new (buffer: ArrayBufferLike) => Float32Array;
    return Value.host({ type, shape: x.shape, values: new view(copy.buffer) });
  },
});

const EyeLike = operator({
  since: [9, 22],
  inputs: [1],
  attributes: { dtype: int(undefined), k: int(0) },
  compute: (call) => {
    const x = call.value(0);
    if (x.rank !== 2) throw call.shapeError(`the input has ${x.rank} dimensions, must have 2.`);
    const type = call.attributes.dtype === undefined ? x.type : targetOf(call, call.attributes.dtype);
    const [rows, columns] = x.shape as [number, number];
    const values = listOf(rows * columns, (_, i) =>
      (i % columns) - Math.floor(i / columns) === call.attributes.k ? 1 : 0,
    );
    return Value.host(hostTensor(FLOAT, x.shape, values)).cast(type);
  },
});

export const CONSTANT_OPERATORS = { Constant, ConstantOfShape, Cast, CastLike, BitCast, EyeLike };
