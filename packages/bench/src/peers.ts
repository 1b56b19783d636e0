/** Figures of another library for the same workloads: files of one JSON object a line. */
import { readFile } from 'node:fs/promises';
import { FileError } from 'heddle/internal/core/errors.js';

/** Where a figure comes from, in the order in which they are written. */
export interface FigureFile<T> {
  readonly path: string;
  /** The command that makes such a file. */
  readonly madeBy: string;
  /** What a line holds, for the error. */
  readonly expected: string;
  /** @returns undefined for a line that is not a figure, null for one to pass over */
  readonly parse: (value: Record<string, unknown>) => T | undefined | null;
}

/** @throws FileError if there is no such file, or naming the first line that is not a figure */
export async function readFigures<T>({ path, madeBy, expected, parse }: FigureFile<T>): Promise<T[]> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new FileError(path, `cannot be read. Make it with: ${madeBy} > FILE.`, { cause });
  });
  return text.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return [];
    const value = objectOf(line);
    const figure = value && parse(value);
    if (figure === undefined)
      throw new FileError(path, `line ${i + 1} is not a figure: expected a JSON object with ${expected}.`);
    return figure === null ? [] : [figure];
  });
}

function objectOf(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A figure of a GPU: µs of one call or training step. */
export interface DevicePeerFigure {
  readonly peer: string;
  readonly version?: string;
  readonly mode: string;
  readonly us: number;
}

export interface NamedFigure extends DevicePeerFigure {
  /** Of the case. */
  readonly name: string;
}

/** The fastest mode of each case. */
export type DevicePeers = ReadonlyMap<string, DevicePeerFigure>;

/** @throws FileError if there is no such file, or naming the first line that is not a figure */
export async function readDevicePeers(path: string): Promise<DevicePeers> {
  const figures = await readFigures<NamedFigure>({
    path,
    madeBy: 'python3 node_modules/heddle-bench/torch_gpu.py',
    expected: 'peer, case, mode, us',
    parse: ({ peer, version, case: name, mode, us, error }) => {
      if (typeof peer !== 'string' || typeof name !== 'string' || typeof mode !== 'string') return undefined;
      if (typeof error === 'string') return null; // it says why there is none
      if (typeof us !== 'number' || !(us > 0)) return undefined;
      return { name, peer, mode, us, ...(typeof version === 'string' && { version }) };
    },
  });
  return bestModes(figures);
}

/** The fastest figure of each case. */
export function bestModes(figures: readonly NamedFigure[]): DevicePeers {
  const best = new Map<string, DevicePeerFigure>();
  for (const { name, peer, version, mode, us } of figures) {
    const known = best.get(name);
    if (!known || us < known.us)
      best.set(name, { peer, ...(version !== undefined && { version }), mode, us });
  }
  return best;
}

/** Whose figures these are, for a heading: `torch 2.11.0, cudnn`. */
export const namesOf = (figures: readonly (DevicePeerFigure | undefined)[]): string =>
  [...new Set(figures.flatMap((f) => (f ? [f.version ? `${f.peer} ${f.version}` : f.peer] : [])))].join(', ');
