/** Prints small random programs of a fixed seed, every op among them, as JSON, a list: what golden/programs.py gives to PyTorch. */
import fc from 'fast-check';
import { Programs, randomProgram } from './generate.js';
import { printProgram } from './program.js';

const COUNT = 150;
/** Characters of a program at most. */
const SMALL = 3000;

const seen = new Set<string>();
const [first, others]: [string[], string[]] = [[], []];
for (const program of fc.sample(new Programs(randomProgram), { seed: 1, numRuns: 20 * COUNT })) {
  const text = printProgram(program);
  // Of large numbers f32 makes infinities, f64 does not.
  const large = program.inputs.some(({ values }) =>
    values.flat().some((v) => Math.abs(v) > 1e15 && v < 1e300),
  );
  if (text.length > SMALL || program.steps.length < 2 || large) continue;
  const isNew = program.steps.some(({ op }) => !seen.has(op));
  for (const { op } of program.steps) seen.add(op);
  (isNew ? first : others).push(text);
}
console.log(`[\n${[...first, ...others].slice(0, COUNT).join(',\n')}\n]`);
