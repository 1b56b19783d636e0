/** The options of a library call, checked as they are read. */
import { DeviceError } from '../../../core/errors.js';
import type { LibraryCall } from '../../../kernel/ir/library-call.js';

export interface Options {
  number(name: string): number;
  text(name: string): string;
  /** false if it is not given. */
  flag(name: string): boolean;
  numbers(name: string, length: number): readonly number[];
  /** Any number of numbers. */
  list(name: string): readonly number[];
  /** The entry of `table` that a text option names. */
  lookup<T>(name: string, table: Readonly<Record<string, T>>): T;
}

/** @throws DeviceError (at each read) naming the call, the option, what it must be and what it is */
export function optionsOf({ name: call, options }: LibraryCall): Options {
  const wrong = (name: string, must: string): DeviceError =>
    new DeviceError(`[${call}] the option ${name} must be ${must}, got ${String(options[name])}.`);
  const text = (name: string): string => {
    const value = options[name];
    if (typeof value !== 'string') throw wrong(name, 'a text');
    return value;
  };
  return {
    text,
    flag: (name) => options[name] === true,
    number(name) {
      const value = options[name];
      if (typeof value !== 'number') throw wrong(name, 'a number');
      return value;
    },
    numbers(name, length) {
      const value = options[name];
      if (!Array.isArray(value) || value.length !== length) throw wrong(name, `${length} numbers`);
      return value as readonly number[];
    },
    list(name) {
      const value = options[name];
      if (!Array.isArray(value)) throw wrong(name, 'numbers');
      return value as readonly number[];
    },
    lookup(name, table) {
      const entry = table[text(name)];
      if (entry === undefined) throw wrong(name, `one of ${Object.keys(table).join(', ')}`);
      return entry;
    },
  };
}
