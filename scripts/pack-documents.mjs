/**
 * Before `npm pack` and `npm publish`: bring README, LICENSE and CHANGELOG into the folder of the package, where npm
 * looks for them, with links that also work on npm's page. With --remove, after it: take them away again.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const library = join(root, 'packages', 'heddle');
const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'LICENSE'];

/** Links into the repository, made absolute; those within the page and to other sites stay. @param {string} text */
function withAbsoluteLinks(text) {
  const { repository } = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8'));
  const site = repository.url.replace(/^git\+|\.git$/g, '');
  return text.replace(/(!?)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)/g, (_, image, label, path) => {
    return `${image}${label}(${site}/${image ? 'raw' : 'blob'}/main/${path})`;
  });
}

/** When anything below a folder was last changed. @param {string} folder @returns {number} */
const newest = (folder) =>
  Math.max(
    ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(
      (name) => statSync(join(folder, name)).mtimeMs,
    ),
  );

if (process.argv.includes('--remove')) {
  for (const name of DOCUMENTS) rmSync(join(library, name), { force: true });
} else {
  const built = join(library, 'dist', 'src', 'index.js');
  if (!existsSync(built) || statSync(built).mtimeMs < newest(join(library, 'src'))) {
    console.error('heddle is not built, or its sources have changed since. Run: npm run build');
    process.exit(1);
  }
  for (const name of DOCUMENTS) {
    const text = readFileSync(join(root, name), 'utf8');
    writeFileSync(join(library, name), name.endsWith('.md') ? withAbsoluteLinks(text) : text);
  }
}
