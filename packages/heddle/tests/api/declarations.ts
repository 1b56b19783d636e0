/** The published API: what each entry point exports, as the declaration files that tsc has written say it. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A declaration, or a member of one. */
export interface Declaration {
  readonly name: string;
  /** Without comments and `export declare`. */
  readonly text: string;
  /** The text of its docstring; undefined where there is none. */
  readonly doc: string | undefined;
  readonly file: string;
  /** Of classes and interfaces: what users can call or read. Overloads have one. */
  readonly members: readonly Declaration[];
}

/** What an entry point exports under a name: a declaration, or all that another module does. */
export type Exported = Declaration | { readonly name: string; readonly module: string };

export const isModule = (e: Exported): e is Extract<Exported, { module: string }> => 'module' in e;

/** The folder of the package. */
export function library(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string | { readonly types: string }>>;
}

/**
 * The entry points by the names that they are imported by, and their declaration files.
 * @param folder of the package
 */
export function entryPoints(folder: string = library()): ReadonlyMap<string, string> {
  const { name, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  return new Map(
    Object.entries(exports).flatMap(([path, entry]) =>
      // In one file for pages without a bundler: what `heddle` has.
      typeof entry === 'string' || path.startsWith('./internal/') || path === './browser'
        ? []
        : [[path.replace('.', name), join(folder, entry.types)] as const],
    ),
  );
}

const EXPORT_LIST = /^export (?:type )?\{([^}]*)\} from '([^']*)';/gm;
const EXPORT_MODULE = /^export (?:type )?\* as (\w+) from '([^']*)';/gm;
const DECLARATION = /^(?:export )?(?:declare )?(?:abstract )?(class|interface|type|const|function) (\w+)/;
const MEMBER = /^(?:static |readonly |get |set |abstract |async )*(\[[\w.]+\]|[\w$]+)/;

const target = (file: string, path: string): string => resolve(dirname(file), path.replace(/\.js$/, '.d.ts'));

/** What a module exports, by name. */
export function exportsOf(file: string): ReadonlyMap<string, Exported> {
  const text = readFileSync(file, 'utf8');
  const found = new Map<string, Exported>();
  for (const declaration of declarationsOf(file)) {
    const { name, text, doc } = declaration;
    const overload = found.get(name) as Declaration | undefined;
    const merged = overload && { ...overload, text: `${overload.text}\n${text}`, doc: overload.doc ?? doc };
    found.set(name, merged ?? declaration);
  }
  for (const [, name, path] of text.matchAll(EXPORT_MODULE))
    found.set(name!, { name: name!, module: target(file, path!) });
  for (const [, list, path] of text.matchAll(EXPORT_LIST)) {
    const from = exportsOf(target(file, path!));
    for (const item of list!.split(',').filter((s) => s.trim())) {
      const [name, as] = item
        .trim()
        .replace(/^type /, '')
        .split(' as ');
      const declaration = from.get(name!);
      if (!declaration) throw new Error(`${file}: ${path} does not export ${name}`);
      found.set(as ?? name!, as ? { ...declaration, name: as } : declaration);
    }
  }
  return found;
}

/** The exported declarations of a file. tsc writes each from the first column on, and members four columns further. */
function declarationsOf(file: string): Declaration[] {
  return [...items(readFileSync(file, 'utf8').split('\n'), '')].flatMap(({ lines, doc }) => {
    const [first = ''] = lines;
    const [, kind, name] = DECLARATION.exec(first) ?? [];
    if (!name || !first.startsWith('export ')) return [];
    const inside = kind === 'class' || kind === 'interface' ? lines.slice(1, -1) : [];
    const members: Declaration[] = [];
    for (const { lines: of, doc: said } of items(inside, '    ')) {
      const name = /^constructor\b/.test(of[0]!) ? 'constructor' : MEMBER.exec(of[0]!)?.[1];
      if (!name || /^(#|private |protected )/.test(of[0]!)) continue;
      const before = members.at(-1);
      // Overloads, and the setter after its getter, are one.
      if (before?.name === name)
        members[members.length - 1] = {
          ...before,
          text: `${before.text}\n${withoutComments(of.join('\n'))}`,
          doc: before.doc ?? said,
        };
      else members.push({ name, text: withoutComments(of.join('\n')), doc: said, file, members: [] });
    }
    const head = first.replace(/^export (declare )?/, '');
    const text = members.length > 0 ? head : withoutComments([head, ...lines.slice(1)].join('\n'));
    return [{ name, text, doc, file, members }];
  });
}

const withoutComments = (text: string): string => text.replace(/\s*\/\*\*[\s\S]*?\*\//g, '');

/** Lines that begin at this indentation, with those that belong to them and the comment before. */
function* items(
  lines: readonly string[],
  indent: string,
): Generator<{ readonly lines: string[]; readonly doc: string | undefined }> {
  let doc: string | undefined;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!.slice(indent.length);
    if (line.startsWith('/**')) {
      const from = i;
      while (!lines[i]!.includes('*/')) i++;
      doc = lines
        .slice(from, i + 1)
        .map((l) => l.trim().replace(/^\/?\*+\/? ?|\*\/$/g, ''))
        .join('\n')
        .trim();
      continue;
    }
    if (!/^\S/.test(line) || line.startsWith('//')) continue;
    const own = [line];
    while (i + 1 < lines.length && /^(\s|[)}\]])/.test(lines[i + 1]!.slice(indent.length)))
      own.push(lines[++i]!.slice(indent.length));
    yield { lines: own, doc };
    doc = undefined;
  }
}
