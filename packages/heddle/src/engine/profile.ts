/** How long compiled programs take on their device. */
import { turn } from '#platform/engine.js';
import { aBoolean, above, integerFrom, type Rules } from '../core/arguments.js';
import type { Device, DeviceBuffer, Launch, Program } from '../runtime/device.js';
import type { FusedCall, Schedule } from '../schedule/launch.js';

/** One launch of a program, timed separately on the memory that the others left. */
export interface LaunchProfile {
  /** The kernel, or the routine of a library, with the size of its launch. */
  readonly launch: Launch;
  /** Launches of one level do not need each other. */
  readonly level: number;
  /** Of the memory it is given: each source read and each result written once. */
  readonly bytes: number;
  /** The fused op that it is a stage of, the same object in all its stages. */
  readonly call: FusedCall | undefined;
  /** Who asked for its results, where that was recorded (graph/origin.ts). */
  readonly origins: readonly string[];
  /** Median of several rounds, µs. */
  readonly us: number;
}

/** How long a jitted function takes, and each of its launches. */
export interface Profile {
  /** Device time of one run of the whole program in µs: one sample a round. */
  readonly us: readonly number[];
  /** The launches of the program, in their order. */
  readonly launches: readonly LaunchProfile[];
}

/** Options of `profile` of a jitted function. */
export interface ProfileOptions {
  /** Time every launch separately, too. Default: true. */
  readonly each?: boolean;
  /** How many samples are taken (default 7; 3 of a slow program). */
  readonly rounds?: number;
  /** What a round should take, in µs: short programs run as often as fills it. */
  readonly roundUs?: number;
}

export const PROFILE: Rules<ProfileOptions> = { each: aBoolean, rounds: integerFrom(1), roundUs: above(0) };

const ROUNDS = 7;
const ROUND_US = 10_000;
/** Runs of a round, at most. */
const MOST_RUNS = 500;
/** Programs that take longer, in µs, have fewer rounds. */
const SLOW_US = 200_000;
const SLOW_ROUNDS = 3;

/**
 * Device time of one run in µs, a sample for each round; rounds are runs one after the other without a wait between
 * them. The first runs, which load and warm up, do not count.
 */
export async function timeProgram(
  device: Device,
  program: Program,
  slots: readonly DeviceBuffer[],
  { rounds = ROUNDS, roundUs = ROUND_US }: ProfileOptions = {},
): Promise<number[]> {
  const round = async (times: number): Promise<number> => {
    // A device with workers needs turns of the event loop to start them.
    await turn();
    return (await device.time(() => program.run(slots, times))) / times;
  };
  await round(1);
  const one = await round(1);
  const times = Math.min(MOST_RUNS, Math.max(1, Math.ceil(roundUs / Math.max(one, 0.1))));
  const slow = one > SLOW_US;
  if (!slow) await round(times);
  const samples: number[] = [];
  for (let i = 0; i < (slow ? Math.min(rounds, SLOW_ROUNDS) : rounds); i++) samples.push(await round(times));
  return samples;
}

/** A program of one launch of another. */
export const compiledAlone = (device: Device, launch: Launch): Program =>
  device.compile([{ ...launch, needs: [] }]);

/** Device time of a program, and of each of its launches. */
export async function profileProgram(
  device: Device,
  program: Program,
  schedule: Schedule,
  slots: readonly DeviceBuffer[],
  options: ProfileOptions = {},
): Promise<Profile> {
  const us = await timeProgram(device, program, slots, options);
  const launches: LaunchProfile[] = [];
  if (options.each === false) return { us, launches };
  for (const [i, { level, bytes, call, origins = [] }] of schedule.launches.entries()) {
    const launch = program.launches[i]!;
    const single = compiledAlone(device, launch);
    const samples = await timeProgram(device, single, slots, options);
    launches.push({ launch, level, bytes, call, origins, us: median(samples) });
    single.dispose();
  }
  return { us, launches };
}

/** The middle one; of an even number the lower of both. */
export const median = (samples: readonly number[]): number =>
  [...samples].sort((a, b) => a - b)[(samples.length - 1) >> 1]!;
