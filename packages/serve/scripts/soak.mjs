/**
 * Loads a service for a while. It fails if a request gets another's answer, an error or none, or if memory grows by more than a tenth.
 * Usage: node packages/serve/scripts/soak.mjs [minutes, default 5]
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { soak } from '../dist/tests/soak.js';

const minutes = Number(process.argv[2] ?? 5);
const folder = await mkdtemp(join(tmpdir(), 'heddle-soak-'));
try {
  const found = await soak(folder, 60 * minutes, (done, memory) =>
    process.stderr.write(`\r${(100 * done).toFixed(0)} %, ${memory.toFixed(0)} MiB `),
  );
  console.log(`\n${JSON.stringify(found)}`);
  const [first, last] = found.memoryMiB;
  process.exitCode = found.errors === 0 && found.lost === 0 && last < 1.1 * first ? 0 : 1;
} finally {
  await rm(folder, { recursive: true });
}
