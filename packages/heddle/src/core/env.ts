/** The one list of environment variables Heddle reads. `heddle doctor` prints it. */
import { environment } from '#platform/process.js';
import { nearest } from './arguments.js';
import { ArgumentError } from './errors.js';

interface Flag<T> {
  readonly doc: string;
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
  HEDDLE_DEVICE: {
    doc: 'device to use: cuda, cuda:1, cpu, sim (default: the fastest found)',
    fallback: '',
    parse: (s) => s,
  },
  HEDDLE_DEBUG: {
    doc: '1: devices and caches, 2: a line per launch, 3: fusion and memory plan, 4: source, 5: IR per pass',
    fallback: 0,
    parse: integer(0, 5),
  },
  HEDDLE_CHECK: {
    doc: '1: verify kernels and schedules after every pass',
    fallback: 0,
    parse: integer(0, 1),
  },
  HEDDLE_THREADS: {
    doc: 'threads of the CPU device (default: one per core)',
    fallback: 0,
    parse: integer(1, 256),
  },
  HEDDLE_FMA: { doc: '0: never use fused multiply-add on the CPU device', fallback: 1, parse: integer(0, 1) },
  HEDDLE_MEMORY_MB: {
    doc: 'most memory the CPU device may hold, in MiB (at most 4096)',
    fallback: 4096,
    parse: integer(16, 4096),
  },
  HEDDLE_NVRTC: {
    doc: 'the NVRTC library, or the folder it is in (default: CUDA toolkit, system libraries, Python wheels)',
    fallback: '',
    parse: (s) => s,
  },
  HEDDLE_MPI: {
    doc: 'the MPI library (default: that of the mpirun on the PATH, system libraries)',
    fallback: '',
    parse: (s) => s,
  },
  HEDDLE_CACHE: {
    doc: 'folder of compiled kernels and tuning results (default: ~/.cache/heddle); off: keep nothing',
    fallback: '',
    parse: (s) => s,
  },
  HEDDLE_CUDA_MEMORY_MB: {
    doc: 'most memory a CUDA device may hold, in MiB (default: all there is)',
    fallback: 0,
    parse: integer(16, 2 ** 24),
  },
  HEDDLE_CUDA_SYNC: {
    doc: '1: wait for every kernel launch of a CUDA device, so that a fault names its kernel, and give every buffer its own memory, for compute-sanitizer; slow',
    fallback: 0,
    parse: integer(0, 1),
  },
  HEDDLE_TUNE: {
    doc: 'on: time the variants of a product or a convolution (inside jit, on a GPU) and remember the fastest; frozen: use only remembered choices; off: take the default',
    fallback: 'on',
    parse: oneOf('on', 'off', 'frozen'),
  },
  HEDDLE_VENDOR: {
    doc: "off: leave out the vendor's libraries (cuBLASLt, cuDNN, cuRAND)",
    fallback: 'on',
    parse: oneOf('on', 'off'),
  },
  HEDDLE_RESTART: {
    doc: 'set by heddle launch: how often it has started the program again',
    fallback: 0,
    parse: integer(0, 2 ** 31),
  },
  HEDDLE_LAUNCHER: {
    doc: 'set by heddle launch: the file descriptor by which it is told of ranks that are gone',
    fallback: 0,
    parse: integer(3, 2 ** 16),
  },
} satisfies Record<string, Flag<string> | Flag<number>>;

export type FlagName = keyof typeof flags;
export const FLAGS: Readonly<Record<FlagName, { readonly doc: string }>> = flags;

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
