/** A browser has none of npm's packages: their files are fetched from where a server has them. */
import type * as node from '../node/packages.js';

export const packageFolders: typeof node.packageFolders = () => [];
