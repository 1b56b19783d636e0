/** The README's programs run as they are printed, and its links lead somewhere. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { compiler, root } from './workspace.js';

const run = promisify(execFile);

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const programs = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map((m) => m[1]!);
// Within the workspace, where `import 'heddle'` finds the library as built, and MNIST.
mkdirSync(join(root, '.build'), { recursive: true });
const project = mkdtempSync(join(root, '.build', 'readme-'));
after(() => rmSync(project, { recursive: true }));

before(async () => {
  const options = { module: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'], strict: true };
  const compilerOptions = { ...options, noUncheckedIndexedAccess: true, outDir: 'out' };
  writeFileSync(join(project, 'package.json'), JSON.stringify({ type: 'module' }));
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  programs.forEach((code, i) => {
    writeFileSync(join(project, `program-${i}.ts`), code);
  });
  await run(process.execPath, [compiler, '-p', project]).catch((error: { stdout: string }) =>
    assert.fail(`the README's programs do not compile:\n${error.stdout}`),
  );
});

assert.ok(programs.length >= 4, 'network, kernel, simulator, training loop');
for (const [i, code] of programs.entries()) {
  const promised = [...code.matchAll(/\/\/ → (.*)$/gm)].map((m) => m[1]!);
  test(`program ${i + 1} of the README prints ${promised.join(', ')}`, async () => {
    assert.ok(promised.length > 0, 'says what it prints');
    const { stdout } = await run(process.execPath, [join(project, 'out', `program-${i}.js`)], {
      cwd: project,
    });
    let at = 0;
    for (const text of promised) {
      at = stdout.indexOf(text, at);
      assert.ok(at >= 0, `not printed: ${text}\nprinted:\n${stdout}`);
      at += text.length;
    }
  });
}

for (const page of [
  'README.md',
  'docs/benchmarks.md',
  'docs/design.md',
  'bench/README.md',
  'CONTRIBUTING.md',
]) {
  test(`every file and folder that ${page} links to is there`, () => {
    const text = readFileSync(join(root, page), 'utf8');
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map((m) => m[1]!);
    for (const link of links) assert.ok(existsSync(join(root, dirname(page), link)), link);
    if (page === 'README.md') assert.ok(links.length > 3);
  });
}

test('every heading that the README links to within itself is there', () => {
  const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map((m) => m[1]!.toLowerCase().replaceAll(' ', '-'));
  for (const [, anchor] of readme.matchAll(/\]\(#([^)]+)\)/g)) assert.ok(anchors.includes(anchor!), anchor);
});
