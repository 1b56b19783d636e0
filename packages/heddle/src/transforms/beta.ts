/** Draws from Beta(α, α), by the inverse of its distribution. */
import type { Pixels } from './pixels.js';

/** Steps between the places where the inverse is tabulated, and of the integral between two of them. */
const STEPS = 512;
const FINER = 16;

/**
 * The table of v at w = 0, 1/512, … 1 where w is the share of the lower half of the distribution below x = ½·v^(1/α): with
 * that variable its density is (1 − x)^(α − 1), which is nowhere infinite.
 */
export function betaTable(alpha: number): Float32Array {
  const count = STEPS * FINER;
  const density = (v: number): number => (1 - 0.5 * v ** (1 / alpha)) ** (alpha - 1);
  const shares = new Float64Array(count + 1);
  for (let i = 1; i <= count; i++) {
    const [a, b] = [(i - 1) / count, i / count];
    shares[i] = shares[i - 1]! + (density(a) + 4 * density((a + b) / 2) + density(b)) / (6 * count);
  }
  const table = new Float32Array(STEPS + 1);
  let at = 0;
  for (let i = 0; i < table.length; i++) {
    const wanted = (i / STEPS) * shares[count]!;
    while (at < count - 1 && shares[at + 1]! < wanted) at++;
    table[i] = (at + (wanted - shares[at]!) / (shares[at + 1]! - shares[at]!)) / count;
  }
  return table;
}

/** A number of Beta(α, α) for a uniform one. @param table of `betaTable(alpha)` */
export function betaOf<P extends Pixels<P>>(uniform: P, alpha: number, table: Float32Array): P {
  const isLow = uniform.lt(0.5);
  const place = isLow.where(uniform, uniform.mul(-1).add(1)).mul(2 * STEPS);
  const before = place.floor().minimum(STEPS - 1);
  const row = uniform.table(table);
  const [low, high] = [row.at(0, before), row.at(0, before.add(1))];
  const v = low.add(high.sub(low).mul(place.sub(before)));
  const x = alpha === 1 ? v.mul(0.5) : v.log().div(alpha).exp().mul(0.5);
  return isLow.where(x, x.mul(-1).add(1));
}
