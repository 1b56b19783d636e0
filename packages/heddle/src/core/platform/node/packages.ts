/** Packages of npm that are installed. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The folders of a package: the one that the program sees, and the one that this library sees. */
export const packageFolders = (name: string): readonly string[] =>
  [pathToFileURL(join(process.cwd(), 'package.json')).href, import.meta.url].flatMap((from) => {
    try {
      return [dirname(createRequire(from).resolve(`${name}/package.json`))];
    } catch {
      return [];
    }
  });
