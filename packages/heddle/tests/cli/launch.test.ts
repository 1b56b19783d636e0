/** `heddle launch` with real processes: what the ranks are told, how they end, and what is said of it. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PhiloxStream } from '../../src/core/philox.js';
import {
  freePort,
  LIMIT,
  listening,
  printed,
  RANK,
  type RunningRank,
  startNode,
} from '../distributed/processes.js';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-launch-'));
});
after(() => rm(folder, { recursive: true }));

const launch = (args: readonly string[], env: NodeJS.ProcessEnv = {}): RunningRank =>
  startNode([MAIN, 'launch', '--device', 'cpu', ...args], env, { cwd: folder });

async function program(name: string, text: string): Promise<string> {
  await writeFile(join(folder, name), text);
  return name;
}

const limited = (name: string, body: () => Promise<void>): void => void test(name, LIMIT, body);

const NAMES = [
  'RANK',
  'WORLD_SIZE',
  'LOCAL_RANK',
  'LOCAL_WORLD_SIZE',
  'MASTER_ADDR',
  'HEDDLE_RESTART',
  'HEDDLE_THREADS',
];
const SHOW = `console.log(${JSON.stringify(NAMES)}.map((name) => process.env[name]).join(' '), process.argv.slice(2).join(' '));`;

describe('heddle launch', () => {
  limited('tells each rank its place, and passes on arguments and output', async () => {
    const file = await program(
      'show.mjs',
      `${SHOW}\nconsole.error('on stderr');\nprocess.stdout.write('no end of line');`,
    );
    const { code, out, err } = await launch(['-n', '2', file, '--epochs', '3', '-n', '7'], {
      HEDDLE_THREADS: '5',
      OMPI_COMM_WORLD_RANK: '9',
    }).ended;
    assert.equal(code, 0, err);
    const of = (rank: number): string => `${rank} 2 ${rank} 2 127.0.0.1 0 5 --epochs 3 -n 7\n`;
    assert.ok(out.includes(of(0)) && out.includes(`[rank 1] ${of(1)}`), out);
    assert.match(out, /\[rank 1\] no end of line\n/);
    assert.deepEqual(err.trim().split('\n').sort(), ['[rank 1] on stderr', 'on stderr']);
  });

  limited('divides the processor among the ranks', async () => {
    const file = await program('show.mjs', SHOW);
    const { out } = await launch(['-n', '64', file]).ended;
    assert.equal(out.match(/ 127\.0\.0\.1 0 1 $/gm)?.length, 64);
  });

  limited('several machines', async () => {
    const port = await freePort();
    const nodes = [0, 1].map((node) =>
      launch([
        '-n',
        '2',
        '--nodes',
        '2',
        '--node-rank',
        String(node),
        '--address',
        `127.0.0.1:${port}`,
        RANK,
        'exchange',
      ]),
    );
    const ends = await Promise.all(nodes.map(({ ended }) => ended));
    assert.deepEqual(
      ends.map(({ code }) => code),
      [0, 0],
      ends.map(({ err }) => err).join(''),
    );
    assert.match(ends[0]!.out, /^0: value 0, value 1, value 2, value 3$/m);
    assert.match(ends[1]!.out, /^\[rank 3\] 3: value 0, value 1, value 2, value 3$/m);
  });

  limited('TypeScript', async () => {
    // tsx is found from the program's folder: that of the repository.
    const file = fileURLToPath(new URL('../../../tests/cli/launched.ts', import.meta.url));
    const { code, out, err } = await launch(['-n', '2', file]).ended;
    assert.equal(code, 0, err);
    assert.match(out, /\[rank 1\] rank 1 of 2/);
  });

  limited('TypeScript where nothing runs it', async () => {
    const file = await program('lonely.ts', 'const a: number = 1;');
    const { code, err } = await launch(['-n', '2', file]).ended;
    if ('typescript' in process.features && process.features.typescript) assert.equal(code, 0, err);
    else {
      assert.equal(code, 2);
      assert.match(
        err,
        /lonely\.ts is TypeScript, which Node \d+\.\d+\.\d+ does not run by itself\. Install tsx/,
      );
    }
  });
});

describe('what cannot be launched is said', () => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /missing required argument 'script'/],
    [['nowhere.js'], /There is no file .*nowhere\.js\. heddle launch starts a program/],
    [['.'], /There is no file /],
    [['-n', '0', 'show.mjs'], /argument '0' is invalid\. Must be a whole number, from 1/],
    [['--nodes', '2', 'show.mjs'], /--nodes 2 needs --node-rank, .* and --address <host>:<port>/],
    [
      ['--nodes', '2', '--node-rank', '2', '--address', 'a:1', 'show.mjs'],
      /--node-rank is 2, but --nodes is 2: machines are numbered from 0 to 1/,
    ],
    [['--address', 'a:99999', 'show.mjs'], /--address is 'a:99999', must be <host> or <host>:<port>/],
    [['-n', '2', '--device', 'cuda:1', 'show.mjs'], /cuda:1 is one GPU, but there are 2 ranks on this host/],
  ];
  for (const [args, expected] of cases)
    limited(`launch ${args.join(' ')}`, async () => {
      await program('show.mjs', SHOW);
      const { code, err } = await launch(args).ended;
      assert.equal(code, 2, err);
      assert.match(err, expected);
    });

  limited('a port that is taken', async () => {
    const other = createServer();
    const port = await listening(other);
    const { code, err } = await launch([
      '-n',
      '2',
      '--address',
      `127.0.0.1:${port}`,
      await program('show.mjs', SHOW),
    ]).ended;
    other.close();
    assert.equal(code, 2);
    assert.match(
      err,
      new RegExp(`Port ${port} is taken by another process on this host\\. Choose another one: --address`),
    );
  });
});

describe('a rank that fails ends the others', () => {
  const random = new PhiloxStream(Number(process.env.KILL_SEED ?? 7));
  for (const rank of [0, 1, 2])
    limited(`rank ${rank} is killed at a random moment`, async () => {
      const run = launch(['-n', '3', RANK, 'blocked']);
      await printed(run, /(formed[\s\S]*){3}/);
      const pids = /formed (\d+) (\d+) (\d+)/.exec(run.out())!.slice(1).map(Number);
      await new Promise((wait) => setTimeout(wait, random.below(1000)));
      const at = performance.now();
      process.kill(pids[rank]!, 'SIGKILL');
      const { code, err } = await run.ended;
      const seconds = (performance.now() - at) / 1000;
      assert.ok(seconds < 10, `${seconds} s`);
      assert.equal(code, 137);
      assert.equal(
        err,
        `heddle: rank ${rank} (pid ${pids[rank]}) was killed by SIGKILL. The other ranks have been ended.\n`,
      );
      for (const pid of pids) assert.throws(() => process.kill(pid, 0), /ESRCH/);
    });

  limited('a rank that throws', async () => {
    const { code, err, seconds } = await launch(['-n', '3', RANK, 'throws', '1']).ended;
    assert.equal(code, 1);
    assert.match(err, /^\[rank 1\] TypeError: the loss is not a number$/m);
    const told = err.split('\n').filter((line) => line.startsWith('heddle:'));
    assert.equal(told.length, 1, err);
    assert.match(
      told[0]!,
      /^heddle: rank 1 \(pid \d+\) ended with exit code 1: it failed with TypeError: the loss is not a number\. The other/,
    );
    assert.ok(seconds < 12, `${seconds} s`);
  });

  limited('a rank that is stopped', async () => {
    const run = launch(['-n', '2', RANK, 'blocked']);
    await printed(run, /(formed[\s\S]*){2}/);
    const pid = Number(/formed \d+ (\d+)/.exec(run.out())![1]);
    const at = performance.now();
    process.kill(pid, 'SIGSTOP');
    const { code, err } = await run.ended;
    const seconds = (performance.now() - at) / 1000;
    assert.ok(seconds < 13, `${seconds} s`);
    assert.equal(code, 3);
    assert.match(
      err,
      new RegExp(`^heddle: rank 1 \\(pid ${pid} on .*\\) is gone: nothing has been heard of it for 6 s.*\n$`),
    );
    assert.throws(() => process.kill(pid, 0), /ESRCH/);
  });

  limited('a rank of another machine', async () => {
    const port = await freePort();
    const nodes = [0, 1].map((node) =>
      launch([
        '-n',
        '2',
        '--nodes',
        '2',
        '--node-rank',
        String(node),
        '--address',
        `127.0.0.1:${port}`,
        RANK,
        'exits-last',
      ]),
    );
    const ends = await Promise.all(nodes.map(({ ended }) => ended));
    assert.deepEqual(
      ends.map(({ code }) => code),
      [3, 7],
    );
    assert.match(
      ends[0]!.err,
      /^heddle: rank 3 \(pid \d+ on .*\) is gone: it ended with exit code 7\. The other ranks end\.\n$/,
    );
    assert.match(
      ends[1]!.err,
      /^heddle: rank 3 \(pid \d+\) ended with exit code 7\. The other ranks have been ended\.\n$/,
    );
  });

  limited('programs that have not met', async () => {
    const file = await program(
      'waits.mjs',
      "if (process.env.RANK === '1') process.exit(4); setTimeout(() => {}, 60_000);",
    );
    const { code, err, seconds } = await launch(['-n', '2', file]).ended;
    assert.equal(code, 4);
    assert.match(
      err,
      /^heddle: rank 1 \(pid \d+\) ended with exit code 4\. The other ranks have been ended\.\n$/,
    );
    assert.ok(seconds < 10, `${seconds} s`);
  });

  limited('also one that does not obey SIGTERM', async () => {
    const file = await program(
      'stays.mjs',
      "process.on('SIGTERM', () => {}); if (process.env.RANK === '1') setTimeout(() => process.exit(4), 500); setTimeout(() => {}, 60_000);",
    );
    const { code, seconds } = await launch(['-n', '2', file]).ended;
    assert.equal(code, 4);
    assert.ok(seconds < 10, `${seconds} s`);
  });
});

describe('--restarts', () => {
  limited('starts all ranks again, which go on from what they have saved', async () => {
    const file = await program(
      'resumes.mjs',
      `import { existsSync, writeFileSync } from 'node:fs';
       const { RANK, HEDDLE_RESTART } = process.env;
       console.log('restart', HEDDLE_RESTART, existsSync('saved') ? 'resumes' : 'begins');
       if (RANK === '0') writeFileSync('saved', '');
       if (RANK === '1' && Number(HEDDLE_RESTART) < 2) setTimeout(() => process.exit(5), 500);
       else if (Number(HEDDLE_RESTART) < 2) setTimeout(() => {}, 60_000);`,
    );
    const { code, out, err } = await launch(['-n', '2', '--restarts', '2', file]).ended;
    assert.equal(code, 0, err);
    assert.match(out, /^restart 0 begins$/m);
    assert.match(out, /^restart 2 resumes$/m);
    assert.match(
      err,
      /exit code 5\. .* All ranks start again \(restart 1 of 2\)\.\n.*All ranks start again \(restart 2 of 2\)\.\n$/,
    );
  });

  limited('gives up after the last one', async () => {
    const file = await program('fails.mjs', 'process.exit(6)');
    const { code, err } = await launch(['--restarts', '1', '-n', '1', file]).ended;
    assert.equal(code, 6);
    assert.match(err, /exit code 6\. All ranks start again \(restart 1 of 1\)\.\n.*exit code 6\.\n$/);
  });
});

describe('Ctrl-C', () => {
  const COUNT = `let n = 0;
    process.on('SIGINT', () => { console.log('asked', ++n); if (process.argv[2] === 'obey') setTimeout(() => process.exit(130), 300); });
    console.log('ready');
    setTimeout(() => {}, 60_000);`;

  limited('is passed on once, and the ranks end in order', async () => {
    const run = launch(['-n', '2', await program('count.mjs', COUNT), 'obey']);
    await printed(run, /(ready[\s\S]*){2}/);
    run.child.kill('SIGINT');
    run.child.kill('SIGINT');
    const { code, out, err } = await run.ended;
    assert.deepEqual([code, err], [130, '']);
    assert.equal(out.match(/asked 1/g)?.length, 2);
    assert.doesNotMatch(out, /asked 2/);
  });

  limited('a second one kills', async () => {
    const run = launch(['-n', '2', await program('count.mjs', COUNT)]);
    await printed(run, /(ready[\s\S]*){2}/);
    run.child.kill('SIGINT');
    await printed(run, /(asked[\s\S]*){2}/);
    await new Promise((wait) => setTimeout(wait, 400));
    run.child.kill('SIGINT');
    const { code, err } = await run.ended;
    assert.deepEqual([code, err], [130, '']);
  });

  limited('ends programs that do not listen to it', async () => {
    const run = launch(['-n', '2', RANK, 'idle']);
    await printed(run, /(formed[\s\S]*){2}/);
    run.child.kill('SIGTERM');
    const { code, err } = await run.ended;
    assert.deepEqual([code, err], [143, '']);
  });

  limited('a launcher that is killed takes its ranks along', async () => {
    const run = launch(['-n', '2', RANK, 'blocked']);
    await printed(run, /(formed[\s\S]*){2}/);
    const pids = /formed (\d+) (\d+)/.exec(run.out())!.slice(1).map(Number);
    run.child.kill('SIGKILL');
    await run.ended;
    const deadline = performance.now() + 10_000;
    for (const pid of pids) {
      while (isThere(pid)) {
        assert.ok(performance.now() < deadline, `${pid} still runs`);
        await new Promise((wait) => setTimeout(wait, 50));
      }
    }
  });
});

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('the help says what is not obvious', LIMIT, async () => {
  const { out } = await launch(['--help']).ended;
  for (const word of ['HEDDLE_RESTART', '[rank 1]', 'MASTER_ADDR', '--node-rank'])
    assert.ok(out.includes(word), word);
  assert.ok((await readFile(MAIN, 'utf8')).length > 0);
});
