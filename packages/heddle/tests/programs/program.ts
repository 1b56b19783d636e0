/** A computation as data: made at random, shrunk, printed, repeated, and given to PyTorch (golden/programs.py). */
import type { DTypeName } from '../../src/core/dtype.js';
import { type Choice, type Memory, stepped } from './optimizers.js';
import { TABLE } from './table.js';
import { type Entries, FORMATS, isFloat, Tape } from './tape.js';

export interface Input {
  readonly shape: readonly number[];
  readonly dtype: DTypeName;
  /** Row-major, for each round. */
  readonly values: readonly (readonly number[])[];
  readonly requiresGrad?: boolean;
  /** Keeps from round to round what was assigned to it… */
  readonly state?: boolean;
  /** … unless it is overwritten with the next round's values. */
  readonly rewritten?: boolean;
}

/** Values are numbered: the inputs first, then one for each step. */
export interface Step {
  /** A row of the table; or `assign`, of a state and its new value, which from there on both numbers stand for. */
  readonly op: string;
  readonly src: readonly number[];
  readonly arg: unknown;
}

export interface Program {
  readonly inputs: readonly Input[];
  readonly steps: readonly Step[];
  /** Values that are asked for. */
  readonly outputs: readonly number[];
  /** Values of one element, each of which gradients are taken of. */
  readonly losses: readonly number[];
  /** Gradients are also used: each parameter less a tenth of its own is asked for. */
  readonly updates?: boolean;
  /** Moves the parameters after each round. */
  readonly optimizer?: Choice;
}

export const ROUNDS = 2;

/** JSON with NaN, infinities and −0, a line for each input and step. */
export function printProgram(program: Program): string {
  const json = (value: unknown): string =>
    JSON.stringify(value, (_, v: unknown) =>
      typeof v === 'number' && (!Number.isFinite(v) || Object.is(v, -0))
        ? Object.is(v, -0)
          ? '-0'
          : String(v)
        : v,
    );
  const list = (items: readonly unknown[]): string =>
    `[${items.map((item) => `\n  ${json(item)}`).join(',')}]`;
  const { inputs, steps, ...rest } = program;
  return `{"inputs": ${list(inputs)},\n"steps": ${list(steps)},\n${json(rest).slice(1)}`;
}

export const parseProgram = (text: string): Program =>
  JSON.parse(text, (_, v: unknown) =>
    v === 'NaN' || v === 'Infinity' || v === '-Infinity' || v === '-0' ? Number(v) : v,
  ) as Program;

/** Programs that once failed: of each kind, each with why. */
export function parseFound(text: string): Record<'programs' | 'machines' | 'trainings', Program[]> {
  const lists = parseProgram(text) as unknown as Record<string, { readonly program: Program }[]>;
  const of = (kind: string): Program[] => lists[kind]!.map(({ program }) => program);
  return { programs: of('programs'), machines: of('machines'), trainings: of('trainings') };
}

/** What a device should give for a value: each element with its bound, which may be infinite. */
export interface Expected {
  readonly shape: readonly number[];
  readonly dtype: DTypeName;
  readonly value: ArrayLike<number>;
  readonly error: ArrayLike<number>;
  /** Of a gradient: whether the losses depend on the value. */
  readonly reached?: boolean;
}

export interface Round {
  readonly outputs: readonly Expected[];
  /** Of the inputs that require one, in order. */
  readonly gradients: readonly Expected[];
  /** With `updates`: of the same inputs. */
  readonly updated: readonly Expected[];
  /** States, and parameters that an optimizer moves, after the round. */
  readonly states: readonly Expected[];
}

/** An input's entries: the first round's values, or those that a state was left with. */
function entriesOf(
  tape: Tape,
  { shape, dtype, values }: Input,
  round: number,
  kept: Expected | undefined,
): Entries {
  const data = kept
    ? Array.from(kept.value, (v, i) => tape.leaf(dtype, v, kept.error[i]!))
    : values[round % values.length]!.map((v) => tape.leaf(dtype, v));
  return { shape, dtype, data };
}

/** Carry out a step on the tape. */
export function stepEntries(tape: Tape, step: Step, values: Entries[]): Entries {
  if (step.op !== 'assign')
    return TABLE[step.op]!.exact(
      tape,
      step.src.map((i) => values[i]!),
      step.arg,
    );
  const [state, value] = step.src.map((i) => values[i]!) as [Entries, Entries];
  // Gradients do not reach what it was made of.
  const assigned = { ...value, data: value.data.map((id) => tape.detached(id)) };
  values.forEach((v, i) => {
    if (v === state) values[i] = assigned;
  });
  return assigned;
}

const expected = (tape: Tape, { shape, dtype, data }: Entries): Expected => ({
  ...{ shape, dtype },
  value: data.map((id) => tape.value[id]!),
  error: data.map((id) => tape.error[id]!),
});

/** What a program should give, round after round. */
export function evaluate(program: Program, rounds = ROUNDS): Round[] {
  let kept: (Expected | undefined)[] = program.inputs.map(() => undefined);
  const memories = new Map<number, Memory>();
  return Array.from({ length: rounds }, (_, round) => {
    const tape = new Tape();
    const values = program.inputs.map((input, i) => entriesOf(tape, input, round, kept[i]));
    const started = [...values];
    for (const step of program.steps) values.push(stepEntries(tape, step, values));
    const { value, error, uses } = tape.gradients(program.losses.map((i) => values[i]!.data[0]!));
    const parameters = program.inputs.flatMap((input, i) => (input.requiresGrad ? [started[i]!] : []));
    const gradients = parameters.map(
      ({ shape, dtype, data }): Expected => ({
        ...{ shape, dtype },
        value: data.map((id) => value[id]!),
        error: data.map((id) => error[id]!),
        reached: data.some((id) => uses[id]! > 0),
      }),
    );
    let next = 0;
    const after = program.inputs.map((input, i) => {
      if (input.requiresGrad) {
        const gradient = gradients[next++]!;
        if (!program.optimizer) return undefined;
        const old = memories.get(i) ?? new Map();
        const { parameter, memory } = stepped(
          program.optimizer,
          expected(tape, started[i]!),
          gradient,
          old,
          round + 1,
        );
        memories.set(i, memory);
        return parameter;
      }
      return input.state ? expected(tape, values[i]!) : undefined;
    });
    kept = after.map((k, i) => (program.inputs[i]!.rewritten ? undefined : k));
    return {
      outputs: program.outputs.map((i) => expected(tape, values[i]!)),
      gradients,
      updated: program.updates ? parameters.map((p, i) => updated(expected(tape, p), gradients[i]!)) : [],
      states: after.filter((k) => k !== undefined),
    };
  });
}

/** p − 0.1 g */
function updated(p: Expected, g: Expected): Expected {
  const { unit, tiny, round } = FORMATS[p.dtype];
  const rate = round(0.1);
  return {
    ...p,
    value: Array.from(p.value, (v, i) => v - rate * g.value[i]!),
    error: Array.from(p.error, (e, i) => {
      const taken = e + rate * g.error[i]!;
      const size = Math.abs(p.value[i]!) + rate * Math.abs(g.value[i]!);
      // A gradient that rounding leaves open may be NaN here.
      return taken === Number.POSITIVE_INFINITY ? taken : taken + 4 * unit * size + tiny;
    }),
  };
}

/** Whether the value is one to go on with: rounding leaves no element open, and its bound says something. */
export function isTelling(tape: Tape, { dtype, data }: Entries, special: boolean): boolean {
  let [most, error] = [0, 0];
  for (const id of data) {
    const [v, e] = [tape.value[id]!, tape.error[id]!];
    if (!(e < Number.POSITIVE_INFINITY)) return false;
    if (!Number.isFinite(v)) {
      if (!special) return false;
      continue;
    }
    most = Math.max(most, Math.abs(v));
    error = Math.max(error, e);
  }
  if (!isFloat(dtype)) return true;
  const { unit, tiny } = FORMATS[dtype];
  if (!special && most > (dtype === 'f16' ? 1e3 : 1e5)) return false;
  return error <= Math.max(most * Math.min(0.1, 2 ** 14 * unit), 64 * tiny);
}
