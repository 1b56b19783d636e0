/**
 * The published types, compiled against: what they accept and refuse (types/use.ts), and that whoever writes a library on
 * Heddle can name all types that its functions take and return (tsc writes them down in its declarations).
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as data from '../../src/data/index.js';
import * as H from '../../src/index.js';
import * as io from '../../src/io/index.js';
import * as kernel from '../../src/kernel/language/index.js';
import * as nn from '../../src/nn/index.js';
import * as optim from '../../src/optim/index.js';
import * as train from '../../src/train/index.js';

const ENTRIES: Readonly<Record<string, object>> = { '': H, nn, optim, data, io, train, kernel };

const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');

/** The folder of the package. */
function library(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

/** What tsc says of files, '' if nothing, and the declarations that it writes of use.ts. */
async function compiled(
  files: Readonly<Record<string, string>>,
): Promise<{ readonly said: string; readonly declarations: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'heddle-types-'));
  try {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(library(), join(folder, 'node_modules', 'heddle'), 'dir');
    const paths = Object.keys(files).map((name) => join(folder, name));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const options = ['--declaration', '--emitDeclarationOnly', '--outDir', join(folder, 'out'), '--strict']
      .concat('--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--types', '')
      .concat('--module', 'nodenext', '--target', 'es2022', '--preserveSymlinks');
    await promisify(execFile)(process.execPath, [compiler, ...options, ...paths]);
    return { said: '', declarations: readFileSync(join(folder, 'out', 'use.d.ts'), 'utf8') };
  } catch (error) {
    return { said: (error as { stdout?: string }).stdout || String(error), declarations: '' };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('types accept and refuse what they should, and say which sizes do not fit', async () => {
  const read = (name: string): string => readFileSync(join(library(), 'tests', 'types', name), 'utf8');
  const names = ['use.ts', 'shapes.ts', 'misfits.ts'];
  const { said } = await compiled(Object.fromEntries(names.map((name) => [name, read(name)])));
  const errors = said.split('\n').filter((line) => /^\S/.test(line));
  const wanted = read('misfits.ts')
    .split('\n')
    .flatMap((line, i) => (line.includes('; // ') ? [[i + 1, line.split('; // ')[1]!] as const] : []));
  assert.equal(errors.length, wanted.length, said);
  for (const [i, [line, text]] of wanted.entries()) {
    assert.ok(errors[i]!.includes(`misfits.ts(${line},`), errors[i]);
    assert.ok(errors[i]!.includes(text), `${text}: ${errors[i]}`);
  }
});

/** Lines that make tsc write down the types of a function, or of a class with its methods. */
function* uses(path: string, name: string, value: unknown): Generator<string> {
  if (typeof value !== 'function') return;
  const id = `${path}_${name}`.replaceAll('.', '_');
  if (!/^class\b/.test(Function.prototype.toString.call(value))) {
    yield `export const ${id} = call(${path}.${name});`;
    return;
  }
  yield `export const ${id} = construct(${path}.${name});`;
  const descriptors = Object.entries(Object.getOwnPropertyDescriptors(value.prototype as object));
  for (const [key, { value: method, get }] of descriptors) {
    if (key === 'constructor') continue;
    if (typeof method === 'function' || get)
      yield `export const ${id}_${key} = member(${path}.${name}, '${key}');`;
  }
}

test('every type in a public signature can be named', async () => {
  const lines = Object.keys(ENTRIES).map(
    (name) => `import * as _${name} from 'heddle${name ? `/${name}` : ''}';`,
  );
  lines.push(
    'declare function call<A extends readonly unknown[], R>(f: (...args: A) => R): [A, R];',
    'declare function construct<A extends readonly unknown[], R>(f: abstract new (...args: A) => R): A;',
    'type Parts<T> = T extends (...args: infer A) => infer R ? [A, R] : T;',
    // What is internal or protected is no property of the published type.
    'declare function member<T, K extends string>(c: abstract new (...args: never[]) => T, key: K): K extends keyof T ? Parts<T[K]> : never;',
  );
  const seen = new Set<unknown>();
  for (const [entry, module] of Object.entries(ENTRIES))
    for (const [name, value] of Object.entries(module)) {
      if (seen.has(value)) continue;
      seen.add(value);
      lines.push(...uses(`_${entry}`, name, value));
      if (Object.prototype.toString.call(value) === '[object Module]')
        for (const [inner, f] of Object.entries(value as object))
          if (!seen.has(f)) lines.push(...uses(`_${entry}.${name}`, inner, f));
    }
  assert.ok(lines.length > 200, 'there is much to name');
  const { said, declarations } = await compiled({ 'use.ts': `${lines.join('\n')}\n` });
  assert.equal(said, '');
  // What no entry point exports, tsc names by the file that it is declared in.
  const hidden = declarations.matchAll(/import\("[^"]*\/dist\/src\/([^"]*)"[^)]*\)\.(\w+)/g);
  assert.deepEqual([...new Set([...hidden].map(([, file, name]) => `${name} of ${file}`))], []);
});
