/**
 * The public API as the published declarations have it: a snapshot, so that a change shows as a diff (`UPDATE_SNAPSHOTS=1`
 * takes the new text), and what holds for all of it.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type Declaration,
  type Exported,
  entryPoints,
  exportsOf,
  isModule,
  library,
} from './declarations.js';

/** Of the library, and of the packages beside it that programs import. */
const ENTRIES = new Map(
  ['heddle', 'data', 'look', 'onnx', 'serve'].flatMap((name) => [
    ...entryPoints(join(library(), '..', name)),
  ]),
);

/** All that is exported, each once, under the first name that it has: `relu`, `heddle/nn Linear`. */
function* everything(): Generator<[string, Declaration]> {
  const seen = new Set<string>();
  const entries = new Set(ENTRIES.values());
  function* of(prefix: string, exported: Iterable<Exported>): Generator<[string, Declaration]> {
    for (const e of exported) {
      if (isModule(e)) {
        if (!entries.has(e.module)) yield* of(`${prefix}${e.name}.`, exportsOf(e.module).values());
        continue;
      }
      const id = `${e.file} ${e.name}`;
      if (!seen.has(id)) yield [`${prefix}${e.name}`, e];
      seen.add(id);
    }
  }
  for (const [entry, file] of ENTRIES) yield* of(`${entry} `, exportsOf(file).values());
}

const indented = (text: string): string => text.replace(/^/gm, '  ');

/** One entry point, alphabetically: what it declares, and the names that an entry point before it declares. */
function page(entry: string, file: string, seen: Map<string, string>): string {
  const lines = (exported: ReadonlyMap<string, Exported>): string[] =>
    [...exported.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([name, e]): string[] => {
        if (isModule(e)) {
          const [known] = [...ENTRIES].find(([, path]) => path === e.module) ?? [];
          return known
            ? [`namespace ${name}: ${known}`]
            : [`namespace ${name}:`, ...lines(exportsOf(e.module)).map(indented)];
        }
        const id = `${e.file} ${e.name}`;
        const before = seen.get(id);
        if (before !== undefined) return [`${name}: see ${before}`];
        seen.set(id, entry);
        const members = e.members.map((m) => indented(m.text));
        return members.length > 0 ? [e.text, ...members, '}'] : [e.text];
      });
  return [`# ${entry}`, ...lines(exportsOf(file)), ''].join('\n');
}

test('the API is the one of the snapshot', () => {
  const path = join(library(), 'tests/snapshots/api.txt');
  const seen = new Map<string, string>();
  const text = [...ENTRIES].map(([entry, file]) => page(entry, file, seen)).join('\n');
  if (process.env.UPDATE_SNAPSHOTS === '1') writeFileSync(path, text);
  assert.ok(existsSync(path), `${path} is missing: run the test with UPDATE_SNAPSHOTS=1 and read the diff`);
  assert.equal(text, readFileSync(path, 'utf8'), 'run with UPDATE_SNAPSHOTS=1 and read the diff');
});

/** Members whose name and type say all. */
const isPlain = ({ name }: Declaration): boolean => name === 'constructor' || name.startsWith('[');
/** Tables from names to types, and a model with its layers: their own docstring says what they are. */
const TABLES = ['DataArrays', 'ArraysByRank', 'LeNet5'];

test('everything that is exported has a docstring, and so has each member', () => {
  const bare = [...everything()].flatMap(([name, e]) => [
    ...(e.doc ? [] : [name]),
    ...(TABLES.includes(e.name) ? [] : e.members)
      .filter((m) => !m.doc && !isPlain(m))
      .map((m) => `${name}.${m.name}`),
  ]);
  assert.equal(bare.join('\n'), '', 'without a docstring');
});

test('no declaration is internal, and none is exported as a whole file', () => {
  for (const [name, e] of everything())
    for (const { doc = '', name: of } of [e, ...e.members])
      assert.doesNotMatch(doc, /@internal/, `${name}.${of}`);
  for (const [entry, file] of ENTRIES)
    assert.doesNotMatch(readFileSync(file, 'utf8'), /^export \*(?! as)/m, entry);
});

/** Types of TypeScript's library that are no values, and what users pass on without looking at it: the compiler's IR. */
const KNOWN = new Set(
  [
    'Readonly ReadonlyMap Record Pick Partial Required Omit Exclude Iterable ArrayLike AsyncIterable AsyncGenerator PromiseLike ErrorOptions',
    'Param ArrayDecl Statement Lowered Launch',
    // Of commander, which calls what has it.
    'Command',
  ].flatMap((names) => names.split(' ')),
);
const isKnown = (type: string): boolean => type in globalThis || KNOWN.has(type) || /^[A-Z]$/.test(type);

test('every type that a declaration names is exported', () => {
  // By the names that they are declared with, too: some are exported under another.
  const names = new Set([...everything()].flatMap(([, e]) => [e.name, /^\w+ (\w+)/.exec(e.text)?.[1]]));
  const strays = new Set<string>();
  for (const [name, e] of everything()) {
    // What arithmetic on shapes is made of appears in no signature.
    if (e.file.endsWith('shape-types.d.ts')) continue;
    for (const { text } of [e, ...e.members.filter((m) => !m.name.startsWith('['))]) {
      const bare = text.replace(/'[^']*'|"[^"]*"/g, '');
      const own = new Set(
        [...`${e.text}\n${bare}`.matchAll(/\b(\w+)(?: extends|\b in\b| = )|<(\w+)[,>]|infer (\w+)/g)].flatMap(
          (m) => m.slice(1),
        ),
      );
      for (const [, type] of bare.matchAll(/(?<![\w.'`-]|typeof )([A-Z]\w*)\b(?!['`:?(])/g))
        if (!names.has(type!) && !isKnown(type!) && !own.has(type!)) strays.add(`${type} in ${name}`);
    }
  }
  assert.equal([...strays].join('\n'), '', 'not exported');
});
