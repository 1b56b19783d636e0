/** The pages that people read, docstrings included, and the programs and commands that are printed in them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from './workspace.js';

/** A fenced block of a page. */
export interface Block {
  readonly page: string;
  /** Of its first line, below the fence. */
  readonly line: number;
  readonly language: string;
  /** What stands behind the language in the fence: `no-run`. */
  readonly flags: readonly string[];
  readonly text: string;
}

/** Paths from the root: the pages of docs/ that are written by hand, and those beside the sources. */
export const PAGES: readonly string[] = [
  ...['README.md', 'CONTRIBUTING.md', 'bench/README.md'],
  ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
  ...below('docs', /\.md$/).filter((path) => !/^docs\/reference\/(api\/|support\.md)/.test(path)),
].filter((path) => existsSync(join(root, path)));

/** Paths of the sources of all packages. */
export const SOURCES: readonly string[] = readdirSync(join(root, 'packages'))
  .filter((name) => existsSync(join(root, 'packages', name, 'src')))
  .flatMap((name) => below(`packages/${name}/src`, /\.ts$/));

/** Files below a folder, without those that a build makes. */
function below(folder: string, name: RegExp): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => !/^(node_modules|dist|cache)$/.test(entry.name))
    .flatMap((entry) =>
      entry.isDirectory()
        ? below(`${folder}/${entry.name}`, name)
        : name.test(entry.name)
          ? [`${folder}/${entry.name}`]
          : [],
    )
    .sort();
}

export const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The fenced blocks of a page, or of the docstrings of a source file. */
export function blocksOf(page: string): Block[] {
  const source = page.endsWith('.ts');
  const fence = source
    ? / *\* ?( *)```([\w-]+)([^\n]*)\n([\s\S]*?)\n *\* ?\1```$/gm
    : /^( *)```([\w-]+)([^\n]*)\n([\s\S]*?)\n\1```$/gm;
  const text = textOf(page);
  return [...text.matchAll(fence)].map(({ index, 1: indent, 2: language, 3: flags, 4: body }) => ({
    page,
    line: text.slice(0, index).split('\n').length + 1,
    language: language!,
    flags: flags!.split(/\s+/).filter(Boolean),
    text: body!
      .split('\n')
      .map((line) => (source ? line.replace(/^ *\* ?/, '') : line).slice(indent!.length))
      .join('\n'),
  }));
}

/** A link within the repository. */
export interface Link {
  /** From the root; the page itself for a link to one of its headings. */
  readonly path: string;
  readonly anchor: string | undefined;
}

/** The links of a page to files, folders and headings of the repository; none from its code. */
export function linksOf(page: string): Link[] {
  const text = textOf(page)
    .replace(/^( *)```[\s\S]*?^\1```$/gm, '')
    .replace(/`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\((?!\w+:|\/)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(({ 1: path, 2: anchor }) => ({
    path: path ? join(dirname(page), path) : page,
    anchor,
  }));
}

/** The anchors of a page's headings, as GitHub and VitePress make them. */
export function anchorsOf(page: string): string[] {
  const text = textOf(page).replace(/^( *)```[\s\S]*?^\1```$/gm, '');
  return [...text.matchAll(/^#+ +(.*?) *$/gm)].map(({ 1: heading }) =>
    (/\{#([\w-]+)\}$/.exec(heading!)?.[1] ?? heading!)
      .toLowerCase()
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  );
}
