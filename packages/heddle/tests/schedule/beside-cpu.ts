/** Results in the simulator beside those of the CPU, of the same sources, and the launches that they are planned as. */
import type { DType } from '../../src/core/dtype.js';
import { f32 } from '../../src/core/dtype.js';
import { randn, realize, type Tensor, tensor, useDevice } from '../../src/index.js';
import type { Target } from '../../src/kernel/ir/target.js';
import type { ScheduledLaunch } from '../../src/schedule/launch.js';
import { schedule } from '../../src/schedule/schedule.js';

export const launchesOf = (results: readonly Tensor[], target: Target): readonly ScheduledLaunch[] =>
  schedule(
    results.map(({ node }) => node),
    target,
  ).launches;

/** Normal numbers of that deviation. */
export const normal = (dtype: DType, shape: readonly number[], deviation = 0.2): Tensor =>
  randn([...shape])
    .mul(deviation)
    .cast(dtype as typeof f32)
    .realize();

/** The values of tensors, computed by one program. */
export function valuesOf(tensors: readonly Tensor[]): Promise<Float32Array[]> {
  const wide = tensors.map((t) => t.cast(f32));
  realize(...wide);
  return Promise.all(wide.map((t) => t.data()));
}

export type Both = readonly [inSimulator: Float32Array, onCpu: Float32Array];

/** The values of each result. The simulator is the current device, before and after. */
export async function both(
  make: (...t: Tensor[]) => Tensor[],
  sources: readonly Tensor[],
): Promise<readonly Both[]> {
  const values = await valuesOf(sources);
  const got = await valuesOf(make(...sources));
  useDevice('cpu');
  const same = sources.map(
    ({ shape, dtype }, i) => tensor(values[i]!, { shape }).cast(dtype as typeof f32) as Tensor,
  );
  const wanted = await valuesOf(make(...same));
  useDevice('sim');
  return got.map((values, i) => [values, wanted[i]!]);
}

/** The largest difference, as a share of the largest value. */
export const worstOf = ([got, wanted]: Both): number => {
  const size = wanted.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  return got.reduce((most, v, i) => Math.max(most, Math.abs(v - wanted[i]!) / size), 0);
};
