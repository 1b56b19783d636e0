/** Vendor libraries other than the driver: which are installed, where they are, and their functions with statuses checked. */
import { env } from '../../../core/env.js';
import { DeviceError } from '../../../core/errors.js';
import { debug } from '../../../core/log.js';
import { openDriver } from '../driver/driver.js';
import { type Found, findLibraries } from '../driver/find.js';
import { type Functions, loadLibrary, openLibrary, type Signatures } from '../driver/native.js';
import type { LibraryContext } from './routine.js';

/** The name for people of each library, and the wheels (folders under `nvidia`) that bring it. */
export const VENDOR_LIBRARIES = {
  cublasLt: { title: 'cuBLASLt', wheels: ['cublas', 'cu13'] },
  cudnn: { title: 'cuDNN', wheels: ['cudnn'] },
  curand: { title: 'cuRAND', wheels: ['curand', 'cu13'] },
  nccl: { title: 'NCCL', wheels: ['nccl'] },
} as const;

export type VendorName = keyof typeof VENDOR_LIBRARIES;

const found = new Map<VendorName, Found | undefined>();

/** Where `lib<name>.so` is, without opening it; looked for once. */
export function findVendorLibrary(name: VendorName): Found | undefined {
  if (!found.has(name)) {
    const all = findLibraries(name, VENDOR_LIBRARIES[name].wheels);
    found.set(name, name === 'cublasLt' ? all.find(fitsDriver) : all[0]);
  }
  return found.get(name);
}

/** Of the libraries only this one is numbered as CUDA is; the driver runs those of its own number and before. */
const fitsDriver = ({ major }: Found): boolean => major <= Math.floor(openDriver().version / 1000);

/** Whether it is there and may be used. */
export const hasVendorLibrary = (name: VendorName): boolean =>
  env('HEDDLE_VENDOR') !== 'off' && findVendorLibrary(name) !== undefined;

/** Each function throws a DeviceError unless its status is 0. */
export type Checked<S extends Signatures> = {
  readonly [N in keyof S]: (...args: Parameters<Functions<S>[N]>) => void;
};

/**
 * The functions of a vendor's library.
 * @param statusText its function that says a status in words, if it has one
 * @throws DeviceError if it is not there or cannot be opened
 */
export function openVendorLibrary<const S extends Signatures>(
  name: VendorName,
  signatures: S,
  statusText?: string,
): Checked<S> {
  const { title } = VENDOR_LIBRARIES[name];
  const path = findVendorLibrary(name)?.path;
  if (!path)
    throw new DeviceError(`${title} was not found. Install it (heddle doctor says how), or do without it.`);
  try {
    const started = performance.now();
    const functions = openLibrary(path, signatures);
    const text = statusText ? loadLibrary(path).func(statusText, 'str', ['int']) : undefined;
    debug(1, () => `cuda: ${title} ${path}, opened in ${(performance.now() - started).toFixed(0)} ms`);
    const checked = Object.keys(signatures).map((call) => [
      call,
      (...args: Parameters<Functions<S>[string]>): void => {
        const status = functions[call]!(...args);
        if (status === 0) return;
        const reason = text ? ` (${String(text(status))})` : '';
        throw new DeviceError(`[${call}] ${title} answers with status ${status}${reason}.`);
      },
    ]);
    return Object.fromEntries(checked) as Checked<S>;
  } catch (cause) {
    throw new DeviceError(`${title} cannot be opened: ${(cause as Error).message} (${path}).`, { cause });
  }
}

/** What a function writes to its first parameter, an address. */
export function created(create: (out: BigUint64Array) => void): number {
  const out = new BigUint64Array(1);
  create(out);
  return Number(out[0]);
}

/** What `make` gives for a device, made once for each. */
export function perDevice<T>(make: () => T): (context: LibraryContext) => T {
  const made = new WeakMap<LibraryContext, { readonly value: T }>();
  return (context) => {
    const known = made.get(context) ?? { value: make() };
    made.set(context, known);
    return known.value;
  };
}
