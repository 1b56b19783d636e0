/** Gradients to be timed, and the choice among cases. */
import { type JitValue, jit, type Tensor } from 'heddle';
import { type Workload, workload } from 'heddle/internal/cli/workload.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';

type Differentiable = (...parameters: Tensor[]) => Tensor;

/** The gradients of all parameters of `fn`, given the one of its result. */
export const gradients = (fn: Differentiable, parameters: readonly Tensor[], upstream: Tensor): Workload =>
  workload(
    jit((g: JitValue) => differentiated(fn(...parameters), g as Tensor, parameters)),
    [upstream],
    parameters,
  );

/** The result of `fn` and the gradients of all its parameters, given the one of its result. */
export const resultAndGradients = (
  fn: Differentiable,
  parameters: readonly Tensor[],
  upstream: Tensor,
): Workload =>
  workload(
    jit((g: JitValue) => {
      const result = fn(...parameters);
      return [result.detach(), ...differentiated(result, g as Tensor, parameters)];
    }),
    [upstream],
    parameters,
  );

function differentiated(result: Tensor, upstream: Tensor, parameters: readonly Tensor[]): JitValue[] {
  result.mul(upstream).sum().backward();
  return parameters.map((p) => {
    const { grad } = p;
    p.grad = undefined;
    return grad;
  });
}

/**
 * The cases of these names; a first word, or several, means all of its kind.
 * @throws ArgumentError naming the cases there are
 */
export function selectCases<C extends { readonly id: string }>(
  cases: readonly C[],
  only: readonly string[] | undefined,
): C[] {
  if (!only) return [...cases];
  const chosen = new Set(
    only.flatMap((name) => {
      const found = cases.filter(({ id }) => id === name || id.startsWith(`${name}-`));
      if (found.length > 0) return found;
      throw new ArgumentError(
        `no case is called '${name}'. Expected one of: ${cases.map((c) => c.id).join(', ')}; a first word means all of its kind.`,
      );
    }),
  );
  return cases.filter((c) => chosen.has(c));
}
