/** What the packages export, and where each name is declared. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/**
 * @typedef {object} Exported
 * @property {string} name where it is declared
 * @property {boolean} type whether it is exported as a type
 * @property {string} packageName
 * @property {string} file the source that declares it, below the package's src, without `.ts`
 * @property {string[]} from how it is written in a program: `Linear` of 'heddle/nn', `nn.Linear` of 'heddle'
 */

/** @returns {Exported[]} each once, in the order in which the entry points list them */
export function everyExport() {
  /** @type {Map<string, Exported>} */
  const found = new Map();
  for (const folder of readdirSync(join(root, 'packages'))) {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8'));
    const entries = Object.entries(manifest.exports ?? {}).filter(
      ([path, { types }]) => types && !path.includes('*'),
    );
    const seen = new Set();
    for (const [path, { types }] of entries) {
      const file = join(root, 'packages', folder, types.replace('./dist/src', 'src').replace('.d.ts', '.ts'));
      if (!existsSync(file) || seen.has(file)) continue;
      seen.add(file);
      for (const { prefix, name, type, home, declared } of walk(file, '')) {
        const key = `${home}#${declared}`;
        const one = found.get(key) ?? {
          name: declared,
          type,
          packageName: manifest.name,
          file: relative(join(root, 'packages', folder, 'src'), home).replace(/\.ts$/, ''),
          from: [],
        };
        one.from.push(`\`${prefix}${name}\` of '${path.replace('.', manifest.name)}'`);
        found.set(key, one);
      }
    }
  }
  return [...found.values()];
}

const LIST = /^export (type )?\{([^}]*)\} from '([^']*)';/gm;
const MODULE = /^export (?:type )?\* as (\w+) from '([^']*)';/gm;
const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(class|interface|type|const|function\*?) (\w+)/gm;

/** @param {string} file @param {string} path */
const target = (file, path) => resolve(dirname(file), path.replace(/\.js$/, '.ts'));

/**
 * What a module exports, namespaces included.
 * @param {string} file @param {string} prefix
 * @returns {Generator<{ prefix: string, name: string, type: boolean, home: string, declared: string }>}
 */
function* walk(file, prefix) {
  const text = readFileSync(file, 'utf8');
  for (const [, kind, name] of text.matchAll(DECLARED))
    yield { prefix, name, type: kind === 'type' || kind === 'interface', home: file, declared: name };
  for (const [, allTypes, list, path] of text.matchAll(LIST))
    for (const item of list
      .split(',')
      .map((part) => part.trim())
      .filter(Boolean)) {
      const type = Boolean(allTypes) || item.startsWith('type ');
      const [declared, name = declared] = item.replace(/^type /, '').split(' as ');
      const module = moduleNamed(declared, target(file, path));
      if (module) yield* walk(module, `${prefix}${name}.`);
      else yield { prefix, name, type, ...homeOf(declared, target(file, path)) };
    }
  for (const [, name, path] of text.matchAll(MODULE)) yield* walk(target(file, path), `${prefix}${name}.`);
}

/** The file of a namespace that a module exports. @param {string} name @param {string} file */
function moduleNamed(name, file) {
  for (const [, as, path] of readFileSync(file, 'utf8').matchAll(MODULE))
    if (as === name) return target(file, path);
  return undefined;
}

/** Where a name that a module exports is declared. @param {string} name @param {string} file */
function homeOf(name, file) {
  for (const [, , list, path] of readFileSync(file, 'utf8').matchAll(LIST))
    for (const item of list.split(',').map((part) => part.trim())) {
      const [declared, as = declared] = item.replace(/^type /, '').split(' as ');
      if (as === name) return homeOf(declared, target(file, path));
    }
  return { home: file, declared: name };
}
