import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type MarkdownEnv, type MarkdownRenderer } from 'vitepress';
import { ISOLATION } from '../serve.mjs';
import { bar, sidebars } from './navigation.js';

const pages = dirname(dirname(fileURLToPath(import.meta.url)));
const root = dirname(pages);
const { repository, version } = JSON.parse(readFileSync(join(root, 'packages/heddle/package.json'), 'utf8'));
const repositoryPage: string = repository.url.replace(/^git\+|\.git$/g, '');

/** Links of pages into the rest of the repository, which a checkout can follow, lead to its page on the site. */
function repositoryLinks(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('repository-links', ({ tokens, env }) => {
    if (!env.path) return;
    const folder = dirname(env.path);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const name = token.type === 'link_open' ? 'href' : 'src';
      const target = token.attrGet(name);
      if (!target || !/^\.\.?\//.test(target)) continue;
      const path = relative(root, resolve(folder, target));
      if (token.type === 'link_open' && !path.startsWith('docs/'))
        token.attrSet(name, `${repositoryPage}/blob/main/${path}`);
    }
  });
}

/** A page as it is searched: the colours of its programs, which take a third of the build's time, are not. */
function searched(source: string, env: MarkdownEnv, markdown: MarkdownRenderer): string {
  const { highlight } = markdown.options;
  markdown.set({ highlight: null });
  try {
    const html = markdown.render(source, env);
    return env.frontmatter?.search === false ? '' : html;
  } finally {
    markdown.set({ highlight: highlight ?? null });
  }
}

export default defineConfig({
  title: 'Heddle',
  description: 'Neural networks from TypeScript, down to kernels that are themselves written in TypeScript.',
  lang: 'en',
  srcExclude: ['api/**', 'tests/**', 'node_modules/**', 'dist/**'],
  base: (process.env.HEDDLE_DOCS_BASE as `/${string}/` | undefined) ?? '/',
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${process.env.HEDDLE_DOCS_BASE ?? '/'}logo.svg` }],
  ],
  lastUpdated: false,
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: (markdown) => void markdown.use(repositoryLinks),
  },
  vite: {
    server: { headers: ISOLATION },
    build: { chunkSizeWarningLimit: 4096 },
  },
  themeConfig: {
    logo: '/logo.svg',
    nav: [...bar],
    sidebar: sidebars(),
    outline: { level: [2, 3] },
    search: { provider: 'local', options: { _render: searched } },
    socialLinks: [{ icon: 'github', link: repositoryPage }],
    footer: { message: `Heddle ${version}. MIT licence.` },
  },
});
