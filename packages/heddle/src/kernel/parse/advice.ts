/** What to say of a name that means nothing where it stands, and what to write instead. */
import { nearest } from '../../core/arguments.js';
import { CONTEXT, MATH } from './builtins.js';
import type { Parsing } from './state.js';
import type { RecordValue } from './values.js';

/** Names of JavaScript, CUDA and other shading languages, and what the kernel language has for them. */
const STANDS_FOR: Readonly<Record<string, string>> = {
  console: "print('x = {}', x)",
  printf: "print('x = {}', x)",
  ...{ syncthreads: 'barrier()', __syncthreads: 'barrier()', workgroupBarrier: 'barrier()' },
  ...{
    parseInt: 'i32(x)',
    int: 'i32(x)',
    uint: 'u32(x)',
    parseFloat: 'f32(x)',
    float: 'f32(x)',
    half: 'f16(x)',
  },
  ...{ double: 'f64(x)', long: 'i64(x)', Boolean: 'x !== 0', isNaN: 'x !== x', shfl: 'shuffle(v, lane)' },
  ...{ __shfl_sync: 'shuffle(v, lane)', __shfl_up_sync: 'shuffleUp(v, by)' },
  ...{ __shfl_down_sync: 'shuffleDown(v, by)', __shfl_xor_sync: 'shuffleXor(v, by)' },
  ...{ __any_sync: 'any(v)', __all_sync: 'all(v)', __ballot_sync: 'ballot(v)' },
  ...{ atomicCAS: 'atomicCompareExchange(x, i, expected, v)', atomicExch: 'atomicExchange(x, i, v)' },
  ...Object.fromEntries(Object.keys(MATH).map((name) => [name, `Math.${name}(…)`])),
};

/** Of a name that nothing declares, in the kernel or a function that is inlined into it. */
export function unknownName(p: Parsing, name: string): string {
  const instead = Object.hasOwn(STANDS_FOR, name) ? STANDS_FOR[name] : undefined;
  const place = placeOf(p, name);
  if (p.source !== p.kernel && (place || !instead))
    return `\`${name}\` is not known in this function: pass it on as an argument, f(x, { ${name} }).`;
  if (place) return `${place} A kernel does not see what its file imports or declares.`;
  if (instead) return `\`${name}\` is not part of the kernel language. Write ${instead}.`;
  if (name in globalThis)
    return `\`${name}\` is not part of the kernel language: of JavaScript's own names it has only Math.`;
  const guess = guessed(name, [...p.scope.names(), ...p.given.flatMap((r) => r.names)]);
  return (
    `\`${name}\` is not known in the kernel, which does not see what is around it.${guess} A constant goes into the ` +
    `fourth argument of kernel() and is taken from the second parameter, ({ … }, { ${name} }) => …; what changes from ` +
    'launch to launch is a parameter of the schema.'
  );
}

/** Of a name that is taken from the parameters, the context or another record, which has no such name. */
export function missingFrom(p: Parsing, record: RecordValue, name: string): string {
  const [parameters] = p.given;
  const place = p.given.includes(record) ? placeOf(p, name) : undefined;
  if (place) return place;
  const guess = guessed(name, record.names);
  const names = record.names.join(', ');
  if (record === parameters)
    return `\`${name}\` is not in the schema of the kernel, { ${names} }.${guess} Add it there: ${name}: f32 for a number, ${name}: buffer(f32) for memory.`;
  if (!p.given.includes(record)) return `${record.name} has no \`${name}\`.${guess} It has ${names}.`;
  const instead = Object.hasOwn(STANDS_FOR, name) ? ` Write ${STANDS_FOR[name]}.` : guess;
  return `\`${name}\` is neither an intrinsic nor a constant of the kernel.${instead} A constant goes into the fourth argument of kernel().`;
}

/** What a name is taken from, if it is a parameter, an intrinsic or a constant. */
function placeOf(p: Parsing, name: string): string | undefined {
  const [parameters, context] = p.given;
  if (parameters?.names.includes(name))
    return `\`${name}\` is a parameter of the kernel: take it from the first parameter of the function, ({ ${name} }, { … }) => ….`;
  if (context?.names.includes(name))
    return `\`${name}\` is ${CONTEXT.has(name) ? 'an intrinsic' : 'a constant'} of the kernel: take it from the second parameter of the function, ({ … }, { ${name} }) => ….`;
  return undefined;
}

function guessed(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant ? ` Did you mean \`${meant}\`?` : '';
}
