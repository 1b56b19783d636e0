/** URLs in place of names of files: parts between slashes. A query stays with the last one. */
import type * as node from '../node/paths.js';

export const basename: typeof node.basename = (path) => /[^/]*$/.exec(path.replace(/\/+$/, ''))![0];

export const dirname: typeof node.dirname = (path) => /^(.*)\/[^/]+\/*$/.exec(path)?.[1] ?? '.';

export const join: typeof node.join = (...parts) =>
  parts
    .filter((part) => part !== '' && part !== '.')
    .map((part, i, all) => (i + 1 < all.length ? part.replace(/\/+$/, '') : part))
    .join('/');

export const relative: typeof node.relative = (_, to) => to;

export const resolve: typeof node.resolve = (...parts) => join(...parts);
