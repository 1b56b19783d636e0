/**
 * Before `npm pack` and `npm publish`, run in the folder of a package: bring README, LICENSE and CHANGELOG there, or those
 * that are named, where npm looks for them, with links that also work on npm's page. With --remove, after it: take them
 * away again.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = process.cwd();
const named = process.argv.slice(2).filter((arg) => arg !== '--remove');
const documents = named.length > 0 ? named : ['README.md', 'CHANGELOG.md', 'LICENSE'];

/** Links into the repository, made absolute; those within the page and to other sites stay. @param {string} text */
function withAbsoluteLinks(text) {
  const { repository } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const site = repository.url.replace(/^git\+|\.git$/g, '');
  return text.replace(/(!?)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)/g, (_, image, label, path) => {
    return `${image}${label}(${site}/${image ? 'raw' : 'blob'}/main/${path})`;
  });
}

/** When anything below a folder was last changed. @param {string} sources @returns {number} */
const newest = (sources) =>
  Math.max(
    ...readdirSync(sources, { recursive: true, encoding: 'utf8' }).map(
      (name) => statSync(join(sources, name)).mtimeMs,
    ),
  );

if (process.argv.includes('--remove')) {
  for (const name of documents) rmSync(join(folder, name), { force: true });
} else {
  const built = join(folder, 'dist');
  if (!existsSync(built) || newest(built) < newest(join(folder, 'src'))) {
    console.error('The package is not built, or its sources have changed since. Run: npm run build');
    process.exit(1);
  }
  for (const name of documents) {
    const text = readFileSync(join(root, name), 'utf8');
    writeFileSync(join(folder, name), name.endsWith('.md') ? withAbsoluteLinks(text) : text);
  }
}
