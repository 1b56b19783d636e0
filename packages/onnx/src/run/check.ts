/** `heddle onnx check`: whether the library computes a model, and everything that stands in the way. */
import { type AnyTensor, ArgumentError, HeddleError, useDevice } from 'heddle';
import { counted, duration, whole } from 'heddle/internal/cli/format.js';
import { StatusLine } from 'heddle/internal/cli/terminal.js';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { readModel } from '../file/model-file.js';
import { loadOnnx, type OnnxModel, type OnnxOutputs } from '../model/onnx-model.js';
import { describe } from './describe.js';
import { problemsOf, withoutPath } from './problems.js';
import { randomInputs, type Sizes, sizesFor } from './random-inputs.js';

/** Options of `heddle onnx check`. */
export interface CheckOptions {
  /** Whether it is run on random inputs. */
  readonly run: boolean;
  /** Sizes of dynamic dimensions; default: 2 of a first one, 16 of others. */
  readonly sizes?: Sizes;
  readonly device?: string;
}

type Say = (line: string) => void;

/** @param say prints a line @returns the exit code: 1 if there are problems @throws FileError for what is no model */
export async function check(path: string, options: CheckOptions, say: Say): Promise<number> {
  const status = new StatusLine(process.stderr);
  status.show(() => `reading ${path} …`);
  try {
    const file = await readModel(path);
    const problems = await problemsOf(file);
    const found = describe(file);
    status.clear();
    say(`file       ${path}`);
    say(`operators  ${found.operators.length} in ${counted(found.nodes, 'node')}`);
    say(`weights    ${whole(found.parameters)} elements`);
    if (problems.length === 0) problems.push(...(await tried(path, options, say, status)));
    for (const problem of problems) say(`problem    ${problem}`);
    say(problems.length === 0 ? 'ok' : counted(problems.length, 'problem'));
    return problems.length === 0 ? 0 : 1;
  } finally {
    status.clear();
    await closeDevices();
  }
}

/** Load the model, and run it. @returns what goes wrong */
async function tried(
  path: string,
  { run, sizes = {}, device }: CheckOptions,
  say: Say,
  status: StatusLine,
): Promise<string[]> {
  if (device !== undefined) useDevice(device);
  try {
    const start = performance.now();
    const model = await loadOnnx<OnnxOutputs>(path);
    say(`loaded     in ${duration((performance.now() - start) / 1000)} s`);
    if (!run) return [];
    status.show(() => 'running on random inputs …');
    const all = sizesFor(model.inputs, sizes);
    const problems = await ran(model, all, say, status);
    return problems.length > 0 ? problems : await compared(model, all, say, status);
  } catch (error) {
    if (!(error instanceof HeddleError) || error instanceof ArgumentError) throw error;
    return [withoutPath(error.message, path)];
  }
}

type Model = OnnxModel<OnnxOutputs>;

const outputsOf = async (model: Model, inputs: readonly AnyTensor[]): Promise<readonly AnyTensor[]> =>
  [await model.run(...inputs)].flat() as readonly AnyTensor[];

const shown = (names: readonly { readonly name: string }[], tensors: readonly AnyTensor[]): string =>
  tensors.map((t, i) => `${names[i]!.name} ${t.dtype.name} (${t.shape.join(', ')})`).join(', ');

async function ran(model: Model, sizes: Sizes, say: Say, status: StatusLine): Promise<string[]> {
  const inputs = randomInputs(model.inputs, sizes);
  const start = performance.now();
  const outputs = await outputsOf(model, inputs);
  const values = await Promise.all(outputs.map((t) => t.data()));
  const seconds = (performance.now() - start) / 1000;
  status.clear();
  say(
    `run        ${shown(model.inputs, inputs)} → ${shown(model.outputs, outputs)}, ${duration(seconds)} s with compiling`,
  );
  return outputs.flatMap((_, i) => {
    const strange = Array.from(values[i]!, Number).filter((v) => !Number.isFinite(v)).length;
    return strange > 0
      ? [
          `the output '${model.outputs[i]!.name}' has ${counted(strange, 'value')} of NaN or infinity for random inputs.`,
        ]
      : [];
  });
}

/** How far answers for a batch may be from those for its examples, in parts of the largest. */
const TOLERANCE = 1e-4;

/** If all inputs and outputs have a batch of any size: compare the answers for a batch with those for its examples. */
async function compared(model: Model, sizes: Sizes, say: Say, status: StatusLine): Promise<string[]> {
  const batch = model.inputs[0]?.shape?.[0];
  const isBatched = [...model.inputs, ...model.outputs].every(
    ({ shape }) => typeof batch === 'string' && shape?.[0] === batch,
  );
  if (!isBatched || typeof batch !== 'string') return [];
  status.show(() => 'comparing batch sizes …');
  const count = 3;
  const inputs = randomInputs(model.inputs, { ...sizes, [batch]: count });
  const together = await Promise.all((await outputsOf(model, inputs)).map((t) => t.data()));
  let worst = 0;
  for (let example = 0; example < count; example++) {
    const alone = await outputsOf(model, inputs.map((t) => t.at(`${example}:${example + 1}`)) as AnyTensor[]);
    for (const [i, output] of alone.entries()) {
      const own = Array.from(await output.data(), Number);
      const theirs = Array.from(together[i]!.slice(example * own.length, (example + 1) * own.length), Number);
      const largest = theirs.reduce((most, v) => Math.max(most, Math.abs(v)), 1);
      worst = own.reduce((most, v, k) => Math.max(most, Math.abs(v - theirs[k]!) / largest), worst);
    }
  }
  status.clear();
  if (worst > TOLERANCE)
    return [
      `the answers for a batch of ${count} differ from those for its examples by ${worst.toExponential(1)} of the largest value.`,
    ];
  say(
    `batch      ${count} examples at once as one by one, to ${worst.toExponential(0)} of the largest value`,
  );
  return [];
}
