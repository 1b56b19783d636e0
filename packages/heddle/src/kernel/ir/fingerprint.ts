/** A kernel as text, for keys: what the compiler makes of a kernel depends on this text alone. */
import { sha256Hex } from '#platform/hash.js';
import type { KernelIr, Node } from './ir.js';
import type { Scalar } from './ops.js';
import { formatType } from './types.js';

/**
 * Text that two kernels share only if they are the same but for the places in the source they came from. Nodes and
 * variables are numbered in the order they are met, so it is the same in every process.
 */
export function kernelFingerprint({ name, params, arrays, body, lists, resident }: KernelIr): string {
  const numbers = new Map<object, number>();

  const plain = (v: unknown): string => {
    if (typeof v === 'string') return JSON.stringify(v);
    return typeof v === 'object' && v !== null ? object(v) : scalarText(v as Scalar);
  };
  /** Objects are compared by identity: a variable is another one even if it has the same name. */
  const object = (o: object): string => {
    const known = numbers.get(o);
    if (known !== undefined) return `#${known}`;
    numbers.set(o, numbers.size);
    if (Array.isArray(o)) return `[${o.map(plain).join()}]`;
    return `{${Object.entries(o).map(([key, v]) => `${key}:${plain(v)}`)}}`;
  };
  const node = (n: Node): string => {
    const known = numbers.get(n);
    if (known !== undefined) return `#${known}`;
    numbers.set(n, numbers.size);
    let text = `(${n.op} ${formatType(n.type)} ${plain(n.arg)}`;
    for (const s of n.src) text += ` ${node(s)}`;
    return `${text})`;
  };
  const rest = [...(lists === undefined ? [] : [lists]), ...(resident === undefined ? [] : [{ resident }])];
  return `${plain([name, params, arrays, ...rest])}\n${node(body)}`;
}

const hashes = new WeakMap<KernelIr, string>();

/** A short text in place of the fingerprint. Made once for each kernel. */
export function kernelHash(kernel: KernelIr): string {
  const known = hashes.get(kernel);
  if (known !== undefined) return known;
  const hash = sha256Hex(kernelFingerprint(kernel));
  hashes.set(kernel, hash);
  return hash;
}

/** `kernelHash` if it has been asked for before, as of every kernel that is kept on disk. */
export const knownKernelHash = (kernel: KernelIr): string | undefined => hashes.get(kernel);

const unhashed = new WeakMap<KernelIr, ((hash: string) => void)[]>();

/** Say what `kernelHash` of a kernel is: a text that no other kernel has. It need not be looked at then. */
export function setKernelHash(kernel: KernelIr, hash: string): void {
  hashes.set(kernel, hash);
  const waiting = unhashed.get(kernel) ?? [];
  unhashed.delete(kernel);
  for (const work of waiting) work(hash);
}

/** Do something with the hash of a kernel as soon as somebody says it: never for a kernel that is not kept. */
export function onceHashed(kernel: KernelIr, work: (hash: string) => void): void {
  const hash = hashes.get(kernel);
  if (hash !== undefined) work(hash);
  else unhashed.set(kernel, [...(unhashed.get(kernel) ?? []), work]);
}

/** A text for each value: 0 and -0 differ, as do 1 and 1n. */
export const scalarText = (v: Scalar): string =>
  typeof v === 'bigint' ? `${v}n` : Object.is(v, -0) ? '-0' : String(v);
