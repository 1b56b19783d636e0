/** Folders that are made step by step, and what killed writers leave in them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { RunFolder } from '../../src/cli/run-folder.js';
import { makeFolder, removeStaleTemporaries, temporaryPath } from '../../src/core/folders.js';
import { writeFileAtomic } from '../../src/io/atomic.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-folders-'));
after(() => rmSync(folder, { recursive: true }));

test('a folder and those above it are made; one that is there is left as it is', () => {
  makeFolder(join(folder, 'a/b/c'));
  makeFolder(join(folder, 'a/b/c'));
  assert.deepEqual(readdirSync(join(folder, 'a/b')), ['c']);
  symlinkSync('a', join(folder, 'link'));
  makeFolder(join(folder, 'link/b/d'));
  assert.deepEqual(readdirSync(join(folder, 'a/b')), ['c', 'd']);
  writeFileSync(join(folder, 'file'), '');
  for (const path of ['file', 'file/below'])
    assert.throws(() => makeFolder(join(folder, path)), {
      code: 'HEDDLE_FILE',
      message: /cannot make this folder/,
    });
});

test('where a file system refuses new folders, as /proc does, that is an error at once', {
  skip: process.platform === 'linux' ? false : 'needs /proc',
}, () => {
  assert.throws(
    () => makeFolder('/proc/nowhere/run'),
    /^FileError: \/proc\/nowhere\/run: cannot make this folder \(ENOENT/,
  );
});

/** A name of a process of this machine that has ended. */
function nameOfEnded(path: string): string {
  const { pid } = spawnSync(process.execPath, ['--version']);
  return temporaryPath(path).replace(`.${process.pid}.`, `.${pid}.`);
}

test('temporary files of processes that are gone are removed, no others', () => {
  const place = join(folder, 'place');
  mkdirSync(place);
  const path = join(place, 'weights.safetensors');
  const ours = temporaryPath(path);
  const elsewhere = temporaryPath(path).replace(/\.safetensors\.[\w-]+\./, '.safetensors.another-host.');
  const old = elsewhere.replace(/[0-9a-f]{16}/, '0123456789abcdef');
  const foreign = join(place, '.other.12345.tmp');
  for (const name of [nameOfEnded(path), ours, elsewhere, old, foreign, path]) writeFileSync(name, 'part');
  for (const name of [old, foreign, path]) utimesSync(name, 1, 1);
  removeStaleTemporaries(place);
  assert.deepEqual(
    readdirSync(place).sort(),
    [ours, elsewhere, foreign, path].map((name) => basename(name)).sort(),
  );
});

test('writing into a folder, and a new run beside one that was killed, clean up', async () => {
  const place = join(folder, 'written');
  mkdirSync(place);
  writeFileSync(nameOfEnded(join(place, 'old')), 'part');
  await writeFileAtomic(join(place, 'new'), 'whole');
  assert.deepEqual(readdirSync(place), ['new']);
  const killed = join(folder, 'runs/killed');
  makeFolder(killed);
  writeFileSync(nameOfEnded(join(killed, 'weights.safetensors')), 'part');
  writeFileSync(join(killed, 'config.json'), '{}');
  const before = process.cwd();
  process.chdir(folder);
  try {
    RunFolder.create('cnn', undefined);
  } finally {
    process.chdir(before);
  }
  assert.deepEqual(readdirSync(killed), ['config.json']);
});
