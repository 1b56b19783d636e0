/** Gradients to be timed, and the choice among cases. */
import { type JitValue, jit, type Tensor } from 'heddle';
import { type Workload, workload } from 'heddle/internal/cli/workload.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';

/** The gradients of all parameters of `fn`, given the one of its result. */
export const gradients = (
  fn: (...parameters: Tensor[]) => Tensor,
  parameters: readonly Tensor[],
  upstream: Tensor,
): Workload =>
  workload(
    jit((g: JitValue) => {
      fn(...parameters)
        .mul(g as Tensor)
        .sum()
        .backward();
      return parameters.map((p) => {
        const { grad } = p;
        p.grad = undefined;
        return grad;
      });
    }),
    [upstream],
    parameters,
  );

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
