/** Runs programs on the current device in every way there is, and holds the results against what they should be. */
import assert from 'node:assert/strict';
import { DTYPES } from '../../src/core/dtype.js';
import { jit, realize, type Tensor, tensor } from '../../src/index.js';
import { makeOptimizer } from './optimizers.js';
import { type Expected, evaluate, type Input, type Program, ROUNDS, type Round } from './program.js';
import { TABLE } from './table.js';

const valuesOf = (input: Input, round: number): readonly number[] =>
  input.values[round % input.values.length]!;

function toTensor(input: Input, round: number): Tensor {
  const { shape, requiresGrad = false } = input;
  const dtype = DTYPES[input.dtype];
  const values = valuesOf(input, round);
  const data = input.dtype === 'i64' ? BigInt64Array.from(values, BigInt) : Float64Array.from(values);
  return tensor(data, { shape, dtype, requiresGrad }) as Tensor;
}

/** Give a tensor the values of another round. */
const rewrite = (t: Tensor, input: Input, round: number): void => {
  t.write(valuesOf(input, round));
};

/** All values, in order. */
function forward(program: Program, inputs: readonly Tensor[]): Tensor[] {
  const values = [...inputs];
  for (const { op, src, arg } of program.steps) {
    const operands = src.map((i) => values[i]!);
    values.push(op === 'assign' ? operands[0]!.assign(operands[1]!) : TABLE[op]!.run(operands, arg));
  }
  return values;
}

/** Gradients of the losses, and the parameters they move. */
function backward(program: Program, values: readonly Tensor[]): { gradients: Tensor[]; updated: Tensor[] } {
  const parameters = program.inputs.flatMap((input, i) => (input.requiresGrad ? [values[i]!] : []));
  for (const loss of program.losses) if (values[loss]!.requiresGrad) values[loss]!.backward();
  const gradients = parameters.map((p) => p.grad ?? p.mul(0).detach());
  for (const p of parameters) p.grad = undefined;
  return {
    gradients,
    updated: program.updates ? parameters.map((p, i) => p.detach().sub(gradients[i]!.mul(0.1))) : [],
  };
}

interface Results {
  readonly outputs: readonly Tensor[];
  readonly gradients: readonly Tensor[];
  readonly updated: readonly Tensor[];
}
const resultsOf = (program: Program, inputs: readonly Tensor[]): Results => {
  const values = forward(program, inputs);
  return { outputs: program.outputs.map((i) => values[i]!), ...backward(program, values) };
};

async function compare(t: Tensor, expected: Expected, what: string): Promise<void> {
  assert.equal(t.dtype.name, expected.dtype, `${what}: dtype`);
  assert.deepEqual(t.shape, expected.shape, `${what}: shape`);
  const data = await t.data();
  for (let i = 0; i < data.length; i++) {
    const [got, value, error] = [Number(data[i]), expected.value[i]!, expected.error[i]!];
    if (error === Number.POSITIVE_INFINITY || got === value || (Number.isNaN(got) && Number.isNaN(value)))
      continue;
    if (Math.abs(got - value) <= error) continue;
    assert.fail(`${what}, element ${i}: ${got}, should be ${value} ± ${error}`);
  }
}

async function check(results: Results, round: Round, program: Program, what: string): Promise<void> {
  for (const [i, t] of results.outputs.entries())
    await compare(t, round.outputs[i]!, `${what}: value ${program.outputs[i]}`);
  for (const [i, t] of results.gradients.entries())
    await compare(t, round.gradients[i]!, `${what}: gradient ${i}`);
  for (const [i, t] of results.updated.entries())
    await compare(t, round.updated[i]!, `${what}: parameter ${i} after a step`);
}

/** Op by op: each value is asked for by itself, in order, and gradients after that. */
async function eagerly(program: Program, rounds: readonly Round[]): Promise<void> {
  const inputs = program.inputs.map((input) => toTensor(input, 0));
  const values = forward(program, inputs);
  for (const [i, at] of program.outputs.entries())
    await compare(values[at]!, rounds[0]!.outputs[i]!, `eager: value ${at}`);
  await check({ outputs: [], ...backward(program, values) }, rounds[0]!, program, 'eager');
}

/** Everything in one run. */
async function together(program: Program, rounds: readonly Round[]): Promise<void> {
  const results = resultsOf(
    program,
    program.inputs.map((input) => toTensor(input, 0)),
  );
  realize(...results.outputs, ...results.gradients, ...results.updated);
  await check(results, rounds[0]!, program, 'together');
}

/** As one compiled program, called with changed inputs. What has a gradient is captured, the rest are arguments. */
async function jitted(program: Program, rounds: readonly Round[]): Promise<void> {
  const captured = program.inputs.map((input) => (input.requiresGrad ? toTensor(input, 0) : undefined));
  const step = jit((args: Tensor[]) => {
    let next = 0;
    const { outputs, gradients, updated } = resultsOf(
      program,
      captured.map((t) => t ?? args[next++]!),
    );
    return { outputs, gradients, updated };
  });
  for (const round of [0, ROUNDS - 1, 0]) {
    const args = program.inputs.flatMap((input, i) => {
      if (captured[i]) rewrite(captured[i], input, round);
      return captured[i] ? [] : [toTensor(input, round)];
    });
    await check(step(args), rounds[round]!, program, `jit, inputs ${round}`);
  }
  step.dispose();
}

/** What was made of states before they changed, and the values it had then. */
type Observed = { readonly t: Tensor; readonly values: readonly number[] }[];

async function stillThere(observed: Observed, what: string): Promise<void> {
  for (const { t, values } of observed)
    assert.deepEqual(Array.from(await t.data(), Number), values, `${what}: what was made of a state before`);
}

/**
 * Rounds that leave states and parameters changed, each as the one before left them. `compiled`: which rounds are calls
 * of one jitted function; the others run op by op.
 */
async function inRounds(program: Program, compiled: readonly boolean[], what: string): Promise<void> {
  const rounds = evaluate(program, compiled.length);
  const lasting = program.inputs.map((input) =>
    input.state || input.requiresGrad ? toTensor(input, 0) : undefined,
  );
  const states = lasting.filter((t) => t !== undefined);
  const parameters = states.filter((t) => t.requiresGrad);
  const optimizer =
    program.optimizer && parameters.length > 0 ? makeOptimizer(program.optimizer, parameters) : undefined;
  const body = (args: readonly Tensor[]): Tensor[] => {
    let next = 0;
    const values = forward(
      program,
      lasting.map((t) => t ?? args[next++]!),
    );
    const outputs = program.outputs.map((i) => values[i]!.detach());
    for (const loss of program.losses) if (values[loss]!.requiresGrad) values[loss]!.backward();
    optimizer?.step();
    return outputs;
  };
  const step = jit((args: Tensor[]) => body(args));
  const observed: Observed = [];
  for (const [round, inJit] of compiled.entries()) {
    const name = `${what}, round ${round}`;
    if (round > 0)
      for (const [i, input] of program.inputs.entries())
        if (input.rewritten) rewrite(lasting[i]!, input, round);
    const args = program.inputs.flatMap((input, i) => (lasting[i] ? [] : [toTensor(input, round)]));
    const outputs = inJit ? step(args) : body(args);
    await check({ outputs, gradients: [], updated: [] }, rounds[round]!, program, name);
    for (const [i, t] of states.entries()) await compare(t, rounds[round]!.states[i]!, `${name}: state ${i}`);
    await stillThere(observed, name);
    for (const t of states)
      for (const view of [t.detach(), t.detach().reshape([t.size])])
        observed.push({ t: view, values: Array.from(await t.data(), Number) });
  }
  step.dispose();
}

/** @throws AssertionError where a state, or what was made of one, is not what it should be */
export async function checkMachine(program: Program): Promise<void> {
  await inRounds(program, [false, false, false], 'eager');
  await inRounds(program, [true, true, true], 'jit');
  await inRounds(program, [false, true, false], 'eager, jit, eager');
}

/** @throws AssertionError where a result is not what it should be */
export async function checkProgram(program: Program): Promise<void> {
  const rounds = evaluate(program);
  await eagerly(program, rounds);
  await together(program, rounds);
  await jitted(program, rounds);
}
