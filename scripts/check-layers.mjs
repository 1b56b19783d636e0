/**
 * Folders are layers: each may import only those below it (docs/design.md, "Layout"). Checks every import of the
 * library's sources, type imports included. Usage: node scripts/check-layers.mjs [folder of the sources]
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What each folder may import, besides itself and core. @type {Record<string, string[] | 'all'>} */
const RULES = {
  core: [],
  ir: [],
  kernel: ['ir'],
  render: ['kernel', 'ir'],
  runtime: ['render', 'kernel'],
  kernels: ['kernel'],
  graph: ['kernel', 'ir'],
  fused: ['graph', 'kernels', 'kernel'],
  schedule: ['graph', 'kernels', 'kernel', 'ir'],
  engine: ['schedule', 'graph', 'runtime', 'kernel'],
  tensor: ['engine', 'graph', 'fused', 'kernel', 'runtime'],
  nn: ['tensor'],
  optim: ['tensor'],
  io: ['tensor'],
  data: ['tensor', 'io'],
  train: ['nn', 'optim', 'data', 'io', 'tensor'],
  cli: 'all',
};

const root = resolve(
  process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '../packages/heddle/src'),
);
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*|\bnew URL\(\s*)'(\.{1,2}\/[^']*)'/g;

/** The layer of a path under the sources: its folder, or '' for index.ts. @param {string} path */
const layerOf = (path) => {
  const parts = relative(root, path).split(sep);
  return parts.length > 1 ? parts[0] : '';
};

/** @param {string} from @param {string} to */
function allowed(from, to) {
  const rule = RULES[from];
  return from === '' || from === to || to === 'core' || rule === 'all' || rule.includes(to);
}

const problems = [];
let imports = 0;
for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.ts')) continue;
  const path = join(root, name);
  const from = layerOf(path);
  if (from !== '' && !(from in RULES)) {
    problems.push(
      `${name}: the folder ${from} is no layer. Add it to docs/design.md and to scripts/check-layers.mjs.`,
    );
    continue;
  }
  readFileSync(path, 'utf8')
    .split('\n')
    .forEach((line, i) => {
      for (const [, target] of line.matchAll(IMPORT)) {
        imports++;
        const to = layerOf(resolve(dirname(path), target));
        if (allowed(from, to)) continue;
        const may = ['core', ...RULES[from]].join(', ');
        problems.push(
          `${name}:${i + 1}: ${from} may not import ${to || 'index.ts'} (only ${may}): ${target}`,
        );
      }
    });
}
for (const problem of problems) console.error(problem);
console.log(`layers: ${imports} imports checked, ${problems.length} not allowed`);
process.exitCode = problems.length > 0 ? 1 : 0;
