/** A fingerprint of Heddle's own code, so that what is kept on disk is not taken for that of another version. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const hashes = new Map<string, string>();

/** Of the code in these folders of src/. Unknown in an app's bundle, where there are none. */
export function codeHash(folders: readonly string[]): string | undefined {
  if (!/\/runtime\/code-hash\.[jt]s$/.test(import.meta.url)) return undefined;
  const all = createHash('sha256');
  for (const name of folders) all.update(folderHash(name));
  return all.digest('hex');
}

function folderHash(name: string): string {
  const known = hashes.get(name);
  if (known) return known;
  const all = createHash('sha256');
  const folder = fileURLToPath(new URL(`../${name}`, import.meta.url));
  for (const file of readdirSync(folder).sort()) {
    if (/(?<!\.d)\.[jt]s$/.test(file)) all.update(readFileSync(join(folder, file)));
  }
  const hash = all.digest('hex');
  hashes.set(name, hash);
  return hash;
}
