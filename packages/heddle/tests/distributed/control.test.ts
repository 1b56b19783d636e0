/** Processes that find each other, watch each other and end together: real processes. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import { hostname } from 'node:os';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { PhiloxStream } from '../../src/core/philox.js';
import { ControlClient } from '../../src/distributed/control/client.js';
import { openControl, VERSION } from '../../src/distributed/control/control.js';
import { placeFromEnvironment } from '../../src/distributed/environment.js';
import {
  endOf,
  freePort,
  LIMIT,
  listening,
  printed,
  RANK,
  type RankEnd,
  ranksEnvironment,
  start,
  startNode,
  startRank,
  startWorld,
  TIMEOUT_MS,
} from './processes.js';

const limited = (name: string, body: () => Promise<void>, skip: string | false = false): void =>
  void test(name, { ...LIMIT, skip }, body);

const noMpirun = spawnSync('mpirun', ['--version']).status === 0 ? false : 'no mpirun';

/** The lines of all processes that `pattern` matches. */
const lines = (ends: readonly RankEnd[], pattern: RegExp): string[] =>
  ends.flatMap(({ err }) => err.split('\n').filter((line) => pattern.test(line)));

const codes = (ends: readonly RankEnd[]): (number | string | null)[] =>
  ends.map(({ code, signal }) => code ?? signal);

describe('ranks that find each other', () => {
  limited('leave each other values, and wait for each other', async () => {
    const ends = await endOf(await startWorld(4, ['exchange']));
    assert.deepEqual(codes(ends), [0, 0, 0, 0], ends.map(({ err }) => err).join(''));
    for (const { out } of ends)
      assert.match(out, /: value 0, value 1, value 2, value 3\n.*after the barrier\n/);
  });

  limited('a key is set once', async () => {
    const ends = await endOf(await startWorld(2, ['twice']));
    assert.deepEqual(codes(ends), [0, 0]);
    const told = ends.map(({ out }) => out).join('');
    assert.match(told, /DistributedError: Rank (0|1) has already set 'key': a key is set once\./);
  });

  limited('a time limit names what has not come', async () => {
    const ends = await endOf(await startWorld(3, ['absent', '5000'], { TEST_TIMEOUT_MS: '4000' }));
    assert.deepEqual(codes(ends), [0, 0, 0]);
    assert.match(ends[0]!.out, /Rank 0 has waited 4 s for 'nothing', which no rank has set/);
    assert.match(ends[1]!.out, /Rank 1 has waited 4 s at a barrier for ranks 0, 2\./);
  });

  limited('who has ended in order comes to no barrier', async () => {
    const ends = await endOf(await startWorld(3, ['early']));
    assert.deepEqual(codes(ends), [0, 0, 0]);
    // Rank 0 ends once the barrier has failed: it may be gone, too, before rank 2 comes.
    const failed = /The barrier cannot complete: (rank|ranks 0,) 1 ended before reaching it/;
    assert.match(ends[2]!.out, failed);
    assert.match(ends[0]!.out, /rank 1 has left: true, rank 0 has left: false/);
  });

  test('one process is a world', async () => {
    const control = await openControl(placeFromEnvironment({}), { timeoutMs: 50 });
    await control.set('a', '1');
    assert.equal(await control.get('a'), '1');
    await assert.rejects(control.get('b'), /Rank 0 has waited 0.05 s for 'b'/);
    await control.barrier();
    await control.close();
    assert.deepEqual([control.rank, control.worldSize, control.hasLeft(0)], [0, 1, false]);
  });

  limited(
    'under mpirun',
    async () => {
      const { code, out, err } = await start(
        'mpirun',
        ['--allow-run-as-root', '--oversubscribe', '-n', '3', process.execPath, RANK, 'exchange'],
        {},
      ).ended;
      assert.equal(code, 0, err);
      assert.equal(out.match(/: value 0, value 1, value 2/g)?.length, 3);
    },
    noMpirun,
  );

  limited('as tasks of Slurm', async () => {
    const job = String(process.pid);
    const ranks = [0, 1].map((rank) =>
      startNode([RANK, 'exchange'], {
        ...{ SLURM_PROCID: String(rank), SLURM_LOCALID: String(rank), SLURM_NODEID: '0', SLURM_STEP_ID: '0' },
        ...{
          SLURM_STEP_NUM_TASKS: '2',
          SLURM_STEP_TASKS_PER_NODE: '2',
          SLURM_JOB_ID: job,
          SLURM_STEP_NODELIST: 'n1',
        },
      }),
    );
    const ends = await endOf(ranks);
    assert.deepEqual(codes(ends), [0, 0], ends.map(({ err }) => err).join(''));
  });
});

describe('ranks that do not find each other say why', () => {
  limited('a rank that does not come', async () => {
    const port = await freePort();
    const ranks = [0, 2].map((rank) => startRank(['idle'], rank, 4, port, { TEST_TIMEOUT_MS: '4000' }));
    for (const { code, err } of await endOf(ranks)) {
      assert.equal(code, 1);
      assert.match(err, /DistributedError: Ranks 1, 3 of 4 have not come within 4 s\./);
    }
  });

  limited('no rank 0', async () => {
    const { code, err } = await startRank(['idle'], 1, 2, await freePort(), { TEST_TIMEOUT_MS: '1000' })
      .ended;
    assert.equal(code, 1);
    assert.match(err, /Rank 1 has not reached rank 0 at 127\.0\.0\.1:\d+ within 1 s: connect ECONNREFUSED/);
  });

  limited('a host that does not exist', async () => {
    const env = { TEST_TIMEOUT_MS: '1000', MASTER_ADDR: 'no-such-host.invalid' };
    const { code, err } = await startRank(['idle'], 1, 2, 29_000, env).ended;
    assert.equal(code, 1);
    assert.match(err, /has not reached rank 0 at no-such-host\.invalid:29000 within 1 s: getaddrinfo/);
  });

  limited('a port that is taken', async () => {
    const other = createTcpServer();
    const port = await listening(other);
    const { code, err } = await startRank(['idle'], 0, 2, port).ended;
    other.close();
    assert.equal(code, 1);
    assert.match(err, new RegExp(`Port ${port} is taken by another process\\. Set MASTER_PORT`));
  });

  limited('a port where something else answers', async () => {
    const web = createServer((_, response) => response.end('hello'));
    const port = await listening(web);
    const { code, err, seconds } = await startRank(['idle'], 1, 2, port).ended;
    web.close();
    assert.equal(code, 1);
    assert.match(err, /What listens at 127\.0\.0\.1:\d+ is no process of Heddle/);
    assert.ok(seconds < TIMEOUT_MS / 1000, `${seconds} s`);
  });

  limited('different numbers of ranks', async () => {
    const port = await freePort();
    const ends = await endOf([startRank(['idle'], 0, 2, port), startRank(['idle'], 1, 3, port)]);
    for (const { code, err } of ends) {
      assert.equal(code, 1);
      assert.match(
        err,
        /rank 1 \(pid \d+ on .*\) has been told that there are 3 ranks, rank 0 that there are 2\./,
      );
    }
  });

  limited('different versions', async () => {
    for (const { code, err } of await endOf(await startWorld(2, ['version']))) {
      assert.equal(code, 1);
      assert.match(
        err,
        /rank 1 .* runs Heddle 9\.9\.9 \(build other\), rank 0 runs \d+\.\d+\.\d+ \(build \w+\)/,
      );
    }
  });

  limited('another protocol', async () => {
    const port = await freePort();
    const rank = startRank(['idle'], 0, 2, port);
    const other = await connected(port, 'heddle/9');
    const { code, err } = await rank.ended;
    other.destroy();
    assert.equal(code, 1);
    assert.match(
      err,
      /A process at .*127\.0\.0\.1 runs another version of Heddle\. Install the same version/,
    );
  });

  limited('two processes with one rank', async () => {
    const port = await freePort();
    const ends = await endOf([0, 1, 1].map((rank) => startRank(['idle'], rank, 3, port)));
    for (const { code, err } of ends) {
      assert.equal(code, 1);
      assert.match(err, /Two processes have rank 1: pid \d+ on .*, and pid \d+ on /);
    }
  });

  limited('ranks that have been started again meet when all have been', async () => {
    const port = await freePort();
    const old = startRank(['exchange'], 0, 2, port, { HEDDLE_RESTART: '1' });
    const late = startRank(['exchange'], 1, 2, port, { HEDDLE_RESTART: '0' });
    const again = /belongs to restart (0|2) of the job, rank 0 to restart 1\./;
    const { code, err } = await late.ended;
    assert.equal(code, 1);
    assert.match(err, again);
    const first = startRank(['exchange'], 1, 2, port, { HEDDLE_RESTART: '2' });
    const end = await old.ended;
    assert.equal(end.code, 1);
    assert.match(end.err, again);
    const ends = await endOf([startRank(['exchange'], 0, 2, port, { HEDDLE_RESTART: '2' }), first]);
    assert.deepEqual(codes(ends), [0, 0], ends.map(({ err }) => err).join(''));
  });

  limited('another job on the same port', async () => {
    const port = await freePort();
    const mine = [0, 1].map((rank) => startRank(['idle'], rank, 2, port, { TORCHELASTIC_RUN_ID: 'mine' }));
    await printed(mine[1]!, 'formed');
    const { code, err } = await startRank(['idle'], 1, 2, port, { TORCHELASTIC_RUN_ID: 'other' }).ended;
    for (const { child } of mine) child.kill();
    await endOf(mine);
    assert.equal(code, 1);
    assert.match(err, /is used by another job \('mine'; this is 'other'\)\. Set MASTER_PORT/);
  });

  limited('a rank that is gone before all have come', async () => {
    const port = await freePort();
    const first = startRank(['idle'], 0, 3, port);
    const place = placeFromEnvironment(ranksEnvironment(1, 3, port));
    const me = { rank: 1, host: hostname(), pid: process.pid };
    const nothing = () => {};
    const second = await ControlClient.reach(
      { place, me, version: VERSION, timeoutMs: TIMEOUT_MS },
      { onAnswer: nothing, onLost: nothing, onDifferent: nothing, onLeft: nothing },
    );
    second.formed.catch(nothing);
    await second.close();
    const { code, err } = await first.ended;
    assert.equal(code, 1);
    assert.match(err, /rank 1 \(pid \d+ on .*\) is gone: its connection was closed without a good-bye/);
  });
});

/** A connection that sends a text, as soon as somebody listens. */
async function connected(port: number, text: string): Promise<ReturnType<typeof connect>> {
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1' });
    const isConnected = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    if (isConnected) {
      socket.on('error', () => {}).write(text);
      return socket;
    }
    await wait(50);
  }
}

describe('strangers', () => {
  limited('who connect and send rubbish, or nothing, are not listened to', async () => {
    const port = await freePort();
    const first = startRank(['exchange'], 0, 2, port);
    const strangers = [
      await connected(port, 'GET / HTTP/1.1\r\n\r\n'),
      await connected(port, ''),
      await connected(port, 'heddle/1\xff\xff\xff\xff'),
      await connected(port, 'heddle/1\0\0\0\x02{]'),
      await connected(port, 'heddle/1\0\0\0\x04null'),
      await connected(port, 'heddle/1\0\0\0\x0e{"kind":"bye"}'),
    ];
    const ends = await endOf([first, startRank(['exchange'], 1, 2, port)]);
    for (const stranger of strangers) stranger.destroy();
    assert.deepEqual(codes(ends), [0, 0], ends.map(({ err }) => err).join(''));
  });
});

describe('a rank that is gone ends the others, with one message', () => {
  const random = new PhiloxStream(Number(process.env.KILL_SEED ?? 5));
  for (const lost of [0, 1, 3])
    limited(`rank ${lost} of 4 is killed at a random moment, while all are blocked`, async () => {
      const ranks = await startWorld(4, ['blocked']);
      await Promise.all(ranks.map((rank) => printed(rank, 'formed')));
      await wait(random.below(1000));
      const at = performance.now();
      ranks[lost]!.child.kill('SIGKILL');
      const ends = await endOf(ranks);
      const seconds = (performance.now() - at) / 1000;
      assert.ok(seconds < 10, `${seconds} s`);
      assert.deepEqual(
        codes(ends),
        [0, 1, 2, 3].map((rank) => (rank === lost ? 'SIGKILL' : 3)),
      );
      const told = lines(ends, /is gone/);
      assert.equal(told.length, 1, told.join('\n'));
      const { pid } = ranks[lost]!.child;
      assert.match(
        told[0]!,
        new RegExp(`^heddle: rank ${lost} \\(pid ${pid} on .*\\) is gone: its connection was closed`),
      );
    });

  limited('ranks that are not blocked end at once', async () => {
    const ranks = await startWorld(2, ['idle']);
    await Promise.all(ranks.map((rank) => printed(rank, 'formed')));
    const at = performance.now();
    ranks[1]!.child.kill('SIGKILL');
    const { code } = await ranks[0]!.ended;
    assert.equal(code, 3);
    const ms = performance.now() - at;
    assert.ok(ms < 5000, `${ms} ms`);
  });

  limited('a rank that is stopped', async () => {
    const ranks = await startWorld(3, ['blocked']);
    await Promise.all(ranks.map((rank) => printed(rank, 'formed')));
    const at = performance.now();
    ranks[2]!.child.kill('SIGSTOP');
    const ends = await endOf(ranks.slice(0, 2));
    const seconds = (performance.now() - at) / 1000;
    ranks[2]!.child.kill('SIGKILL');
    assert.ok(seconds < 10, `${seconds} s`);
    assert.deepEqual(codes(ends), [3, 3]);
    assert.equal(lines(ends, /rank 2 .* is gone: nothing has been heard of it for 6 s/).length, 1);
  });

  limited('ranks that begin different collectives', async () => {
    const ranks = await startWorld(3, ['different']);
    await Promise.all(ranks.map((rank) => printed(rank, 'formed')));
    const at = performance.now();
    const ends = await endOf(ranks);
    const seconds = (performance.now() - at) / 1000;
    assert.ok(seconds < 10, `${seconds} s`);
    assert.deepEqual(codes(ends), [3, 3, 3]);
    const told = lines(ends, /heddle:/);
    assert.equal(told.length, 1, told.join('\n'));
    assert.match(
      told[0]!,
      /^heddle: rank 0 reduces 100 f32 \(sum\), rank 1 reduces 3 f32 \(sum\) in call 701 of 3 ranks\. .*All ranks end\.$/,
    );
  });

  for (const rank of ['0', '1'])
    limited(`rank ${rank} throws`, async () => {
      const ends = await endOf(await startWorld(3, ['throws', rank]));
      assert.deepEqual(
        codes(ends),
        [0, 1, 2].map((n) => (n === Number(rank) ? 1 : 3)),
      );
      const told = lines(ends, /is gone/);
      assert.equal(told.length, 1, told.join('\n'));
      assert.match(
        told[0]!,
        /is gone: it failed with TypeError: the loss is not a number\. The other ranks end\./,
      );
    });

  const noGlibc = process.platform === 'linux' ? false : 'not run: it needs a function of glibc';
  limited(
    'a rank that throws, and that a library keeps from ending',
    async () => {
      const ends = await endOf(await startWorld(2, ['lingers']));
      assert.deepEqual(codes(ends), [3, 'SIGALRM']);
      assert.equal(lines(ends, /is gone: it failed with TypeError/).length, 1);
    },
    noGlibc,
  );

  limited('what others see of it themselves is not said', async () => {
    const ranks = await startWorld(3, ['consequence', '1000']);
    await Promise.all(ranks.map((rank) => printed(rank, 'formed')));
    await wait(900);
    ranks[1]!.child.kill('SIGKILL');
    const ends = await endOf(ranks);
    assert.deepEqual(codes(ends), [3, 'SIGKILL', 3]);
    assert.equal(lines(ends, /is gone/).length, 1);
    assert.deepEqual(lines(ends, /DistributedError/), []);
  });

  limited('a rank that ends with an exit code', async () => {
    const ends = await endOf(await startWorld(2, ['exits']));
    assert.deepEqual(codes(ends), [3, 7]);
    assert.equal(lines(ends, /rank 1 .* is gone: it ended with exit code 7\./).length, 1);
  });
});

describe('what is no failure', () => {
  limited('a rank that is busy for longer than any silence', async () => {
    const ends = await endOf(await startWorld(2, ['slow', '8000'], { TEST_TIMEOUT_MS: '12000' }));
    assert.deepEqual(codes(ends), [0, 0], ends.map(({ err }) => err).join(''));
    for (const { out } of ends) assert.match(out, /done/);
  });

  for (const rank of ['0', '1'])
    limited(`rank ${rank} ends in order before the others`, async () => {
      const ends = await endOf(await startWorld(3, ['leaves', rank]));
      assert.deepEqual(codes(ends), [0, 0, 0], ends.map(({ err }) => err).join(''));
      assert.equal(ends.filter(({ out }) => out.includes('still here')).length, 2);
    });

  limited('the exit code of a training that a signal has ended', async () => {
    const ends = await endOf(await startWorld(2, ['interrupted']));
    assert.deepEqual(codes(ends), [0, 130]);
    assert.match(ends[0]!.out, /saved/);
  });

  limited('close', async () => {
    const ends = await endOf(await startWorld(2, ['closes']));
    assert.deepEqual(codes(ends), [0, 0]);
    for (const { out, err } of ends) assert.match(out + err, /^\d: formed .*\n\d: closed\n$/);
  });
});
