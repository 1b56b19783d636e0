/**
 * The largest errors of the elementary functions in f32, over all numbers or every n-th, against JavaScript's f64:
 *
 *   node scripts/accuracy.mjs [--only exp,sin] [--step 1] [--from 0.5 --to 12867]
 *
 * on the device that HEDDLE_DEVICE names (HEDDLE_FMA=0: without fused multiply-add). All 2^32 of one function take
 * about ten minutes. What kernel/ir/ops.ts states comes from here.
 */
import { parseArgs } from 'node:util';

const library = new URL('../packages/heddle/dist/src/', import.meta.url).href;
const { Tensor, tensor } = await import(`${library}index.js`);
const { map } = await import(`${library}graph/build.js`);
const { MATH_FUNCTIONS, OPS } = await import(`${library}kernel/ir/ops.js`);

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    step: { type: 'string', default: '1' },
    from: { type: 'string', default: '0' },
    to: { type: 'string', default: 'Infinity' },
  },
});
const step = Number(values.step);
const names = MATH_FUNCTIONS.filter((n) => OPS[n].arity === 1);
const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);
const bitsOf = (v) => {
  float[0] = v;
  return bits[0];
};
const [first, last] = [bitsOf(Number(values.from)), bitsOf(Number(values.to))];
const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** The distance of neighbouring f32 numbers at v. */
function ulp(v) {
  double[0] = v;
  const exponent = ((words[1] >>> 20) & 0x7ff) - 1023;
  return 2 ** (Math.min(127, Math.max(-126, exponent)) - 23);
}

const SIZE = 2 ** 21;
for (const name of values.only?.split(',') ?? names) {
  const exact = OPS[name].eval;
  let worst = 0;
  let at = Number.NaN;
  for (let start = first; start <= last; start += (SIZE / 2) * step) {
    const xs = new Float32Array(SIZE);
    const xBits = new Uint32Array(xs.buffer);
    for (let i = 0; i < SIZE; i += 2) {
      xBits[i] = Math.min(last, start + (i / 2) * step);
      xBits[i + 1] = xBits[i] | 0x80000000;
    }
    const got = await new Tensor(map(name, tensor(xs).node)).data();
    for (let i = 0; i < SIZE; i++) {
      const wanted = exact(xs[i]);
      const rounded = Math.fround(wanted);
      if (got[i] === rounded || (Number.isNaN(rounded) && Number.isNaN(got[i]))) continue;
      const near = Math.abs(got[i]) === Infinity ? Math.sign(got[i]) * 2 ** 128 : got[i];
      const error = Math.abs(wanted) === Infinity ? Infinity : Math.abs(near - wanted) / ulp(wanted);
      if (!(error <= worst)) {
        worst = error;
        at = xs[i];
      }
    }
  }
  console.log(`${name.padEnd(8)} ${worst.toFixed(3)} ulp at ${at}`);
}
process.exit();
