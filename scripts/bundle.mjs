/**
 * Bundles the compiled library: dist/src, hundreds of modules, into dist/bundle, a few dozen files that Node loads in half the
 * time, since each file takes it most of a millisecond to find, read and link. Each folder of the sources is bundled
 * by itself. An import of another folder stays an import: of that module's own file, if it is one of ENTRIES, or else
 * of `internal-<folder>.js`, which has whatever others import from that folder. So every module is there once. All files lie
 * side by side, so that `new URL('./worker.js', import.meta.url)` holds in each of them.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { build } from 'esbuild';

/** Modules that get separate files: what users import, what is run, and what is loaded before the rest. */
const ENTRIES = {
  'index.js': 'index',
  'kernel/language/index.js': 'kernel',
  'nn/index.js': 'nn',
  'optim/index.js': 'optim',
  'data/index.js': 'data',
  'io/index.js': 'io',
  'train/index.js': 'train',
  'transforms/index.js': 'transforms',
  'inference/index.js': 'inference',
  'quantization/index.js': 'quantization',
  'distributed/index.js': 'distributed',
  'cli/main.js': 'main',
  'data/prefetch-worker.js': 'prefetch-worker',
  'data/remote-datasets.js': 'remote-datasets',
  'distributed/tcp/tcp-worker.js': 'tcp-worker',
  'distributed/control/control-thread.js': 'control-thread',
  'runtime/node/worker.js': 'worker',
  'runtime/cuda/compile/processes/broker.js': 'broker',
  'runtime/cuda/compile/processes/process.js': 'process',
  'runtime/cuda/driver/wake.js': 'wake',
};

/** `kernel` of `kernel/ir/ops.js`; nothing of `index.js`. @param {string} name */
const folderOf = (name) => name.slice(0, Math.max(0, name.indexOf('/')));

/**
 * @param {string} library the folder of the package
 * @param {readonly string[]} users the folders of compiled packages that import `heddle/internal/…`
 */
export async function bundle(library, users) {
  const root = join(library, 'dist', 'src');
  const outdir = join(library, 'dist', 'bundle');
  rmSync(outdir, { recursive: true, force: true });
  for (const [folder, shared] of sharedModules(root, users)) {
    const entries = Object.entries(ENTRIES).filter(([name]) => folderOf(name) === folder);
    const { outputFiles } = await build({
      write: false,
      entryPoints: [
        ...entries.map(([name, out]) => ({ in: join(root, name), out })),
        ...(shared.size > 0 ? [{ in: 'shared:', out: `internal-${folder}` }] : []),
      ],
      outdir,
      chunkNames: `${folder}-[hash]`,
      plugins: [folderPlugin(root, folder, shared)],
      ...{ bundle: true, splitting: true, format: 'esm', platform: 'node', packages: 'external' },
      ...{ target: 'es2022', sourcemap: true, sourcesContent: false, logLevel: 'warning' },
    });
    mkdirSync(outdir, { recursive: true });
    for (const { path, text } of outputFiles) writeFileSync(path, withNamesOfClasses(text));
  }
}

/**
 * esbuild calls a class that mentions itself `_X`, which would show wherever an object of it is printed.
 * @param {string} code
 */
export function withNamesOfClasses(code) {
  const named = new Set([...code.matchAll(/^var (\w+) = class _\1\b/gm)].map(([, name]) => name));
  return code.replace(/\b_(\w+)\b/g, (found, name) => (named.has(name) ? name : found));
}

/**
 * Keeps imports of other folders, and makes the module `shared:` of all that they import from this one.
 * @param {string} root @param {string} folder @param {ReadonlySet<string>} shared
 */
const folderPlugin = (root, folder, shared) => ({
  name: 'folder',
  /** @param {import('esbuild').PluginBuild} build */
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^shared:$/ }, ({ path }) => ({ path, namespace: 'shared' }));
    onLoad({ filter: /^/, namespace: 'shared' }, () => ({
      contents: [...shared].map((name) => `export * from './${name}';\n`).join(''),
      resolveDir: root,
    }));
    onResolve({ filter: /^(\.{1,2}\/|#)/ }, ({ path, resolveDir }) => {
      const name = nameIn(root, resolve(resolveDir, fileOf(root, path)));
      if (folderOf(name) === folder) return path.startsWith('#') ? { path: join(root, name) } : undefined;
      return { path: `./${ENTRIES[name] ?? `internal-${folderOf(name)}`}.js`, external: true };
    });
  },
});

/**
 * The modules of each folder that others import, but for ENTRIES.
 * @param {string} root @param {readonly string[]} users @returns {Map<string, Set<string>>}
 */
function sharedModules(root, users) {
  const shared = new Map();
  /** @param {string} name @param {string} by */
  const add = (name, by) => {
    const folder = folderOf(name);
    if (!shared.has(folder)) shared.set(folder, new Set());
    if (folder !== by && !(name in ENTRIES)) shared.get(folder).add(name);
  };
  for (const path of modulesIn(root)) {
    const by = folderOf(nameIn(root, path));
    add(nameIn(root, path), by);
    for (const [, target] of readFileSync(path, 'utf8').matchAll(/\b(?:from|import) ?\(?'([.#][^']+)'/g))
      add(nameIn(root, resolve(dirname(path), fileOf(root, target))), by);
  }
  for (const path of users.flatMap(modulesIn))
    for (const [, name] of readFileSync(path, 'utf8').matchAll(/'heddle\/internal\/([^']+)'/g)) add(name, '');
  return shared;
}

/** What the package's "imports" stand for under Node, as a path. @param {string} root @param {string} target */
const fileOf = (root, target) =>
  target
    .replace(/^#platform\//, `${root}/core/platform/node/`)
    .replace(/^#engine\//, `${root}/engine/node/`)
    .replace(/^#ops\//, `${root}/ops/node/`)
    .replace(/^#schedule\//, `${root}/schedule/node/`)
    .replace(/^#passes\//, `${root}/kernel/passes/node/`)
    .replace(/^#runtime\//, `${root}/runtime/node/`);

/** @param {string} root @param {string} path */
const nameIn = (root, path) => relative(root, path).split(sep).join('/');

/** @param {string} folder */
const modulesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js'))
    .sort()
    .map((name) => join(folder, name));
