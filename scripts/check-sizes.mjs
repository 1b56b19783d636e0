/**
 * Files aim at 150 lines: over 400 is told, over 600 fails. Names that say nothing and default exports fail too, and so do
 * the limits of one GPU where kernels are chosen and launched: they stand in kernel/ir/target.ts. A property test that
 * would run from another seed each time fails as well: tests/property.ts is where seeds are set.
 * Usage: node scripts/check-sizes.mjs [folders]
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const WARN = 400;
const FAIL = 600;
/** One class each, which TypeScript cannot spread over files: its methods are a line and a docstring. */
const CLASSES = new Map([[join('packages', 'heddle', 'src', 'tensor', 'tensor.ts'), 1200]]);
const VAGUE = new Set(['utils', 'util', 'common', 'misc', 'helpers', 'shared', 'lib']);
const SKIPPED = new Set(['node_modules', 'dist', '.build', 'golden', 'snapshots', 'results']);

/** Shared memory, registers, threads and multiprocessors of a GPU, as numbers. */
const LIMITS =
  /\b(?:48|99|100|11[0-3]|16[34]|22[78]) (?:\* 1024|<< 10)\b|\b(?:65536|65_536|232448|233472|2048|132)\b/;
const LAUNCHING = /heddle\/src\/(?:ops|schedule|engine|runtime\/(?:cuda|sim|launch-rules))/;

/** Where fast-check runs; the seed of a sample may be given there. */
const RUNS = /\bfc\.(?:assert|check|sample|statistics)\(/g;
const SEEDED = /^fc\.sample\([^;]*\bseed: \d/;
const SEEDS = join('packages', 'heddle', 'tests', 'property.ts');

const given = process.argv.slice(2);
const folders = given.length > 0 ? given : ['packages', 'examples', 'bench', 'scripts'];

/** @param {string} folder @returns {Generator<string>} */
function* entries(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (SKIPPED.has(entry.name)) continue;
    const path = join(folder, entry.name);
    yield path;
    if (entry.isDirectory()) yield* entries(path);
  }
}

const problems = [];
let files = 0;
for (const path of folders.filter((folder) => existsSync(folder)).flatMap((folder) => [...entries(folder)])) {
  const stem = basename(path).replace(/\.(test\.)?\w+$/, '');
  if (VAGUE.has(stem)) problems.push(`${path}: '${stem}' says nothing: name it after what is in it.`);
  if (!/\.(ts|mjs|js)$/.test(path) || path.endsWith('_pb.ts')) continue;
  files++;
  const text = readFileSync(path, 'utf8');
  const lines = text.trimEnd().split('\n').length;
  const most = CLASSES.get(path) ?? FAIL;
  if (lines > most) problems.push(`${path}: ${lines} lines, at most ${most}: split it by concept.`);
  else if (lines > WARN) console.log(`note: ${path} has ${lines} lines; ${WARN} is long`);
  if (LAUNCHING.test(path))
    for (const [i, line] of text.split('\n').entries())
      if (LIMITS.test(line) && !/^\s*(?:\/\/|\/?\*)/.test(line))
        problems.push(
          `${path}:${i + 1}: a limit of one GPU: take it from Target.limits (kernel/ir/target.ts).`,
        );
  if (!path.endsWith(SEEDS))
    for (const { 0: run, index } of text.matchAll(RUNS))
      if (!SEEDED.test(text.slice(index)))
        problems.push(
          `${path}:${text.slice(0, index).split('\n').length}: ${run.slice(0, -1)} without a seed: ` +
            "write it with 'property' of tests/property.ts.",
        );
  if (/^export default\b/m.test(text)) problems.push(`${path}: has a default export: give it a name.`);
}
for (const problem of problems) console.error(problem);
console.log(`sizes: ${files} files checked, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
