/** Where numbers stop being numbers. */

import { namedIn } from '../data/batched.js';
import type { Batched } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { noGrad } from '../tensor/modes.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';
import { inPrecision, outputsOf } from './evaluate.js';
import type { FitOptions } from './fit-options.js';
import { allFinite, Snapshot } from './snapshot.js';

/** One module's output while `watch` is on. */
interface ModuleOutput {
  readonly name: string;
  readonly module: Module;
  readonly value: AnyTensor;
}

/** Run `body` and report what each module returned, in the order they finished: inner ones first. */
function watch(model: Module, body: () => void): ModuleOutput[] {
  const outputs: ModuleOutput[] = [];
  const modules = [...model.namedModules()];
  const own = modules.map(([, module]) => Object.getOwnPropertyDescriptor(module, 'forward'));
  for (const [name, module] of modules) {
    const forward = module.forward.bind(module);
    module.forward = (...inputs) => {
      const result = forward(...inputs);
      for (const value of tensorsIn(result)) outputs.push({ name, module, value });
      return result;
    };
  }
  try {
    body();
  } finally {
    // What was set above hides the method of the class; without it the method shows again. Or it had one of its own.
    modules.forEach(([, module], i) => {
      Reflect.deleteProperty(module, 'forward');
      if (own[i]) Object.defineProperty(module, 'forward', own[i]);
    });
  }
  return outputs;
}

/** The tensors of what a module returned: one, or several in arrays and records. */
function tensorsIn(value: unknown): AnyTensor[] {
  if (value instanceof Tensor) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(tensorsIn) : [];
}

const moduleName = (name: string, module: Module): string =>
  name ? `'${name}' (${module.constructor.name})` : module.constructor.name;

/** What is not finite, and where to look for the cause. */
export interface NonFinite {
  readonly name: string;
  readonly cause: 'data' | 'parameter' | 'model' | 'targets';
}

/**
 * The first thing that is not finite when `model` sees this batch: an input, a parameter, a layer's output or the
 * loss; undefined if all is finite.
 */
export async function firstNonFinite(
  model: Module,
  inputs: Batched,
  targets: Batched,
  { loss, autocast }: Pick<FitOptions, 'loss' | 'autocast'>,
): Promise<NonFinite | undefined> {
  for (const [name, t] of [...namedIn('inputs', inputs), ...namedIn('targets', targets)])
    if (!(await allFinite(t))) return { name: `the batch's ${name}`, cause: 'data' };
  for (const [name, parameter] of model.namedParameters())
    if (!(await allFinite(parameter)))
      return { name: `parameter '${name}', changed by the step before`, cause: 'parameter' };
  // Running statistics must not see the bad batch.
  const buffers = await Snapshot.of(model.buffers());
  let value: AnyTensor | undefined;
  const outputs = noGrad(() =>
    watch(model, () => {
      value = inPrecision(autocast, () => loss(outputsOf(model, inputs) as Tensor, targets as Tensor));
    }),
  );
  buffers.restore();
  for (const output of outputs) {
    if (!(await allFinite(output.value)))
      return { name: `the output of layer ${moduleName(output.name, output.module)}`, cause: 'model' };
  }
  const lossIsFinite = value === undefined || (await allFinite(value));
  return lossIsFinite ? undefined : { name: 'the loss itself; all outputs are finite', cause: 'targets' };
}
