/** What a measurement leaves behind: figures with their spread, and all it takes to judge and repeat them. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { dirname } from 'node:path';
import { BUILD_COMMIT } from '../core/build-id.js';
import { makeFolder } from '../core/folders.js';
import { packageVersion } from '../core/platform/node/version.js';
import { writeFileAtomic } from '../io/index.js';

/** The middle and the spread of some samples. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly p90: number;
  readonly samples: number;
}

/** Where and when a run took place. */
export interface Circumstances {
  readonly date: string;
  readonly version: string;
  /** The one that was built; null where the build did not know it. */
  readonly commit: string | null;
  readonly command: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryGiB: number;
    readonly system: string;
    readonly node: string;
    readonly v8: string;
  };
}

/** @param samples at least one */
export function spreadOf(samples: readonly number[]): Spread {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  const p90 = sorted[Math.ceil(0.9 * sorted.length) - 1]!;
  return { median: rounded(median), min: rounded(sorted[0]!), p90: rounded(p90), samples: sorted.length };
}

/** To four digits: more is noise. */
export const rounded = (value: number): number => Number(value.toPrecision(4));

export function circumstances(command: string): Circumstances {
  return {
    date: new Date().toISOString(),
    version: packageVersion(),
    commit: BUILD_COMMIT ?? null,
    command,
    machine: {
      cpu: cpus()[0]?.model.trim() ?? process.arch,
      cores: availableParallelism(),
      memoryGiB: rounded(totalmem() / 2 ** 30),
      system: `${process.platform} ${release()} ${process.arch}`,
      node: process.version,
      v8: process.versions.v8,
    },
  };
}

/** The device that figures are of. */
export interface MeasuredDevice {
  readonly name: string;
  readonly description: string;
  /** Of an NVIDIA GPU. */
  readonly driver?: string;
}

export function measuredDevice({ name, description }: Omit<MeasuredDevice, 'driver'>): MeasuredDevice {
  const driver = name.startsWith('cuda') ? nvidiaDriver() : undefined;
  return { name, description, ...(driver !== undefined && { driver }) };
}

/** `580.65.06`, as the kernel module says it. */
function nvidiaDriver(): string | undefined {
  try {
    return /\b\d{3,}\.\d+(\.\d+)?\b/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[0];
  } catch {
    return undefined; // not on Linux, or hidden in a container
  }
}

/** Write a run's results as JSON, whole or not at all; the folder is made if need be. */
export const writeResults = (path: string, results: object): Promise<void> =>
  writeText(path, `${JSON.stringify(results, undefined, 2)}\n`);

/** Write a file whole or not at all; the folder is made if need be. */
export async function writeText(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await writeFileAtomic(path, text);
}
