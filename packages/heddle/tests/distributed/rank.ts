/**
 * A rank of the tests, run as a process: `rank.js <scenario> [argument]`. It prints `<rank>: …`, which the tests read.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { DistributedError } from '../../src/core/errors.js';
import { headerWords } from '../../src/distributed/call.js';
import { type ControlOptions, openControl } from '../../src/distributed/control/control.js';
import { placeFromEnvironment } from '../../src/distributed/environment.js';
import { koffi, symbolAddress } from '../../src/runtime/cuda/driver/native.js';
import { TIMEOUT_MS } from './processes.js';

const [scenario = '', argument = ''] = process.argv.slice(2);
const place = placeFromEnvironment(process.env);
const options: ControlOptions = {
  timeoutMs: Number(process.env.TEST_TIMEOUT_MS ?? TIMEOUT_MS),
  ...(scenario === 'version' && place.rank === 1 && { version: '9.9.9 (build other)' }),
};
const say = (text: string): void => void process.stdout.write(`${place.rank}: ${text}\n`);

const control = await openControl(place, options);
say(`formed ${control.members.map(({ pid }) => pid).join(' ')}`);

const block = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const SCENARIOS: Readonly<Record<string, () => Promise<void>>> = {
  version: async () => {},
  /** Values and barriers. */
  exchange: async () => {
    if (place.rank === place.worldSize - 1) await wait(200);
    await control.set(`from ${place.rank}`, `value ${place.rank}`);
    const values: string[] = [];
    for (let rank = 0; rank < place.worldSize; rank++) values.push(await control.get(`from ${rank}`));
    say(values.join(', '));
    await control.barrier();
    say('after the barrier');
    await control.barrier();
  },
  twice: async () => {
    await control.set('key', 'a').catch((error: Error) => say(`${error.name}: ${error.message}`));
    await control.barrier();
  },
  /** Rank 0 waits for a key and rank 1 at a barrier; nobody ends before both have given up. */
  absent: async () => {
    if (place.rank === 0) await control.get('nothing').catch((error: Error) => say(error.message));
    if (place.rank === 1) await control.barrier().catch((error: Error) => say(error.message));
    else await wait(Number(argument));
  },
  /** Rank 1 goes early; the others wait for it at a barrier. */
  early: async () => {
    if (place.rank !== 1) await control.barrier().catch((error: Error) => say(error.message));
    else await control.close();
    if (place.rank === 0)
      say(`rank 1 has left: ${control.hasLeft(1)}, rank 0 has left: ${control.hasLeft(0)}`);
  },
  /** Main threads that are blocked until they are ended. */
  blocked: async () => block(60_000),
  idle: () => wait(60_000),
  /** Ranks begin collectives, the last of which is another one on rank 1, and are blocked in it. */
  different: async () => {
    const call = {
      kind: 'allReduce',
      op: 'sum',
      dtype: 'f32',
      root: 0,
      ranks: [0, 1, 2],
      orders: 0,
    } as const;
    const many = 700;
    for (let sequence = 0; sequence < many; sequence++)
      control.note(headerWords({ ...call, sequence, elements: 100 }));
    const elements = place.rank === 1 ? 3 : 100;
    if (place.rank !== 2) control.note(headerWords({ ...call, sequence: many, elements }));
    block(60_000);
  },
  /** The last rank does something else for longer than anybody is silent. */
  slow: async () => {
    if (place.rank === 1) block(Number(argument));
    await control.barrier();
    say('done');
  },
  throws: async () => {
    if (place.rank === Number(argument)) {
      await wait(200);
      throw new TypeError('the loss is not a number');
    }
    block(60_000);
  },
  /** What a library does that waits for its GPU when the process ends: no thread of Node is left then. */
  lingers: async () => {
    if (place.rank === 0) block(60_000);
    const path = 'libc.so.6';
    const atEnd = koffi().load(path).func('__cxa_atexit', 'int', ['uint64_t', 'uint64_t', 'uint64_t']);
    atEnd(symbolAddress(path, 'pause'), 0, 0);
    throw new TypeError('the loss is not a number');
  },
  /** All but the rank that is killed see it first in their own exchange. */
  consequence: async () => {
    if (place.rank === 1) block(60_000);
    await wait(Number(argument));
    throw new DistributedError('the connection to rank 1 is closed');
  },
  exits: async () => {
    await wait(200);
    if (place.rank === 1) process.exit(7);
    block(60_000);
  },
  'exits-last': async () => {
    await wait(200);
    if (place.rank === place.worldSize - 1) process.exit(7);
    block(60_000);
  },
  leaves: async () => {
    await wait(200);
    if (place.rank === Number(argument)) process.exit(0);
    await wait(1000);
    say('still here');
  },
  /** What ends a training in order. */
  interrupted: async () => {
    if (place.rank === 1) process.exit(130);
    await wait(1500);
    say('saved');
  },
  closes: async () => {
    await control.close();
    say('closed');
  },
};
await SCENARIOS[scenario]!();
