/**
 * Computing a plan: step by step, by the operators' records. Where a record needs values that are on a device, the generator
 * yields the value, and whoever drives it gives the values or refuses.
 */
import { DTypeError, FileError, HeddleError, ShapeError } from 'heddle';
import { formatShape } from 'heddle/internal/core/shape.js';
import { Call, type Reading, type Results } from '../operators/operator.js';
import type { GraphProto } from '../protobuf/onnx_pb.js';
import { type Datum, Sequence, Value } from '../values/value.js';
import type { Plan, Planner, Step } from './plan.js';

/** Steps of one run, with the bodies of loops: a loop could ask for any number. */
const MOST_STEPS = 100_000;

/** Names and what they stand for, with those of the graphs around. */
type Scope = { readonly values: Map<string, Datum>; readonly around: Scope | undefined };

/** Computes the plans of one model. */
export class Evaluation {
  readonly #planner: Planner;
  #steps = 0;

  constructor(planner: Planner) {
    this.#planner = planner;
  }

  /** @param given the values of inputs and constants */
  *run(plan: Plan, given: ReadonlyMap<string, Datum>): Reading<readonly Datum[]> {
    return yield* this.#run(plan, { values: new Map([...plan.constants, ...given]), around: undefined });
  }

  *#run(plan: Plan, scope: Scope): Reading<readonly Datum[]> {
    for (const step of plan.steps) {
      if (++this.#steps > MOST_STEPS)
        throw new ShapeError(
          `[onnx] more than ${MOST_STEPS} nodes are to be computed: is there a loop without an end?`,
        );
      const outputs = yield* this.#step(step, scope);
      for (const [i, name] of step.outputs.entries()) if (name !== '') scope.values.set(name, outputs[i]);
    }
    return plan.outputs.map((name) => lookup(scope, name));
  }

  *#step(step: Step, scope: Scope): Reading<readonly Datum[]> {
    const inputs = step.inputs.map((name) => (name === '' ? undefined : lookup(scope, name)));
    if (step.body) {
      const values = new Map(step.body.inputs.map((name, i) => [name, inputs[i]] as const));
      return yield* this.#run(step.body, { values, around: undefined });
    }
    const record = step.operator!;
    const known = record.known === 'all' ? inputs.map((_, i) => i) : (record.known ?? []);
    for (const i of known) {
      const input = inputs[i];
      if (input instanceof Value && !input.host) inputs[i] = Value.host(yield input);
    }
    const call = new Call({
      ...{ where: step.where, version: step.version, attributes: step.attributes, inputs },
      outputs: step.outputs.map((name) => name !== ''),
      evaluate: (graph, given) => this.#within(graph, given, scope, step),
    });
    try {
      const made = record.compute(call);
      return listed(isReading(made) ? yield* made : made);
    } catch (error) {
      throw located(error, step, inputs);
    }
  }

  *#within(graph: GraphProto, given: readonly Datum[], scope: Scope, step: Step): Reading<readonly Datum[]> {
    const plan = this.#planner.planOf(graph);
    if (plan.inputs.length !== given.length)
      throw new ShapeError(
        `[onnx] ${step.where} has a graph of ${plan.inputs.length} inputs, it must have ${given.length}.`,
      );
    const values = new Map([...plan.constants, ...plan.inputs.map((name, i) => [name, given[i]] as const)]);
    return yield* this.#run(plan, { values, around: scope });
  }
}

function lookup(scope: Scope, name: string): Datum {
  for (let at: Scope | undefined = scope; at; at = at.around)
    if (at.values.has(name)) return at.values.get(name);
  return undefined;
}

const isReading = (made: Results | Reading<Results>): made is Reading<Results> =>
  made !== undefined && 'next' in made && typeof made.next === 'function';

const listed = (made: Results): readonly Datum[] => (Array.isArray(made) ? made : [made as Datum]);

const LOCATED = new WeakSet<object>();

/** An error of the library with the node that it is about. */
function located(error: unknown, { where }: Step, inputs: readonly Datum[]): unknown {
  if (error instanceof RangeError)
    return new ShapeError(`[onnx] ${where} asks for more than can be computed: ${error.message}.`);
  if (!(error instanceof HeddleError) || error instanceof FileError || LOCATED.has(error)) return error;
  const shapes = inputs
    .filter((x) => x instanceof Value)
    .map(({ shape, type }) => `${type.name} ${formatShape(shape)}`)
    .join(', ');
  if (!error.message.includes(where))
    error.message = `${error.message} In ${where} of ${shapes || 'no inputs'}.`;
  LOCATED.add(error);
  return error;
}

/** Run a reading where no values are to be had: while a program is recorded. @throws DTypeError if one is asked for */
export function withoutReading<R>(reading: Reading<R>): R {
  const { done, value } = reading.next();
  if (done) return value;
  throw new ValueNeeded(
    `[onnx] the graph depends on values of a tensor of ${(value as Value).type.name} ${formatShape((value as Value).shape)}, ` +
      'not on shapes alone. Call run() of the model, which reads them, in place of forward().',
  );
}

/** The graph of a model depends on values that `forward` does not have. */
export class ValueNeeded extends DTypeError {}

/** The most values of a tensor that are read. */
const MOST_READ = 2 ** 28;

/** Run a reading, with the values that it asks for. */
export async function withReading<R>(reading: Reading<R>): Promise<R> {
  let next = reading.next();
  while (!next.done) {
    const { type, shape, tensor } = next.value;
    if (next.value.size > MOST_READ)
      throw new ShapeError(`[onnx] ${formatShape(shape)} values are to be read, at most ${MOST_READ} are.`);
    const values = type.array!(next.value.size);
    (values as Float32Array).set((await tensor.data()) as Float32Array);
    next = reading.next({ type, shape, values });
  }
  return next.value;
}

/** Sequences as lists of values. */
export const isSequence = (x: Datum): x is Sequence => x instanceof Sequence;
