/** What a test file is called in the output of `npm run fuzz`. */
import { basename } from 'node:path';

/** `packages/data/dist/tests/tables.test.js` is `data/tables`; a file elsewhere has its own name. */
export function testName(path: string): string {
  const [, of, name] = /packages[/\\](\w+)[/\\]dist[/\\]tests[/\\](.+)$/.exec(path) ?? [];
  return (of === undefined ? basename(path) : `${of}/${name!.replaceAll('\\', '/')}`).replace(
    /\.test\.js$/,
    '',
  );
}
