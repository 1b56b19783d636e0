/** Work with its data in place, to be timed. */
import { bf16, f16 } from '../core/dtype.js';
import type { Arithmetic } from '../core/precision.js';
import type { Profile, ProfileOptions } from '../engine/profile.js';
import { type Jitted, type JitValue, jit } from '../tensor/jit.js';
import { randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

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

/** A (m, k) · B (k, n) of random numbers. */
export function product(kind: Arithmetic, [m, k, n]: readonly [number, number, number]): Workload {
  const operands = [randn([m, k]).realize(), randn([k, n]).realize()];
  if (kind === 'f32' || kind === 'tf32')
    return compiled((a, b) => a!.matmul(b!, { precision: kind }), operands);
  const dtype = kind === 'f16' ? f16 : bf16;
  return compiled(
    (a, b) => a!.matmul(b!),
    operands.map((x) => x.cast(dtype).realize()),
  );
}

/** A compiled function with its arguments. */
export function workload(
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
