/** Calling native libraries by koffi, which is loaded when the first library is opened. */
import { createRequire } from 'node:module';
import { join } from 'node:path';

type Koffi = typeof import('koffi');
let loaded: Koffi | undefined;

/** A CommonJS bundle has no import.meta: it takes koffi from where the process runs. */
export function koffi(): Koffi {
  loaded ??= createRequire(import.meta.url ?? join(process.cwd(), 'package.json'))('koffi') as Koffi;
  return loaded;
}

/**
 * Types of arguments. Addresses and handles are numbers: user-space addresses have 47 bits. `memory` takes a view,
 * which must not change place during the call.
 */
const TYPES = {
  i32: 'int',
  u32: 'unsigned int',
  u64: 'uint64_t',
  f32: 'float',
  f64: 'double',
  address: 'uint64_t',
  memory: 'void *',
  text: 'const char *',
  texts: 'const char **',
} as const;
export type NativeType = keyof typeof TYPES;

interface Values {
  i32: number;
  u32: number;
  u64: number | bigint;
  f32: number;
  f64: number;
  address: number;
  memory: ArrayBufferView | null;
  text: string;
  texts: readonly string[];
}

export type Signatures = Readonly<Record<string, readonly NativeType[]>>;

type Arguments<T extends readonly NativeType[]> = { -readonly [K in keyof T]: Values[T[K]] };

/** Functions that return a status: `int`, 0 for success. */
export type Functions<S extends Signatures> = {
  readonly [N in keyof S]: (...args: Arguments<S[N]>) => number;
};

type NativeLibrary = ReturnType<Koffi['load']>;

/** Those loaded so far: koffi unloads a library when its object is garbage-collected, even if another library uses it. */
const libraries = new Set<NativeLibrary>();

/**
 * Load a library, for as long as the process lives.
 * @param global whether libraries that it loads by itself may use its symbols
 * @throws Error of the loader, if the library is not there
 */
export function loadLibrary(path: string, global = false): NativeLibrary {
  const library = koffi().load(path, { global });
  libraries.add(library);
  return library;
}

/**
 * Open a library. Its functions are looked up when they are first used, so that an older library that lacks some
 * still serves the others.
 * @param global whether libraries that it loads by itself may use its symbols
 * @throws Error of the loader, if the library is not there or lacks a function
 */
export function openLibrary<const S extends Signatures>(
  path: string,
  signatures: S,
  global = false,
): Functions<S> {
  let library: NativeLibrary;
  try {
    library = loadLibrary(path, global);
  } catch (cause) {
    throw new Error(`${path} does not load: ${(cause as Error).message}`, { cause });
  }
  const functions = {};
  for (const [name, types] of Object.entries(signatures)) {
    Object.defineProperty(functions, name, {
      configurable: true,
      get: () => {
        const value = library.func(
          name,
          'int',
          types.map((t) => TYPES[t]),
        );
        Object.defineProperty(functions, name, { value });
        return value;
      },
    });
  }
  return functions as Functions<S>;
}

/** The type of a struct of so many bytes that is passed by value, as `{ bytes }`. */
export const structOfBytes = (bytes: number): ReturnType<Koffi['struct']> =>
  koffi().struct({ bytes: koffi().array('uint8_t', bytes) });

/** Where a library has a global variable. @throws Error if it has none of that name */
export const symbolAddress = (path: string, name: string): number => Number(loadLibrary(path).symbol(name));

/** Memory of this process that native code may hold pointers to, as long as this object lives. Little-endian. */
export class NativeMemory {
  readonly bytes: Uint8Array;
  readonly address: number;
  readonly #view: DataView;

  constructor(bytes: number) {
    // A separate buffer: small typed arrays may live in V8's heap, which moves.
    this.bytes = new Uint8Array(new ArrayBuffer(Math.max(bytes, 8)));
    this.address = Number(koffi().address(this.bytes));
    this.#view = new DataView(this.bytes.buffer);
  }

  setU32(offset: number, value: number): void {
    this.#view.setUint32(offset, value, true);
  }

  setU64(offset: number, value: number): void {
    this.#view.setUint32(offset, value % 2 ** 32, true);
    this.#view.setUint32(offset + 4, value / 2 ** 32, true);
  }

  u32(offset = 0): number {
    return this.#view.getUint32(offset, true);
  }

  i32(offset = 0): number {
    return this.#view.getInt32(offset, true);
  }

  f32(offset = 0): number {
    return this.#view.getFloat32(offset, true);
  }

  /** Of a number below 2⁵³. */
  u64(offset = 0): number {
    return this.#view.getUint32(offset, true) + this.#view.getUint32(offset + 4, true) * 2 ** 32;
  }

  /** Up to the first zero byte. */
  text(offset = 0): string {
    const end = this.bytes.indexOf(0, offset);
    return new TextDecoder().decode(this.bytes.subarray(offset, end < 0 ? undefined : end));
  }
}

/** Memory at an address that native code owns. */
export const viewNative = (address: number, bytes: number): Uint8Array =>
  new Uint8Array(koffi().view(BigInt(address), bytes));
