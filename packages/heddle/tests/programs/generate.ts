/** Random programs: the generator, and how a failing one is made smaller. */
import fc from 'fast-check';
import type { DTypeName } from '../../src/core/dtype.js';
import * as nd from '../ndarray.js';
import type { Kind, Picker } from './op.js';
import { chooseOptimizer } from './optimizers.js';
import {
  evaluate,
  type Input,
  isTelling,
  type Program,
  printProgram,
  ROUNDS,
  type Round,
  type Step,
  stepEntries,
} from './program.js';
import { KINDS, TABLE } from './table.js';
import { type Entries, FORMATS, isFloat, Tape } from './tape.js';

/** What a program is mostly of. */
type Theme = 'mixed' | 'plain' | 'whole' | 'special' | 'half' | 'double' | 'images';
const THEMES: readonly Theme[] = [
  'mixed',
  'plain',
  'plain',
  'plain',
  'whole',
  'special',
  'half',
  'double',
  'images',
];

const MOST = 600;

const SPECIAL = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1,
  -1,
  0.5,
  1e-40,
  -3e-45,
  1e-6,
  1e30,
  100,
  -90,
];

/** A program under construction: every step is carried out on the tape at once, and kept only if it tells something. */
class Builder implements Picker {
  readonly inputs: Input[] = [];
  readonly steps: Step[] = [];
  readonly #tapes = Array.from({ length: ROUNDS }, () => new Tape());
  readonly #values: Entries[][] = this.#tapes.map(() => []);
  readonly theme: Theme;
  /** How many inputs there may be before the first step: numbers of values are given out as they are made. */
  readonly #order: { input?: Input; step?: Step }[] = [];
  readonly below: (n: number) => number;

  /** Elements of a value at most. */
  readonly #most: number;

  constructor(below: (n: number) => number, theme?: Theme, most = MOST) {
    this.below = below;
    this.#most = most;
    this.theme = theme ?? this.one(THEMES);
  }

  chance(share: number): boolean {
    return this.below(1000) < 1000 * share;
  }
  one<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
  shape(value: number): readonly number[] {
    return this.#values[0]![value]!.shape;
  }
  dtype(value: number): DTypeName {
    return this.#values[0]![value]!.dtype;
  }
  get count(): number {
    return this.#order.length;
  }

  value(suits: (shape: readonly number[], dtype: DTypeName) => boolean = () => true): number | undefined {
    const found = nd.range(0, this.count).filter((i) => suits(this.shape(i), this.dtype(i)));
    if (found.length === 0) return undefined;
    // What is new is looked at more often, so that programs get deep.
    return this.chance(0.6)
      ? found[found.length - 1 - this.below(Math.min(2, found.length))]!
      : this.one(found);
  }
  floats(suits: (shape: readonly number[]) => boolean = () => true): number | undefined {
    return this.value((shape, dtype) => isFloat(dtype) && suits(shape));
  }

  fitting(shape: readonly number[], dtype: DTypeName, kind?: Kind): number {
    const found = this.chance(0.3)
      ? this.value((s, t) => t === dtype && s.length === shape.length && s.every((n, d) => n === shape[d]))
      : undefined;
    return (
      found ??
      (kind === undefined && isFloat(dtype) && this.chance(0.5) ? this.#reduced(shape, dtype) : undefined) ??
      this.#input(shape, dtype, kind ?? this.#kind(dtype), isFloat(dtype) && this.chance(0.6))
    );
  }

  /** A reduction of a new input to this shape: a penalty, a mean of rows. */
  #reduced(shape: readonly number[], dtype: DTypeName): number | undefined {
    const at = this.below(shape.length + 1);
    const long = [...shape.slice(0, at), 2 + this.below(6), ...shape.slice(at)];
    if (nd.count(long) > MOST / 2) return undefined;
    const x = this.#input(long, dtype, this.#kind(dtype), this.chance(0.6));
    const squares = this.chance(0.3) ? this.add('square', [x], null) : x;
    return squares === undefined
      ? undefined
      : this.add(this.one(['sum', 'sum', 'mean', 'max', 'min']), [squares], { axes: [at], keepdim: false });
  }
  constant(shape: readonly number[], dtype: DTypeName, kind: Kind): number {
    return this.#input(shape, dtype, kind, false);
  }

  #kind(dtype: DTypeName): Kind {
    if (dtype === 'bool') return 'bits';
    if (!isFloat(dtype) || this.theme === 'whole') return 'whole';
    if (this.theme === 'special') return this.chance(0.6) ? 'special' : 'any';
    return this.one(['any', 'any', 'any', 'positive', 'unit', 'whole'] as const);
  }

  #number(kind: Kind, dtype: DTypeName): number {
    if (typeof kind === 'object') return this.below(kind.below);
    const fraction = this.below(1 << 20) / (1 << 20);
    if (kind === 'bits') return this.below(2);
    if (kind === 'whole') return dtype === 'u8' || dtype === 'u32' ? this.below(9) : this.below(9) - 4;
    if (kind === 'positive') return 0.2 + 2 * fraction;
    if (kind === 'unit') return 0.05 + 0.9 * fraction;
    if (kind === 'special' && this.chance(0.5)) return this.one(SPECIAL);
    return 4 * fraction - 2;
  }

  #input(shape: readonly number[], dtype: DTypeName, kind: Kind, requiresGrad: boolean): number {
    const values = nd
      .range(0, ROUNDS)
      .map(() =>
        Array.from({ length: nd.count(shape) }, () => FORMATS[dtype].round(this.#number(kind, dtype))),
      );
    const input = { shape, dtype, values, ...(requiresGrad ? { requiresGrad } : {}) };
    this.inputs.push(input);
    this.#order.push({ input });
    this.#tapes.forEach((tape, round) => {
      this.#values[round]!.push({ shape, dtype, data: values[round]!.map((v) => tape.leaf(dtype, v)) });
    });
    return this.count - 1;
  }

  parameter(shape: readonly number[], kind: Kind): number {
    return this.#input(shape, this.theme === 'double' ? 'f64' : 'f32', kind, true);
  }

  state(shape: readonly number[]): number {
    const made = this.#input(shape, this.theme === 'double' ? 'f64' : 'f32', 'any', false);
    const input = { ...this.inputs.pop()!, state: true, ...(this.chance(0.3) ? { rewritten: true } : {}) };
    this.inputs.push(input);
    return made;
  }

  /** A new input of some shape. */
  start(): void {
    const dtype: DTypeName = {
      mixed: this.one(['f32', 'i32', 'u8', 'bool', 'f16', 'f64', 'i64', 'u32'] as const),
      ...({ plain: 'f32', whole: 'f32', special: 'f32', double: 'f64', images: 'f32' } as const),
      half: this.one(['f16', 'bf16'] as const),
    }[this.theme];
    const size = (): number => this.one([1, 1, 2, 3, 4, 5, 3, 2, 8, 13]);
    const shape =
      this.theme === 'images'
        ? [1 + this.below(3), 1 + this.below(3), 2 + this.below(6), 2 + this.below(6)]
        : nd.range(0, this.one([0, 1, 2, 2, 2, 3, 3, 4])).map(size);
    if (nd.count(shape) <= MOST / 2)
      this.#input(shape, dtype, this.#kind(dtype), isFloat(dtype) && this.chance(0.7));
  }

  /** Carry out a step if what it gives is telling in every round. @returns its number */
  add(op: string, src: readonly number[], arg: unknown): number | undefined {
    const step = { op, src, arg };
    const results: Entries[] = [];
    for (const [round, tape] of this.#tapes.entries()) {
      const made = stepEntries(tape, step, this.#values[round]!);
      if (
        nd.count(made.shape) > this.#most ||
        made.shape.length > 5 ||
        !isTelling(tape, made, this.theme === 'special')
      )
        return undefined;
      results.push(made);
    }
    results.forEach((made, round) => {
      this.#values[round]!.push(made);
    });
    this.steps.push(step);
    this.#order.push({ step });
    return this.count - 1;
  }

  /** Try to add a step of any op. */
  grow(): void {
    let at = this.below(KINDS.reduce((sum, [share]) => sum + share, 0));
    const [, names] = KINDS.find(([share]) => {
      at -= share;
      return at < 0;
    })!;
    const op = this.one(names);
    const choice = TABLE[op]!.choose(this);
    if (choice) this.add(op, choice.src, choice.arg);
  }

  /** Scalars to take gradients of: weighted sums of some values, penalties, losses. */
  losses(): number[] {
    const scalars: number[] = [];
    for (let i = 0; i < 1 + this.below(3); i++) {
      let x = this.floats((shape) => nd.count(shape) > 0);
      if (x === undefined) continue;
      const [shape, dtype] = [this.shape(x), this.dtype(x)];
      const before = this.one(['mul', 'mul', 'square', 'none', 'add']);
      if (before === 'mul') x = this.add('mul', [x, this.constant(shape, dtype, 'any')], null);
      else if (before === 'square') x = this.add('square', [x], null);
      if (x === undefined) continue;
      const scalar = this.add(this.chance(0.7) ? 'sum' : 'mean', [x], {
        axes: shape.map((_, d) => d),
        keepdim: false,
      });
      if (scalar === undefined) continue;
      const other = scalars.at(-1);
      const sum =
        other !== undefined && this.dtype(other) === dtype && this.chance(0.7)
          ? this.add('add', [other, scalar], null)
          : undefined;
      if (sum !== undefined) scalars.pop();
      scalars.push(sum ?? scalar);
    }
    return scalars;
  }

  /** The program with its inputs before its steps. */
  finish(outputs: readonly number[], losses: readonly number[]): Program {
    const place = new Map<number, number>();
    for (const kind of ['input', 'step'] as const)
      this.#order.forEach((made, i) => {
        if (made[kind]) place.set(i, place.size);
      });
    const to = (i: number): number => place.get(i)!;
    const steps = this.steps.map((s) => ({ ...s, src: s.src.map(to) }));
    const made = { inputs: this.inputs, steps, outputs: outputs.map(to), losses: losses.map(to) };
    return needed({ ...made, ...(this.chance(0.3) ? { updates: true } : {}) });
  }
}

/** Without the steps and inputs that nothing asks for; no parameters where there is no loss. */
export function needed(program: Program): Program {
  const first = program.inputs.length;
  const used = new Set([...program.outputs, ...program.losses]);
  for (let i = program.steps.length - 1; i >= 0; i--) {
    const { op, src } = program.steps[i]!;
    if (op === 'assign') used.add(first + i);
    if (used.has(first + i)) for (const s of src) used.add(s);
  }
  const place = new Map([...used].toSorted((a, b) => a - b).map((from, to) => [from, to]));
  const to = (i: number): number => place.get(i)!;
  return {
    ...program,
    inputs: program.inputs
      .filter((_, i) => used.has(i))
      .map(({ requiresGrad, ...rest }) =>
        requiresGrad && program.losses.length > 0 ? { ...rest, requiresGrad } : rest,
      ),
    steps: program.steps.filter((_, i) => used.has(first + i)).map((s) => ({ ...s, src: s.src.map(to) })),
    outputs: program.outputs.map(to),
    losses: program.losses.map(to),
  };
}

export function randomProgram(below: (n: number) => number): Program {
  const builder = new Builder(below);
  for (let i = 0; i < 1 + below(3); i++) builder.start();
  const steps = 2 + below(11);
  for (let tries = 0; builder.steps.length < steps && tries < 4 * steps; tries++) {
    if (builder.count === 0) builder.start();
    builder.grow();
  }
  const made = nd.range(0, builder.count);
  const last = made.at(-1);
  const asked = builder.one([0.2, 0.5]);
  const outputs = made.filter((i) => i === last || builder.chance(asked));
  const losses = builder.theme !== 'special' && builder.chance(0.8) ? builder.losses() : [];
  for (const loss of losses) if (builder.chance(0.6)) outputs.push(loss);
  return builder.finish(outputs, losses);
}

/** A program with states: they are assigned values, views of themselves, each other, and the same value twice. */
export function randomMachine(below: (n: number) => number): Program {
  const builder = new Builder(below, below(3) === 0 ? 'double' : 'plain');
  const shape = builder.one([[4], [2, 3], [3, 1, 2], [20], [4, 8], [1], [1, 1]]);
  const states = nd.range(0, 3).map(() => builder.state(shape));
  builder.start();
  for (let i = 0; i < 3 + below(6); i++) {
    builder.grow();
    if (builder.chance(0.4)) continue;
    const state = builder.one(states);
    const other = builder.one(states);
    const value = builder.value((s, t) => t === builder.dtype(state) && s.join() === shape.join());
    if (value === undefined) continue;
    if (builder.chance(0.2)) {
      const view = builder.add('flip', [other], below(shape.length));
      if (view !== undefined) builder.add('assign', [state, view], null);
    } else {
      // Values stay where they were: a state that grows from round to round says nothing any more.
      const bounded = builder.add('tanh', [value], null);
      if (bounded === undefined) continue;
      builder.add('assign', [state, bounded], null);
      if (builder.chance(0.4)) builder.add('assign', [other, bounded], null);
    }
  }
  const made = nd.range(0, builder.count);
  return builder.finish(
    made.filter(() => builder.chance(0.3)),
    [],
  );
}

/** A program with a long axis, which is summed in one way or another, with gradients. */
export function randomLong(below: (n: number) => number): Program {
  const builder = new Builder(below, below(4) === 0 ? 'double' : 'plain', 2e5);
  const shape = builder.one([[100_003], [65_537, 2], [2, 70_000], [1, 99_999, 1], [3, 20_000, 3]]);
  const axis = shape.indexOf(Math.max(...shape));
  let x = builder.parameter(shape, builder.one(['positive', 'any'] as const));
  x = builder.add(builder.one(['square', 'detach', 'sigmoid', 'exp', 'neg']), [x], null) ?? x;
  const axes = builder.chance(0.3) ? shape.map((_, d) => d) : [axis];
  const sum = builder.add(builder.one(['sum', 'sum', 'mean', 'variance', 'std']), [x], {
    axes,
    keepdim: true,
  });
  if (sum === undefined) return randomLong(below);
  const apart = builder.add(builder.one(['sub', 'mul', 'add']), [x, sum], null);
  const losses = builder.losses();
  return builder.finish([sum, ...(apart === undefined ? [] : [apart]), ...losses], losses);
}

/** A program with parameters that an optimizer moves. */
export function randomTraining(below: (n: number) => number): Program {
  const builder = new Builder(below, below(4) === 0 ? 'double' : 'plain');
  for (let i = 0; i < 1 + below(2); i++) builder.start();
  if (builder.count === 0) builder.start();
  for (let i = 0; i < 2 + below(6); i++) builder.grow();
  const losses = builder.losses();
  const made = nd.range(0, builder.count);
  const program = builder.finish([...losses, ...made.filter(() => builder.chance(0.1))], losses);
  const { updates: _, ...rest } = program;
  const optimizer = chooseOptimizer(builder);
  const rounds = evaluate({ ...rest, optimizer }, 3);
  // Training that diverges says nothing.
  const most = Math.max(
    0,
    ...rounds.flatMap(({ states }) => states.flatMap(({ value }) => Array.from(value, Math.abs))),
  );
  if (!(most < 1e4)) return randomTraining(below);
  return reached({ ...rest, optimizer }, rounds[0]!);
}

/** What the losses do not reach has no gradient, and is no parameter of the optimizer. */
function reached(program: Program, { gradients }: Round): Program {
  const left = gradients.map((g) => g.reached);
  const inputs = program.inputs.map((input) =>
    input.requiresGrad ? { ...input, requiresGrad: left.shift()! } : input,
  );
  return { ...program, inputs };
}

/** Smaller programs that may fail in the same way; those with an optimizer have parameters that it moves. */
function* smallerOf(program: Program): Generator<Program> {
  for (const one of smaller(program)) {
    if (!one.optimizer) yield one;
    else {
      const left = reached(one, evaluate(one, 1)[0]!);
      if (left.inputs.some(({ requiresGrad }) => requiresGrad)) yield left;
    }
  }
}

/** Smaller programs that may fail in the same way. */
function* smaller(program: Program): Generator<Program> {
  const { inputs, steps, outputs, losses } = program;
  const without = <T>(list: readonly T[], i: number): T[] => list.filter((_, k) => k !== i);
  for (const i of losses.keys()) yield needed({ ...program, losses: without(losses, i) });
  for (const i of outputs.keys())
    if (outputs.length + losses.length > 1) yield needed({ ...program, outputs: without(outputs, i) });
  if (program.updates) {
    const { updates: _, ...rest } = program;
    yield rest;
  }
  // A step as an input of the values that it has, from the last on: all that it was made of goes.
  const tapes = nd.range(0, ROUNDS).map((round) => {
    const tape = new Tape();
    const values = inputs.map(
      ({ shape, dtype, values: of }): Entries => ({
        shape,
        dtype,
        data: of[round]!.map((v) => tape.leaf(dtype, v)),
      }),
    );
    for (const step of steps) values.push(stepEntries(tape, step, values));
    return { tape, values };
  });
  if (!steps.some((s) => s.op === 'assign'))
    for (let i = steps.length - 1; i >= 0; i--) {
      const at = inputs.length + i;
      const { shape, dtype } = tapes[0]!.values[at]!;
      const values = tapes.map(({ tape, values: all }) =>
        all[at]!.data.map((id) => FORMATS[dtype].round(tape.value[id]!)),
      );
      const move = (k: number): number => (k === at ? inputs.length : k < inputs.length ? k : k + 1);
      for (const requiresGrad of isFloat(dtype) && losses.length > 0 ? [true, false] : [false]) {
        const input: Input = { shape, dtype, values, ...(requiresGrad ? { requiresGrad } : {}) };
        const kept = needed({
          ...program,
          inputs: [...inputs, input],
          steps: steps.map((s) => ({ ...s, src: s.src.map(move) })),
          outputs: outputs.map(move),
          losses: losses.map(move),
        });
        if (kept.steps.length < steps.length) yield kept;
      }
    }
  // A step left out where its operand has the same type
  for (const [i, { op, src }] of steps.entries()) {
    const at = inputs.length + i;
    const result = tapes[0]!.values[at]!;
    for (const s of new Set(src)) {
      const operand = tapes[0]!.values[s]!;
      if (op === 'assign' || operand.dtype !== result.dtype || operand.shape.join() !== result.shape.join())
        continue;
      const move = (k: number): number => (k === at ? s : k);
      yield needed({
        ...program,
        steps: steps.map((t) => ({ ...t, src: t.src.map(move) })),
        outputs: outputs.map(move),
        losses: losses.map(move),
      });
    }
  }
  for (const [i, input] of inputs.entries()) {
    const change = (to: Partial<Input>): Program => ({
      ...program,
      inputs: inputs.map((old, k) => (k === i ? { ...old, ...to } : old)),
    });
    if (input.requiresGrad) yield change({ requiresGrad: false });
    const simple = input.values.map((v) =>
      v.map((x) => FORMATS[input.dtype].round(Number(x.toPrecision(2)))),
    );
    if (simple.some((v, r) => v.some((x, k) => !Object.is(x, input.values[r]![k]))))
      yield change({ values: simple });
  }
}

/** Random programs for fast-check, printed as JSON. */
export class Programs extends fc.Arbitrary<Program> {
  readonly #make: (below: (n: number) => number) => Program;

  constructor(make: (below: (n: number) => number) => Program) {
    super();
    this.#make = make;
  }

  generate(random: fc.Random): fc.Value<Program> {
    return new fc.Value(printable(this.#make((n) => random.nextInt(0, Math.max(0, n - 1)))), undefined);
  }
  canShrinkWithoutContext(value: unknown): value is Program {
    return typeof value === 'object';
  }
  shrink(value: Program): fc.Stream<fc.Value<Program>> {
    return fc.stream(smallerOf(value)).map((program) => new fc.Value(printable(program), undefined));
  }
}

const printable = (program: Program): Program =>
  Object.defineProperty({ ...program }, fc.toStringMethod, {
    value: () => printProgram(program),
    enumerable: false,
  });
