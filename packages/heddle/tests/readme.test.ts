/** The README's code is the examples' code, which the tests compile and run. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

function projectRoot(): string {
  let at = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(at, 'README.md'))) at = dirname(at);
  return at;
}

const root = projectRoot();
const readme = readFileSync(join(root, 'README.md'), 'utf8');

test('every TypeScript block of the README stands in its example, piece by piece', () => {
  const blocks = [...readme.matchAll(/```ts\n\/\/ (\S+)\n([\s\S]*?)```/g)];
  assert.ok(blocks.length >= 3, 'the three levels');
  assert.equal(blocks.length, readme.split('```ts').length - 1, 'each block names its example');
  for (const [, file, code] of blocks) {
    const example = readFileSync(join(root, file!), 'utf8');
    for (const piece of code!.split('// …\n')) {
      assert.ok(example.includes(piece), `${file} does not contain:\n${piece}`);
    }
  }
});

test('every file and folder the README links to is there', () => {
  const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map((m) => m[1]!);
  assert.ok(links.length > 0);
  for (const link of links) assert.ok(existsSync(join(root, link)), link);
});
