/** The files for Slurm and Kubernetes: their commands run here, with everything of a cluster replaced. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort, LIMIT, RANK, start } from '../distributed/processes.js';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));
const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url));
const FILES = join(ROOT, 'examples', 'distributed');

let folder = '';
const command = async (name: string, text: string): Promise<void> => {
  const path = join(folder, name);
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o755);
};
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-cluster-'));
  // Two ranks on each machine, without GPUs.
  await command('npx', `shift 2; exec "${process.execPath}" "${MAIN}" launch --device cpu "$@"`);
  await command('scontrol', 'echo 127.0.0.1; echo other');
  await command('srun', 'SLURM_NODEID=1 "$@" & SLURM_NODEID=0 "$@"; code=$?; wait; exit $code');
  await writeFile(
    join(folder, 'train.js'),
    `process.argv[2] = 'exchange'; import(${JSON.stringify(`file://${RANK}`)});`,
  );
});
after(() => rm(folder, { recursive: true }));

const environment = (): NodeJS.ProcessEnv => ({ PATH: `${folder}${delimiter}${process.env.PATH}` });

test('slurm.sh starts a launcher on each node', LIMIT, async () => {
  const job = { SLURM_JOB_ID: String(process.pid), SLURM_JOB_NODELIST: 'gpu[1-2]', SLURM_NNODES: '2' };
  // As in the batch script: it is no rank.
  const batch = { SLURM_PROCID: '0', SLURM_NTASKS: '2', SLURM_LOCALID: '0' };
  const { code, out, err } = await start(
    'sh',
    [join(FILES, 'slurm.sh')],
    { ...environment(), ...job, ...batch },
    { cwd: folder },
  ).ended;
  assert.equal(code, 0, err);
  assert.equal(out.match(/: value 0, value 1, .*value 7$/gm)?.length, 8, out);
});

test('kubernetes.yaml starts a launcher in each pod', LIMIT, async () => {
  const manifest = await readFile(join(FILES, 'kubernetes.yaml'), 'utf8');
  const [, folded] = /- >-\n((?: {14}.*\n)+)/.exec(manifest) ?? [];
  const port = await freePort();
  const script = folded!
    .trim()
    .split(/\s*\n\s*/)
    .join(' ')
    .replace('train-0.train:29500', `127.0.0.1:${port}`);
  assert.ok(script.includes(String(port)), script);
  const pods = [0, 1].map((index) =>
    start('sh', ['-c', script], { ...environment(), JOB_COMPLETION_INDEX: String(index) }, { cwd: folder }),
  );
  const ends = await Promise.all(pods.map(({ ended }) => ended));
  assert.deepEqual(
    ends.map(({ code }) => code),
    [0, 0],
    ends.map(({ err }) => err).join(''),
  );
  assert.equal(
    ends
      .map(({ out }) => out)
      .join('')
      .match(/: value 0, value 1, value 2, value 3$/gm)?.length,
    4,
  );
  // The names that the command relies on.
  assert.match(manifest, /kind: Service\nmetadata:\n {2}name: train\n/);
  assert.match(manifest, /kind: Job\nmetadata:\n {2}name: train\n/);
  assert.match(manifest, /subdomain: train\n/);
  assert.match(manifest, /completionMode: Indexed\n {2}completions: 2\n {2}parallelism: 2\n/);
});

test('the guide shows the files as they are', { skip: !existsSync(FILES) }, async () => {
  const page = await readFile(join(ROOT, 'docs', 'guide', 'launching.md'), 'utf8');
  for (const name of ['slurm.sh', 'kubernetes.yaml']) {
    const text = await readFile(join(FILES, name), 'utf8');
    assert.ok(page.includes(`\n${text}\`\`\`\n`), `${name} differs from the one in docs/guide/launching.md`);
  }
});
