import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmod,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { FileError } from '../../src/core/errors.js';
import { type FileSystem, writeFileAtomic, writeFileWith } from '../../src/io/atomic.js';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-atomic-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const failure = (code: string): Error => Object.assign(new Error(`${code}: injected`), { code });

/** A disk that is full after `space` bytes. */
const smallDisk = (space: number): FileSystem => ({
  rename,
  unlink,
  open: async (path, flags) => {
    const file = await open(path, flags);
    return {
      sync: () => file.sync(),
      close: () => file.close(),
      write: (async (part: Uint8Array, offset: number, length: number) => {
        if (space === 0) throw failure('ENOSPC');
        const fitting = Math.min(space, length);
        space -= fitting;
        return file.write(part, offset, fitting);
      }) as typeof file.write,
    };
  },
});

test('text and parts are written, over an old file too', async () => {
  const path = join(folder, 'file');
  await writeFileAtomic(path, 'größer');
  assert.equal(await readFile(path, 'utf8'), 'größer');
  await writeFileAtomic(path, [Uint8Array.of(1, 2), new Uint8Array(0), Uint8Array.of(3)]);
  assert.deepEqual([...(await readFile(path))], [1, 2, 3]);
  assert.deepEqual(await readdir(folder), ['file']);
});

test('short writes are continued', async () => {
  const path = join(folder, 'file');
  const system = smallDisk(Number.POSITIVE_INFINITY);
  const byByte: FileSystem = {
    ...system,
    open: async (at, flags) => {
      const file = await system.open(at, flags);
      const write = (async (part: Uint8Array, offset: number) =>
        file.write(part, offset, 1)) as typeof file.write;
      return { sync: () => file.sync(), close: () => file.close(), write };
    },
  };
  await writeFileWith(byByte, path, 'one byte at a time');
  assert.equal(await readFile(path, 'utf8'), 'one byte at a time');
});

test('on a full disk the old file stays whole and nothing else is left', async () => {
  const path = join(folder, 'file');
  await writeFile(path, 'old');
  await assert.rejects(writeFileWith(smallDisk(60), path, 'x'.repeat(100)), (error: unknown) => {
    assert(error instanceof FileError);
    assert.equal(error.path, path);
    assert.match(error.message, /cannot write 100 bytes: the disk is full\. Free some space/);
    return true;
  });
  assert.equal(await readFile(path, 'utf8'), 'old');
  assert.deepEqual(await readdir(folder), ['file']);
});

test('if the rename fails the temporary file is removed', async () => {
  const path = join(folder, 'file');
  const system: FileSystem = { open, unlink, rename: () => Promise.reject(failure('EACCES')) };
  await assert.rejects(writeFileWith(system, path, 'new'), /no permission to write there/);
  assert.deepEqual(await readdir(folder), []);
});

test('a real limit on file sizes stops a write without a trace', {
  skip: process.platform === 'win32',
}, async () => {
  const path = join(folder, 'file');
  await writeFile(path, 'old');
  const program = `
    const { writeFileAtomic } = await import(${JSON.stringify(new URL('../../src/io/atomic.js', import.meta.url).href)});
    await writeFileAtomic(process.argv[1], new Uint8Array(1 << 20)).catch((error) => console.log(error.message));`;
  // The limit counts blocks of 512 bytes or 1 KiB, by the shell: at most 64 KiB here.
  const script = 'ulimit -f 64 && exec "$0" --input-type=module -e "$1" "$2"';
  const { stdout, stderr } = spawnSync('sh', ['-c', script, process.execPath, program, path], {
    encoding: 'utf8',
  });
  assert.match(stdout, /cannot write 1048576 bytes: the file would be over the size limit/, stderr);
  assert.equal(await readFile(path, 'utf8'), 'old');
  assert.deepEqual(await readdir(folder), ['file']);
});

const root = process.getuid?.() === 0;
test('no permission is said', {
  skip: root ? 'root may write anywhere' : process.platform === 'win32',
}, async () => {
  await chmod(folder, 0o500);
  await assert.rejects(writeFileAtomic(join(folder, 'file'), 'new'), /no permission to write there/);
  await chmod(folder, 0o700);
});

test('a missing folder and a folder in the way are said', async () => {
  await assert.rejects(writeFileAtomic(join(folder, 'nowhere', 'file'), ''), /its folder does not exist/);
  await assert.rejects(writeFileAtomic(folder, ''), FileError);
  assert((await stat(folder)).isDirectory());
});
