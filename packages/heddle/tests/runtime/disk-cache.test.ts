/** Files kept between runs: what is damaged, what may not be written to, what goes when there are too many. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { DiskCache } from '../../src/runtime/disk-cache.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-disk-cache-'));
after(() => rmSync(folder, { recursive: true }));

const contents = (i: number): Uint8Array => Uint8Array.of(i, 1, 2, 3);

test('what was put is got; what is damaged is not, and is gone', () => {
  const cache = new DiskCache(join(folder, 'damaged'));
  cache.put('a', contents(7));
  assert.deepEqual(cache.get('a'), contents(7));
  assert.equal(cache.get('b'), undefined);
  writeFileSync(join(cache.folder, 'a'), 'something else, long enough to have a checksum of its own');
  assert.equal(cache.get('a'), undefined);
  assert.equal(existsSync(join(cache.folder, 'a')), false);
  // Whole, but another one's.
  cache.put('c', contents(8));
  renameSync(join(cache.folder, 'c'), join(cache.folder, 'a'));
  assert.equal(cache.get('a'), undefined);
});

test('a folder that cannot be written to: what is whole is got, what is damaged is passed over', {
  skip: process.getuid?.() === 0 ? 'root may write everywhere' : false,
}, () => {
  const cache = new DiskCache(join(folder, 'read-only'));
  cache.put('a', contents(1));
  writeFileSync(join(cache.folder, 'b'), 'x');
  chmodSync(cache.folder, 0o500);
  try {
    assert.deepEqual(cache.get('a'), contents(1));
    assert.equal(cache.get('b'), undefined);
    cache.put('c', contents(3));
    assert.equal(cache.get('c'), undefined);
  } finally {
    chmodSync(cache.folder, 0o700);
  }
});

test('of too many files the half goes that was not used for longest', () => {
  const cache = new DiskCache(join(folder, 'many'), { mostFiles: 10 });
  for (let i = 0; i < 10; i++) {
    cache.put(`k${i}`, contents(i));
    utimesSync(join(cache.folder, `k${i}`), i + 1, i + 1);
  }
  assert.deepEqual(cache.get('k0'), contents(0));
  cache.put('k10', contents(10));
  assert.deepEqual(
    readdirSync(cache.folder).sort(),
    ['k0', 'k10', 'k6', 'k7', 'k8', 'k9'].sort(),
    'k0 was used just now',
  );
  for (let i = 11; i < 30; i++) cache.put(`k${i}`, contents(i));
  assert.ok(readdirSync(cache.folder).length <= 10);
});
