/**
 * What the pages and docstrings say is so: their programs compile, run and print what they promise, their commands exist,
 * and their links lead somewhere. A `ts` block is a whole program; with `no-run` behind the language it is only compiled.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program.js';
import { anchorsOf, type Block, blocksOf, linksOf, PAGES, SOURCES } from './pages.js';
import { compiler, root } from './workspace.js';

const run = promisify(execFile);

const blocks = [...PAGES, ...SOURCES].flatMap(blocksOf);
const programs = blocks.filter(({ language }) => language === 'ts');
const nameOf = ({ page, line }: Block): string => `${page.replaceAll(/[/.]/g, '-')}-${line}`;

// Within the workspace, where `import 'heddle'` finds the library as built, and MNIST.
mkdirSync(join(root, '.build'), { recursive: true });
const project = mkdtempSync(join(root, '.build', 'pages-'));
after(() => rmSync(project, { recursive: true }));

/**
 * Runs the programs of a section one after the other, each in a folder of its own and from the state in which a process
 * starts: one process for each program would take three times as long.
 */
const RUNNER = `
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { device, getPrecision, manualSeed, setPrecision, useDevice } from 'heddle';
const started = { device: device().name, precision: getPrecision(), folder: process.cwd() };
for (const name of process.argv.slice(2)) {
  console.log('\\u0001' + name);
  const folder = join(started.folder, name);
  mkdirSync(folder);
  process.chdir(folder);
  useDevice(started.device);
  setPrecision(started.precision);
  manualSeed(0);
  await import(join(started.folder, 'out', name + '.js')).catch((error) => console.log('\\u0002' + error?.stack));
}
`;

/** The compiler's complaints, at the lines of the pages. */
function complaints(output: string): string {
  const byName = new Map(programs.map((block) => [nameOf(block), block]));
  return output.replace(/^(\S+)\.ts\((\d+),/gm, (all, name: string, line: string) => {
    const block = byName.get(name);
    return block ? `${block.page}:${block.line + Number(line) - 1} (` : all;
  });
}

let compiled = false;

test('the programs of all pages and docstrings compile', async () => {
  const options = {
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2022', 'dom'],
    types: ['node'],
    strict: true,
  };
  const compilerOptions = {
    ...options,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    moduleDetection: 'force',
    outDir: 'out',
  };
  writeFileSync(join(project, 'package.json'), JSON.stringify({ type: 'module' }));
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  writeFileSync(join(project, 'runner.mjs'), RUNNER);
  for (const block of programs) writeFileSync(join(project, `${nameOf(block)}.ts`), `${block.text}\n`);
  await run(process.execPath, [compiler(), '-p', project, '--pretty', 'false'], { cwd: project }).catch(
    ({ stdout }: { stdout: string }) =>
      assert.fail(`programs of pages do not compile:\n${complaints(stdout)}`),
  );
  compiled = true;
});

const printedBy = ({ text }: Block): string[] => [...text.matchAll(/\/\/ → (.*)$/gm)].map((m) => m[1]!);

/** The pages of a section, or the docstrings of a package: their programs share a process. */
const documentOf = ({ page }: Block): string => page.replace(/^(packages\/\w+\/src|docs\/\w+)\/.*/, '$1');

for (const document of new Set(programs.map(documentOf))) {
  const here = programs.filter((block) => documentOf(block) === document && !block.flags.includes('no-run'));
  if (here.length === 0) continue;
  test(`${document}: ${here.length} programs print what they promise`, async (t) => {
    if (!compiled) return t.skip('programs do not compile');
    const { stdout } = await run(process.execPath, ['runner.mjs', ...here.map(nameOf)], {
      cwd: project,
      maxBuffer: 2 ** 26,
    }).catch((error: { stdout: string; stderr: string }) =>
      assert.fail(`${document}: the process ended early\n${error.stdout}\n${error.stderr}`),
    );
    const printed = new Map(
      stdout
        .split('\u0001')
        .slice(1)
        .map((part) => [part.slice(0, part.indexOf('\n')), part.slice(part.indexOf('\n') + 1)]),
    );
    for (const block of here) {
      const where = `${block.page}:${block.line}`;
      const output = printed.get(nameOf(block));
      assert.ok(output !== undefined, `${where}: did not run`);
      const failure = output.indexOf('\u0002');
      assert.ok(failure < 0, `${where}: ${output.slice(failure + 1)}`);
      let at = 0;
      for (const text of printedBy(block)) {
        const found = output.indexOf(text, at);
        assert.ok(found >= 0, `${where}: not printed: ${text}\nprinted:\n${output}`);
        at = found + text.length;
      }
    }
  });
}

test('every program of the README says what it prints', () => {
  const own = programs.filter(({ page }) => page === 'README.md');
  assert.ok(own.length >= 2, 'a network and a kernel');
  for (const block of own) assert.ok(printedBy(block).length > 0, block.text);
});

/** What a command line begins with, by words. */
const wordsOf = (line: string): string[] =>
  (line.replace(/ +#.*$/, '').match(/'[^']*'|"[^"]*"|\S+/g) ?? []) as string[];

/** The first word of a command line that `heddle` does not know. */
function unknownWord(program: Command, words: readonly string[]): string | undefined {
  let command = program;
  for (const word of words) {
    if (/^(\||>|&&|;|<)/.test(word)) return undefined;
    if (!word.startsWith('-')) {
      const inner = command.commands.find((c) => [c.name(), ...c.aliases()].includes(word));
      if (!inner && command === program) return word;
      command = inner ?? command;
      continue;
    }
    const name = word.replace(/=.*$/, '');
    if (/^(-h|--help|-\d.*|-V|--version|--|-)$/.test(name)) continue;
    if (!command.options.some(({ short, long }) => short === name || long === name)) return word;
  }
  return undefined;
}

test('the commands in the pages exist, with their options', async () => {
  // The options of a package's command are known once the package is loaded.
  const programs = new Map<string, Promise<Command>>();
  const programOf = (name: string): Promise<Command> => {
    if (!programs.has(name))
      programs.set(
        name,
        createProgram([name], () => {}),
      );
    return programs.get(name)!;
  };
  const lines = blocks
    .filter(({ language }) => /^(sh|bash|shell|console)$/.test(language))
    .flatMap(({ page, line, text }) =>
      text.split('\n').map((command, i) => ({ where: `${page}:${line + i}`, command })),
    );
  let commands = 0;
  for (const { where, command } of lines) {
    const [, words] = /(?:^|&& |\$ |=\S+ )(?:npx )?heddle (.*)$/.exec(command) ?? [];
    if (!words) continue;
    commands++;
    const given = wordsOf(words);
    const unknown = unknownWord(await programOf(given[0]!), given);
    assert.equal(unknown, undefined, `${where}: heddle does not know ${unknown}`);
  }
  assert.ok(commands > 5);
});

test('every link of a page within the repository leads somewhere', () => {
  for (const page of PAGES)
    for (const { path, anchor } of linksOf(page)) {
      // Pages of the site that are made when it is built.
      if (/^docs\/reference\/(api\/|support\.md)/.test(path)) continue;
      assert.ok(existsSync(join(root, path)), `${page} links to ${path}, which is not there`);
      if (anchor && path.endsWith('.md'))
        assert.ok(anchorsOf(path).includes(anchor), `${page} links to #${anchor}, which ${path} lacks`);
    }
});
