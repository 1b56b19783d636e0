/** The one list of environment variables Heddle reads. What each is for is in env-docs.ts, which `heddle doctor` prints. */
import { environment } from '#platform/process.js';
import { nearest } from './arguments.js';
import { ArgumentError } from './errors.js';

interface Flag<T> {
  readonly fallback: T;
  readonly parse: (text: string, name: string) => T;
}

const integer =
  (low: number, high: number) =>
  (text: string, name: string): number => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < low || value > high) {
      throw new ArgumentError(`${name}=${text}: must be a whole number from ${low} to ${high}.`);
    }
    return value;
  };

const oneOf =
  (...values: readonly string[]) =>
  (text: string, name: string): string => {
    if (values.includes(text)) return text;
    throw new ArgumentError(
      `${name}=${text}: must be ${values.slice(0, -1).join(', ')} or ${values.at(-1)}.`,
    );
  };

const flags = {
  HEDDLE_DEVICE: { fallback: '', parse: (s) => s },
  HEDDLE_DEBUG: { fallback: 0, parse: integer(0, 5) },
  HEDDLE_CHECK: { fallback: 0, parse: integer(0, 1) },
  HEDDLE_THREADS: { fallback: 0, parse: integer(1, 256) },
  HEDDLE_FMA: { fallback: 1, parse: integer(0, 1) },
  HEDDLE_MEMORY_MB: { fallback: 4096, parse: integer(16, 4096) },
  HEDDLE_NVRTC: { fallback: '', parse: (s) => s },
  HEDDLE_MPI: { fallback: '', parse: (s) => s },
  HEDDLE_CACHE: { fallback: '', parse: (s) => s },
  HEDDLE_CUDA_MEMORY_MB: { fallback: 0, parse: integer(16, 2 ** 24) },
  HEDDLE_CUDA_SYNC: { fallback: 0, parse: integer(0, 1) },
  HEDDLE_TUNE: { fallback: 'on', parse: oneOf('on', 'off', 'frozen') },
  HEDDLE_VENDOR: { fallback: 'on', parse: oneOf('on', 'off') },
  HEDDLE_RESTART: { fallback: 0, parse: integer(0, 2 ** 24) },
  HEDDLE_LAUNCHER: { fallback: 0, parse: integer(3, 2 ** 24) },
} satisfies Record<string, Flag<string> | Flag<number>>;

export type FlagName = keyof typeof flags;

/** Why the text that an environment variable has is malformed, if it is. */
export function flagError(name: FlagName): string | undefined {
  try {
    env(name);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The value of an environment variable, read each time. @throws ArgumentError if it is malformed. */
export function env<N extends FlagName>(name: N): (typeof flags)[N]['fallback'] {
  const text = environment()[name];
  const flag: Flag<string | number> = flags[name];
  return (
    text === undefined || text === '' ? flag.fallback : flag.parse(text, name)
  ) as (typeof flags)[N]['fallback'];
}

/** Variables named HEDDLE_… that Heddle does not read, each with the one that was probably meant. */
export function unknownFlags(): { readonly name: string; readonly hint: string }[] {
  const known = Object.keys(flags) as FlagName[];
  return Object.keys(environment())
    .filter((name) => name.startsWith('HEDDLE_') && !known.includes(name as FlagName))
    .map((name) => {
      const meant = nearest(name, known);
      const hint = meant ? `Did you mean ${meant}?` : '`npx heddle doctor` lists the variables there are.';
      return { name, hint };
    });
}

/** @throws ArgumentError naming every environment variable of Heddle's that is malformed */
export function requireFlags(): void {
  const errors = (Object.keys(flags) as FlagName[]).flatMap((name) => flagError(name) ?? []);
  if (errors.length > 0) throw new ArgumentError(errors.join('\n'));
}
