/**
 * Files aim at 150 lines: over 400 is told, over 600 fails. Names that say nothing and default exports fail too.
 * Usage: node scripts/check-sizes.mjs [folders]
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const WARN = 400;
const FAIL = 600;
const VAGUE = new Set(['utils', 'util', 'common', 'misc', 'helpers', 'shared', 'lib']);
const SKIPPED = new Set(['node_modules', 'dist', '.build', 'golden', 'snapshots', 'results']);

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
  if (!/\.(ts|mjs|js)$/.test(path)) continue;
  files++;
  const text = readFileSync(path, 'utf8');
  const lines = text.trimEnd().split('\n').length;
  if (lines > FAIL) problems.push(`${path}: ${lines} lines, at most ${FAIL}: split it by concept.`);
  else if (lines > WARN) console.log(`note: ${path} has ${lines} lines; ${WARN} is long`);
  if (/^export default\b/m.test(text)) problems.push(`${path}: has a default export: give it a name.`);
}
for (const problem of problems) console.error(problem);
console.log(`sizes: ${files} files checked, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
