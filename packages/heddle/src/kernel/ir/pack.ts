/** A kernel as a text that is read back on a later start. */
import { ObjectReader, ObjectWriter } from '../../core/object-table.js';
import type { KernelIr } from './ir.js';

type Head = Pick<KernelIr, 'name' | 'params' | 'lists'>;
type Inside = Pick<KernelIr, 'arrays' | 'body'>;

/** Two lines: what launching a kernel takes, and what compiling it takes. */
export function packKernel({ name, params, lists, arrays, body }: KernelIr): [head: string, inside: string] {
  const writer = new ObjectWriter();
  return [
    writer.write({ name, params, ...(lists && { lists }) } satisfies Head),
    writer.write({ arrays, body } satisfies Inside),
  ];
}

/** The kernel of these lines. What is inside is read when it is asked for. */
export function unpackKernel(head: string, inside: string): KernelIr {
  const reader = new ObjectReader();
  const { name, params, lists } = reader.read(head) as Head;
  let read: Inside | undefined;
  const whole = (): Inside => {
    read ??= reader.read(inside) as Inside;
    return read;
  };
  return {
    name,
    params,
    lists,
    get arrays() {
      return whole().arrays;
    },
    get body() {
      return whole().body;
    },
  };
}
