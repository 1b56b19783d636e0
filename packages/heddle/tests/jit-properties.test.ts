/** Random functions with state: jitted, whose states are updated in place, against the same function run plainly. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { f32, f64 } from '../src/core/dtype.js';
import { jit, type Tensor, tensor, useDevice } from '../src/index.js';
import { DEVICES } from './case-runner.js';
import { assertClose } from './close.js';
import * as nd from './ndarray.js';
import { property } from './property.js';
import { type Choose, chooser, grown, leaf, type Pair, script } from './random-graphs.js';

/** `t` brought to `shape`: cut and padded, or the mean of all where that says too little. */
function fitted({ t, a }: Pair, shape: readonly number[]): Tensor {
  if (nd.count(a.shape) === nd.count(shape)) return t.reshape(shape);
  return (nd.count(a.shape) === 0 ? t.sum() : t.mean()).expand(shape);
}

/** A step: new values from states and input, some of them assigned to the states in between, some returned. */
function step(states: readonly Tensor[], input: Tensor, choose: Choose): Tensor[] {
  const shape = input.shape;
  const pair = (t: Tensor): Pair => ({ t, a: nd.make(t.shape, () => 0) });
  const pool: Pair[] = [pair(input)];
  for (let i = 0; i < 8; i++) {
    for (const s of states) pool.push(pair(s.mul(1)));
    const made = grown(pool, choose, 2);
    if (nd.count(made.a.shape) > 300) continue;
    pool.push(made);
    if (choose(2) === 0) {
      const target = states[choose(states.length)]!;
      target.assign(fitted(made, shape).tanh().add(target.mul(0.5)));
    } else if (choose(3) === 0) {
      // Exchanged, and moved onto itself
      const [p, q] = [states[choose(states.length)]!, states[choose(states.length)]!];
      const old = p.detach();
      p.assign(q.at('::-1'));
      q.assign(old);
    }
  }
  return pool.filter(() => choose(4) === 0).map((p) => p.t);
}

for (const device of DEVICES) {
  property(
    `${device}: states updated in place hold what they hold without jit`,
    [script, fc.constantFrom([4], [2, 3], [3, 1, 2], [20], [4, 8]), fc.constantFrom(f32, f64)],
    async (list, shape, dtype) => {
      useDevice(device);
      const fresh = (): Tensor[] => [0, 1, 2].map((i) => leaf([0.3 * i, 1 - i, 0.7], shape, dtype).t);
      const [plain, inPlace] = [fresh(), fresh()];
      const jitted = jit((x: Tensor) => step(inPlace, x, chooser(list)));
      const watched: { t: Tensor; values: ArrayLike<number> }[] = [];
      for (let round = 0; round < 3; round++) {
        const values = Float64Array.from({ length: nd.count(shape) }, (_, i) => Math.cos(i + round));
        const x = tensor(values, { shape, dtype });
        const expected = step(plain, x, chooser(list));
        const got = jitted(x);
        assert.equal(got.length, expected.length);
        const what = `round ${round}`;
        const tolerance = dtype === f64 ? 1e-9 : 1e-4;
        const close = async (a: Tensor, b: Tensor, name: string): Promise<void> =>
          assertClose(
            (await a.data()) as Float32Array,
            (await b.data()) as Float32Array,
            `${what}, ${name}`,
            { relative: tolerance, absolute: tolerance },
          );
        for (const [i, t] of got.entries()) await close(t, expected[i]!, `output ${i}`);
        for (const [i, t] of inPlace.entries()) await close(t, plain[i]!, `state ${i}`);
        // What was made from a state before keeps the old values
        for (const { t, values: old } of watched)
          assert.deepEqual(Array.from(await t.data(), Number), Array.from(old));
        for (const s of inPlace) {
          watched.push({ t: s.detach(), values: (await s.data()) as Float32Array });
          watched.push({ t: s.reshape([nd.count(shape)]), values: (await s.data()) as Float32Array });
        }
      }
      jitted.dispose();
    },
    { runs: device === 'cpu' ? 50 : 20 },
  );
}
