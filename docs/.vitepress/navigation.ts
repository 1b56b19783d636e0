/** The site's navigation, read from the pages: a section's index page lists its pages in reading order. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DefaultTheme } from 'vitepress';

const pages = dirname(dirname(fileURLToPath(import.meta.url)));

/** The folders with a table of contents of their own, and their names in the bar on top. */
const SECTIONS = {
  start: 'Start',
  guide: 'Guide',
  kernels: 'Kernels',
  learn: 'Learn',
  reference: 'Reference',
  performance: 'Performance',
  design: 'Design',
} as const;

export const bar: DefaultTheme.NavItem[] = Object.entries(SECTIONS).map(([folder, text]) => ({
  text,
  link: `/${folder}/`,
  activeMatch: `^/${folder}/`,
}));

/** A list of links in the margin for each section; the API has one of its own. */
export function sidebars(): DefaultTheme.SidebarMulti {
  const folders = [...Object.keys(SECTIONS), 'reference/api'];
  return Object.fromEntries(folders.map((folder) => [`/${folder}/`, contentsOf(folder)]));
}

/** What a section's index page links to within its folder, by the headings that the links stand below. */
function contentsOf(folder: string): DefaultTheme.SidebarItem[] {
  const index = join(pages, folder, 'index.md');
  if (!existsSync(index)) return [];
  const text = readFileSync(index, 'utf8').replace(/^```[\s\S]*?^```/gm, '');
  const groups: (DefaultTheme.SidebarItem & { items: DefaultTheme.SidebarItem[] })[] = [{ items: [] }];
  for (const line of text.split('\n')) {
    const title = /^# (.+)$/.exec(line)?.[1];
    if (title) groups[0]!.items.push({ text: plain(title), link: `/${folder}/` });
    const heading = /^## (.+)$/.exec(line)?.[1];
    if (heading) groups.push({ text: plain(heading), items: [] });
    const [, label, page] =
      /^(?:[-*]|\d+\.|\|) +\[([^\]]+)\]\((?:\.\/)?([\w-]+(?:\/index)?)\.md\)/.exec(line) ?? [];
    if (label) groups.at(-1)!.items.push({ text: plain(label), link: `/${folder}/${page}` });
  }
  return groups.filter(({ items }) => items.length > 0);
}

const plain = (markdown: string): string => markdown.replaceAll(/[`*]/g, '');
