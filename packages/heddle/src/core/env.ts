/** The one list of environment variables Heddle reads. `heddle doctor` prints it. */
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
    doc: '1 devices and caches, 2 a line per launch, 3 fusion and memory plan, 4 source, 5 IR per pass',
    fallback: 0,
    parse: integer(0, 5),
  },
  HEDDLE_CHECK: { doc: '1 checks the IR after every pass', fallback: 0, parse: integer(0, 1) },
  HEDDLE_THREADS: {
    doc: 'threads of the CPU device (default: one per core)',
    fallback: 0,
    parse: integer(1, 256),
  },
  HEDDLE_FMA: { doc: '0 never uses fused multiply-add on the CPU device', fallback: 1, parse: integer(0, 1) },
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
  HEDDLE_CACHE: {
    doc: 'folder of compiled kernels and tuning results (default: ~/.cache/heddle)',
    fallback: '',
    parse: (s) => s,
  },
  HEDDLE_CUDA_MEMORY_MB: {
    doc: 'most memory a CUDA device may hold, in MiB (default: all there is)',
    fallback: 0,
    parse: integer(16, 2 ** 24),
  },
  HEDDLE_CUDA_SYNC: {
    doc: '1 waits for every kernel launch of a CUDA device, so that a fault names its kernel, and gives every buffer its own memory, for compute-sanitizer; slow',
    fallback: 0,
    parse: integer(0, 1),
  },
  HEDDLE_TUNE: {
    doc: 'on times the ways to do a product or a convolution (inside jit, on a GPU) and remembers the fastest; frozen uses only what is remembered; off takes the first guess',
    fallback: 'on',
    parse: oneOf('on', 'off', 'frozen'),
  },
  HEDDLE_VENDOR: {
    doc: "off leaves out the vendor's libraries (cuBLASLt, cuDNN, cuRAND)",
    fallback: 'on',
    parse: oneOf('on', 'off'),
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
  const text = process.env[name];
  const flag: Flag<string | number> = flags[name];
  return (
    text === undefined || text === '' ? flag.fallback : flag.parse(text, name)
  ) as (typeof flags)[N]['fallback'];
}
