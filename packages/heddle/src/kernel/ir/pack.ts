/** A kernel as a text that is read back on a later start. */
import { ObjectReader, ObjectWriter } from '../../core/object-table.js';
import type { KernelIr } from './ir.js';

type Head = Pick<KernelIr, 'name' | 'params' | 'lists' | 'resident' | 'arrays'>;
type Inside = Pick<KernelIr, 'body'>;

/** Two lines: what launching a kernel takes, and what compiling it takes. */
export function packKernel(kernel: KernelIr): [head: string, inside: string] {
  const { name, params, lists, resident, arrays, body } = kernel;
  const writer = new ObjectWriter();
  return [
    writer.write({
      ...{ name, params, arrays },
      ...(lists && { lists }),
      ...(resident && { resident }),
    } satisfies Head),
    writer.write({ body } satisfies Inside),
  ];
}

/** The kernel of these lines. Its body, which is nearly all of it, is read when it is asked for. */
export function unpackKernel(head: string, inside: string): KernelIr {
  const reader = new ObjectReader();
  let read: Inside | undefined;
  return {
    ...(reader.read(head) as Head),
    get body() {
      read ??= reader.read(inside) as Inside;
      return read.body;
    },
  };
}
