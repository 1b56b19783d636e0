/**
 * A rank of a test: `node rank-program.js TRANSPORT SCENARIO FOLDER ARGUMENT`. It writes what it has found into
 * FOLDER/result-RANK.json. Under tcp its rank and their number are in TEST_RANK and TEST_SIZE.
 */
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openMpiTransport } from '../../src/distributed/mpi/transport.js';
import { openTcpTransport } from '../../src/distributed/tcp/transport.js';
import type { HostValues, Peers, Rendezvous, Transport } from '../../src/distributed/transport.js';
import { callAndCheck, SIMPLE_CALL, type TestCall } from './rank-calls.js';
import { ALL_DTYPES, ALL_OPS } from './rank-values.js';

const [, , by, name, folder, argument = 'null'] = process.argv as [
  string,
  string,
  string,
  string,
  string,
  string,
];

/** By files in a folder. */
function fileRendezvous(): Rendezvous {
  const path = (key: string): string => join(folder, encodeURIComponent(key));
  return {
    rank: Number(process.env.TEST_RANK),
    worldSize: Number(process.env.TEST_SIZE),
    async set(key, value) {
      writeFileSync(`${path(key)}.part`, value);
      renameSync(`${path(key)}.part`, path(key));
    },
    async get(key) {
      for (;;) {
        try {
          return readFileSync(path(key), 'utf8');
        } catch {
          await sleep(5);
        }
      }
    },
  };
}

const everyone = (n: number, index: number): Peers => ({
  ranks: Array.from({ length: n }, (_, i) => i),
  index,
});

/** Every collective with every dtype, size and operation. @returns a digest of all results that are the same for all ranks */
function suite(transport: Transport, peers: Peers): string {
  const digest = createHash('sha256');
  let seed = 0;
  const check = (call: Partial<TestCall>): void => {
    const bytes = callAndCheck(transport, peers, { ...SIMPLE_CALL, ...call }, seed++);
    if (call.kind !== 'reduceScatter') digest.update(bytes);
  };
  for (const dtype of ALL_DTYPES) {
    for (const count of [0, 1, 7, 1001]) {
      for (const op of ALL_OPS) {
        check({ kind: 'allReduce', dtype, op, count, inPlace: op === 'max' });
        check({ kind: 'reduceScatter', dtype, op, count });
      }
      check({ kind: 'broadcast', dtype, count, root: count % peers.ranks.length });
      check({ kind: 'allGather', dtype, count });
      check({ kind: 'barrier' });
    }
    check({ kind: 'allReduce', dtype, count: 5001, memory: 'own' });
    check({ kind: 'reduceScatter', dtype, count: 2001, memory: 'odd' });
  }
  // Several blocks, of which the last is short.
  for (const inPlace of [false, true]) check({ kind: 'allReduce', count: 700_001, inPlace });
  check({ kind: 'reduceScatter', count: 400_001 });
  check({ kind: 'broadcast', count: 700_001, root: peers.ranks.length - 1 });
  check({ kind: 'allGather', count: 200_001 });
  return digest.digest('hex');
}

function groups(transport: Transport, { ranks, index }: Peers, list: readonly (readonly number[])[]): number {
  let calls = 0;
  for (let round = 0; round < 3; round++)
    for (const [g, members] of list.entries()) {
      const place = members.indexOf(ranks[index]!);
      if (place < 0) continue;
      const peers = { ranks: members, index: place };
      for (const kind of ['allReduce', 'reduceScatter', 'broadcast', 'allGather', 'barrier'] as const)
        callAndCheck(transport, peers, { ...SIMPLE_CALL, kind, root: members.length - 1 }, 100 * round + g);
      calls++;
    }
  return calls;
}

const room = (count: number): HostValues => ({
  bytes: new Uint8Array(new SharedArrayBuffer(4 * count)),
  dtype: 'f32',
});

/** What a rank does; it returns what the test looks at. */
const SCENARIOS: Readonly<Record<string, (transport: Transport, peers: Peers, given: never) => unknown>> = {
  suite,
  groups,
  /** Each rank makes a call of its own, after some that are the same. */
  different(transport, peers, calls: readonly Partial<TestCall>[]) {
    for (let i = 0; i < 3; i++) callAndCheck(transport, peers, SIMPLE_CALL, i);
    try {
      callAndCheck(transport, peers, { ...SIMPLE_CALL, ...calls[peers.index] }, 0);
    } catch (error) {
      let again: unknown;
      try {
        transport.barrier(peers);
      } catch (second) {
        again = second;
      }
      return { first: String(error), again: again !== undefined };
    }
    return {};
  },
  /** For ever, until another rank ends. */
  endless(transport, peers) {
    const values = room(25_000_000);
    writeFileSync(join(folder, `begun-${peers.index}`), String(process.pid));
    try {
      for (;;) transport.allReduce(peers, 'sum', values, values);
    } catch (error) {
      return String(error);
    }
  },
  async late(transport, peers, ms: number) {
    if (peers.index === 1) await sleep(ms);
    const began = performance.now();
    callAndCheck(transport, peers, SIMPLE_CALL, 1);
    return performance.now() - began;
  },
  /** Ranks end as soon as they have their result, without taking leave. */
  leaves(transport, peers) {
    const values = room(2_000_000);
    for (let i = 0; i < 3; i++) transport.allReduce(peers, 'sum', values, values);
    callAndCheck(transport, peers, SIMPLE_CALL, 1);
    return 'done';
  },
  /** Rank 1 has left when the others call again. */
  async closes(transport, peers) {
    transport.barrier(peers);
    if (peers.index === 1) return 'left';
    await sleep(500);
    try {
      transport.barrier(peers);
    } catch (error) {
      return String(error);
    }
    return 'nothing';
  },
  /** Calls that the parent sends. */
  async calls(transport, { ranks, index }) {
    let seed = 0;
    for (;;) {
      const call = await new Promise<(TestCall & { readonly ranks: readonly number[] }) | 'end'>((resolve) =>
        process.once('message', (message) => resolve(message as never)),
      );
      if (call === 'end') return seed;
      const place = call.ranks.indexOf(ranks[index]!);
      let failed: string | null = null;
      try {
        if (place >= 0) callAndCheck(transport, { ranks: call.ranks, index: place }, call, seed);
      } catch (error) {
        failed = String(error);
      }
      seed++;
      process.send!(failed);
    }
  },
};

async function main(): Promise<void> {
  let transport: Transport;
  let rank: number;
  let size: number;
  if (by === 'tcp') {
    const rendezvous = fileRendezvous();
    ({ rank, worldSize: size } = rendezvous);
    transport = await openTcpTransport(rendezvous);
  } else {
    const mpi = openMpiTransport(process.env, Number(process.env.TEST_LONGEST ?? 2 ** 30));
    ({ rank, worldSize: size } = mpi);
    transport = mpi;
  }
  const scenario = SCENARIOS[name]!;
  const result = await scenario(transport, everyone(size, rank), JSON.parse(argument) as never);
  writeFileSync(join(folder, `result-${rank}.json`), JSON.stringify({ result }));
  if (name !== 'leaves') await transport.close();
}

await main();
if (process.connected) process.disconnect();
