/**
 * Folders are layers: each may import only those below it (docs/design/layout.md), and no files import each other
 * in a circle. Checks every import of the library's sources, type imports included. A type that a file exports has its
 * name alone: no other file declares one of that name.
 * Usage: node scripts/check-layers.mjs [folder of the sources]
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * What each folder may import, besides itself and core. A folder without its own line belongs to the one around it.
 * @type {Record<string, string[] | 'all'>}
 */
const RULES = {
  core: [],
  'kernel/math': [],
  'kernel/ir': ['kernel/math'],
  'kernel/elementary': ['kernel/ir', 'kernel/math'],
  'kernel/passes': ['kernel/ir', 'kernel/elementary', 'kernel/serialize'],
  'kernel/serialize': ['kernel/ir'],
  'kernel/parse': ['kernel/ir'],
  'kernel/language': ['kernel/ir', 'kernel/parse'],
  render: ['kernel'],
  runtime: ['render', 'kernel'],
  graph: ['kernel'],
  ops: ['graph', 'kernel'],
  'schedule/lower': ['schedule', 'graph', 'kernel'],
  'schedule/passes': ['schedule', 'schedule/lower', 'graph', 'kernel'],
  schedule: ['schedule/passes', 'schedule/lower', 'graph', 'kernel'],
  engine: ['schedule', 'graph', 'runtime', 'kernel'],
  tensor: ['engine', 'graph', 'ops', 'kernel', 'runtime'],
  nn: ['tensor'],
  optim: ['tensor'],
  io: ['tensor'],
  data: ['tensor', 'io'],
  transforms: ['tensor'],
  inference: ['quantization', 'nn', 'io', 'tensor', 'engine', 'schedule', 'graph', 'kernel', 'runtime'],
  train: ['nn', 'optim', 'data', 'io', 'transforms', 'tensor'],
  quantization: ['nn', 'io', 'train', 'tensor', 'graph', 'ops'],
  distributed: ['nn', 'optim', 'tensor', 'engine', 'graph', 'kernel', 'runtime'],
  cli: 'all',
};

const root = resolve(
  process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '../packages/heddle/src'),
);
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*|\bnew URL\(\s*)'((?:\.{1,2}\/|#)[^']*)'/g;
const TYPE = /^(export )?(?:declare )?(?:abstract )?(?:interface|class|type) (\w+)\b(?! *[,}])/gm;

/** The layer of a path under the sources: the innermost folder with a rule; '' for index.ts. @param {string} path */
function layerOf(path) {
  const folders = relative(root, path).split(sep).slice(0, -1);
  for (let n = folders.length; n > 0; n--) {
    const name = folders.slice(0, n).join('/');
    if (name in RULES) return name;
  }
  return folders.join('/');
}

/** @param {string} from @param {string} to */
function allowed(from, to) {
  const rule = RULES[from];
  const named = (name) => to === name || to.startsWith(`${name}/`);
  return from === '' || from === to || to === 'core' || rule === 'all' || rule.some(named);
}

/** What the package's "imports" stand for under Node. @param {string} target */
const fileOf = (target) =>
  target
    .replace(/^#platform\//, `${root}/core/platform/node/`)
    .replace(/^#engine\//, `${root}/engine/node/`)
    .replace(/^#ops\//, `${root}/ops/node/`)
    .replace(/^#schedule\//, `${root}/schedule/node/`)
    .replace(/^#passes\//, `${root}/kernel/passes/node/`)
    .replace(/^#runtime\//, `${root}/runtime/node/`);

/** What each file imports. @type {Map<string, Set<string>>} */
const graph = new Map();
/** Where types and classes are declared. @type {Map<string, { file: string, exported: boolean }[]>} */
const types = new Map();
const problems = [];
let imports = 0;
for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.ts')) continue;
  const path = join(root, name);
  const from = layerOf(path);
  const targets = new Set();
  graph.set(path, targets);
  if (from !== '' && !(from in RULES)) {
    problems.push(
      `${name}: the folder ${from} is no layer. Add it to docs/design/layout.md and to scripts/check-layers.mjs.`,
    );
    continue;
  }
  const text = readFileSync(path, 'utf8');
  for (const [, exported, type] of text.matchAll(TYPE)) {
    const known = types.get(type) ?? [];
    if (!known.some(({ file }) => file === name))
      types.set(type, [...known, { file: name, exported: exported !== undefined }]);
  }
  text.split('\n').forEach((line, i) => {
    for (const [text, target] of line.matchAll(IMPORT)) {
      imports++;
      const file = resolve(dirname(path), fileOf(target));
      // A worker's file is started, not imported.
      if (!text.startsWith('new URL')) targets.add(file.replace(/\.js$/, '.ts'));
      const to = layerOf(file);
      if (allowed(from, to)) continue;
      const may = ['core', ...RULES[from]].join(', ');
      problems.push(`${name}:${i + 1}: ${from} may not import ${to || 'index.ts'} (only ${may}): ${target}`);
    }
  });
}
for (const [type, places] of types)
  if (places.length > 1 && places.some(({ exported }) => exported))
    problems.push(
      `the type ${type} is declared in ${places.map(({ file }) => file).join(', ')}: give each a name of its own.`,
    );
for (const circle of circles()) problems.push(`a circle of imports: ${circle.join(' → ')}`);
for (const problem of problems) console.error(problem);
console.log(`layers: ${imports} imports checked, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

/** For each file that reaches itself by imports, and was not in a circle found before: the shortest such way. */
function circles() {
  const found = [];
  const seen = new Set();
  for (const start of graph.keys()) {
    if (seen.has(start)) continue;
    const from = new Map();
    const queue = [start];
    for (const at of queue) {
      for (const to of graph.get(at) ?? [])
        if (!from.has(to)) {
          from.set(to, at);
          queue.push(to);
        }
      if (from.has(start)) break;
    }
    if (!from.has(start)) continue;
    const circle = [start];
    for (let at = from.get(start); at !== start; at = from.get(at)) circle.unshift(at);
    for (const file of circle) seen.add(file);
    found.push([...circle, circle[0]].map((file) => relative(root, file)));
  }
  return found;
}
