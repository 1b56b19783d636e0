/**
 * What becomes of a model's initializers. Weights are parameters: floats of at least one dimension that some operator computes
 * with. What operators need to know beforehand (shapes, axes) stays on the host; running statistics and whatever is no
 * weight are buffers.
 */
import { type AnyTensor, FileError, type Tensor } from 'heddle';
import { ExternalData } from '../file/external-data.js';
import type { ModelFile } from '../file/model-file.js';
import { readTensor } from '../file/tensor-values.js';
import { constantOf } from '../values/constant.js';
import { Value } from '../values/value.js';
import type { Plan } from './plan.js';

/** What initializers are, by name. */
export interface Initializers {
  /** The constants that have no tensor, or need none. */
  readonly constants: ReadonlyMap<string, Value>;
  /** Parameters and buffers. */
  readonly tensors: ReadonlyMap<string, AnyTensor>;
}

/** How the operators of a plan use a name. */
interface Uses {
  /** Some operator needs the values to record the graph. */
  known: boolean;
  /** Some operator computes with it, and not as a fixed input. */
  trained: boolean;
}

/** Operators that hand on their first input as it is. */
const PASSES_ON: ReadonlySet<string> = new Set([
  'Identity',
  'Reshape',
  'Squeeze',
  'Unsqueeze',
  'Transpose',
  'Cast',
]);

/** What of a plan uses which names how. @param operatorName tells the names of records */
export function usesOf(
  plan: Plan,
  nameOf: (step: Plan['steps'][number]) => string,
): ReadonlyMap<string, Uses> {
  const uses = new Map<string, Uses>();
  const of = (name: string): Uses => {
    const found = uses.get(name) ?? { known: false, trained: false };
    uses.set(name, found);
    return found;
  };
  const visit = ({ steps }: Plan): void => {
    for (const step of [...steps].reverse()) {
      for (const inner of step.graphs) visit(inner);
      const { operator, inputs, outputs } = step;
      if (step.body) {
        const inner = usesOf(step.body, nameOf);
        for (const [i, name] of inputs.entries()) merge(of(name), inner.get(step.body.inputs[i] ?? ''));
      } else
        for (const [i, name] of inputs.entries()) {
          const passed = i === 0 && PASSES_ON.has(nameOf(step)) ? uses.get(outputs[0] ?? '') : undefined;
          if (operator?.known === 'all' || operator?.known?.includes(i)) of(name).known = true;
          else if (passed) merge(of(name), passed);
          else if (!operator?.fixed?.includes(i)) of(name).trained = true;
        }
    }
  };
  visit(plan);
  return uses;
}

function merge(into: Uses, from: Uses | undefined): void {
  if (!from) return;
  into.known ||= from.known;
  into.trained ||= from.trained;
}

/** @param isTrained says of a weight whether it is one @throws FileError */
export async function readInitializers(
  { model, path, folder }: ModelFile,
  uses: ReadonlyMap<string, Uses>,
  isTrained: (name: string, shape: readonly number[]) => boolean,
): Promise<Initializers> {
  const graph = model.graph!;
  if (graph.sparseInitializer.length > 0)
    throw new FileError(path, 'has sparse initializers, which are not supported.');
  const constants = new Map<string, Value>();
  const tensors = new Map<string, AnyTensor>();
  const external = new ExternalData(path, folder);
  try {
    for (const proto of graph.initializer) {
      const host = await readTensor(proto, { path, external }, `the initializer '${proto.name}'`);
      const use = uses.get(proto.name);
      const isFloat = host.type.kind === 'float';
      if (use?.known || !isFloat || host.shape.length === 0) {
        constants.set(proto.name, constantOf(host));
        continue;
      }
      const tensor = Value.host(host).tensor as Tensor;
      if ((use?.trained ?? false) && isTrained(proto.name, host.shape)) tensor.requiresGrad = true;
      tensors.set(proto.name, tensor);
    }
  } finally {
    await external.close();
  }
  return { constants, tensors };
}
