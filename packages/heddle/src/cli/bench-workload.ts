/** Workloads with their data in place, for every benchmark. */
import { ArgumentError } from '../core/errors.js';
import type { Profile, ProfileOptions } from '../engine/profile.js';
import { type Jitted, type JitValue, jit, type Tensor } from '../index.js';

export interface Workload {
  /** Once: to the end on the CPU, started on a GPU. */
  run(): void;
  /** Kernel launches of the last run. */
  readonly launches: number;
  /** Device time of a run. */
  profile(options?: ProfileOptions): Promise<Profile>;
  dispose(): void;
}

/** A function of these tensors, compiled. The results' memory is used again by the next run. */
export const compiled = (fn: (...inputs: Tensor[]) => Tensor, inputs: readonly Tensor[]): Workload =>
  workload(
    jit((...given: JitValue[]) => fn(...(given as Tensor[]))),
    inputs,
  );

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

function workload(
  f: Jitted<JitValue[], JitValue>,
  inputs: readonly Tensor[],
  state: readonly Tensor[] = [],
): Workload {
  return {
    run: () => {
      for (const result of [f(...inputs)].flat() as Tensor[]) result.dispose();
    },
    get launches() {
      return f.launches;
    },
    profile: (options) => f.profile([...inputs], options),
    dispose: () => {
      f.dispose();
      for (const tensor of [...inputs, ...state]) tensor.dispose();
    },
  };
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
        `no case is called '${name}'. There are: ${cases.map((c) => c.id).join(', ')}; a first word means all of its kind.`,
      );
    }),
  );
  return cases.filter((c) => chosen.has(c));
}
