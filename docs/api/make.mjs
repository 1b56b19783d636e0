/**
 * The API pages, docs/reference/api/*.md: TypeDoc reads the sources' docstrings, a module for each page of pages.mjs, and
 * typedoc-plugin-markdown writes them.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Application, Converter, ReflectionKind } from 'typedoc';
import { MarkdownPageEvent } from 'typedoc-plugin-markdown';
import { everyExport, root } from './exports.mjs';
import { GROUPS, others, pageOf } from './pages.mjs';
import { tidied, withSections } from './tidy.mjs';

/** @typedef {import('./exports.mjs').Exported} Exported */
/** @typedef {import('./pages.mjs').Page} Page */

const folder = join(root, 'docs/reference/api');
const modules = join(root, '.build/api');

/** The pages with what is in them. @returns {Map<Page, Exported[]>} */
function filled() {
  /** @type {Map<Page, Exported[]>} */
  const pages = new Map(GROUPS.flatMap(([, of]) => of.map((page) => [page, []])));
  for (const exported of everyExport()) {
    const page = pageOf(exported);
    pages.set(page, [...(pages.get(page) ?? []), exported]);
  }
  return new Map([...pages].filter(([, of]) => of.length > 0));
}

/** A module for each page, whose exports are the page's. @param {Map<Page, Exported[]>} pages @returns {string[]} its files */
function writeModules(pages) {
  rmSync(modules, { recursive: true, force: true });
  mkdirSync(modules, { recursive: true });
  return [...pages].map(([{ name, files }, exports]) => {
    const place = (/** @type {Exported} */ { file }) =>
      files.findIndex((path) => `${file}/`.startsWith(`${path}/`));
    const lines = exports
      .toSorted((a, b) => place(a) - place(b))
      .map(({ name: of, type, packageName, file }) => {
        const source = join(root, 'packages', packageName.replace('heddle-', ''), 'src', `${file}.js`);
        return `export { ${type ? 'type ' : ''}${of} } from '${relative(modules, source)}';\n`;
      });
    const path = join(modules, `${name}.ts`);
    writeFileSync(path, `/** @module ${name} */\n${lines.join('')}`);
    return path;
  });
}

/** @param {string[]} entryPoints */
async function application(entryPoints) {
  const tsconfig = join(modules, 'tsconfig.json');
  const compilerOptions = { noEmit: true, rootDir: root, typeRoots: [join(root, 'node_modules/@types')] };
  const base = join(root, 'packages/heddle/tsconfig.json');
  writeFileSync(
    tsconfig,
    JSON.stringify({ extends: base, compilerOptions, files: entryPoints, include: [], exclude: [] }),
  );
  return Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    entryPoints,
    tsconfig,
    // The build has checked the sources.
    skipErrorChecking: true,
    logLevel: 'Error',
    outputs: [{ name: 'markdown', path: folder }],
    readme: 'none',
    excludeInternal: true,
    excludePrivate: true,
    excludeExternals: true,
    disableGit: true,
    basePath: root,
    sourceLinkTemplate: '{path}#L{line}',
    sort: ['source-order'],
    groupOrder: ['Functions', 'Classes', 'Variables', 'Interfaces', 'Type Aliases'],
    ...{
      router: 'module',
      useHTMLAnchors: true,
      hidePageHeader: true,
      hideBreadcrumbs: true,
      hidePageTitle: true,
      hideGroupHeadings: true,
    },
    ...{
      useCodeBlocks: true,
      expandParameters: true,
      parametersFormat: 'table',
      interfacePropertiesFormat: 'table',
    },
    ...{
      propertyMembersFormat: 'table',
      typeDeclarationFormat: 'table',
      classPropertiesFormat: 'table',
      entryFileName: 'index',
    },
  });
}

/** How a program comes by an export. @param {Exported | undefined} exported */
const importOf = (exported) =>
  exported
    ? `<p class="from">${exported.from.map((one) => one.replace(/`(.*)` of '(.*)'/, '<code>$1</code> of <code>$2</code>')).join(', ')}</p>`
    : '';

/** The list of all pages, by group. @param {Map<Page, Exported[]>} pages */
function index(pages) {
  const groups = [...GROUPS, ...(others.size > 0 ? [['Beside the library', [...others.values()]]] : [])];
  const lines = groups.flatMap(([group, of]) => {
    const rows = of.flatMap((page) => {
      const names = (pages.get(page) ?? []).filter(({ type }) => !type).map(({ name }) => `\`${name}\``);
      return pages.has(page)
        ? [`- [${page.title}](${page.name}.md)${names.length > 0 ? `: ${names.join(', ')}` : ''}`]
        : [];
    });
    return rows.length > 0 ? ['', `## ${group}`, '', ...rows] : [];
  });
  return [
    '# API',
    '',
    'Everything that the packages export, generated from the docstrings.',
    ...lines,
    '',
  ].join('\n');
}

export async function makeApi() {
  rmSync(folder, { recursive: true, force: true });
  const pages = filled();
  const app = await application(writeModules(pages));
  // A class shows what it adds; what it inherits stands with the class that it extends.
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    for (const member of project.getReflectionsByKind(ReflectionKind.ClassMember))
      if (/** @type {any} */ (member).inheritedFrom) project.removeReflection(member);
  });
  app.renderer.on(MarkdownPageEvent.END, (page) => {
    const name = page.url.replace(/\.md$/, '');
    const [found] = [...pages].filter(([one]) => one.name === name);
    if (!found) return;
    const [{ title }, exports] = found;
    const exported = new Map(exports.map((one) => [one.name, one]));
    const text = `# ${title} {#page}\n\n${tidied(page.contents, (of) => importOf(exported.get(of)))}`;
    const source =
      name === 'tensor' && readFileSync(join(root, 'packages/heddle/src/tensor/tensor.ts'), 'utf8');
    page.contents = `---\noutline: [2, 3]\n---\n\n${source ? withSections(text, source) : text}`;
  });
  const project = await app.convert();
  if (!project) throw new Error('TypeDoc cannot read the sources');
  await app.generateOutputs(project);
  writeFileSync(join(folder, 'index.md'), index(pages));
}
if (process.argv[1] === import.meta.filename) await makeApi();
