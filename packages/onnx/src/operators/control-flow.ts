/**
 * Control flow and sequences. Conditions and counts are known when a program is recorded, or read by `run`: branches and
 * iterations are written out.
 */
import type { Shape } from 'heddle';
import { ELEMENT_TYPES, elementTypeOf } from '../file/element-types.js';
import { constantFill } from '../values/constant.js';
import { hostTensor } from '../values/host-ops.js';
import { listOf, requireParts } from '../values/limits.js';
import { type Datum, Sequence, Value } from '../values/value.js';
import { graph, int, ints, required } from './attributes.js';
import { sliced, splitBy } from './movement.js';
import { type Call, operator, type Reading, type Results } from './operator.js';

const VERSIONS = [1, 11, 13, 16, 19, 21, 23, 24, 25];
const ANY = Number.POSITIVE_INFINITY;

const If = operator({
  since: VERSIONS,
  inputs: [1],
  known: [0],
  attributes: { then_branch: required(graph(undefined)), else_branch: required(graph(undefined)) },
  compute: (call) =>
    call.evaluate(call.number(0) ? call.attributes.then_branch : call.attributes.else_branch, []),
});

/** The value of a scalar that may be on a device. */
function* scalarOf(value: Datum): Reading<number | undefined> {
  if (!(value instanceof Value)) return undefined;
  const host = value.host ?? (yield value);
  return Number(host.values[0]);
}

const Loop = operator({
  since: VERSIONS,
  inputs: [2, ANY],
  known: [0],
  attributes: { body: required(graph(undefined)) },
  *compute(call): Reading<Results> {
    const { body } = call.attributes;
    const most = call.number(0) ?? ANY;
    let goesOn = (yield* scalarOf(call.inputs[1])) ?? 1;
    let carried = call.inputs.slice(2);
    const scanned: Value[][] = listOf(call.outputs.length - carried.length, () => []);
    for (let i = 0; i < most && goesOn; i++) {
      const condition = Value.host(hostTensor(ELEMENT_TYPES.bool, [], [1]));
      const outputs = yield* call.evaluate(body, [Value.int64s([i], []), condition, ...carried]);
      goesOn = (yield* scalarOf(outputs[0])) ?? 1;
      carried = outputs.slice(1, 1 + carried.length) as Datum[];
      for (const [k, row] of outputs.slice(1 + carried.length).entries()) scanned[k]?.push(row as Value);
    }
    return [
      ...carried,
      ...scanned.map((rows, k) => stacked(call, rows, 0, emptyOf(call, body, 1 + carried.length + k))),
    ];
  },
});

/** What a loop that never runs gives for a scanned output. */
function emptyOf(
  call: Call,
  body: { readonly output: readonly { readonly type?: unknown }[] },
  i: number,
): Value {
  const type = body.output[i]?.type as
    | {
        value: {
          case?: string;
          value?: { elemType: number; shape?: { dim: readonly { value: { value?: unknown } }[] } };
        };
      }
    | undefined;
  const code = type?.value.case === 'tensorType' ? type.value.value!.elemType : 1;
  const sizes =
    type?.value.value?.shape?.dim.map(({ value }) =>
      typeof value.value === 'bigint' ? Number(value.value) : 0,
    ) ?? [];
  return constantFill(elementTypeOf(code, call.where), [0, ...sizes], 0);
}

/** Values on top of each other along a new dimension. */
function stacked(call: Call, rows: readonly Value[], axis: number, empty?: Value): Value {
  const [first] = rows;
  if (!first) {
    if (empty) return empty;
    throw call.shapeError('there is nothing to stack.');
  }
  const at = call.axis(axis, first.rank + 1);
  const wide = (shape: Shape): number[] => [...shape.slice(0, at), 1, ...shape.slice(at)];
  return Value.concat(
    rows.map((row) => row.reshape(wide(row.shape))),
    at,
  );
}

/** The slice at position `i` of `axis`, without that dimension. */
function sliceAt(x: Value, axis: number, i: number): Value {
  const part = sliced(x, [axis], [i], [i + 1], [1]);
  return part.reshape(part.shape.filter((_, d) => d !== axis));
}

const Scan = operator({
  since: [9, 11, 16, 19, 21, 23, 24, 25],
  inputs: [1, ANY],
  attributes: {
    body: required(graph(undefined)),
    num_scan_inputs: required(int(undefined)),
    scan_input_axes: ints(undefined),
    scan_input_directions: ints(undefined),
    scan_output_axes: ints(undefined),
    scan_output_directions: ints(undefined),
  },
  *compute(call): Reading<Results> {
    const a = call.attributes;
    const states = call.inputs.length - a.num_scan_inputs;
    if (states < 0 || a.num_scan_inputs < 1)
      throw call.shapeError(`cannot scan ${a.num_scan_inputs} inputs.`);
    let carried = call.inputs.slice(0, states);
    const scanned = call.values().slice(states);
    const axes = scanned.map((x, k) => call.axis(a.scan_input_axes?.[k] ?? 0, x.rank));
    const length = scanned[0]!.shape[axes[0]!]!;
    if (scanned.some((x, k) => x.shape[axes[k]!] !== length))
      throw call.shapeError('scanned inputs differ in length.');
    const rows: Value[][] = listOf(a.body.output.length - states, () => []);
    for (let i = 0; i < length; i++) {
      const parts = scanned.map((x, k) =>
        sliceAt(x, axes[k]!, a.scan_input_directions?.[k] ? length - 1 - i : i),
      );
      const outputs = yield* call.evaluate(a.body, [...carried, ...parts]);
      carried = outputs.slice(0, states) as Datum[];
      for (const [k, row] of outputs.slice(states).entries())
        if (a.scan_output_directions?.[k]) rows[k]!.unshift(row as Value);
        else rows[k]!.push(row as Value);
    }
    const made = rows.map((list, k) =>
      stacked(call, list, a.scan_output_axes?.[k] ?? 0, emptyOf(call, a.body, states + k)),
    );
    return [...carried, ...made];
  },
});

/** Input `i` as a list of values. */
function sequence(call: Call, i: number): readonly Value[] {
  const found = call.inputs[i];
  if (!(found instanceof Sequence)) throw call.typeError(`input ${i} must be a sequence.`);
  return found.values;
}

/** A place of a sequence, counted from the front. */
function place(call: Call, i: number, length: number): number {
  const at = call.number(i) ?? length;
  if (at < -length || at > length)
    throw call.shapeError(`position ${at} is out of range for ${length} values.`);
  return at < 0 ? at + length : at;
}

const SequenceConstruct = operator({
  since: [11],
  inputs: [1, ANY],
  compute: (call) => new Sequence(call.values()),
});
const SequenceEmpty = operator({
  since: [11],
  inputs: [0],
  attributes: { dtype: int(1) },
  compute: () => new Sequence([]),
});
const SequenceLength = operator({
  since: [11],
  inputs: [1],
  compute: (call) => Value.int64s([sequence(call, 0).length], []),
});
const SequenceAt = operator({
  since: [11],
  inputs: [2],
  known: [1],
  compute: (call) => {
    const values = sequence(call, 0);
    const found = values[place(call, 1, values.length)];
    if (!found) throw call.shapeError(`the sequence has ${values.length} values.`);
    return found;
  },
});
const SequenceInsert = operator({
  since: [11],
  inputs: [2, 3],
  known: [2],
  compute: (call) => {
    const values = sequence(call, 0);
    const at = place(call, 2, values.length);
    return new Sequence([...values.slice(0, at), call.value(1), ...values.slice(at)]);
  },
});
const SequenceErase = operator({
  since: [11],
  inputs: [1, 2],
  known: [1],
  compute: (call) => {
    const values = sequence(call, 0);
    const at = call.inputs[1] ? place(call, 1, values.length) : values.length - 1;
    return new Sequence(values.filter((_, i) => i !== at));
  },
});
const ConcatFromSequence = operator({
  since: [11],
  inputs: [1],
  attributes: { axis: required(int(undefined)), new_axis: int(0) },
  compute: (call) => {
    const values = sequence(call, 0);
    if (call.attributes.new_axis) return stacked(call, values, call.attributes.axis);
    return Value.concat(values, call.axis(call.attributes.axis, values[0]?.rank ?? 0));
  },
});
const SplitToSequence = operator({
  since: [11, 24],
  inputs: [1, 2],
  known: [1],
  attributes: { axis: int(0), keepdims: int(1) },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.axis(call.attributes.axis, x.rank);
    const length = x.shape[axis]!;
    const given = call.numbers(1);
    const each = given && call.value(1).rank === 0 ? given[0]! : 1;
    if (each < 1) throw call.shapeError(`parts of ${each} elements.`);
    const even = listOf(Math.ceil(length / each), (_, i) => Math.min(each, length - i * each));
    const sizes = given && call.value(1).rank === 1 ? given : even;
    requireParts(sizes.length, 'parts');
    if (sizes.reduce((n, size) => n + size, 0) !== length)
      throw call.shapeError(`parts of ${sizes} of ${length} elements.`);
    const parts = splitBy(x, axis, sizes);
    const drop = !given && call.attributes.keepdims === 0;
    return new Sequence(drop ? parts.map((p) => p.reshape(p.shape.filter((_, i) => i !== axis))) : parts);
  },
});
const SequenceMap = operator({
  since: [17],
  inputs: [1, ANY],
  attributes: { body: required(graph(undefined)) },
  *compute(call): Reading<Results> {
    const values = sequence(call, 0);
    const made: Value[][] = call.outputs.map(() => []);
    for (const i of values.keys()) {
      const given = call.inputs.map((x) => (x instanceof Sequence ? x.values[i] : x));
      const outputs = yield* call.evaluate(call.attributes.body, given);
      for (const [k, output] of outputs.entries()) made[k]?.push(output as Value);
    }
    return made.map((list) => new Sequence(list));
  },
});

const OPTIONAL = [15, 18, 28];
const OptionalHasElement = operator({
  since: OPTIONAL,
  inputs: [0, 1],
  compute: (call) => Value.host(hostTensor(ELEMENT_TYPES.bool, [], [call.inputs[0] === undefined ? 0 : 1])),
});
const OptionalGetElement = operator({
  since: OPTIONAL,
  inputs: [1],
  compute: (call) => {
    if (call.inputs[0] === undefined) throw call.typeError('the optional has no element.');
    return call.inputs[0];
  },
});

export const CONTROL_FLOW = {
  ...{
    If,
    Loop,
    Scan,
    SequenceConstruct,
    SequenceEmpty,
    SequenceLength,
    SequenceAt,
    SequenceInsert,
    SequenceErase,
  },
  ...{ ConcatFromSequence, SplitToSequence, SequenceMap, OptionalHasElement, OptionalGetElement },
};
