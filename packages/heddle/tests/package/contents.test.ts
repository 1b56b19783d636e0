/** What `npm pack` puts into the package: files, documents, entry points, types, maps, and what a bundler may leave out. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'acorn';
import { build } from 'esbuild';
import { compiler, noNpm, root } from './workspace.js';

const run = promisify(execFile);

// Within the workspace, so that the package finds what it depends on.
mkdirSync(join(root, '.build'), { recursive: true });
const project = mkdtempSync(join(root, '.build', 'packed-'));
const unpacked = join(project, 'node_modules', 'heddle');
after(() => rmSync(project, { recursive: true }));

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly size: number; readonly mode: number }[];
}
let packed: Packed;
let manifest: {
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
  readonly sideEffects: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
};
const read = (path: string): string => readFileSync(join(unpacked, path), 'utf8');
const paths = (end: string): string[] =>
  packed.files.map(({ path }) => path).filter((path) => path.endsWith(end));

before(() => {
  if (noNpm) return;
  const args = ['pack', '--json', '--loglevel=error', '--pack-destination', project];
  const said = execFileSync('npm', args, { cwd: join(root, 'packages', 'heddle'), encoding: 'utf8' });
  // Scripts of the package print before the list.
  packed = (JSON.parse(said.slice(said.search(/^\[/m))) as Packed[])[0]!;
  mkdirSync(unpacked, { recursive: true });
  execFileSync('tar', ['xzf', join(project, packed.filename), '--strip-components=1', '-C', unpacked]);
  manifest = JSON.parse(read('package.json'));
});

test('documents, sources and built files are packed, and nothing else', { skip: noNpm }, () => {
  const tops = new Set(packed.files.map(({ path }) => path.replace(/^(src|dist\/\w+|bin)\/.*/, '$1')));
  assert.deepEqual([...tops].sort(), [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'bin',
    'dist/browser',
    'dist/bundle',
    'dist/src',
    'package.json',
    'src',
  ]);
  const sourceFiles = paths('.ts').filter((path) => path.startsWith('src/')).length;
  for (const end of ['.d.ts', '.d.ts.map'])
    assert.equal(paths(end).filter((path) => path.startsWith('dist/src/')).length, sourceFiles, end);
  const bundles = paths('.js').filter((path) => /^dist\/(bundle|browser)\//.test(path));
  assert.deepEqual(paths('.js.map').sort(), bundles.map((path) => `${path}.map`).sort());
  assert.deepEqual(
    paths('.js').filter((path) => !bundles.includes(path)),
    ['bin/heddle.js'],
  );
  // What Node takes the time for is to find and link files, more than to read them.
  const loaded = new Set(['index.js']);
  for (const file of loaded)
    for (const [, name] of read(`dist/bundle/${file}`).matchAll(/(?:from|import) "\.\/([^"]+)"/g))
      loaded.add(name!);
  assert.ok(loaded.size < 40, `an import of heddle loads ${[...loaded].join(', ')}`);
  assert.ok(loaded.size > 10);
  // JavaScript for Node and for browsers, declarations and maps are of about the size of the sources each.
  const sources = packed.files
    .filter(({ path }) => path.startsWith('src/'))
    .reduce((sum, { size }) => sum + size, 0);
  assert.ok(
    packed.size < 1.5 * sources && packed.unpackedSize < 5 * sources,
    `${packed.size} of ${packed.unpackedSize} bytes, sources ${sources}`,
  );
  const large = packed.files.filter(
    ({ path, size }) => size > 100_000 && !/^dist\/(bundle|browser)\//.test(path),
  );
  assert.deepEqual(large, []);
  const leftovers = readdirSync(join(root, 'packages', 'heddle')).filter((name) =>
    /README|LICENSE|CHANGELOG/.test(name),
  );
  assert.deepEqual(leftovers, [], 'removed after packing');
});

test('the documents are those of the repository, with links that work elsewhere', { skip: noNpm }, () => {
  assert.equal(read('LICENSE'), readFileSync(join(root, 'LICENSE'), 'utf8'));
  assert.match(read('CHANGELOG.md'), /^# Changelog/);
  const links = [...read('README.md').matchAll(/!?\[[^\]]*\]\(([^)]+)\)/g)].map((m) => m[1]!);
  assert.ok(links.length > 3);
  for (const link of links) assert.match(link, /^(https:\/\/|#)/);
});

test('package.json says whose it is and where it comes from', { skip: noNpm }, () => {
  for (const field of [
    'description',
    'keywords',
    'author',
    'license',
    'homepage',
    'repository',
    'bugs',
    'engines',
  ])
    assert.ok(manifest[field], field);
  assert.match(read('bin/heddle.js'), /^#!\/usr\/bin\/env node\n/);
  assert.ok(statSync(join(unpacked, manifest.bin.heddle!)).mode & 0o100, 'is executable');
});

/** Modules for users: not those that Heddle's own packages share, nor the file for pages without a bundler. */
const isPublic = (name: string): boolean =>
  !['./package.json', './browser'].includes(name) && !name.startsWith('./internal/');

test('every entry point is there, with types, and can be imported', { skip: noNpm }, async () => {
  assert.equal(manifest.exports['./package.json'], './package.json');
  const entries = Object.entries(manifest.exports).filter(([name]) => isPublic(name));
  const program = entries
    .map(([name], i) => `import * as m${i} from '${name.replace('.', 'heddle')}';`)
    .join('\n');
  for (const [name, entry] of entries) {
    assert.ok(typeof entry === 'object' && existsSync(join(unpacked, entry.default)), name);
    // A browser does not start several processes.
    const runsInBrowsers = name !== './distributed';
    const keys = ['types', ...(runsInBrowsers ? ['browser'] : []), 'default'];
    assert.deepEqual(Object.keys(entry), keys, 'the types come first');
    for (const path of Object.values(entry)) assert.ok(existsSync(join(unpacked, path)), `${name}: ${path}`);
  }
  const all = entries.map((_, i) => `m${i}`).join(', ');
  // Of a class its own name, by which its objects are printed.
  const names =
    'Object.entries(m).map(([key, v]) => [key, typeof v === "function" && /^[A-Z]/.test(key) ? v.name : key])';
  writeFileSync(
    join(project, 'all.mjs'),
    `${program}\nconsole.log(JSON.stringify([${all}].map((m) => ${names})));\n`,
  );
  const { stdout } = await run(process.execPath, [join(project, 'all.mjs')]);
  const found = JSON.parse(stdout) as [string, string][][];
  assert.ok(found.length === entries.length && found.every((names) => names.length > 0), stdout);
  for (const [key, name] of found.flat()) assert.equal(name, key);
  const { stdout: version } = await run(process.execPath, [join(unpacked, 'bin/heddle.js'), '--version']);
  assert.equal(version.trim(), manifest.version);
});

test('types resolve as Node and as bundlers look for them, with full checks', { skip: noNpm }, async () => {
  const imports = Object.keys(manifest.exports).filter(isPublic);
  const use = readFileSync(join(root, 'packages/heddle/tests/consumers/use.ts'), 'utf8');
  writeFileSync(
    join(project, 'use.mts'),
    use +
      imports.map((name, i) => `import * as m${i} from '${name.replace('.', 'heddle')}';`).join('\n') +
      `\nexport const all = [${imports.map((_, i) => `m${i}`).join(', ')}];\n` +
      "export const y: m0.Tensor = m0.tensor([1, 2]).add(1);\n// @ts-expect-error\nexport const z: m0.Tensor = m0.tensor('1');\n",
  );
  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['preserve', 'bundler'],
  ] as const) {
    const compilerOptions = {
      module,
      moduleResolution,
      target: 'es2022',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
      types: [],
    };
    const config = join(project, `tsconfig.${module}.json`);
    writeFileSync(config, JSON.stringify({ compilerOptions, files: ['use.mts'] }));
    await run(process.execPath, [compiler(), '-p', config]).catch((error: { stdout: string }) =>
      assert.fail(`${moduleResolution}: ${error.stdout}`),
    );
  }
});

test('maps of code and of declarations lead to the packed sources', { skip: noNpm }, () => {
  for (const path of [...paths('.js.map'), ...paths('.d.ts.map')]) {
    const { sources } = JSON.parse(read(path)) as { readonly sources: readonly string[] };
    for (const source of sources.filter((name) => !name.includes('/node_modules/')))
      assert.ok(existsSync(join(unpacked, dirname(path), source)), `${path}: ${source}`);
  }
});

test('sideEffects names the modules that do something when they are imported, and bundlers leave out the rest', {
  skip: noNpm,
}, async () => {
  const acting = paths('.js').filter((path) => {
    if (path === 'dist/browser/heddle.js') return false; // Minified, for pages without a bundler.
    const { body } = parse(read(path), { ecmaVersion: 'latest', sourceType: 'module', allowHashBang: true });
    // TypeScript's alias of a class within it is no more than a name, and so are the bundler's namespaces.
    const text = read(path);
    const isName = (from: number, to: number): boolean =>
      /^(_a\d* = \w+;$|__export\(\w+_exports, )/.test(text.slice(from, to));
    return body.some(
      (n) => /^(Expression|For|While|If|Try|Block|Switch)/.test(n.type) && !isName(n.start, n.end),
    );
  });
  assert.deepEqual(manifest.sideEffects.toSorted(), acting.map((path) => `./${path}`).toSorted());
  const bundled = async (code: string): Promise<{ readonly bytes: number; readonly value: unknown }> => {
    const outfile = join(project, 'bundled.mjs');
    await build({
      stdin: { contents: code, resolveDir: project },
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['koffi'],
      outfile,
      logLevel: 'silent',
    });
    const { value } = (await import(`${pathToFileURL(outfile).href}?${code.length}`)) as {
      readonly value: unknown;
    };
    return { bytes: statSync(outfile).size, value };
  };
  const dtype = await bundled("import { f32 } from 'heddle'; export const value = f32.name;");
  assert.equal(dtype.value, 'f32');
  assert.ok(dtype.bytes < 20_000, `${dtype.bytes} bytes for one constant`);
});
