/** What `heddle bench cpu` leaves behind, and figures of other libraries to compare with. */

import type { Circumstances, Spread } from 'heddle/internal/cli/figures.js';
import { readFigures } from './peers.js';

/** A figure of another library for the same workload and number of threads. */
export interface PeerFigure extends Spread {
  readonly peer: string;
  readonly version: string;
}

export interface Measurement extends Spread {
  readonly case: string;
  readonly title: string;
  readonly threads: number;
  readonly fma: boolean;
  readonly unit: 'ms' | 'MiB';
  /** The median of each round, in its own process. */
  readonly rounds: readonly number[];
  /** What the median comes to. */
  readonly rate?: { readonly value: number; readonly unit: string };
  /** Kernel launches of one run. */
  readonly launches?: number;
  readonly peer?: PeerFigure & {
    /** Heddle's median / the peer's: below 1 Heddle takes less. */
    readonly ratio: number;
  };
}

export interface CpuResults extends Circumstances {
  readonly benchmark: 'cpu';
  readonly method: string;
  readonly measurements: readonly Measurement[];
  readonly skipped: readonly { readonly case: string; readonly reason: string }[];
}

/** Figures of another library, by case and threads; of equal ones the last counts. */
export type Peers = ReadonlyMap<string, PeerFigure>;

export const peerKey = (of: { readonly case: string; readonly threads: number }): string =>
  `${of.case} ${of.threads}`;

/** @throws FileError if there is no such file, or naming the first line that is not a figure */
export async function readPeers(path: string): Promise<Peers> {
  const figures = await readFigures({
    path,
    madeBy: 'python3 node_modules/heddle-bench/torch_cpu.py',
    expected: 'peer, version, case, threads, median, min, p90, samples',
    parse: figureOf,
  });
  return new Map(figures.map((figure) => [peerKey(figure), figure]));
}

type KeyedFigure = PeerFigure & { readonly case: string; readonly threads: number };

function figureOf(value: Record<string, unknown>): KeyedFigure | undefined {
  const fits =
    ['peer', 'version', 'case'].every((key) => typeof value[key] === 'string') &&
    ['threads', 'median', 'min', 'p90', 'samples'].every((key) => Number.isFinite(value[key]));
  return fits ? (value as unknown as KeyedFigure) : undefined;
}
